"""The rank-shift ("bump") chart of paper 1's Figure 5: models by rank under each measure, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE, PAPER
from taxtune.report.output import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_bump"]

FloatArray = NDArray[np.float64]

_SPREAD = 0.16  # of a column on either side of the mark, within which bars stand beside each other
_TIED = 0.36  # between tied models, in ranks
_LEAD = 0.3  # from the outermost marks to the names, in columns
_LONGEST = 34
_FITS = 11  # the longest name of a measure that is not slanted
_PER_INCH = 13  # characters of a note


def draw_bump(
    models: Sequence[str],
    measures: Sequence[str],
    ranks: FloatArray,
    *,
    low: FloatArray | None = None,
    high: FloatArray | None = None,
    over: str | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Draws the rank of each model under each measure, the best on top; names on the left in the first one's order.

    Args:
        models: Names of the models.
        measures: Names of the measures, from left to right.
        ranks: Ranks, shape (measures, models); NaN where a model has none.
        low: Lower ends of the ranks' intervals, drawn as a faint bar, or None.
        high: Upper ends, or None.
        over: What the ranks are over, such as "837 examples", for the line below the chart; or None.
        notes: Further lines below it.
    """
    from matplotlib.figure import Figure

    unranked = [cut(name, _LONGEST) for name, some in zip(models, ranks.T, strict=True) if np.isnan(some).all()]
    rows = len(models) - len(unranked)
    figure = Figure(figsize=(max(4.6, 0.92 * len(measures) + 0.6), max(2.4, 0.46 * rows + 0.9)))
    axes = figure.add_subplot()
    x = np.arange(len(measures), dtype=np.float64)
    heights = _apart(ranks)
    for i, j in enumerate(_order(ranks[0])):
        # Models beyond the palette differ in their marker and in the line.
        colour, marker = CYCLE[j % len(CYCLE)], MARKER_CYCLE[(j + j // len(CYCLE)) % len(MARKER_CYCLE)]
        style = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)))[j // len(CYCLE) % 3]
        if low is not None and high is not None:
            beside = (i / max(1, len(models) - 1) - 0.5) * 2 * _SPREAD
            axes.vlines(x + beside, low[:, j], high[:, j], color=colour, alpha=0.3, lw=4.5, capstyle="round", zorder=1)
        axes.plot(x, heights[:, j], color=colour, lw=1.8, ls=style, zorder=3)
        size = 13 if marker == "*" else 8.5
        axes.plot(x, heights[:, j], ls="none", marker=marker, ms=size, mfc=colour, mec=PAPER, mew=1.1, zorder=4)
    _draw_names(axes, models, heights)
    axes.set_xlim(-0.35, len(measures) - 0.65)
    axes.set_ylim(rows + 0.5, 0.5)
    axes.set_xticks(x, [cut(name, _LONGEST) for name in measures])
    axes.xaxis.tick_top()
    if max(map(len, measures)) > _FITS:
        for label in axes.get_xticklabels():
            label.set(rotation=35, ha="left", rotation_mode="anchor")
    axes.tick_params(axis="both", length=0)
    axes.set_yticks(range(1, rows + 1), [])
    axes.grid(axis="y", color=FAINT, lw=0.6, zorder=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bars = None if low is None else "faint bars: 95 % bootstrap interval of the rank"
    lines = ["; ".join(part for part in ("rank 1 on top", bars, over) if part is not None)]
    lines += [f"unscored and unranked: {', '.join(unranked)}"] if unranked else []
    lines += [fill(line, int(figure.get_figwidth() * _PER_INCH)) for line in notes]
    offset: dict[str, Any] = {"xytext": (0, -10), "xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate("\n".join(lines), (0.5, 0), ha="center", va="top", color=GREY, fontsize=8.5, **offset)
    return figure


def _order(ranks: FloatArray) -> list[int]:
    return list(map(int, np.argsort(np.nan_to_num(ranks, nan=np.inf), kind="stable")))


def _apart(ranks: FloatArray) -> FloatArray:
    """Returns the heights at which ranks are drawn: tied models a little apart, all others at their rank."""
    heights = ranks.copy()
    for row in heights:
        for value in np.unique(row[~np.isnan(row)]):
            tied = np.flatnonzero(row == value)
            row[tied] = value + (np.arange(len(tied)) - (len(tied) - 1) / 2) * _TIED
    return heights


def _draw_names(axes: Axes, models: Sequence[str], heights: FloatArray) -> None:
    """Writes the models' names at both ends, a row each, in the order of the first and of the last measure."""
    for column, x, align, side in ((0, 0.0, "right", -1), (-1, len(heights) - 1.0, "left", 1)):
        for row, j in enumerate(_order(heights[column]), start=1):
            height = heights[column, j]
            if np.isnan(height):
                continue
            # Tied models stand closer than a row apart: a thin line leads from the name to the mark.
            axes.plot([x, x + side * _LEAD], [height, row], color=GREY, lw=0.6, clip_on=False, zorder=0)
            offset: dict[str, Any] = {"xytext": (3 * side, 0), "textcoords": "offset points", "annotation_clip": False}
            axes.annotate(cut(models[j], _LONGEST), (x + side * _LEAD, row), ha=align, va="center", **offset)
