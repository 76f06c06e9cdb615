"""The figures of a run: the hP-hR plane of the paper's Figure 6, and the scores by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import isnan
from typing import TYPE_CHECKING

from taxtune.metrics.names import metric_name
from taxtune.report.drawing import (
    CYCLE,
    FAINT,
    GREY,
    INK,
    MARKER_CYCLE,
    PAPER,
    Look,
    draw_iso_lines,
    look_of,
    padded,
)
from taxtune.report.formatting import (
    Result,
    number,
    result_runs,
    template_name,
    tuning_scores,
)
from taxtune.tuning.records import HeldoutResult, IterationRecord, TuneResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curves", "draw_plane", "selective_figure"]

#: How far apart, in iterations, the bars of an iteration's scores stand.
_SHIFT = 0.16
_NAN = float("nan")
#: From the baseline to another template on the plane.
_ARROW = {"arrowstyle": "-|>", "lw": 1.2, "alpha": 0.8, "shrinkA": 7, "shrinkB": 9}


def draw_plane(result: Result) -> Figure:
    """Draws the hP-hR plane of a result.

    It has every iteration on the tuning split, and the baseline and the winners on the held-out
    split.
    """
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.add_subplot()
    _set_limits(axes, result)
    draw_iso_lines(axes)
    _draw_heldout(axes, result)
    runs = result_runs(result)
    for run in runs:
        _draw_iterations(axes, run)
    if runs:
        _draw_trivial(axes, runs[0])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_major_formatter("{x:.2f}")
    axes.set_xlabel("hierarchical recall, hR")
    axes.set_ylabel("hierarchical precision, hP")
    handles, labels = axes.get_legend_handles_labels()
    for i, handle in enumerate(handles):
        if isinstance(handle, ErrorbarContainer):
            # The legend shows the marker alone: squeezed bars look like dirt.
            handles[i] = handle.lines[0]
    axes.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(1.13, 1.02),
        borderaxespad=0,
        labelspacing=0.9,
    )
    return figure


def _set_limits(axes: Axes, result: Result) -> None:
    runs = result_runs(result)
    scored = [scores for run in runs for scores in tuning_scores(run)]
    xs = [scores.hr for scores in scored]
    ys = [scores.hp for scores in scored]
    for held in result.heldout:
        xs += _extent(held, "hr")
        ys += _extent(held, "hp")
    for run in runs[:1]:
        near = xs or [run.trivial_hr]
        width = max(max(near) - min(near), 0.1)
        reached = [*near, run.trivial_hr]
        if max(reached) - min(reached) <= 2.5 * width:
            xs.append(run.trivial_hr)
        ys.append(run.trivial_hp)
    axes.set_xlim(*padded(xs))
    axes.set_ylim(*padded(ys))


def _extent(held: HeldoutResult, metric: str) -> list[float]:
    """Returns a held-out score, with the ends of its interval if it has one."""
    value = held.scores.get(metric)
    interval = held.intervals.get(metric)
    return [value] if interval is None else [interval.low, value, interval.high]


def _draw_iterations(axes: Axes, run: TuneResult) -> None:
    scored = tuning_scores(run)
    if not scored:
        return
    # Those that may win are asked about more images.
    sizes = sorted({scores.n for scores in scored})
    images = " to ".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1])))
    goal = metric_name(run.objective)
    label = f"tuning for {goal}\n{len(scored)} templates, {images} tuning images"
    look = look_of(run.objective)
    axes.scatter(
        [scores.hr for scores in scored],
        [scores.hp for scores in scored],
        s=26,
        marker=look.marker,
        color=look.colour,
        alpha=0.55,
        edgecolors=PAPER,
        linewidths=0.5,
        zorder=3,
        label=label,
    )


def _draw_heldout(axes: Axes, result: Result) -> None:
    looks = _looks(result)
    baseline = result.heldout_baseline
    for held in result.heldout:
        is_contender = held.name in looks
        look = looks.get(held.name, Look(INK, "D"))
        name = _legend_name(held.name, result)
        x = held.scores.hr
        y = held.scores.hp
        images = f"{held.scores.n} {held.split} images"
        label = f"{name}\nhP {number(y)}, hR {number(x)} ({images})"
        axes.errorbar(
            x,
            y,
            xerr=_bars(held, "hr"),
            yerr=_bars(held, "hp"),
            fmt=look.marker,
            ms=10.5 if is_contender else 8,
            color=look.colour,
            mec=PAPER,
            mew=1.0,
            elinewidth=1.3,
            capsize=2.5,
            zorder=6,
            label=label,
        )
        if baseline is not None and is_contender:
            start = (baseline.scores.hr, baseline.scores.hp)
            arrow = _ARROW | {"color": look.colour}
            axes.annotate("", (x, y), start, arrowprops=arrow, zorder=4)


def _looks(result: Result) -> dict[str, Look]:
    """Returns the look of each contender: its objective's, or one of a cycle if several share it."""
    objectives = {name: run.objective for name, run in result.named_runs}
    looks = {name: look_of(objectives.get(name, "")) for name in result.contenders}
    if len(set(looks.values())) == len(looks):
        return looks
    cycled = zip(looks, cycle(CYCLE), cycle(MARKER_CYCLE), strict=False)
    return {name: Look(colour, marker) for name, colour, marker in cycled}


