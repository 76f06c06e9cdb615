"""The figures of the mapping study: hF of every mapper, and how often two of them agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import CYCLE, FAINT, INK, PAPER, padded
from taxtune.studies.mapping.scorers import ALGORITHM, ALONE, DEFAULT
from taxtune.studies.output import draw_intervals

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["draw_agreement", "draw_scores"]

# How each way is drawn: marker, colour, fill, offset from its line, and what the legend says.
_LOOKS = {
    ALONE: ("o", CYCLE[1], PAPER, 0.12, "alone"),
    ALGORITHM: ("s", CYCLE[0], CYCLE[0], -0.12, "with Algorithm 1"),
    DEFAULT: ("D", CYCLE[2], CYCLE[2], 0.0, "default mapper"),
}


def draw_scores(scores: pd.DataFrame, confidence: float) -> Figure:
    """Draws one line per measure, with hF and accuracy alone, with Algorithm 1, and of the default mapper.

    Args:
        scores: A row per mapper and metric: base, way, metric, estimate, low, high.
        confidence: Coverage of the intervals.
    """
    from matplotlib.figure import Figure

    lines = list(scores["base"].unique())
    figure = Figure(figsize=(8.6, 1.5 + 0.42 * len(lines)))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, metric, title in zip(panels, ("hf", "accuracy"), ("hF", "accuracy (exact node)"), strict=True):
        shown = scores[scores["metric"] == metric]
        for way, (marker, colour, fill, offset, label) in _LOOKS.items():
            some = shown[shown["way"] == way]
            draw_intervals(
                axes,
                [len(lines) - 1 - lines.index(base) + offset for base in some["base"]],
                [Interval(*row) for row in some[["estimate", "low", "high"]].itertuples(index=False)],
                fmt=marker,
                ms=6.5,
                color=colour,
                mfc=fill,
                mew=1.4,
                elinewidth=1.2,
                capsize=2.5,
                label=label,
                zorder=3,
            )
        axes.set_xlim(*padded(shown[["low", "high"]].to_numpy().ravel().tolist() or [0.0, 1.0]))
        axes.set_xlabel(f"{title}, {100 * confidence:.0f} % interval")
        axes.grid(axis="x", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(range(len(lines)), lines[::-1])
    panels[0].set_ylim(-0.6, len(lines) - 0.4)
    height = figure.get_size_inches()[1]
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0 - 0.35 / height), ncols=3)
    figure.subplots_adjust(wspace=0.08, top=1.0 - 0.4 / height)
    return figure


def draw_agreement(agreement: pd.DataFrame) -> Figure:
    """Draws the agreement of mappers, in [0, 1] or NaN, as a heat map with the share in each cell."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    n, names = len(agreement), [*map(str, agreement)]
    side = 1.9 + 0.46 * n
    figure = Figure(figsize=(side + 1.0, side))
    axes = figure.add_subplot()
    # From white to one dark blue: as readable in grey.
    colours = LinearSegmentedColormap.from_list("share", [PAPER, "#9ecae1", CYCLE[0], "#08306b"])
    image = axes.imshow(agreement.to_numpy(), cmap=colours.with_extremes(bad=FAINT), vmin=0, vmax=1)
    for i, row in enumerate(agreement.itertuples(index=False)):
        for j, value in enumerate(row):
            text = "–" if value != value else "1" if value >= 0.995 else f"{value:.2f}".removeprefix("0")
            axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color=PAPER if value > 0.55 else INK)
    axes.set_xticks(range(n), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), names)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.set_label("share of answers placed on the same node")
    bar.outline.set_visible(False)
    return figure
