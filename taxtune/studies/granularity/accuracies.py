"""Accuracies with their intervals, a row each: the figure of the two-level and language-only forms (paper 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_accuracies"]

# Names are folders or models: what is longer is cut at its beginning, since the end tells them apart.
_LONGEST = 48


def draw_accuracies(
    names: Sequence[str], series: Mapping[str, Sequence[Interval]], *, marks: Mapping[str, float] | None = None
) -> Figure:
    """Draws a dot with its interval for each row and series, in %.

    Args:
        names: What the rows are called, at least one.
        series: By name, an accuracy in 0..1 for each row; NaN is not drawn.
        marks: Accuracies in 0..1 to compare with, by name, drawn as lines from top to bottom.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure

    rows = np.arange(len(names))
    several = len(series) > 1
    step = 0.16
    figure = Figure(figsize=(7.4, (0.28 + (0.3 if several else 0.12) * len(series)) * len(names) + 1.3))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    for i, (shown, intervals) in enumerate(series.items()):
        values = np.array([[100 * v for v in (one.low, one.estimate, one.high)] for one in intervals])
        known = np.isfinite(values[:, 1])
        if not known.any():
            continue
        # Without resamples there are estimates and no intervals.
        ends = np.where(np.isfinite(values[known]), values[known], values[known, 1:2])
        axes.errorbar(
            ends[:, 1],
            rows[known] + step * (i - (len(series) - 1) / 2),
            xerr=np.abs(ends[:, [0, 2]] - ends[:, 1:2]).T,
            fmt=MARKER_CYCLE[i % len(MARKER_CYCLE)],
            color=CYCLE[i % len(CYCLE)],
            markersize=5.5,
            linewidth=1.5,
            label=shown,
        )
    for style, (shown, value) in zip((":", "--", "-."), (marks or {}).items(), strict=False):
        axes.axvline(100 * value, color=GREY, linewidth=1, linestyle=style, label=shown)
    axes.set_yticks(rows, [name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :] for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("top-1 accuracy, %")
    axes.set_xlim(left=-2)  # a marker at 0 is not cut
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    if several or marks:
        figure.legend(loc="outside upper center", ncols=min(4, len(series) + len(marks or {})))
    return figure
