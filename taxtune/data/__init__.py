"""Images with labels: reading them from their sources, checking them, and drawing the splits."""

from __future__ import annotations

from taxtune.data.example import Example
from taxtune.data.examples import load_examples
from taxtune.data.splits import Splits, split, split_sizes
from taxtune.images import check_images, content_hash, load_image

__all__ = [
    "Example",
    "Splits",
    "check_images",
    "content_hash",
    "load_examples",
    "load_image",
    "split",
    "split_sizes",
]
