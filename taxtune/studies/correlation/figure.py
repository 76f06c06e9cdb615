"""The figure of the study correlation: each measure over hP and over hR (paper 1, Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_correlation"]

_POINTS = 10  # of a curve; above this many, neighbouring values share a point


def draw_correlation(found: Mapping[str, Sequence[dict[str, Any]]]) -> Figure:
    """Draws the mean of each measure over hP (top) and hR (bottom), with a fifth of the standard deviation.

    Args:
        found: The correlations of each measure with hP and with hR, with their curves, by its name in the legend.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.6, 6.4), layout="constrained")
    panels = figure.subplots(2, 1)
    for which, (axes, label) in enumerate(zip(panels, ("hP (any node)", "hR (ancestors only, hP = 1)"), strict=True)):
        for i, (name, both) in enumerate(found.items()):
            taus = ", ".join("–" if np.isnan(one["tau"]) else f"{one['tau']:.2f}".replace("-", "−") for one in both)
            curve = _thinned(pd.DataFrame(both[which]["curve"], columns=["value", "n", "mean", "std"], dtype=float))
            # Measures stand beside each other, not on one spot.
            shift = (i - (len(found) - 1) / 2) * 0.006 * (np.ptp(curve["value"]) if len(curve) else 0)
            colour = CYCLE[i % len(CYCLE)]
            axes.errorbar(
                curve["value"] + shift,
                curve["mean"],
                yerr=curve["std"] / 5,  # as in the paper
                label=f"{name}  {taus}",
                color=colour,
                marker=MARKER_CYCLE[(i + i // len(CYCLE)) % len(MARKER_CYCLE)],
                ms=7,
                mec=PAPER,
                mew=0.6,
                lw=1.5,
                elinewidth=1.1,
                ecolor=colour if len(found) <= 4 else GREY,
                capsize=0,
            )
        axes.set(xlabel=label, ylabel="score: mean, bars ± std/5")
        axes.grid(axis="y", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
        axes.margins(x=0.03)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", title="τ-hP, τ-hR", title_fontsize=9, alignment="left")
    return figure


def _thinned(curve: pd.DataFrame) -> pd.DataFrame:
    if len(curve) <= _POINTS:
        return curve
    # Mean square and mean of a group of points are those of their pairs.
    group = np.minimum((curve["value"] * _POINTS).astype(int), _POINTS - 1)
    curve["square"] = curve["std"] ** 2 + curve["mean"] ** 2
    sums = curve[["value", "mean", "square"]].mul(curve["n"], axis=0).groupby(group).sum()
    curve = sums.div(curve["n"].groupby(group).sum(), axis=0)
    return curve.assign(std=np.sqrt(np.maximum(curve["square"] - curve["mean"] ** 2, 0)))
