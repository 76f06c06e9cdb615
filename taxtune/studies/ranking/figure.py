"""The rank-shift ("bump") chart of paper 1's Figure 5: models by rank under each measure, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE, PAPER
from taxtune.report.output import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_bump"]

FloatArray = NDArray[np.float64]

# Bars stand beside each other within this share of a column on either side of the mark; tied models are this far apart.
_SPREAD = 0.16
_TIED = 0.36
# How far from the outermost marks the names begin, in columns.
_LEAD = 0.3
_LONGEST = 34
# The longest name of a measure that fits into its column; where one is longer, all are slanted.
_FITS = 11
# Characters of a note to an inch of the figure.
_PER_INCH = 13


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
        notes: What else a reader of the chart must know, below that line.
    """
    from matplotlib.figure import Figure

    unranked = [cut(name, _LONGEST) for name, some in zip(models, ranks.T, strict=True) if np.isnan(some).all()]
    rows = len(models) - len(unranked)
    figure = Figure(figsize=(max(4.6, 0.92 * len(measures) + 0.6), max(2.4, 0.46 * rows + 0.9)))
    axes = figure.add_subplot()
    x = np.arange(len(measures), dtype=np.float64)
    shifted = _apart(ranks)
    order = np.argsort(np.nan_to_num(ranks[0], nan=np.inf), kind="stable").tolist()
    for place, j in enumerate(order):
        # Models beyond the palette differ in their marker and in the line.
        colour, marker = CYCLE[j % len(CYCLE)], MARKER_CYCLE[(j + j // len(CYCLE)) % len(MARKER_CYCLE)]
        style = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)))[j // len(CYCLE) % 3]
        if low is not None and high is not None:
            beside = (place / max(1, len(order) - 1) - 0.5) * 2 * _SPREAD
            axes.vlines(x + beside, low[:, j], high[:, j], color=colour, alpha=0.3, lw=4.5, capstyle="round", zorder=1)
        axes.plot(x, shifted[:, j], color=colour, lw=1.8, ls=style, zorder=3)
        axes.plot(
            x,
            shifted[:, j],
            ls="none",
            marker=marker,
            ms=13 if marker == "*" else 8.5,
            mfc=colour,
            mec=PAPER,
            mew=1.1,
            zorder=4,
        )
    _names(axes, models, shifted)
    axes.set_xlim(-0.35, len(measures) - 0.65)
    axes.set_ylim(rows + 0.5, 0.5)
    slanted = max(map(len, measures)) > _FITS
    axes.set_xticks(x, [cut(name, _LONGEST) for name in measures])
    axes.xaxis.tick_top()
    if slanted:
        for label in axes.get_xticklabels():
            label.set(rotation=35, ha="left", rotation_mode="anchor")
    axes.tick_params(axis="both", length=0)
    axes.set_yticks(range(1, rows + 1), [])
    axes.grid(axis="y", color=FAINT, lw=0.6, zorder=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    said = "rank 1 on top"
    if low is not None:
        said += "; faint bars: 95 % bootstrap interval of the rank"
    if over is not None:
        said += f"; {over}"
    if unranked:
        said += f"\nunscored and unranked: {', '.join(unranked)}"
    for line in notes:
        said += "\n" + fill(line, int(figure.get_figwidth() * _PER_INCH))
    axes.annotate(
        said,
        (0.5, 0),
        xytext=(0, -10),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        va="top",
        color=GREY,
        fontsize=8.5,
    )
    return figure


def _apart(ranks: FloatArray) -> FloatArray:
    """Returns the heights at which ranks are drawn: tied models a little apart, all others at their rank."""
    heights = ranks.copy()
    for row in heights:
        for value in np.unique(row[~np.isnan(row)]):
            tied = np.flatnonzero(row == value)
            row[tied] = value + (np.arange(len(tied)) - (len(tied) - 1) / 2) * _TIED
    return heights


def _names(axes: Axes, models: Sequence[str], heights: FloatArray) -> None:
    """Writes the models' names at both ends, a row each, in the order of the first and of the last measure."""
    for column, x, align, side in ((0, 0.0, "right", -1), (-1, len(heights) - 1.0, "left", 1)):
        order = np.argsort(np.nan_to_num(heights[column], nan=np.inf), kind="stable").tolist()
        for row, j in enumerate(order, start=1):
            height = heights[column, j]
            if np.isnan(height):
                continue
            # Tied models stand closer than a row apart: a thin line leads from the name to the mark.
            axes.plot([x, x + side * _LEAD], [height, row], color=GREY, lw=0.6, clip_on=False, zorder=0)
            axes.annotate(
                cut(models[j], _LONGEST),
                (x + side * _LEAD, row),
                xytext=(3 * side, 0),
                textcoords="offset points",
                ha=align,
                va="center",
                annotation_clip=False,
            )
