"""The figures of several studies, each drawn from a frame: estimates with intervals in rows, and curves."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE, PAPER
from taxtune.report.output import cut
from taxtune.studies.output import draw_intervals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["draw_curves", "draw_dots"]

_COLUMNS = 3  # of panels with curves
_LONGEST = 40


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
            heights = [names.index(name) + (i - (len(series) - 1) / 2) * 0.8 / len(series) for name in some["name"]]
            ends = [Interval(*cells) for cells in some[["estimate", "low", "high"]].itertuples(index=False)]
            look = {"fmt": MARKER_CYCLE[i % len(MARKER_CYCLE)], "color": CYCLE[i % len(CYCLE)], "ms": 5.5}
            draw_intervals(axes, heights, ends, scale=scale, elinewidth=1.3, label=cut(one, _LONGEST), **look)
        if zero:
            axes.axvline(0, color=GREY, lw=0.8, zorder=0)
        axes.set_title(panel, fontsize=10)
        axes.grid(axis="x", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
    grid[0].set_yticks(range(len(names)), [cut(name, _LONGEST) for name in names])
    grid[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel(label, fontsize=10)
    handles = {name: line for axes in grid for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    if len(series) > 1 and handles:
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(4, len(handles)))
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
        texts = list(some["x"].unique()) if some["x"].map(lambda x: isinstance(x, str)).all() else None
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
            axes.set_xticks(range(len(texts)), texts, rotation=40, ha="right", rotation_mode="anchor")
        axes.set_title("\n".join(textwrap.wrap(str(panel), 34)), loc="left", fontsize=9.5, fontweight="bold")
        axes.set_ylabel(label)
        axes.grid(axis="y", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    handles = {name: line for axes in grid.flat for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2)
    return figure
