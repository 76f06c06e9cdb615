"""Distributions of the scores of right and wrong texts (paper 3, Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.report.drawing import CYCLE, FAINT, GREY, INK
from taxtune.studies.specificity.scores import ScoredTexts
from taxtune.studies.specificity.texts import NEGATIVES, POSITIVES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_scores"]

_BINS = 40
_LINES = ("-", "--", "-.", ":")


def draw_scores(scored: ScoredTexts) -> Figure:
    """Draws how the scores of each kind of text are distributed.

    Args:
        scored: The scores.

    Returns:
        Three panels: right texts, wrong texts, and by how much an image's one-label prompt exceeds its wrong texts.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.6), layout="constrained")
    panels = figure.subplots(1, 3)
    right, wrong = (
        {shown: np.concatenate(scored.of(kind)) for kind, shown in kinds.items() if any(map(len, scored.of(kind)))}
        for kinds in (POSITIVES, NEGATIVES)
    )
    gaps = {}
    for kind, shown in NEGATIVES.items():
        pairs = zip(scored.means("single"), scored.of(kind), strict=True)
        found = [one - others for one, others in pairs if len(others) and not np.isnan(one)]
        if found:
            gaps[shown] = np.concatenate(found)
    every = [*right.values(), *wrong.values()]
    limits = (min(v.min() for v in every), max(v.max() for v in every)) if every else (0.0, 1.0)
    _histograms(panels[0], right, limits, "Right texts", "score of image and text")
    _histograms(panels[1], wrong, limits, "Wrong texts", "score of image and text")
    width = max((float(np.abs(v).max()) for v in gaps.values()), default=1.0)
    _histograms(panels[2], gaps, (-width, width), "One label against wrong texts", "score of one label − of wrong text")
    panels[2].axvline(0, color=INK, linewidth=0.8)
    panels[0].set_ylabel("density")
    return figure


def _histograms(
    axes: Axes, series: Mapping[str, NDArray[np.float64]], limits: tuple[float, float], title: str, label: str
) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(label)
    axes.set_yticks([])
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    if not series:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=GREY)
        return
    low, high = limits if limits[1] > limits[0] else (limits[0] - 0.5, limits[0] + 0.5)
    edges = np.linspace(low, high, _BINS + 1)
    top = 0.0
    for i, (shown, values) in enumerate(series.items()):
        heights, _ = np.histogram(values, bins=edges, density=True)
        top = max(top, float(heights.max()))
        axes.stairs(heights, edges, color=CYCLE[i], linestyle=_LINES[i % len(_LINES)], linewidth=1.6, label=shown)
    axes.set_xlim(low, high)
    # Room above the curves for the legend.
    axes.set_ylim(0, top * (1.12 + 0.11 * len(series)))
    axes.legend(loc="upper left", fontsize=8, handlelength=2.4, borderaxespad=0.2)
