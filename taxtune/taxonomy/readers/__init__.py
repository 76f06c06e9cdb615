"""Taxonomy files: one module a format, `formats` to list them, and `read_taxonomy`, which finds out the format."""

from __future__ import annotations

from taxtune.taxonomy.readers.formats import FORMATS
from taxtune.taxonomy.readers.read import Reader, parse_taxonomy, read_taxonomy

__all__ = ["FORMATS", "Reader", "parse_taxonomy", "read_taxonomy"]
