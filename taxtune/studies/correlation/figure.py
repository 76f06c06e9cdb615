"""Measures as functions of hP and of hR (paper 1, Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE, PAPER
from taxtune.studies.correlation.study import MeasureCorrelation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_correlation"]

FloatArray = NDArray[np.float64]

# Error bars are the standard deviation divided by this, as in the paper.
_SCALE = 5
# Metrics have more values than can be distinguished; above this many, neighbours share a point.
_MOST_POINTS = 10


def draw_correlation(names: Mapping[str, str], found: Sequence[MeasureCorrelation]) -> Figure:
    """Draws the mean of each measure over hP (top) and hR (bottom), with a fifth of the standard deviation.

    Args:
        names: What each measure is called, by specification, in the order of the legend.
        found: The correlations with their curves.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.6, 6.4), layout="constrained")
    panels = figure.subplots(2, 1)
    for axes, metric, shown, which in zip(
        panels, ("hp", "hr"), ("hP", "hR"), ("any node", "ancestors only, hP = 1"), strict=True
    ):
        curves = {one.measure: one for one in found if one.metric == metric}
        for place, name in enumerate(names):
            _curve(axes, place, len(names), names[name], curves[name])
        axes.set_xlabel(f"{shown} ({which})")
        axes.set_ylabel("score: mean, bars ± std/5")
        axes.grid(axis="y", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
        axes.margins(x=0.03)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", title="τ-hP, τ-hR", title_fontsize=9, alignment="left")
    for text, name in zip(figure.legends[0].get_texts(), names, strict=True):
        taus = [one.correlation.tau for one in found if one.measure == name]
        text.set_text(f"{text.get_text()}  " + ", ".join("–" if np.isnan(t) else _number(t) for t in taus))
    return figure


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _curve(axes: Axes, place: int, of: int, label: str, one: MeasureCorrelation) -> None:
    x, mean, std = _grouped(one.curve)
    # Measures of one value stand beside each other, not on one spot.
    if len(x):
        x = x + (place - (of - 1) / 2) * 0.006 * np.ptp(x)
    colour = CYCLE[place % len(CYCLE)]
    axes.errorbar(
        x,
        mean,
        yerr=std / _SCALE,
        label=label,
        color=colour,
        marker=MARKER_CYCLE[(place + place // len(CYCLE)) % len(MARKER_CYCLE)],
        ms=7,
        mec=PAPER,
        mew=0.6,
        lw=1.5,
        elinewidth=1.1,
        ecolor=colour if of <= 4 else GREY,
        capsize=0,
    )


def _grouped(curve: Sequence[tuple[float, int, float, float]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns value, mean and standard deviation of each point, neighbouring values together where there are many."""
    x, n, mean, std = np.array(curve, dtype=np.float64).reshape(-1, 4).T
    if len(x) <= _MOST_POINTS:
        return x, mean, std
    group = np.minimum((x * _MOST_POINTS).astype(np.int64), _MOST_POINTS - 1)
    # The mean square of a group of points is that of their pairs.
    count, sum_x, sum_mean, sum_square = (np.bincount(group, w) for w in (n, n * x, n * mean, n * (std**2 + mean**2)))
    there = count > 0
    x, mean, square = (total[there] / count[there] for total in (sum_x, sum_mean, sum_square))
    return x, mean, np.sqrt(np.maximum(square - mean**2, 0))
