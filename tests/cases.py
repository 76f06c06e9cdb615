"""Cases of a test as lines of a text."""

from __future__ import annotations

__all__ = ["cases"]


def cases(text):
    """Returns the two sides of each line, "this = that"; nothing on the right is None, and # begins a remark."""
    pairs = []
    for line in text.strip().splitlines():
        left, right = line.partition("#")[0].split("=")
        pairs.append((left.strip(), right.strip() or None))
    return pairs
