"""Groups of images that belong together: a burst, a patient, a product, copies of one photo.

Images of one group are alike, so that ten of them prove less than ten images of ten groups. The
means of groups are independent, and lie where the images' own values do: whatever holds of n
independent images holds of n groups, each counted once by the mean over its images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Groups", "unit_name", "unit_of"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Which of n images belong together.

    Attributes:
        numbers: The number of each image's group, shape (n,): 0, 1, ... in the order in which the
            groups first occur.
    """

    numbers: IntArray

    @classmethod
    def of(cls, names: Sequence[str]) -> Groups:
        """Returns the groups of images by the name of each one's group; "" is a group of its own."""
        known: dict[str | int, int] = {}
        numbers = [known.setdefault(name or place, len(known)) for place, name in enumerate(names)]
        return cls(np.array(numbers, dtype=np.int64))

    def __len__(self) -> int:
        """Returns the number of groups."""
        return int(self.numbers.max(initial=-1)) + 1

    @property
    def single(self) -> bool:
        """Whether every group is one image."""
        return len(self) == self.numbers.size

    def mean(self, values: ArrayLike) -> FloatArray:
        """Returns the mean of each group over its images that have a value, shape (groups,).

        Args:
            values: A value of each image, shape (n,); NaN for none. A group without any has NaN.
        """
        column = np.asarray(values, dtype=np.float64)
        if self.single:
            return column
        has_value = ~np.isnan(column)
        sums = np.bincount(self.numbers, np.where(has_value, column, 0.0), len(self))
        counts = np.bincount(self.numbers, has_value, len(self))
        means: FloatArray = np.full(len(self), np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means


def unit_name(group: str | None) -> str:
    """Returns the name of one group, for "per burst", by the setting `data.group`; else "image"."""
    if group is None:
        return "image"
    return group.removeprefix("exif:")


def unit_of(setting: str | None, groups: Groups) -> str:
    """Returns the name of one group by the setting `data.group`, "burst"; "" for single images.

    Without the setting, images of one group are copies of a photo, or parts of it.
    """
    if groups.single:
        return ""
    return "photo" if setting is None else unit_name(setting)
