"""The figures of `taxtune diagnose`: how often each type occurs and what it costs, and precision and recall by rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from taxtune.report.drawing import COLOURS, GREY, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.metrics.ranks import RankIntervals
    from taxtune.studies.diagnosis.study import Diagnosis

__all__ = ["draw_diagnosis", "draw_ranks"]

_LONGEST_RANK = 18


def draw_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Draws two panels that share their rows: the share of each type, and its cost in hP and hR with intervals."""
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    costs = diagnosis.costs
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
        values = [getattr(cost, f"{metric}_cost") for cost in costs]
        low = [value - getattr(cost, f"{metric}_low") for value, cost in zip(values, costs, strict=True)]
        high = [getattr(cost, f"{metric}_high") - value for value, cost in zip(values, costs, strict=True)]
        losses.errorbar(
            values,
            rows + offset,
            xerr=np.clip([low, high], 0, None),
            fmt=marker,
            color=COLOURS[metric],
            elinewidth=1.4,
            markersize=5,
            label=f"cost in {name} (1 − {name} = {1 - getattr(diagnosis.scores, metric):.3f})",
        )
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

    from taxtune.studies.output import cut

    rows = np.arange(len(found))
    figure = Figure(figsize=(6.8, 0.42 * len(found) + 1.4), layout="constrained")
    axes = figure.subplots()
    for offset, what, shown, key, marker in (
        (-0.15, "precision", "precision: of what is said, right", "hp", "o"),
        (0.15, "recall", "recall: of what should be said, said", "hr", "v"),
    ):
        at = [(row, share) for row, share in enumerate(getattr(rank, what) for rank in found) if share is not None]
        values = np.array([share.estimate for _, share in at])
        ends = np.array([[share.low, share.high] for _, share in at]).reshape(-1, 2).T
        axes.errorbar(
            values,
            [row + offset for row, _ in at],
            xerr=np.clip(np.abs(ends - values), 0, None),
            fmt=marker,
            color=COLOURS[key],
            elinewidth=1.4,
            markersize=5,
            label=shown,
        )
    for edge in rows[:-1] + 0.5:
        axes.axhline(edge, color="#e4e4e4", lw=0.7, zorder=0)
    names = [f"{cut(rank.scores.rank, _LONGEST_RANK)} ({rank.scores.said:,} said)" for rank in found]
    axes.set_yticks(rows, names)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.3)
    return figure
