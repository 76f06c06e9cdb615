"""The scores by iteration with their intervals, the best so far, and what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taxtune.report.drawing import COLOURS, FAINT, INK, MARKERS, OWN_COLOUR, OWN_MARKER, PAPER, padded
from taxtune.report.uncertainty import tuning_interval
from taxtune.report.wording import Result, best_so_far, metric_name, result_runs
from taxtune.tuning.records import TuneResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curves"]

# How far apart, in iterations, the bars of an iteration's scores stand.
_SHIFT = 0.16


def draw_curves(result: Result) -> Figure:
    """Draws a panel a run."""
    from matplotlib.figure import Figure

    runs = result_runs(result)
    figure = Figure(figsize=(6.4, 2.6 * len(runs) + 0.3))
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for axes, run in zip(panels, runs, strict=True):
        _panel(axes, run)
    panels[-1].set_xlabel("iteration (0 is the baseline)")
    figure.subplots_adjust(hspace=0.28)
    return figure


def _panel(axes: Axes, run: TuneResult) -> None:
    from matplotlib.ticker import MaxNLocator

    best = best_so_far(run.iterations)
    steps = [
        (record.iteration, b.value)
        for record, b in zip(run.iterations, best, strict=True)
        if b is not None and b.value is not None
    ]
    if steps:
        axes.step(
            [k for k, _ in steps],
            [value for _, value in steps],
            where="post",
            color=COLOURS.get(run.objective, OWN_COLOUR),
            lw=5,
            alpha=0.22,
            solid_capstyle="butt",
            label=f"best {metric_name(run.objective)} so far",
            zorder=1,
        )
    # What has no score is a gap in the line.
    scored = [(record.iteration, record.scores) for record in run.iterations]
    drawn = _drawn(run)
    values = [s.get(metric) for _, s in scored if s is not None for metric in drawn]
    for place, metric in enumerate(drawn):
        values += _bars(axes, run, metric, shift=_SHIFT * (place - (len(drawn) - 1) / 2))
        axes.plot(
            [k for k, _ in scored],
            [float("nan") if s is None else s.get(metric) for _, s in scored],
            marker=MARKERS.get(metric, OWN_MARKER),
            ms=3.8,
            lw=1.0 if metric == run.objective else 0.7,
            color=COLOURS.get(metric, OWN_COLOUR),
            mec=PAPER,
            mew=0.4,
            label=metric_name(metric),
            zorder=3,
        )
    winner = next((record for record in run.iterations if record.iteration == run.winner), None)
    if winner is not None and winner.value is not None:
        axes.plot(
            [winner.iteration],
            [winner.value],
            marker="o",
            ms=11,
            mfc="none",
            mec=INK,
            mew=1.3,
            ls="none",
            label=f"winner: {winner.iteration}",
            clip_on=False,
            zorder=4,
        )
    failed = [record.iteration for record in run.iterations if record.state != "complete"]
    if failed:
        axes.plot(
            failed,
            [0.03] * len(failed),
            transform=axes.get_xaxis_transform(),
            marker="x",
            ms=6,
            mew=1.6,
            ls="none",
            color=INK,
            label="failed or void",
            clip_on=False,
            zorder=4,
        )
    low, high = padded(values or [0.0, 1.0])
    # Room below for the marks of what failed.
    axes.set_ylim(low - (0.08 * (high - low) if failed else 0.0), high)
    last = max((record.iteration for record in run.iterations), default=0)
    axes.set_xlim(-0.02 * max(last, 1) - 0.3, last + 0.02 * max(last, 1) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(axis="y", color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_ylabel("score, tuning split")
    axes.set_title(f"tuning for {metric_name(run.objective)}", loc="left", fontsize=10, fontweight="bold")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0)


def _bars(axes: Axes, run: TuneResult, metric: str, shift: float) -> list[float]:
    """Draws the 95 % intervals of a score, beside those of the other scores; returns their ends."""
    found = [(record.iteration, tuning_interval(record, metric)) for record in run.iterations]
    bars = [(k + shift, ends.low, ends.high) for k, ends in found if ends is not None]
    places, low, high = ([bar[i] for bar in bars] for i in range(3))
    axes.vlines(places, low, high, color=COLOURS.get(metric, OWN_COLOUR), alpha=0.45, lw=1.1, zorder=2)
    return [*low, *high]


def _drawn(run: TuneResult) -> list[str]:
    """Returns the scores that are drawn: the objective's, where it is one of the scores, hP and hR."""
    known = {key for record in run.iterations if record.scores is not None for key in record.scores.keys()}  # noqa: SIM118
    return [key for key in dict.fromkeys((run.objective, "hp", "hr")) if key in known]
