"""The picture of a result: hP against hR of all its templates."""

from __future__ import annotations

import math
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
    NamedPoint,
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
)
from taxtune.tuning.records import HeldoutResult, TuneResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

__all__ = ["draw_plane", "plot"]

#: The colour and the marker of a contender.
Look = tuple[str, str]


def plot(result: Result) -> Figure:
    """Returns `draw_plane` of a result, which a notebook shows whether or not pyplot was imported."""
    with style():
        figure = draw_plane(result)
    figure._repr_png_ = partial(render, figure, "png", dpi=110)  # type: ignore[attr-defined]
    return figure


def draw_plane(result: Result) -> Figure:
    """Draws hP against hR.

    Filled marks are the templates on their tuning images, hollow ones the held-out results with 95 %
    intervals, and dashed lines the goals. A line through a hollow mark is what other thresholds would
    give, where the policy has one. In an SVG file a filled mark leads to its prompt in the report.
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
        look = looks.get(held.name, (INK, "s"))
        covered += _draw_heldout(axes, held, look, held.name in dict(result.named_runs))
    goals: dict[tuple[str, float], None] = {}
    for run in result_runs(result):
        goals |= dict.fromkeys(run.bounds.items())
    for key, bound in goals:
        _draw_goal(axes, key, bound)
    _set_scales(axes)
    for held in result.heldout:
        if held.selective is not None and held.selective.curve is not None:
            curve = held.selective.curve
            colour, _ = looks.get(held.name, (INK, "s"))
            # The scales stay: at its left end every answer is the root.
            label = f"{template_name(held.name)} at other thresholds"
            axes.plot(curve.hr, curve.hp, color=colour, lw=1.2, zorder=2, label=label)
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
    colour, marker = look
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
        marker=marker,
        color=colour,
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
    colour, marker = look
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
        fmt=marker,
        color=colour,
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
    """Returns the look of each contender: colours and markers in turn."""
    names = dict.fromkeys((*dict(result.named_runs), *result.contenders))
    return dict(zip(names, zip(cycle(CYCLE), cycle(MARKER_CYCLE), strict=False), strict=False))
