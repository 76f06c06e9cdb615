"""The figure of the study judge: every measure's correlation with the human ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import CYCLE, FAINT, GREY, INK, MARKER_CYCLE
from taxtune.studies.output import draw_intervals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_correlations"]

Cells = Mapping[str, Sequence[tuple[float, float, float]]]


def draw_correlations(found: Cells, groups: Mapping[str, Cells]) -> Figure:
    """Draws ρ and τ of each measure with 95 % intervals, the highest ρ on top; groups as smaller marks below.

    Args:
        found: ρ and τ of each measure with the ends of their intervals, over all answers.
        groups: The same by group, of which the first ones are drawn.
    """
    from matplotlib.figure import Figure

    names = sorted(found, key=lambda name: -np.nan_to_num(found[name][0][0], nan=-2.0))
    shown = dict(list(groups.items())[: len(CYCLE) - 2])
    step = 1.0 + 0.16 * len(shown)
    height = -step * np.arange(len(names))
    series = [("Spearman's ρ", found, 0, 0.11, 6.5), ("Kendall's τ", found, 1, -0.11, 5.5)]
    series += [(f"ρ, {name}", one, 0, -0.33 - 0.16 * j, 4.0) for j, (name, one) in enumerate(shown.items())]
    columns = 4 if all(len(name) < 18 for name in shown) else 1  # a wider legend would shrink the plot
    size = (7.2, 1.1 + 0.2 * -(-len(series) // columns) + 0.42 * step * len(names))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=GREY, linewidth=0.8)
    for i, (label, cells, which, offset, width) in enumerate(series):
        colour, marker = CYCLE[i], MARKER_CYCLE[i % len(MARKER_CYCLE)]
        intervals = [Interval(*cells[name][which]) for name in names]
        draw_intervals(axes, height + offset, intervals, fmt=marker, color=colour, markersize=width, linewidth=1.6)
        axes.plot([], [], color=colour, marker=marker, markersize=width, label=label)
    for name, at in zip(names, height, strict=True):
        if np.isnan(found[name][0][0]):
            axes.text(0.0, at, " undefined", va="center", color=GREY)
    axes.set_yticks(height, names)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_ylim(height[-1] - 0.5 - 0.16 * len(shown), 0.55)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    more = len(groups) - len(shown)
    left = "" if not more else f"; {more} more group{' is' if more == 1 else 's are'} in the table"
    axes.set_xlabel(f"correlation with human ratings (95 % interval){left}")
    figure.legend(loc="outside upper center", ncols=columns)
    return figure
