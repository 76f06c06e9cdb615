"""Small copies of images as data addresses, as many as a report has room for."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from taxtune.data.images import load_image
from taxtune.errors import TaxtuneError

__all__ = ["small_copies", "thumbnail"]

# Bytes of a report that its pictures may take together.
_MOST_BYTES = 6_000_000
#: Longest side in pixels, of few pictures and of many.
_SIDE, _SMALL_SIDE, _FEW = 176, 112, 500
_BLOCK = 64


def small_copies(wanted: Sequence[str], files: Mapping[str, str]) -> dict[str, str]:
    """Returns small copies of images by example, the first ones of those wanted that there is room for.

    Args:
        wanted: Examples, the most important first.
        files: Image files by example; examples without a file that can be read have no copy.
    """
    shown: dict[str, str] = {}
    used, side = 0, _SIDE if len(wanted) <= _FEW else _SMALL_SIDE
    # Decoding lets go of the interpreter lock. A block at a time, so that no image is read in vain.
    with ThreadPoolExecutor(4) as pool:
        for start in range(0, len(wanted), _BLOCK):
            block = [example for example in wanted[start : start + _BLOCK] if example in files]
            pictures = pool.map(lambda example: thumbnail(Path(files[example]), side), block)
            for example, picture in zip(block, pictures, strict=True):
                used += len(picture or "")
                if used > _MOST_BYTES:
                    return shown
                if picture is not None:
                    shown[example] = picture
    return shown


def thumbnail(path: Path, side: int = _SIDE) -> str | None:
    """Returns a small copy of an image as a data address, or None where the image cannot be read any more."""
    try:
        picture = load_image(path)
    except TaxtuneError:
        # The scores do not depend on the picture, and the run has read it before: a report without it is still true.
        return None
    picture.thumbnail((side, side))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
