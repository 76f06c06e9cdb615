"""What a template may know of an image besides its pixels: columns of the data, EXIF, another classifier's guesses."""

from __future__ import annotations

__all__ = ["Value"]

#: A variable's value for one image; None is a text or a number that is missing, [] a list.
Value = str | int | float | list[str] | None
