"""Similarity of answers to the names of a taxonomy: `lexical`, `sentence` and `clip`."""

from __future__ import annotations

from taxtune.mapping.similarity.base import Similarity
from taxtune.mapping.similarity.make import make_similarity

__all__ = ["Similarity", "make_similarity"]
