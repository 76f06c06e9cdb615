"""The figures of `taxtune score diagnose`: how often each type occurs, its cost, and precision and recall by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import COLOURS, GREY, INK
from taxtune.report.output import cut
from taxtune.studies.drawing import draw_intervals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.metrics.diagnosis import TypeCost
    from taxtune.metrics.hierarchical import HierarchicalScores
    from taxtune.metrics.ranks import RankIntervals

__all__ = ["draw_diagnosis", "draw_ranks"]

_LONGEST_RANK = 18


def draw_diagnosis(costs: Sequence[TypeCost], scores: HierarchicalScores) -> Figure:
    """Draws two panels that share their rows: the share of each type, and its cost in hP and hR with intervals."""
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows = np.arange(len(costs))
    figure = Figure(figsize=(8.4, 0.46 * len(costs) + 1.3), layout="constrained")
    shares, losses = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.5))
    shares.barh(rows, [100 * cost.share for cost in costs], height=0.62, color=GREY)
    widest = max(100 * cost.share for cost in costs)
    for row, cost in zip(rows, costs, strict=True):
        shares.text(100 * cost.share + 0.02 * widest, row, f"{cost.count:,}", va="center", color=INK, fontsize=9)
    shares.set_xlim(0, 1.18 * widest)
    shares.set_xlabel("share of answers, %")
    shares.set_yticks(rows, [cost.type for cost in costs])
    shares.tick_params(axis="y", length=0)
    shares.invert_yaxis()
    for offset, metric, name, marker in ((-0.17, "hp", "hP", "o"), (0.17, "hr", "hR", "v")):
        found = [Interval(*(getattr(cost, f"{metric}_{part}") for part in ("cost", "low", "high"))) for cost in costs]
        label = f"cost in {name} (1 − {name} = {1 - getattr(scores, metric):.3f})"
        look: dict[str, Any] = {"fmt": marker, "color": COLOURS[metric], "elinewidth": 1.4, "markersize": 5}
        draw_intervals(losses, rows + offset, found, label=label, **look)
    for edge in rows[:-1] + 0.5:
        losses.axhline(edge, color="#e4e4e4", lw=0.7, zorder=0)
    losses.axvline(0, color=GREY, lw=0.8)
    losses.tick_params(axis="y", length=0)
    losses.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    losses.set_xlabel("taken from the mean over all answers")
    losses.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.3)
    return figure


def draw_ranks(found: Sequence[RankIntervals]) -> Figure:
    """Draws precision and recall at each rank with their intervals, and how many answers say it beside it."""
    import numpy as np
    from matplotlib.figure import Figure

    rows = np.arange(len(found))
    figure = Figure(figsize=(6.8, 0.42 * len(found) + 1.4), layout="constrained")
    axes = figure.subplots()
    for offset, what, shown, key, marker in (
        (-0.15, "precision", "precision: share of what is said that is right", "hp", "o"),
        (0.15, "recall", "recall: share of what should be said that is said", "hr", "v"),
    ):
        look: dict[str, Any] = {"fmt": marker, "color": COLOURS[key], "elinewidth": 1.4, "markersize": 5}
        draw_intervals(axes, rows + offset, [getattr(rank, what) for rank in found], label=shown, **look)
    for edge in rows[:-1] + 0.5:
        axes.axhline(edge, color="#e4e4e4", lw=0.7, zorder=0)
    names = [f"{cut(rank.scores.rank, _LONGEST_RANK)} ({rank.scores.said:,} said)" for rank in found]
    axes.set_yticks(rows, names)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.3)
    return figure
