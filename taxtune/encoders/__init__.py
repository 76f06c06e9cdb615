"""Encoders: texts and images to unit vectors, shared by the mapper's similarities, the measures and the studies."""

from __future__ import annotations

from taxtune.encoders.base import FloatMatrix, TextEncoder
from taxtune.encoders.make import make_text_encoder

__all__ = ["FloatMatrix", "TextEncoder", "make_text_encoder"]
