"""Marks that the figures of several studies share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.metrics.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_intervals"]


def draw_intervals(
    axes: Axes, rows: Iterable[float], intervals: Sequence[Interval | None], *, scale: float = 1.0, **look: Any
) -> None:
    """Draws a dot with its interval in each row, and the dot alone where the interval has no ends.

    Args:
        axes: The axes.
        rows: The height of each dot.
        intervals: The estimates with their intervals; None and NaN are not drawn.
        scale: The factor of the values, such as 100 for %.
        **look: Passed to `Axes.errorbar`.
    """
    known = [(row, one) for row, one in zip(rows, intervals, strict=True) if one and np.isfinite(one.estimate)]
    if not known:
        return
    values = scale * np.array([[one.low, one.estimate, one.high] for _, one in known])
    ends = np.where(np.isfinite(values), values, values[:, 1:2])
    spread = np.abs(ends[:, [0, 2]] - ends[:, 1:2]).T
    axes.errorbar(ends[:, 1], [row for row, _ in known], xerr=spread, **look)
