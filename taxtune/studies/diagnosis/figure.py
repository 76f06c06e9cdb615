"""The figures of the diagnosis: how often each type occurs and what it costs, and precision and recall by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import COLOURS, GREY, INK
from taxtune.report.output import cut
from taxtune.studies.output import draw_intervals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["draw_costs", "draw_ranks"]


def draw_costs(costs: pd.DataFrame) -> Figure:
    """Draws two panels that share their rows: the share of each type, and its cost in hP and hR with intervals.

    Args:
        costs: A row per type: type, count, share, and for hp and hr the cost and its low and high end.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows = np.arange(len(costs))
    figure = Figure(figsize=(8.4, 0.46 * len(costs) + 1.3), layout="constrained")
    shares, losses = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.5))
    percent = 100 * costs["share"].to_numpy()
    shares.barh(rows, percent, height=0.62, color=GREY)
    for row, value, count in zip(rows, percent, costs["count"], strict=True):
        shares.text(value + 0.02 * percent.max(), row, f"{count:,}", va="center", color=INK, fontsize=9)
    shares.set_xlim(0, 1.18 * percent.max())
    shares.set_xlabel("share of answers, %")
    shares.set_yticks(rows, costs["type"].tolist())
    shares.tick_params(axis="y", length=0)
    shares.invert_yaxis()
    for offset, metric, name, marker in ((-0.17, "hp", "hP", "o"), (0.17, "hr", "hR", "v")):
        columns = [f"{metric}_{end}" for end in ("cost", "low", "high")]
        ends = [Interval(*row) for row in costs[columns].itertuples(index=False)]
        label = f"cost in {name} (1 − {name} = {costs[columns[0]].sum():.3f})"
        draw_intervals(
            losses, rows + offset, ends, label=label, fmt=marker, color=COLOURS[metric], elinewidth=1.4, markersize=5
        )
    for edge in rows[:-1] + 0.5:
        losses.axhline(edge, color="#e4e4e4", lw=0.7, zorder=0)
    losses.axvline(0, color=GREY, lw=0.8)
    losses.tick_params(axis="y", length=0)
    losses.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    losses.set_xlabel("taken from the mean over all answers")
    losses.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.3)
    return figure


def draw_ranks(ranks: pd.DataFrame) -> Figure:
    """Draws precision and recall at each rank with their intervals.

    Args:
        ranks: A row per rank, the broadest first: rank, said (how many answers), precision, recall (intervals or None).
    """
    from matplotlib.figure import Figure

    rows = np.arange(len(ranks))
    figure = Figure(figsize=(6.8, 0.42 * len(ranks) + 1.4), layout="constrained")
    axes = figure.subplots()
    for offset, what, label, key, marker in (
        (-0.15, "precision", "precision: share of what is said that is right", "hp", "o"),
        (0.15, "recall", "recall: share of what should be said that is said", "hr", "v"),
    ):
        draw_intervals(
            axes, rows + offset, ranks[what].tolist(), label=label, fmt=marker, color=COLOURS[key], elinewidth=1.4,
            markersize=5,
        )  # fmt: skip
    for edge in rows[:-1] + 0.5:
        axes.axhline(edge, color="#e4e4e4", lw=0.7, zorder=0)
    axes.set_yticks(
        rows, [f"{cut(name, 18)} ({n:,} predicted)" for name, n in zip(ranks["rank"], ranks["predicted"], strict=True)]
    )
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(len(ranks) - 0.5, -0.5)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, handletextpad=0.3)
    return figure
