"""The figures of a run: the hP-hR plane of the paper's Figure 6, and the scores by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from taxtune.metrics.names import metric_name
from taxtune.report.drawing import (
    COLOURS,
    CYCLE,
    FAINT,
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
from taxtune.report.summary import standard_error
from taxtune.tuning.records import HeldoutResult, TuneResult
from taxtune.tuning.selection import best_so_far

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curves", "draw_plane", "selective_figure"]

#: How far apart, in iterations, the bars of an iteration's scores stand.
_SHIFT = 0.16


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
    handles = [
        handle.lines[0] if isinstance(handle, ErrorbarContainer) else handle for handle in handles
    ]
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
    points = [
        (s.hr, s.hp)
        for run in runs
        for record in run.iterations
        if (s := record.scores) is not None
    ]
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
            axes.annotate(
                "", (x, y), start, arrowprops={**arrow, "shrinkA": 7, "shrinkB": 9}, zorder=4
            )


def _looks(result: Result) -> dict[str, tuple[str, str]]:
    """Returns colour and marker of each contender: its objective's, or where several share that, one of a cycle."""
    objectives = {name: run.objective for name, run in result.named_runs}
    found = {
        name: (
            COLOURS.get(objectives.get(name, ""), OWN_COLOUR),
            MARKERS.get(objectives.get(name, ""), OWN_MARKER),
        )
        for name in result.contenders
    }
    if len(set(found.values())) < len(found):
        return dict(zip(found, zip(cycle(CYCLE), cycle(MARKER_CYCLE)), strict=False))
    return found


def _called(name: str, result: Result) -> str:
    """Returns a contender's name in the legend: a winner by its objective."""
    if isinstance(result, TuneResult) and name == "winner":
        return f"{template_name(result.objective)} winner"
    return (
        f"{template_name(name)} winner" if name in dict(result.named_runs) else template_name(name)
    )


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
    return (
        [[0.0], [0.0]]
        if interval is None
        else [[max(0.0, value - interval.low)], [max(0.0, interval.high - value)]]
    )


def selective_figure(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    points: Mapping[str, tuple[float, float]],
) -> Figure:
    """Draws coverage against precision: how hP falls the more is said.

    Args:
        curves: By name, hR and hP along a threshold.
        points: By name, hR and hP of a choice. One whose name begins with that of a curve has its colour.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.2))
    axes = figure.add_subplot()
    colours = dict(zip(curves, cycle(CYCLE), strict=False))
    for name, (hr, hp) in curves.items():
        axes.plot(hr, hp, color=colours[name], lw=1.8, zorder=2, label=name)
    for (name, (x, y)), marker in zip(points.items(), cycle(MARKER_CYCLE), strict=False):
        colour = next((colours[curve] for curve in curves if name.startswith(curve)), INK)
        look: dict[str, Any] = {
            "color": colour,
            "mec": PAPER,
            "mew": 1.0,
            "ls": "none",
            "zorder": 3,
            "clip_on": False,
        }
        axes.plot(x, y, marker, ms=8.5, label=f"{name}\nhP {number(y)}, hR {number(x)}", **look)
    axes.set_ylim(*padded([y for _, hp in curves.values() for y in hp]))
    axes.grid(color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("coverage: how much of the truth is said, hR")
    axes.set_ylabel("precision: how much of what is said is true, hP")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.02), borderaxespad=0, labelspacing=0.9)
    return figure


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
    leaders = [
        record if record is not None and record.feasible else None
        for record in best_so_far(run.iterations)
    ]
    best = [
        float("nan") if leader is None or leader.value is None else leader.value
        for leader in leaders
    ]
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
    known = {
        key
        for record in run.iterations
        if record.scores is not None
        for key in record.scores.as_row()
    }
    drawn = [key for key in dict.fromkeys((run.objective, "hp", "hr")) if key in known]
    shown: list[float] = []
    for rank, metric in enumerate(drawn):
        colour = COLOURS.get(metric, OWN_COLOUR)
        # What has no score is a gap in the line.
        scores = [
            float("nan") if record.scores is None else record.scores.get(metric)
            for record in run.iterations
        ]
        shift = _SHIFT * (rank - (len(drawn) - 1) / 2)
        errors = [standard_error(record, metric) for record in run.iterations]
        bars = [
            (iteration + shift, score, 1.96 * error)
            for iteration, score, error in zip(numbers, scores, errors, strict=True)
            if error is not None and score == score
        ]
        low, high = ([score + sign * width for _, score, width in bars] for sign in (-1, 1))
        axes.vlines([bar[0] for bar in bars], low, high, color=colour, alpha=0.45, lw=1.1, zorder=2)
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
        axes.plot(
            [winner.iteration],
            [winner.value],
            "o",
            ms=11,
            mfc="none",
            mec=INK,
            mew=1.3,
            label=label,
            **mark,
        )
    failed = [record.iteration for record in run.iterations if record.state != "complete"]
    if failed:
        across = axes.get_xaxis_transform()
        heights = [0.03] * len(failed)
        axes.plot(
            failed,
            heights,
            "x",
            transform=across,
            ms=6,
            mew=1.6,
            color=INK,
            label="failed or void",
            **mark,
        )
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
