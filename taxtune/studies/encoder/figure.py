"""The figures of the encoder study: scores by level, one line per encoder and way of placing."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.report.drawing import CYCLE, FAINT, MARKER_CYCLE, PAPER, padded

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_language", "draw_levels"]

_COLUMNS = 3


def draw_levels(scores: pd.DataFrame, order: Sequence[str], solid: str) -> Figure:
    """Draws hF by level, one panel per kind of text.

    Args:
        scores: A row per kind, way, level, encoder and metric: estimate, low, high.
        order: The levels from the root down.
        solid: The way of placing whose lines are solid; others are dashed.
    """
    return _draw(scores[(scores["metric"] == "hf") & scores["level"].isin(order)], order, "hF", solid)


def draw_language(scores: pd.DataFrame, order: Sequence[str]) -> Figure:
    """Draws the accuracy of the language-only form by level; labels as leaf names are dashed."""
    shown = scores[scores["metric"] == "accuracy"].assign(kind="a leaf's name to its ancestor")
    solid = shown["way"].iloc[0]
    figure = _draw(shown, order, "accuracy", solid)
    axes = figure.axes[0]
    largest = shown[shown["way"] == solid].groupby("level")["largest"].first()
    shares = largest.reindex([level for level in order if level in largest])
    axes.plot(range(len(shares)), shares, ls=":", lw=1.4, color=CYCLE[7], label="always the most frequent class")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0)
    return figure


def _draw(scores: pd.DataFrame, order: Sequence[str], shown: str, solid: str) -> Figure:
    from matplotlib.figure import Figure

    panels = list(scores.groupby("kind", sort=False))
    columns = min(_COLUMNS, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    figure = Figure(figsize=(3.5 * columns + 0.4, 3.1 * rows + 0.4))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, (kind, some) in zip(grid.flat, panels, strict=False):
        _panel(axes, some, order, solid)
        axes.set_title("\n".join(textwrap.wrap(str(kind), 34)), loc="left", fontsize=9.5, fontweight="bold")
        # The panels' scales differ: on one scale for all, most of them would be a flat line.
        low, high = padded(some[["low", "high"]].to_numpy().ravel().tolist())
        axes.set_ylim(low, high + 0.03 * (high - low))
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel(shown)
    figure.subplots_adjust(hspace=0.66, wspace=0.24)
    if len(panels) > 1:
        handles, labels = grid.flat[0].get_legend_handles_labels()
        if len(panels) < grid.size:
            grid.flat[len(panels)].legend(handles, labels, loc="upper left")
        else:
            figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)
    return figure


def _panel(axes: Axes, scores: pd.DataFrame, order: Sequence[str], solid: str) -> None:
    levels = [level for level in order if (scores["level"] == level).any()]
    encoders = list(scores["encoder"].unique())
    for (encoder, way), some in scores.groupby(["encoder", "way"], sort=False):
        i = encoders.index(encoder)
        colour = CYCLE[i % len(CYCLE)]
        # Side by side, so that bars of equal scores can be distinguished.
        shift = (2 * i + (way != solid) - len(encoders) + 0.5) * 0.09
        values = some["estimate"].to_numpy()
        axes.errorbar(
            [levels.index(level) + shift for level in some["level"]],
            values,
            yerr=np.maximum(0.0, [values - some["low"].to_numpy(), some["high"].to_numpy() - values]),
            color=colour,
            marker=MARKER_CYCLE[i % len(MARKER_CYCLE)],
            mfc=colour if way == solid else PAPER,
            ms=4.8,
            ls="-" if way == solid else (0, (4, 2)),
            lw=1.2,
            elinewidth=0.9,
            capsize=1.8,
            label=f"{encoder}, {way}",
        )
    axes.set_xticks(range(len(levels)), levels, rotation=40, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.5, len(levels) - 0.5)
    axes.grid(axis="y", color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
