"""The scores by iteration with their intervals, the best so far, and the iterations that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

    numbers = [record.iteration for record in run.iterations]
    best = [float("nan") if b is None or b.value is None else b.value for b in best_so_far(run.iterations)]
    objective = metric_name(run.objective)
    thick: dict[str, Any] = {"lw": 5, "alpha": 0.22, "solid_capstyle": "butt", "zorder": 1}
    axes.step(
        numbers,
        best,
        where="post",
        color=COLOURS.get(run.objective, OWN_COLOUR),
        label=f"best {objective} so far",
        **thick,
    )
    known = {key for record in run.iterations if record.scores is not None for key in record.scores.keys()}  # noqa: SIM118
    drawn = [key for key in dict.fromkeys((run.objective, "hp", "hr")) if key in known]
    shown: list[float] = []
    for place, metric in enumerate(drawn):
        colour = COLOURS.get(metric, OWN_COLOUR)
        # What has no score is a gap in the line.
        scores = [float("nan") if record.scores is None else record.scores.get(metric) for record in run.iterations]
        shift = _SHIFT * (place - (len(drawn) - 1) / 2)
        ends = [(record.iteration + shift, tuning_interval(record, metric)) for record in run.iterations]
        bars = [(k, found.low, found.high) for k, found in ends if found is not None]
        places, low, high = ([bar[i] for bar in bars] for i in range(3))
        axes.vlines(places, low, high, color=colour, alpha=0.45, lw=1.1, zorder=2)
        axes.plot(
            numbers,
            scores,
            marker=MARKERS.get(metric, OWN_MARKER),
            ms=3.8,
            lw=1.0 if metric == run.objective else 0.7,
            color=colour,
            mec=PAPER,
            mew=0.4,
            label=metric_name(metric),
            zorder=3,
        )
        shown += [*low, *high, *(score for score in scores if score == score)]
    mark: dict[str, Any] = {"ls": "none", "clip_on": False, "zorder": 4}
    winner = next((record for record in run.iterations if record.iteration == run.winner), None)
    if winner is not None and winner.value is not None:
        label = f"winner: {winner.iteration}"
        axes.plot([winner.iteration], [winner.value], "o", ms=11, mfc="none", mec=INK, mew=1.3, label=label, **mark)
    failed = [record.iteration for record in run.iterations if record.state != "complete"]
    if failed:
        across = axes.get_xaxis_transform()
        heights = [0.03] * len(failed)
        axes.plot(failed, heights, "x", transform=across, ms=6, mew=1.6, color=INK, label="failed or void", **mark)
    low_end, high_end = padded(shown or [0.0, 1.0])
    # Room below for the marks of what failed.
    axes.set_ylim(low_end - (0.08 * (high_end - low_end) if failed else 0.0), high_end)
    last = max(numbers, default=0)
    axes.set_xlim(-0.02 * max(last, 1) - 0.3, last + 0.02 * max(last, 1) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(axis="y", color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_ylabel("score, tuning split")
    axes.set_title(f"tuning for {objective}", loc="left", fontsize=10, fontweight="bold")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0)


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
