"""Copies of a photo: saved again in another format, size or quality, found by their thumbnails.

Two thumbnails differ by a share of their contrast, the deviation of pixels from the mean colour. Of
101 photos, the mean difference from copies (PNG, JPEG, WEBP, whole, half and a quarter of 1,200
pixels, quality 50, turned by EXIF) was .14 at most, and the widest of a pixel .53; from other photos
the least mean was .47, from other drawings of birds .48. Where an image is of one camera's fixed
scene, an animal of a fifth of its width was never overlooked, one of a tenth in two of five; but the
empty frames of a camera are alike, which tell by their times that they are several photos.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

import numpy as np

__all__ = ["find_copies"]

# Differences of copies are below these shares of the contrast: the mean, and each pixel's.
_MEAN = 0.2
_WIDEST = 0.8
# Of less contrast (values go to 255) is a plain surface, which looks like any other.
_PLAIN = 4.0
_BLOCK = 256


def find_copies(thumbnails: Sequence[bytes], taken: Sequence[datetime | None]) -> dict[int, int]:
    """Returns which images are copies, with the first image that each is a copy of, by number.

    All copies are like that first one: images that change little by little are not all copies.

    Args:
        thumbnails: The pixels of each image's thumbnail, see `taxtune.images.Checked`.
        taken: When each was taken, None where that is not known. Those of two times are no copies.
    """
    count = len(thumbnails)
    found: dict[int, int] = {}
    if not count:
        return found
    levels = np.frombuffer(b"".join(thumbnails), np.uint8).astype(np.float32)
    deviations = levels.reshape(count, -1, 3).std(axis=1)
    contrast = np.sqrt(np.square(deviations).mean(axis=1))
    levels -= levels.mean()  # so that squares are small, and their differences exact
    values = levels.reshape(count, -1)
    squares = np.square(values).mean(axis=1)
    times = np.array([math.nan if time is None else time.timestamp() for time in taken])
    is_first = np.ones(count, dtype=bool)
    for start in range(0, count, _BLOCK):
        block = slice(start, start + _BLOCK)
        products = values[block] @ values[: block.stop].T / values.shape[1]
        gaps = squares[block, None] + squares[: block.stop] - 2 * products
        least = np.minimum(contrast[block, None], contrast[: block.stop])
        near = (gaps < np.square(_MEAN * least)) & (least >= _PLAIN)
        near &= is_first[: block.stop]
        near &= ~(np.abs(times[block, None] - times[: block.stop]) > 0)
        for row, first in np.argwhere(np.tril(near, start - 1)).tolist():
            image = start + row
            if image in found or not is_first[first]:
                continue
            widest = np.abs(values[image] - values[first]).max()
            if widest < _WIDEST * least[row, first]:
                found[image] = first
                is_first[image] = False
    return found
