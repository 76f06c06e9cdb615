"""Tables and figures of several studies, each made from a frame, and the table of both trees."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.metrics.hierarchical import score
from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE, PAPER
from taxtune.report.output import Table, cut
from taxtune.studies.frames import groups, in_order
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "both_trees_table",
    "draw_curves",
    "draw_dots",
    "frame_table",
    "node_paths",
    "part_path",
    "series_look",
]

_COLUMNS = 3  # of panels with curves
_LONGEST = 40  # characters of a name


def frame_table(
    name: str, title: str, frame: pd.DataFrame, *notes: str, digits: int | Mapping[str, int] = 3
) -> Table:
    """Returns a frame's columns and rows as a `Table`; NaN and None are shown as a dash.

    Args:
        name: The stem of the table's files.
        title: Its title.
        frame: Its cells, in order; the index is left out.
        *notes: The notes below it.
        digits: Decimals of all columns, or of those that do not have three.
    """
    columns = tuple(map(str, frame.columns))
    rows = tuple(frame.itertuples(index=False, name=None))
    if isinstance(digits, int):
        digits = dict.fromkeys(columns, digits)
    return Table(name=name, title=title, columns=columns, rows=rows, digits=digits, notes=notes)


def intervals_table(intervals: pd.DataFrame, note: str) -> Table:
    """Returns the table of the intervals that go with a table of shares, in %.

    Args:
        intervals: Columns that say which share it is, then the share itself, low and high, in 0..1.
        note: How the intervals were made.
    """
    cells = intervals.copy()
    cells[cells.columns[-3:]] *= 100
    return frame_table("intervals", "The same with 95 % intervals", cells, note, digits=2)


def part_path(part: Domain | None) -> str | None:
    """Returns the path on the whole taxonomy of the root of a part; None where there is no part."""
    if part is None:
        return None
    return "/".join(part.full.path(part.root))


def node_paths(taxonomy: Taxonomy, nodes: pd.Series[int]) -> pd.Series[str]:
    """Returns the path of each node, with slashes."""
    paths = {node: "/".join(taxonomy.path(node)) for node in nodes.unique()}
    return nodes.map(paths)


def both_trees_table(part: Domain, placed: pd.DataFrame, by: str) -> Table:
    """Returns hP, hR and hF of the same placements on a part of a taxonomy and on the whole of it.

    Args:
        part: The part.
        placed: Columns node and target (on the part; node -1 is no answer), `by`, and as_child where some answers are
            scored as a child of the root that is never right.
        by: The column of what is scored, which is the heading of its names.
    """
    is_known = placed["node"] >= 0
    known = placed[is_known]
    full = known.copy()
    for column in ("node", "target"):
        full[column] = part.on_full(known[column])
    counts = is_known.groupby(placed[by], sort=False).sum()
    cells = counts.to_frame("answers")
    cells = cells.join(_scores_on(part.tree, part.label, known, by))
    cells = cells.join(_scores_on(part.full, part.full_label, full, by))
    return frame_table(
        "both-trees",
        f"The same placements on {part.label} and on the whole taxonomy",
        cells.reset_index(),
        f"In all other tables, hP, hR and hF are counted from {part.label}; counted from {part.full_label}, every "
        "path also includes the nodes above it, which all placements share.",
    )


def _scores_on(tree: Taxonomy, label: str, known: pd.DataFrame, by: str) -> pd.DataFrame:
    """Returns hP, hR and hF of the answers of each group, with the label of the tree in the headings."""
    rows = {}
    for name, answers in groups(known, by).items():
        off_tree = answers.get("as_child")
        scores = score(tree, answers["node"], answers["target"], off_tree=off_tree)
        rows[name] = [scores.hp, scores.hr, scores.hf]
    columns = [f"{metric} on {label}" for metric in ("hP", "hR", "hF")]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


# -- figures ----------------------------------------------------------------------------------------------------------


def series_look(i: int) -> tuple[str, str]:
    """Returns the colour and the marker of the i-th series of a figure."""
    rounds, color = divmod(i, len(CYCLE))
    # In the next round of colours each has another marker.
    marker = (i + rounds) % len(MARKER_CYCLE)
    return CYCLE[color], MARKER_CYCLE[marker]


def draw_dots(frame: pd.DataFrame, label: str, *, scale: float = 1.0, zero: bool = False) -> Figure:
    """Draws estimates with their intervals: a panel per `panel`, a row per `name`, a colour and marker per `series`.

    Args:
        frame: Columns panel, name, series, estimate, low and high, in the order in which they are drawn; estimates of
            NaN are left out.
        label: What the values are.
        scale: The factor of the values, such as 100 for %.
        zero: Whether to draw a line at 0.
    """
    from matplotlib.figure import Figure

    panels = list(frame["panel"].unique())
    names = list(frame["name"].unique())
    series = list(frame["series"].unique())
    row_height = 0.22 + 0.2 * len(series)
    height = 1.2 + row_height * len(names)
    width = 2.6 + 2.9 * len(panels)
    figure = Figure(figsize=(width, height), layout="constrained")
    (grid,) = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    known = frame.dropna(subset="estimate").copy()
    # The series of a row are drawn one below the other.
    shift = in_order(known["series"], series) - (len(series) - 1) / 2
    known["height"] = in_order(known["name"], names) + shift * 0.8 / len(series)
    axes_of = dict(zip(panels, grid, strict=True))
    for (panel, name), dots in groups(known, ["panel", "series"]).items():
        color, marker = series_look(series.index(name))
        estimate = scale * dots["estimate"]
        spread = scale * _spread(dots)
        axes_of[panel].errorbar(
            estimate,
            dots["height"],
            xerr=spread,
            color=color,
            marker=marker,
            ls="none",
            ms=5.5,
            elinewidth=1.3,
            label=cut(name, _LONGEST),
        )
    for panel, axes in axes_of.items():
        if zero:
            axes.axvline(0, color=GREY, lw=0.8, zorder=0)
        axes.set_title(panel, fontsize=10)
        axes.grid(axis="x", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
    labels = [cut(name, _LONGEST) for name in names]
    grid[0].set_yticks(range(len(names)), labels)
    grid[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel(label, fontsize=10)
    if len(series) > 1 and not known.empty:
        _add_legend(figure, "outside upper center", 4)
    return figure


def draw_curves(frame: pd.DataFrame, label: str) -> Figure:
    """Draws curves with intervals: a panel per `panel`, a colour and marker per `series`, a line style per `way`.

    Args:
        frame: Columns panel, series, way (the first one is solid, others are dashed), x (numbers, or texts in their
            order), estimate, low and high.
        label: What the values are.
    """
    from matplotlib.figure import Figure

    panels = list(frame["panel"].unique())
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    size = 3.5 * columns + 1.2, 3.1 * rows + 0.8
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    series = list(frame["series"].unique())
    solid_way = frame["way"].iloc[0]
    for axes, panel in zip(grid.flat, panels, strict=False):
        own = frame[frame["panel"] == panel]
        _draw_panel(axes, own, series, solid_way)
        title = "\n".join(textwrap.wrap(str(panel), 34))
        axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
        axes.set_ylabel(label)
        axes.grid(axis="y", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    _add_legend(figure, "outside lower center", 2)
    return figure


def _draw_panel(axes: Axes, frame: pd.DataFrame, series: list[str], solid_way: str) -> None:
    x = frame["x"]
    gap = 0.004
    if x.map(lambda value: isinstance(value, str)).all():
        texts = list(x.unique())
        x = in_order(x, texts)
        gap = 0.012
        ticks = range(len(texts))
        axes.set_xticks(ticks, texts, rotation=40, ha="right", rotation_mode="anchor")
    # Side by side, so that equal values can be distinguished.
    span = float(np.ptp(x))
    step = gap * max(span, 0.1)
    for (name, way), curve in groups(frame, ["series", "way"]).items():
        i = series.index(name)
        is_solid = way == solid_way
        position = 2 * i + (not is_solid) - len(series) + 0.5
        color, marker = series_look(i)
        label = ", ".join(filter(None, (name, way)))
        shifted = x[curve.index] + position * step
        lines = axes.errorbar(
            shifted,
            curve["estimate"],
            yerr=_spread(curve),
            color=color,
            marker=marker,
            ms=4.8,
            lw=1.2,
            elinewidth=0.9,
            label=label,
        )
        if not is_solid:
            lines[0].set_markerfacecolor(PAPER)
            lines[0].set_linestyle((0, (4, 2)))


def _spread(frame: pd.DataFrame) -> NDArray[np.float64]:
    """Returns the distances of the ends from the estimates, shape (2, rows); 0 where there is no interval."""
    ends = frame[["low", "high"]].sub(frame["estimate"], axis=0)
    return ends.abs().fillna(0).to_numpy(np.float64).T


def _add_legend(figure: Figure, place: str, columns: int) -> None:
    """Adds one entry for each name in any of the axes, in at most so many columns."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        lines, names = axes.get_legend_handles_labels()
        handles |= dict(zip(names, lines, strict=True))
    columns = min(columns, len(handles))
    figure.legend(handles.values(), handles.keys(), loc=place, ncols=columns)
