"""The hP-hR plane of the paper's Figure 6."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

from taxtune.metrics.names import metric_name
from taxtune.report.drawing import (
    COLOURS,
    CYCLE,
    GREY,
    INK,
    MARKER_CYCLE,
    MARKERS,
    OWN_COLOUR,
    OWN_MARKER,
    PAPER,
    draw_iso_lines,
    padded,
)
from taxtune.report.scores import Result, number, result_runs, template_name
from taxtune.tuning.records import HeldoutResult, TuneResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_plane"]

_START = "baseline on the tuning split"
_FRONT = "front, tuning for"


def draw_plane(result: Result) -> Figure:
    """Draws every iteration on the tuning split, and the baseline and the winners on the held-out split."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    runs = result_runs(result)
    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.add_subplot()
    _limits(axes, result)
    draw_iso_lines(axes)
    for run in runs:
        _iterations(axes, run)
        _front(axes, run)
    for run in runs[:1]:
        _tuning_baseline(axes, run)
        _trivial(axes, run)
    for run in runs:
        _bounds(axes, run)
    _heldout(axes, result)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_major_formatter("{x:.2f}")
    axes.set_xlabel("hierarchical recall, hR")
    axes.set_ylabel("hierarchical precision, hP")
    _legend(axes, result)
    return figure


def _bounds(axes: Axes, run: TuneResult) -> None:
    """Draws what a template must reach, where that is one of the two axes."""
    for measure, line, (low, high) in (
        ("hr", axes.axvline, axes.get_xlim()),
        ("hp", axes.axhline, axes.get_ylim()),
    ):
        bound = run.bounds.get(measure)
        if bound is not None and low < bound < high:
            label = f"smallest {metric_name(measure)} allowed: {number(bound)}"
            line(bound, color=GREY, lw=1, ls=(0, (1, 2)), zorder=1, label=label)


def _iterations(axes: Axes, run: TuneResult) -> None:
    proposed = [record for record in run.iterations if record.iteration > 0]
    scored = [record.scores for record in proposed if record.scores is not None]
    if not scored:
        return
    share = f"{len(scored)}" if len(scored) == len(proposed) else f"{len(scored)} of {len(proposed)}"
    axes.scatter(
        [s.hr for s in scored],
        [s.hp for s in scored],
        s=26,
        marker=MARKERS.get(run.objective, OWN_MARKER),
        color=COLOURS.get(run.objective, OWN_COLOUR),
        alpha=0.55,
        edgecolors=PAPER,
        linewidths=0.5,
        zorder=3,
        label=f"tuning for {metric_name(run.objective)} ({share} templates)",
    )


def _front(axes: Axes, run: TuneResult) -> None:
    """Draws the front of the templates that were asked about most tuning images: the highest hP at each hR."""
    points = sorted((s.hr, s.hp) for r in run.iterations if r.iteration in run.pareto and (s := r.scores) is not None)
    if len(points) > 1:
        axes.step(
            [hr for hr, _ in points],
            [hp for _, hp in points],
            where="pre",
            color=COLOURS.get(run.objective, OWN_COLOUR),
            lw=1.1,
            ls=(0, (4, 2)),
            zorder=2,
            label=f"{_FRONT} {metric_name(run.objective)} ({len(points)} templates)",
        )


def _tuning_baseline(axes: Axes, run: TuneResult) -> None:
    # The runs compared share their baseline, so one mark is enough.
    scores = next((record.scores for record in run.iterations if record.iteration == 0), None)
    if scores is not None:
        axes.scatter(
            [scores.hr],
            [scores.hp],
            s=26,
            marker="D",
            color=INK,
            edgecolors=PAPER,
            linewidths=0.5,
            zorder=5,
            label=_START,
        )


def _heldout(axes: Axes, result: Result) -> None:
    looks = _looks(result)
    for held in result.heldout:
        look = looks.get(held.name)
        colour, marker = look or (INK, "D")
        x, y = held.scores.hr, held.scores.hp
        name = template_name(held.name) if look is None else _called(held.name, result)
        axes.errorbar(
            x,
            y,
            xerr=_bars(held, "hr"),
            yerr=_bars(held, "hp"),
            fmt=marker,
            ms=8 if look is None else 10.5,
            color=colour,
            mec=PAPER,
            mew=1.0,
            ecolor=colour,
            elinewidth=1.3,
            capsize=2.5,
            zorder=6,
            label=f"{name}\nhP {number(y)}, hR {number(x)}",
        )
        baseline = result.heldout_baseline
        if baseline is not None and look is not None:
            axes.annotate(
                "",
                (x, y),
                (baseline.scores.hr, baseline.scores.hp),
                arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 7, "shrinkB": 9, "alpha": 0.8},
                zorder=4,
            )


