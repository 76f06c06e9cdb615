"""The figures of a run: the hP-hR plane of its templates, and the scores by iteration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.metrics.names import metric_name
from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import (
    CYCLE,
    FAINT,
    GREY,
    INK,
    MARKER_CYCLE,
    PAGE,
    PAPER,
    Look,
    NamedPoint,
    look_of,
    name_points,
    padded,
    render,
    style,
)
from taxtune.report.formatting import (
    Result,
    anchor,
    number,
    result_runs,
    role_of,
    template_name,
    tuning_scores,
)
from taxtune.tuning.records import HeldoutResult, IterationRecord, TuneResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

__all__ = ["draw_curves", "draw_plane", "plot", "selective_figure"]

#: How far apart, in iterations, the bars of an iteration's scores stand.
_SHIFT = 0.16
_NAN = float("nan")


def plot(result: Result) -> Figure:
    """Returns `draw_plane` of a result, which a notebook shows whether or not pyplot was imported."""
    with style():
        figure = draw_plane(result)
    figure._repr_png_ = partial(render, figure, "png", dpi=110)  # type: ignore[attr-defined]
    return figure


def draw_plane(result: Result) -> Figure:
    """Draws hP against hR.

    Filled marks are the templates on their tuning images, hollow ones the held-out results with 95 %
    intervals, and lines the goals. In an SVG file a filled mark leads to its prompt in the report.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 5.2), layout="constrained")
    axes = figure.add_subplot(xlabel="hR: how much of the truth is said")
    axes.set_ylabel("hP: how much of what is said is true")
    looks = _looks(result)
    marks: list[NamedPoint] = []
    for name, run in result.named_runs:
        marks += _draw_iterations(axes, result, run, looks[name])
    covered = [(mark.x, mark.y) for mark in marks]
    for held in result.heldout:
        look = looks.get(held.name, Look(INK, "s"))
        covered += _draw_heldout(axes, held, look, held.name in dict(result.named_runs))
    goals: dict[tuple[str, float], None] = {}
    for run in result_runs(result):
        goals |= dict.fromkeys(run.bounds.items())
    for key, bound in goals:
        _draw_goal(axes, key, bound)
    _set_scales(axes)
    handles: list[Any] = []
    labels: list[str] = []
    if marks:
        scattered: Any = axes.collections[0]
        sizes = {"prop": "sizes", "func": _images, "fmt": "{x:.0f} tuning images", "num": None}
        handles, labels = scattered.legend_elements(**sizes, color=GREY)
    # The legend shows markers alone: squeezed bars look like dirt.
    more, names = axes.get_legend_handles_labels()
    handles += [getattr(handle, "lines", [handle])[0] for handle in more]
    figure.legend(handles, labels + names, loc="outside lower left", ncols=2, columnspacing=1.4)
    # Lays the axes out, once: names need to know where marks are, in files of any resolution.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    # The runs of a comparison share their baseline.
    named = list(dict.fromkeys(mark for mark in marks if mark.name))
    named.sort(key=lambda mark: not mark.is_bold)  # the winner first
    name_points(axes, named, covered)
    return figure


def _area(images: int) -> float:
    """Returns the area of the mark of so many images, in square points."""
    return 9 * math.sqrt(images)


def _images(area: ArrayLike) -> ArrayLike:
    return (np.asarray(area) / 9) ** 2


def _draw_iterations(axes: Axes, result: Result, run: TuneResult, look: Look) -> list[NamedPoint]:
    """Draws a run's templates on their tuning images; returns where they are."""
    points = []
    sizes = []
    addresses = []
    # Small marks lie on top of large ones.
    for record in sorted(run.iterations, key=lambda record: -len(record.rows)):
        scores = record.scores
        if scores is None:
            continue
        role = role_of(run, record.iteration)
        name = f"{record.iteration}: {role}" if role else ""
        is_winner = record.iteration == run.winner
        points.append(NamedPoint(scores.hr, scores.hp, name, is_winner))
        sizes.append(_area(len(record.rows)))
        addresses.append(f"{PAGE}#{anchor(result, run, record.iteration)}")
    marks = axes.scatter(
        [point.x for point in points],
        [point.y for point in points],
        s=sizes,
        marker=look.marker,
        color=look.colour,
    )
    marks.set_alpha(0.75)
    marks.set_zorder(3)
    marks.set_edgecolor([INK if point.name else PAPER for point in points])
    marks.set_linewidth([2.0 if point.is_bold else 0.9 for point in points])
    marks.set_urls(addresses)
    if run is not result:
        marks.set_label(f"tuning for {metric_name(run.objective)}")
    return points


