"""The judge study's figure: each measure's correlation with people, with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.metrics.statistics import percentiles
from taxtune.report.drawing import CYCLE, FAINT, GREY, INK, MARKER_CYCLE
from taxtune.studies.judge.bootstrap import Correlations

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_correlations"]

_LEGEND = 95  # characters of a line of the legend that the figure is wide enough for


def draw_correlations(
    names: Sequence[str], found: Correlations, by_group: Mapping[str, tuple[Correlations, int]]
) -> Figure:
    """Draws ρ and τ of each measure with 95 % intervals, the highest ρ on top; groups as smaller marks below.

    Args:
        names: The measures.
        found: Their correlations over all answers.
        by_group: Their correlations and the number of answers by group.
    """
    from matplotlib.figure import Figure as NewFigure

    order = sorted(range(len(names)), key=lambda i: (np.isnan(found.rho[i]), -np.nan_to_num(found.rho[i]), i))
    shown = list(by_group.items())[: len(CYCLE) - 2]
    step = 1.0 + 0.16 * len(shown)
    labels = [f"ρ, {name} ({count:,})" for name, (_, count) in shown]
    # So many columns of the legend as the figure is wide: a wider one would shrink the plot.
    columns = max(1, min(4, 2 + len(shown), _LEGEND // (max(map(len, ("Spearman's ρ", *labels))) + 7)))
    lines = -(-(2 + len(shown)) // columns)
    figure = NewFigure(figsize=(7.2, 1.1 + 0.2 * lines + 0.42 * step * len(names)), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=GREY, linewidth=0.8)
    for row, i in enumerate(order):
        height = -row * step
        if np.isnan(found.rho[i]):
            axes.text(0.0, height, " undefined", va="center", color=GREY)
            continue
        _mark(axes, found.rho[i], found.rho_resamples[:, i], height + 0.11, CYCLE[0], MARKER_CYCLE[0], 6.5)
        _mark(axes, found.tau[i], found.tau_resamples[:, i], height - 0.11, CYCLE[1], MARKER_CYCLE[1], 5.5)
        for place, (_, (group, _count)) in enumerate(shown):
            if np.isfinite(group.rho[i]):
                colour, marker = CYCLE[2 + place], MARKER_CYCLE[(2 + place) % len(MARKER_CYCLE)]
                below = height - 0.33 - 0.16 * place
                _mark(axes, group.rho[i], group.rho_resamples[:, i], below, colour, marker, 4.0)
    axes.plot([], [], color=CYCLE[0], marker=MARKER_CYCLE[0], markersize=6.5, label="Spearman's ρ")
    axes.plot([], [], color=CYCLE[1], marker=MARKER_CYCLE[1], markersize=5.5, label="Kendall's τ")
    for place, label in enumerate(labels):
        marker = MARKER_CYCLE[(2 + place) % len(MARKER_CYCLE)]
        axes.plot([], [], color=CYCLE[2 + place], marker=marker, markersize=4, label=label)
    axes.set_yticks([-row * step for row in range(len(order))], [names[i] for i in order])
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.set_ylim(-(len(order) - 1) * step - 0.5 - 0.16 * len(shown), 0.55)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    more = len(by_group) - len(shown)
    left = "" if not more else f"; {more} more group{' is' if more == 1 else 's are'} in the table"
    axes.set_xlabel(f"correlation with human ratings (95 % interval){left}")
    figure.legend(loc="outside upper center", ncols=columns)
    return figure


def _mark(
    axes: Axes,
    value: float,
    resamples: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    height: float,
    colour: str,
    marker: str,
    size: float,
) -> None:
    low, high = percentiles(resamples)
    axes.plot([low, high], [height, height], color=colour, linewidth=1.6, solid_capstyle="butt")
    axes.plot([value], [height], color=colour, marker=marker, markersize=size)
