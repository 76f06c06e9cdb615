"""The figures of the mapping study: hF of every mapper, and how often two of them agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.report.drawing import CYCLE, FAINT, INK, PAPER, padded
from taxtune.studies.drawing import draw_intervals
from taxtune.studies.mapping.study import ALGORITHM, ALONE, DEFAULT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.metrics.statistics import Interval
    from taxtune.studies.mapping.study import Placed

__all__ = ["draw_agreement", "draw_scores"]

_LOOK = {ALONE: ("o", CYCLE[1]), ALGORITHM: ("s", CYCLE[0]), DEFAULT: ("D", CYCLE[2])}


def draw_scores(placed: Sequence[Placed], intervals: dict[str, dict[str, Interval]], confidence: float) -> Figure:
    """Draws a line a measure, with hF and accuracy alone, with Algorithm 1, and of the default mapper.

    Args:
        placed: The mappers.
        intervals: Their scores by name.
        confidence: Coverage of the intervals.
    """
    from matplotlib.figure import Figure

    lines = list(dict.fromkeys(p.base for p in placed if intervals[p.name]))
    figure = Figure(figsize=(8.6, 1.5 + 0.42 * len(lines)))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, metric, title in zip(panels, ("hf", "accuracy"), ("hF", "accuracy (exact node)"), strict=True):
        shown = [p for p in placed if intervals[p.name]]
        for p in shown:
            found = intervals[p.name][metric]
            marker, colour = _LOOK[p.way]
            offset = {ALONE: 0.12, ALGORITHM: -0.12, DEFAULT: 0.0}[p.way]
            draw_intervals(
                axes,
                [len(lines) - 1 - lines.index(p.base) + offset],
                [found],
                fmt=marker,
                ms=6.5,
                color=colour,
                mfc=PAPER if p.way == ALONE else colour,
                mew=1.4,
                elinewidth=1.2,
                capsize=2.5,
                label={ALGORITHM: "with Algorithm 1", DEFAULT: "default mapper"}.get(p.way, p.way),
                zorder=3,
            )
        values = [v for p in shown for v in (intervals[p.name][metric].low, intervals[p.name][metric].high)]
        axes.set_xlim(*padded(values or [0.0, 1.0]))
        axes.set_xlabel(f"{title}, {confidence:.0%} interval".replace("%", " %"))
        axes.grid(axis="x", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(lines)), lines[::-1])
    panels[0].set_ylim(-0.6, len(lines) - 0.4)
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(
        unique.values(),
        unique.keys(),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0 - 0.35 / figure.get_size_inches()[1]),
        ncols=3,
    )
    figure.subplots_adjust(wspace=0.08, top=1.0 - 0.4 / figure.get_size_inches()[1])
    return figure


def draw_agreement(names: Sequence[str], agreement: NDArray[np.float64]) -> Figure:
    """Draws the agreement matrix as a heat map with the share in each cell.

    Args:
        names: The mappers.
        agreement: Shape (mappers, mappers), in [0, 1] or NaN.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    n = len(names)
    side = 1.9 + 0.46 * n
    figure = Figure(figsize=(side + 1.0, side))
    axes = figure.add_subplot()
    # From white to one dark blue: as readable in grey.
    colours = LinearSegmentedColormap.from_list("share", [PAPER, "#9ecae1", CYCLE[0], "#08306b"])
    image = axes.imshow(agreement, cmap=colours.with_extremes(bad=FAINT), vmin=0, vmax=1)
    for i in range(n):
        for j in range(n):
            value = agreement[i, j]
            text = "–" if np.isnan(value) else f"{value:.2f}".removeprefix("0") if value < 1 else "1"
            if text == "1.00":
                text = "1"
            axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color=PAPER if value > 0.55 else INK)
    axes.set_xticks(range(n), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), names)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.set_label("share of answers placed on the same node")
    bar.outline.set_visible(False)
    return figure
