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


def draw_plane(result: Result) -> Figure:
    """Draws every iteration on the tuning split, and the baseline and the winners on the held-out split."""
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.add_subplot()
    _set_limits(axes, result)
    draw_iso_lines(axes)
    _draw_heldout(axes, result)
    for run in result_runs(result):
        _draw_iterations(axes, run)
    for run in result_runs(result)[:1]:
        _draw_trivial(axes, run)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_major_formatter("{x:.2f}")
    axes.set_xlabel("hierarchical recall, hR")
    axes.set_ylabel("hierarchical precision, hP")
    handles, labels = axes.get_legend_handles_labels()
    # Of an error bar the legend shows the marker alone: squeezed bars look like dirt.
    handles = [handle.lines[0] if isinstance(handle, ErrorbarContainer) else handle for handle in handles]
    axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.13, 1.02), borderaxespad=0, labelspacing=0.9)
    return figure


def _set_limits(axes: Axes, result: Result) -> None:
    runs = result_runs(result)
    points = [(s.hr, s.hp) for run in runs for record in run.iterations if (s := record.scores) is not None]
    for held in result.heldout:
        ends = [held.intervals.get(key) for key in ("hr", "hp")]
        (left, right), (low, high) = ((one.low, one.high) if one else (None, None) for one in ends)
        hr, hp = held.scores.hr, held.scores.hp
        points += [(left or hr, low or hp), (hr, hp), (right or hr, high or hp)]
    trivial = [(run.trivial_hr, run.trivial_hp) for run in runs[:1]]
    points = points or trivial
    xs, ys = [x for x, _ in points], [y for _, y in points]
    for hr, hp in trivial:
        if max(*xs, hr) - min(*xs, hr) <= 2.5 * max(max(xs) - min(xs), 0.1):
            xs.append(hr)
        ys.append(hp)
    axes.set_xlim(*padded(xs))
    axes.set_ylim(*padded(ys))


def _draw_iterations(axes: Axes, run: TuneResult) -> None:
    scored = [record.scores for record in run.iterations if record.scores is not None]
    if not scored:
        return
    few, many = (least(scores.n for scores in scored) for least in (min, max))
    images = f"{many}" if few == many else f"{few} to {many}"  # in a race some are asked about more
    axes.scatter(
        [scores.hr for scores in scored],
        [scores.hp for scores in scored],
        s=26,
        marker=MARKERS.get(run.objective, OWN_MARKER),
        color=COLOURS.get(run.objective, OWN_COLOUR),
        alpha=0.55,
        edgecolors=PAPER,
        linewidths=0.5,
        zorder=3,
        label=f"tuning for {metric_name(run.objective)}\n{len(scored)} templates, {images} tuning images",
    )


def _draw_heldout(axes: Axes, result: Result) -> None:
    looks, baseline = _looks(result), result.heldout_baseline
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
            elinewidth=1.3,
            capsize=2.5,
            zorder=6,
            label=f"{name}\nhP {number(y)}, hR {number(x)} ({held.scores.n} {held.split} images)",
        )
        if baseline is not None and look is not None:
            arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": colour, "lw": 1.2, "alpha": 0.8}
            start = (baseline.scores.hr, baseline.scores.hp)
            axes.annotate("", (x, y), start, arrowprops={**arrow, "shrinkA": 7, "shrinkB": 9}, zorder=4)


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


def _draw_trivial(axes: Axes, run: TuneResult) -> None:
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


def _bars(held: HeldoutResult, metric: str) -> list[list[float]]:
    value = held.scores.get(metric)
    interval = held.intervals.get(metric)
    # A bar's length must not be negative, even where a percentile interval leaves the estimate out.
    return [[0.0], [0.0]] if interval is None else [[max(0.0, value - interval.low)], [max(0.0, interval.high - value)]]