def _draw_heldout(
    axes: Axes, held: HeldoutResult, look: Look, is_winner: bool
) -> list[tuple[float, float]]:
    """Draws a held-out result with its intervals; returns points along these."""
    x = held.scores.hr
    y = held.scores.hp
    ends = {}
    for key, value in (("hr", x), ("hp", y)):
        interval = held.intervals.get(key, Interval(value, value, value))
        # A percentile interval may leave the estimate out.
        ends[key] = min(interval.low, value), max(interval.high, value)
    name = template_name(held.name)
    if is_winner and name != "winner":
        name += " winner"
    name += f", {held.scores.n} {held.split} images"
    across = np.abs(np.subtract(ends["hr"], x))
    up = np.abs(np.subtract(ends["hp"], y))
    bars = axes.errorbar(
        x,
        y,
        xerr=across[:, None],
        yerr=up[:, None],
        fmt=look.marker,
        color=look.colour,
        elinewidth=1.3,
        capsize=2.5,
        zorder=6,
    )
    bars.set_label(f"{name}\nhP {number(y)}, hR {number(x)}")
    bars.lines[0].set(markersize=9, markerfacecolor=PAPER, markeredgewidth=1.8)
    along = [(at, y) for at in np.linspace(*ends["hr"], 9).tolist()]
    along += [(x, at) for at in np.linspace(*ends["hp"], 9).tolist()]
    return along


def _draw_goal(axes: Axes, key: str, bound: float) -> None:
    """Draws the goal for a score on the axes as a line that is named outside of the frame."""
    text = f"goal:\n{metric_name(key)} {number(bound)}"
    if key == "hp":
        line = axes.axhline(bound)
        name = axes.text(1.01, bound, text, va="center", transform=axes.get_yaxis_transform())
    elif key == "hr":
        line = axes.axvline(bound)
        name = axes.text(bound, 1.01, text, ha="center", transform=axes.get_xaxis_transform())
    else:
        return
    line.set(color=GREY, linewidth=1.1, linestyle="--", zorder=1)
    name.set(color=GREY, fontsize=8)


def _set_scales(axes: Axes) -> None:
    """Sets the ends of both axes, and their grid, by what is drawn."""
    from matplotlib.ticker import MaxNLocator

    x = axes.dataLim.intervalx
    y = axes.dataLim.intervaly
    if not np.isfinite([x, y]).all():  # nothing is
        x = y = np.array([0.0, 1.0])
    axes.set_xlim(*padded(x.tolist()))
    axes.set_ylim(*padded(y.tolist()))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_major_formatter("{x:.2f}")
    axes.grid(color=FAINT, lw=0.5)
    axes.set_axisbelow(True)


def _looks(result: Result) -> dict[str, Look]:
    """Returns the look of each contender: its objective's, or one of a cycle if several share it."""
    objectives = {name: run.objective for name, run in result.named_runs}
    names = dict.fromkeys((*objectives, *result.contenders))
    looks = {name: look_of(objectives.get(name, "")) for name in names}
    if len(set(looks.values())) == len(looks):
        return looks
    cycled = zip(looks, cycle(CYCLE), cycle(MARKER_CYCLE), strict=False)
    return {name: Look(colour, marker) for name, colour, marker in cycled}


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
        if error is not None and not math.isnan(score):
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
    return [*lows, *highs, *(score for score in scores if not math.isnan(score))]


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