def _looks(result: Result) -> dict[str, tuple[str, str]]:
    """Returns colour and marker of each contender: its objective's, or where several share that, one of a cycle."""
    objectives = {name: run.objective for name, run in result.named_runs}
    found = {
        name: (COLOURS.get(objectives.get(name, ""), OWN_COLOUR), MARKERS.get(objectives.get(name, ""), OWN_MARKER))
        for name in result.contenders
    }
    if len(set(found.values())) < len(found):
        return dict(zip(found, zip(cycle(CYCLE), cycle(MARKER_CYCLE)), strict=False))
    return found


def _called(name: str, result: Result) -> str:
    """Returns a contender's name in the legend: a winner by its objective."""
    if isinstance(result, TuneResult) and name == "winner":
        return f"{template_name(result.objective)} winner"
    return f"{template_name(name)} winner" if name in dict(result.named_runs) else template_name(name)


def _trivial(axes: Axes, run: TuneResult) -> None:
    low, high = axes.get_xlim()
    inside = low <= run.trivial_hr <= high
    # Far away from everything else it would squeeze the rest; it is then pointed at from the frame.
    axes.scatter(
        [run.trivial_hr if inside else low],
        [run.trivial_hp],
        s=60,
        marker="X" if inside else "<",
        color=GREY,
        edgecolors=PAPER,
        linewidths=0.8,
        zorder=5,
        clip_on=False,
        label=f"always answering the domain's root\nhP {number(run.trivial_hp)}, hR {number(run.trivial_hr)}"
        + ("" if inside else " (off the plot)"),
    )


def _limits(axes: Axes, result: Result) -> None:
    runs = result_runs(result)
    points = [(s.hr, s.hp) for run in runs for record in run.iterations if (s := record.scores) is not None]
    for held in result.heldout:
        x, y = held.intervals.get("hr"), held.intervals.get("hp")
        points += [(held.scores.hr, held.scores.hp)]
        points += [(x.low, held.scores.hp), (x.high, held.scores.hp)] if x else []
        points += [(held.scores.hr, y.low), (held.scores.hr, y.high)] if y else []
    trivial = [(run.trivial_hr, run.trivial_hp) for run in runs[:1]]
    points = points or trivial
    xs, ys = [x for x, _ in points], [y for _, y in points]
    for hr, hp in trivial:
        if max(*xs, hr) - min(*xs, hr) <= 2.5 * max(max(xs) - min(xs), 0.1):
            xs.append(hr)
        ys.append(hp)
    axes.set_xlim(*padded(xs))
    axes.set_ylim(*padded(ys))


def _legend(axes: Axes, result: Result) -> None:
    from matplotlib.container import ErrorbarContainer
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    # Of an error bar the legend shows the marker alone: squeezed bars look like dirt.
    handles = [handle.lines[0] if isinstance(handle, ErrorbarContainer) else handle for handle in handles]
    entries = dict(zip(labels, handles, strict=True))
    small = [label for label in entries if label.startswith(("tuning for", _FRONT)) or label == _START]
    reference = [label for label in entries if label.startswith(("always", "smallest"))]
    large = [label for label in entries if label not in small and label not in reference]
    asked = [s.n for run in result_runs(result) for record in run.iterations if (s := record.scores) is not None]
    # In a race some templates are asked about more images than others.
    few, many = min(asked, default=0), max(asked, default=0)
    tuning = f", {few} to {many} images" if few < many else f", {many} images" if many else ""
    heading = Line2D([], [], ls="none")
    order: list[tuple[Any, str]] = []
    if large:
        order += [(heading, f"{result.heldout[0].split.capitalize()} split, {result.heldout[0].scores.n} images")]
        order += [(entries[label], label) for label in large]
        order += [(heading, "")]
    if small or reference:
        order += [(heading, f"Tuning split{tuning}")]
        order += [(entries[label], label) for label in (*small, *reference)]
    legend = axes.legend(
        [handle for handle, _ in order],
        [label for _, label in order],
        loc="upper left",
        bbox_to_anchor=(1.13, 1.02),
        borderaxespad=0,
        labelspacing=0.75,
        handletextpad=0.7,
    )
    for text in legend.get_texts():
        if text.get_text().strip().startswith(("Held-out", "Tuning")):
            text.set_fontweight("bold")
            text.set_position((-24, 0))


def _bars(held: HeldoutResult, metric: str) -> list[list[float]]:
    value = held.scores.get(metric)
    interval = held.intervals.get(metric)
    # A bar's length must not be negative, even where a percentile interval leaves the estimate out.
    return [[0.0], [0.0]] if interval is None else [[max(0.0, value - interval.low)], [max(0.0, interval.high - value)]]
