"""The scores by iteration with their intervals, the best so far, and the iterations that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from taxtune.metrics.names import metric_name
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.report.drawing import COLOURS, FAINT, INK, MARKERS, OWN_COLOUR, OWN_MARKER, PAPER, padded
from taxtune.report.scores import Result, best_so_far, result_runs, score_of
from taxtune.report.table import Cell, Table
from taxtune.tuning.records import IterationRecord, TuneResult
from taxtune.tuning.selection import values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curves", "iteration_table", "tuning_interval"]

# Few enough that a run of a hundred templates is drawn in a second; the ends are good to about one in a hundred of the
# interval's width.
_RESAMPLES = 1000
_HARMONIC = {"hf": ("hp", "hr"), "ihf": ("ihp", "ihr")}
# How far apart, in iterations, the bars of an iteration's scores stand.
_SHIFT = 0.16


def draw_curves(result: Result) -> Figure:
    """Draws one panel per run."""
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
    shown = [s.get(metric) for _, s in scored if s is not None for metric in drawn]
    for place, metric in enumerate(drawn):
        shown += _bars(axes, run, metric, shift=_SHIFT * (place - (len(drawn) - 1) / 2))
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
    low, high = padded(shown or [0.0, 1.0])
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
    ends = [(record.iteration, tuning_interval(record, metric)) for record in run.iterations]
    bars = [(k + shift, found.low, found.high) for k, found in ends if found is not None]
    places, low, high = ([bar[i] for bar in bars] for i in range(3))
    axes.vlines(places, low, high, color=COLOURS.get(metric, OWN_COLOUR), alpha=0.45, lw=1.1, zorder=2)
    return [*low, *high]


def _drawn(run: TuneResult) -> list[str]:
    """Returns the scores that are drawn: the objective's, where it is one of the scores, hP and hR."""
    known = {key for record in run.iterations if record.scores is not None for key in record.scores.keys()}  # noqa: SIM118
    return [key for key in dict.fromkeys((run.objective, "hp", "hr")) if key in known]


def tuning_interval(record: IterationRecord, measure: str) -> Interval | None:
    """Returns a score on the tuning images with its 95 % bootstrap interval over them, from the rows of the record.

    Nothing is taken off for the choice of the best of many templates.

    Args:
        record: The iteration.
        measure: "hp", "hr", "hf", "accuracy", or another of the scores.

    Returns:
        The interval; None where no answer has a value, or the score is not a mean over images.
    """
    if record.scores is None or not record.rows:
        return None
    parts = {name: values(record, name) for name in _HARMONIC.get(measure, (measure,))}
    usable = ~np.any([np.isnan(part) for part in parts.values()], axis=0)
    if not usable.any():
        return None
    kept = {name: part[usable] for name, part in parts.items()}
    sample = Sample(kept, names=(measure,), keys=tuple(kept.values()))
    return bootstrap(sample, resamples=_RESAMPLES)[measure]


def iteration_table(run: TuneResult) -> Table:
    """Returns every iteration of a run with its scores on the tuning images and its template."""
    own = dict.fromkeys(key for record in run.iterations if record.scores for key in record.scores.measures)
    keys = ("hp", "hr", "hf", "accuracy", *own)
    rows: list[tuple[Cell, ...]] = []
    for record in run.iterations:
        remarks = ["winner"] if record.iteration == run.winner else []
        remarks += ["on the front"] if record.iteration in run.pareto else []
        remarks += [] if record.feasible else ["misses a constraint"]
        remarks += [] if record.reason is None else [f"{record.state}: {record.reason}"]
        remarks += [f"{record.missing} without an answer"] if record.missing else []
        images = None if record.scores is None else record.scores.n
        scores = (score_of(record.scores, key) for key in keys)
        rows.append((record.iteration, *scores, images, "; ".join(remarks), record.template or ""))
    failed = sum(record.state != "complete" for record in run.iterations)
    title = f"Tuning for {metric_name(run.objective)}: {len(run.iterations):,} iterations"
    columns = ("iteration", *map(metric_name, keys), "images", "remarks", "template")
    return Table("iterations", title + (f", {failed:,} of them failed or void" if failed else ""), columns, tuple(rows))
