"""The figures of the encoder study: scores by level, a line an encoder."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from taxtune.report.drawing import CYCLE, FAINT, MARKER_CYCLE, PAPER, padded
from taxtune.studies.encoder.placement import NEAREST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from taxtune.studies.encoder.study import LevelScores

__all__ = ["draw_language", "draw_levels"]

_COLUMNS = 3


def draw_levels(found: Sequence[LevelScores], order: Sequence[str]) -> Figure:
    """Draws hF by level, a panel a kind of text; the mapper's lines are dashed.

    Args:
        found: The scores.
        order: The levels from the root down.
    """
    kinds = list(dict.fromkeys(scores.kind for scores in found))
    panels = {kind: [s for s in found if s.kind == kind and s.level in order] for kind in kinds}
    return _draw(panels, order, "hf", "hF", solid=NEAREST)


def draw_language(found: Sequence[LevelScores], order: Sequence[str]) -> Figure:
    """Draws the accuracy of the language-only form by level; labels as leaf names are dashed.

    Args:
        found: The scores.
        order: The levels from the root down.
    """
    panels = {"a leaf's name to its ancestor": list(found)}
    figure = _draw(panels, order, "accuracy", "accuracy", solid=found[0].way)
    axes = figure.axes[0]
    largest = {s.level: s.largest for s in found if s.way == found[0].way and s.largest is not None}
    levels = [level for level in order if level in largest]
    shares = [largest[level] for level in levels]
    axes.plot(range(len(levels)), shares, ls=":", lw=1.4, color=CYCLE[7], label="always the most frequent class")
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0)
    return figure


def _draw(panels: dict[str, list[LevelScores]], order: Sequence[str], metric: str, shown: str, *, solid: str) -> Figure:
    from matplotlib.figure import Figure

    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(3.5 * columns + 0.4, 3.1 * rows + 0.4))
    grid = figure.subplots(rows, columns, squeeze=False)
    flat = [axes for line in grid for axes in line]
    for axes, (kind, scores) in zip(flat, panels.items(), strict=False):
        _panel(axes, scores, order, metric, solid)
        axes.set_title("\n".join(textwrap.wrap(kind, 34)), loc="left", fontsize=9.5, fontweight="bold")
        values = [value for one in scores for i in one.scores.values() for value in (i[metric].low, i[metric].high)]
        # The panels' scales differ: on one scale for all, most of them would be a flat line.
        low, high = padded(values or [0.0, 1.0])
        axes.set_ylim(low, high + 0.03 * (high - low))
    for axes in flat[len(panels) :]:
        axes.set_axis_off()
    for line in grid:
        line[0].set_ylabel(shown)
    figure.subplots_adjust(hspace=0.66, wspace=0.24)
    if len(panels) > 1:
        handles, labels = flat[0].get_legend_handles_labels()
        if len(panels) < len(flat):
            flat[len(panels)].legend(handles, labels, loc="upper left")
        else:
            figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)
    return figure


def _panel(axes: Axes, scores: Sequence[LevelScores], order: Sequence[str], metric: str, solid: str) -> None:
    levels = [level for level in order if any(s.level == level for s in scores)]
    encoders = list(dict.fromkeys(name for s in scores for name in s.scores))
    ways = list(dict.fromkeys(s.way for s in scores))
    for i, encoder in enumerate(encoders):
        for way in ways:
            mine = {s.level: s.scores[encoder][metric] for s in scores if s.way == way}
            at = [k for k, level in enumerate(levels) if level in mine]
            values = [mine[levels[k]] for k in at]
            # Side by side, so that bars of equal scores can be distinguished.
            shift = (2 * i + (way != solid) - len(encoders) + 0.5) * 0.09
            axes.errorbar(
                [k + shift for k in at],
                [v.estimate for v in values],
                yerr=[[max(0.0, v.estimate - v.low) for v in values], [max(0.0, v.high - v.estimate) for v in values]],
                color=CYCLE[i % len(CYCLE)],
                marker=MARKER_CYCLE[i % len(MARKER_CYCLE)],
                mfc=CYCLE[i % len(CYCLE)] if way == solid else PAPER,
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