def _legend_name(name: str, result: Result) -> str:
    """Returns a template's name in the legend; a winner is called by its objective."""
    if isinstance(result, TuneResult) and name == "winner":
        return f"{template_name(result.objective)} winner"
    shown = template_name(name)
    return f"{shown} winner" if name in dict(result.named_runs) else shown


def _draw_trivial(axes: Axes, run: TuneResult) -> None:
    x = run.trivial_hr
    marker = "X"
    label = (
        "always answering the domain's root\n"
        f"hP {number(run.trivial_hp)}, hR {number(run.trivial_hr)}"
    )
    low, high = axes.get_xlim()
    if not low <= x <= high:
        # Far away from all else it would squeeze the rest: it is pointed at from the frame.
        x = low
        marker = "<"
        label += " (off the plot)"
    axes.scatter(
        [x],
        [run.trivial_hp],
        s=60,
        marker=marker,
        color=GREY,
        edgecolors=PAPER,
        linewidths=0.8,
        zorder=5,
        clip_on=False,
        label=label,
    )


def _bars(held: HeldoutResult, metric: str) -> list[list[float]]:
    low, *_, high = _extent(held, metric)
    value = held.scores.get(metric)
    # A bar's length must not be negative, even where a percentile interval leaves the estimate out.
    return [[max(0.0, value - low)], [max(0.0, high - value)]]


