"""Encoders: texts and images to unit vectors, shared by the mapper's similarities, the measures and the studies."""

from __future__ import annotations

from taxtune.encoders.base import FloatMatrix, TextEncoder

__all__ = ["FloatMatrix", "TextEncoder"]
