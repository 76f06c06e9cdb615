"""How often captions name labels, by level, and what that has to do with the gain by leaves (paper 3, Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from taxtune.report.drawing import CYCLE, FAINT, GREY, INK
from taxtune.studies.granularity.caption_counts import CaptionCounts
from taxtune.studies.granularity.frequency import Correlation, compared, frequency_gaps
from taxtune.studies.granularity.study import Granularity
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_frequency"]

# A vector graphic of more points than this is slow to show: they become one picture inside it.
_MANY = 1000


def draw_frequency(
    counts: CaptionCounts, taxonomy: Taxonomy, result: Granularity | None, correlation: Correlation | None
) -> Figure:
    """Draws the count of every label over its level, and the gain by leaves over the frequency gap.

    Args:
        counts: Captions that name each node.
        taxonomy: The tree; its root is level 0.
        result: Average precisions, or None: only the left panel is drawn.
        correlation: The correlation over the ancestors of `result`.
    """
    from matplotlib.figure import Figure

    if result is None or correlation is None:
        figure = Figure(figsize=(5.6, 3.8), layout="constrained")
        _draw_levels(figure.subplots(), counts, taxonomy)
        return figure
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_levels(left, counts, taxonomy)
    _draw_gains(right, counts, taxonomy, result, correlation)
    return figure


def _draw_levels(axes: Axes, counts: CaptionCounts, taxonomy: Taxonomy) -> None:
    is_leaf = np.zeros(len(taxonomy), dtype=bool)
    is_leaf[taxonomy.leaves] = True
    # Points of one count would hide each other; the same tree is spread the same way each time.
    spread = np.random.default_rng(0).uniform(-0.26, 0.26, len(taxonomy))
    many = len(taxonomy) > _MANY
    for chosen, colour, marker, name in ((is_leaf, CYCLE[0], "o", "leaves"), (~is_leaf, CYCLE[1], "^", "ancestors")):
        axes.scatter(
            taxonomy.depth[chosen] + spread[chosen],
            counts.counts[chosen],
            s=8 if many else 14,
            c=colour,
            marker=marker,
            alpha=0.45 if many else 0.65,
            linewidths=0,
            rasterized=many,
            label=name,
        )
    for level in range(taxonomy.height + 1):
        median = float(np.median(counts.counts[taxonomy.depth == level]))
        axes.hlines(
            median,
            level - 0.36,
            level + 0.36,
            color=INK,
            linewidth=1.8,
            zorder=3 if many else 0.9,  # few points are not to be hidden, a line among many is
            label="median" if level == 0 else "",
        )
    axes.set_yscale("symlog", linthresh=1, linscale=0.45)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(-0.25, max(2.0, 2 * float(counts.counts.max())))
    axes.set_xticks(range(taxonomy.height + 1))
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("level in the tree")
    axes.set_ylabel("captions that name the label")
    axes.set_title(f"Labels in {counts.captions:,} captions", loc="left", fontsize=10)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    # Above the panel, where no label can be.
    legend = axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=3,
        fontsize=8,
        markerscale=1.6,
        handlelength=1.4,
        columnspacing=1.2,
        borderaxespad=0.2,
    )
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)


def _draw_gains(
    axes: Axes, counts: CaptionCounts, taxonomy: Taxonomy, result: Granularity, correlation: Correlation
) -> None:
    chosen = compared(result)
    gaps = frequency_gaps(taxonomy, counts.counts)[chosen]
    gains = 100 * (result.leaf - result.raw)[chosen]
    axes.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    axes.axvline(0, color=GREY, linewidth=0.8, zorder=0)
    axes.scatter(gaps, gains, s=16, c=CYCLE[2], alpha=0.65, linewidths=0, rasterized=len(gaps) > _MANY)
    axes.set_xlabel("frequency gap, leaves over ancestor (log10)")
    axes.set_ylabel("gain by leaves (points of average precision)")
    axes.set_title(f"{correlation.ancestors:,} ancestors: {_said(correlation)}", loc="left", fontsize=10)
    axes.grid(color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)


def _said(correlation: Correlation) -> str:
    if correlation.undefined is not None:
        return "no correlation"
    return (
        f"r = {correlation.pearson:.2f} (p = {correlation.pearson_p:.2g}), "
        f"ρ = {correlation.spearman:.2f} (p = {correlation.spearman_p:.2g})"
    ).replace("= -", "= −")
