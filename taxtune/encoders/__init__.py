"""Encoders: texts and images to unit vectors, for similarities, measures and studies."""

from __future__ import annotations

from taxtune.encoders.base import FloatMatrix, TextEncoder

__all__ = ["FloatMatrix", "TextEncoder"]
