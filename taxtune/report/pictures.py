"""Small copies of images as data addresses, as many as a report has room for."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from taxtune.errors import TaxtuneError

__all__ = ["PICTURE_BYTES", "Pictures", "small_copies", "thumbnail"]

#: Bytes of a report that its pictures may take.
PICTURE_BYTES = 6_000_000
#: Longest side in pixels, of few pictures and of many.
_SIDE, _SMALL_SIDE, _FEW = 176, 112, 500
_BLOCK = 64


@dataclass
class Pictures:
    """The pictures of a report.

    Attributes:
        shown: Data addresses, by example.
        gone: Examples whose image cannot be read any more, or whose file is not known.
        left_out: Examples for whose picture there was no room.
    """

    shown: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)


def small_copies(wanted: Sequence[str], files: Mapping[str, str], budget: int | None = PICTURE_BYTES) -> Pictures:
    """Returns small copies of images, the first ones of those wanted that there is room for.

    Args:
        wanted: Examples, the most important first.
        files: Image files by example.
        budget: Bytes that all copies may take together; None for no limit.
    """
    found, used = Pictures(), 0
    side = _SIDE if len(wanted) <= _FEW else _SMALL_SIDE

    def copy(example: str) -> str | None:
        return thumbnail(Path(files[example]), side) if example in files else None

    # Decoding lets go of the interpreter lock. A block at a time, so that no image is read in vain.
    with ThreadPoolExecutor(4) as pool:
        for start in range(0, len(wanted), _BLOCK):
            block = wanted[start : start + _BLOCK]
            if found.left_out:
                found.left_out.update(block)
                continue
            for example, picture in zip(block, pool.map(copy, block), strict=True):
                if picture is None:
                    found.gone.add(example)
                elif found.left_out or (budget is not None and used + len(picture) > budget):
                    found.left_out.add(example)
                else:
                    found.shown[example] = picture
                    used += len(picture)
    return found


def thumbnail(path: Path, side: int = _SIDE) -> str | None:
    """Returns a small copy of an image as a data address, or None where the image cannot be read any more."""
    from taxtune.data.images import load_image

    try:
        picture = load_image(path)
    except TaxtuneError:
        # The scores do not depend on the picture, and the run has read it before: a report without it is still true.
        return None
    picture.thumbnail((side, side))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
