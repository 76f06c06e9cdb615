"""Tables and figures of several studies, each made from a frame, and the table of both trees."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import flags, score
from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE, PAPER
from taxtune.report.output import Cell, Table, cut
from taxtune.taxonomy import Domain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["both_trees_table", "draw_curves", "draw_dots", "draw_intervals", "frame_table"]

_COLUMNS = 3  # of panels with curves
_LONGEST = 40


def frame_table(
    name: str, title: str, frame: pd.DataFrame, *notes: str, digits: Mapping[str, int] | None = None
) -> Table:
    """Returns a frame's columns and rows as a `Table`; NaN and None are shown as a dash.

    Args:
        name: The stem of the table's files.
        title: Its title.
        frame: Its cells, in order; the index is left out.
        *notes: What stands below it.
        digits: Decimals by column, where they are not three.
    """
    rows = tuple(frame.itertuples(index=False, name=None))
    return Table(name, title, tuple(map(str, frame.columns)), rows, digits or {}, notes)


def both_trees_table(
    part: Domain,
    placed: Mapping[str, tuple[ArrayLike, ArrayLike]],
    what: str = "model",
    *,
    off_tree: Mapping[str, ArrayLike] | None = None,
) -> Table:
    """Returns hP, hR and hF of the same placements on a part of a taxonomy and on the whole of it.

    Args:
        part: The part.
        placed: Nodes of answers and of their targets on the part by name, each of shape (n,); -1 is no answer.
        what: Heading of the names.
        off_tree: Which answers are scored as a child of the root that is never right, by name, each of shape (n,).
    """
    rows: list[tuple[Cell, ...]] = []
    for name, (nodes, targets) in placed.items():
        predicted: NDArray[np.int64] = np.asarray(nodes, dtype=np.int64)
        known = predicted >= 0
        predicted, truth = predicted[known], np.asarray(targets, dtype=np.int64)[known]
        if not len(predicted):
            rows.append((name, 0, *(None,) * 6))
            continue
        off = flags(None if off_tree is None else off_tree.get(name), len(known))[known]
        here = score(part.tree, predicted, truth, off_tree=off)
        there = score(part.full, part.on_full(predicted), part.on_full(truth), off_tree=off)
        rows.append((name, len(predicted), here.hp, here.hr, here.hf, there.hp, there.hr, there.hf))
    columns = [
        f"{metric} on {label}"
        for label in (part.label, part.full_label)
        for metric in ("hP", "hR", "hF")
    ]
    return Table(
        "both-trees",
        f"The same placements on {part.label} and on the whole taxonomy",
        (what, "answers", *columns),
        tuple(rows),
        notes=(
            f"In all other tables, hP, hR and hF are counted from {part.label}; counted from {part.full_label}, every "
            "path also includes the nodes above it, which all placements share.",
        ),
    )


def draw_intervals(
    axes: Axes,
    rows: Iterable[float],
    intervals: Sequence[Interval | None],
    *,
    scale: float = 1.0,
    **look: Any,
) -> None:
    """Draws a dot with its interval in each row, and the dot alone where the interval has no ends.

    Args:
        axes: The axes.
        rows: The height of each dot.
        intervals: The estimates with their intervals; None and NaN are not drawn.
        scale: The factor of the values, such as 100 for %.
        **look: Passed to `Axes.errorbar`.
    """
    known = [
        (row, one)
        for row, one in zip(rows, intervals, strict=True)
        if one and np.isfinite(one.estimate)
    ]
    if not known:
        return
    values = scale * np.array([[one.low, one.estimate, one.high] for _, one in known])
    ends = np.where(np.isfinite(values), values, values[:, 1:2])
    spread = np.abs(ends[:, [0, 2]] - ends[:, 1:2]).T
    axes.errorbar(ends[:, 1], [row for row, _ in known], xerr=spread, **look)


def draw_dots(frame: pd.DataFrame, label: str, *, scale: float = 1.0, zero: bool = False) -> Figure:
    """Draws estimates with their intervals: a panel per `panel`, a row per `name`, a colour and marker per `series`.

    Args:
        frame: Columns panel, name, series, estimate, low and high, in the order in which they are drawn; what is NaN
            is left out.
        label: What the values are.
        scale: The factor of the values, such as 100 for %.
        zero: Whether to draw a line at 0.
    """
    from matplotlib.figure import Figure

    panels, names, series = (list(frame[column].unique()) for column in ("panel", "name", "series"))
    row = 0.22 + 0.2 * len(series)
    figure = Figure(figsize=(2.6 + 2.9 * len(panels), 1.2 + row * len(names)), layout="constrained")
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, panel in zip(grid, panels, strict=True):
        for i, one in enumerate(series):
            some = frame[(frame["panel"] == panel) & (frame["series"] == one)]
            heights = [
                names.index(name) + (i - (len(series) - 1) / 2) * 0.8 / len(series)
                for name in some["name"]
            ]
            ends = [
                Interval(*cells)
                for cells in some[["estimate", "low", "high"]].itertuples(index=False)
            ]
            look = {
                "fmt": MARKER_CYCLE[i % len(MARKER_CYCLE)],
                "color": CYCLE[i % len(CYCLE)],
                "ms": 5.5,
            }
            draw_intervals(
                axes, heights, ends, scale=scale, elinewidth=1.3, label=cut(one, _LONGEST), **look
            )
        if zero:
            axes.axvline(0, color=GREY, lw=0.8, zorder=0)
        axes.set_title(panel, fontsize=10)
        axes.grid(axis="x", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
    grid[0].set_yticks(range(len(names)), [cut(name, _LONGEST) for name in names])
    grid[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel(label, fontsize=10)
    handles = {
        name: line
        for axes in grid
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if len(series) > 1 and handles:
        figure.legend(
            handles.values(), handles.keys(), loc="outside upper center", ncols=min(4, len(handles))
        )
    return figure


def draw_curves(frame: pd.DataFrame, label: str) -> Figure:
    """Draws curves with intervals: a panel per `panel`, a colour and marker per `series`, a line style per `way`.

    Args:
        frame: Columns panel, series, way (the first one is solid, others are dashed), x (numbers, or texts in their
            order), estimate, low and high.
        label: What the values are.
    """
    from matplotlib.figure import Figure

    panels, series, ways = (list(frame[column].unique()) for column in ("panel", "series", "way"))
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(3.5 * columns + 1.2, 3.1 * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        some = frame[frame["panel"] == panel]
        texts = (
            list(some["x"].unique()) if some["x"].map(lambda x: isinstance(x, str)).all() else None
        )
        x = some["x"].map(texts.index) if texts else some["x"]
        for (one, way), own in some.groupby(["series", "way"], sort=False):
            i, solid = series.index(one), way == ways[0]
            # Side by side, so that equal values can be distinguished.
            step = (0.012 if texts else 0.004) * max(float(np.ptp(x)), 0.1)
            shift = (2 * i + (not solid) - len(series) + 0.5) * step
            spread = np.abs(own[["low", "high"]].to_numpy().T - own["estimate"].to_numpy())
            axes.errorbar(
                x[own.index] + shift,
                own["estimate"],
                yerr=np.nan_to_num(spread),
                color=CYCLE[i % len(CYCLE)],
                marker=MARKER_CYCLE[(i + i // len(CYCLE)) % len(MARKER_CYCLE)],
                mfc=CYCLE[i % len(CYCLE)] if solid else PAPER,
                ms=4.8,
                ls="-" if solid else (0, (4, 2)),
                lw=1.2,
                elinewidth=0.9,
                label=", ".join(filter(None, (one, way))),
            )
        if texts:
            axes.set_xticks(
                range(len(texts)), texts, rotation=40, ha="right", rotation_mode="anchor"
            )
        axes.set_title(
            "\n".join(textwrap.wrap(str(panel), 34)), loc="left", fontsize=9.5, fontweight="bold"
        )
        axes.set_ylabel(label)
        axes.grid(axis="y", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    handles = {
        name: line
        for axes in grid.flat
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2)
    return figure