def selective_figure(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    points: Mapping[str, tuple[float, float]],
) -> Figure:
    """Draws coverage against precision: how hP falls the more is said.

    Args:
        curves: By name, hR and hP along a threshold.
        points: By name, hR and hP of a choice. One whose name begins with that of a curve has its
            colour.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.2))
    axes = figure.add_subplot()
    colours = dict(zip(curves, cycle(CYCLE), strict=False))
    precisions: list[float] = []
    for name, (hr, hp) in curves.items():
        axes.plot(hr, hp, color=colours[name], lw=1.8, zorder=2, label=name)
        precisions += hp
    for name, marker in zip(points, cycle(MARKER_CYCLE), strict=False):
        x, y = points[name]
        own_curve = (colours[curve] for curve in curves if name.startswith(curve))
        axes.plot(
            x,
            y,
            marker,
            ms=8.5,
            label=f"{name}\nhP {number(y)}, hR {number(x)}",
            color=next(own_curve, INK),
            mec=PAPER,
            mew=1.0,
            ls="none",
            zorder=3,
            clip_on=False,
        )
    axes.set_ylim(*padded(precisions))
    axes.grid(color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("coverage: how much of the truth is said, hR")
    axes.set_ylabel("precision: how much of what is said is true, hP")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.02), borderaxespad=0, labelspacing=0.9)
    return figure


# -- scores by iteration ---------------------------------------------------------------------------


def draw_curves(result: Result) -> Figure:
    """Draws the scores by iteration, one panel per run."""
    from matplotlib.figure import Figure

    runs = result_runs(result)
    figure = Figure(figsize=(6.4, 2.6 * len(runs) + 0.3))
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for axes, run in zip(panels, runs, strict=True):
        _draw_panel(axes, run)
    panels[-1].set_xlabel("iteration (0 is the baseline)")
    figure.subplots_adjust(hspace=0.28)
    return figure


def _draw_panel(axes: Axes, run: TuneResult) -> None:
    from matplotlib.ticker import MaxNLocator

    _draw_best(axes, run)
    known = {key for scores in tuning_scores(run) for key in scores.means}
    metrics = [key for key in dict.fromkeys((run.objective, "hp", "hr")) if key in known]
    drawn: list[float] = []
    for i, metric in enumerate(metrics):
        shift = _SHIFT * (i - (len(metrics) - 1) / 2)
        drawn += _draw_scores(axes, run, metric, shift)
    failed = [record for record in run.iterations if record.state != "complete"]
    _draw_marks(axes, run, failed)
    low, high = padded(drawn or [0.0, 1.0])
    # Room below for the marks of what failed.
    room = 0.08 * (high - low) if failed else 0.0
    axes.set_ylim(low - room, high)
    last = max((record.iteration for record in run.iterations), default=0)
    margin = 0.02 * max(last, 1) + 0.3
    axes.set_xlim(-margin, last + margin)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(axis="y", color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_ylabel("score, tuning split")
    title = f"tuning for {metric_name(run.objective)}"
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0)


def _draw_best(axes: Axes, run: TuneResult) -> None:
    best = []
    for leader in run.leaders:
        value = leader.value if leader is not None and leader.feasible else None
        best.append(_NAN if value is None else value)
    axes.step(
        [record.iteration for record in run.iterations],
        best,
        where="post",
        color=look_of(run.objective).colour,
        label=f"best {metric_name(run.objective)} so far",
        lw=5,
        alpha=0.22,
        solid_capstyle="butt",
        zorder=1,
    )


def _draw_scores(axes: Axes, run: TuneResult, metric: str, shift: float) -> list[float]:
    """Draws a score of each iteration with its bar; returns the heights that must be in the plot."""
    look = look_of(metric)
    scores = []
    xs: list[float] = []
    lows: list[float] = []
    highs: list[float] = []
    for record in run.iterations:
        # What has no score is a gap in the line.
        score = _NAN if record.scores is None else record.scores.get(metric)
        scores.append(score)
        error = record.table.standard_error(metric)
        if error is not None and not isnan(score):
            xs.append(record.iteration + shift)
            lows.append(score - 1.96 * error)
            highs.append(score + 1.96 * error)
    axes.vlines(xs, lows, highs, color=look.colour, alpha=0.45, lw=1.1, zorder=2)
    axes.plot(
        [record.iteration for record in run.iterations],
        scores,
        marker=look.marker,
        ms=3.8,
        lw=1.0 if metric == run.objective else 0.7,
        color=look.colour,
        mec=PAPER,
        mew=0.4,
        label=metric_name(metric),
        zorder=3,
    )
    return [*lows, *highs, *(score for score in scores if not isnan(score))]


def _draw_marks(axes: Axes, run: TuneResult, failed: Sequence[IterationRecord]) -> None:
    """Marks the winner, and at the bottom the iterations that failed."""
    for record in run.iterations:
        if record.iteration == run.winner and record.value is not None:
            axes.plot(
                [record.iteration],
                [record.value],
                "o",
                ms=11,
                mfc="none",
                mec=INK,
                mew=1.3,
                label=f"winner: {record.iteration}",
                ls="none",
                clip_on=False,
                zorder=4,
            )
    if failed:
        axes.plot(
            [record.iteration for record in failed],
            [0.03] * len(failed),
            "x",
            transform=axes.get_xaxis_transform(),
            ms=6,
            mew=1.6,
            color=INK,
            label="failed or void",
            ls="none",
            clip_on=False,
            zorder=4,
        )
