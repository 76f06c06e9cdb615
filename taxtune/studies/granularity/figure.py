"""The figures of the granularity study: average precision by level, accuracies, how often captions name labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.statistics import Interval
from taxtune.report.drawing import CYCLE, FAINT, GREY, INK, MARKER_CYCLE
from taxtune.studies.granularity.captions import CaptionCounts
from taxtune.studies.granularity.frequency import Correlation, compared, frequency_gaps
from taxtune.studies.output import draw_intervals
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from taxtune.studies.granularity.study import Granularity

__all__ = ["draw_accuracies", "draw_frequency", "draw_levels"]

# Names are folders or models: what is longer is cut at its beginning, since the end tells them apart.
_LONGEST = 48
# A vector graphic of more points than this is slow to show: they become one picture inside it.
_MANY = 1000


def draw_levels(result: Granularity, taxonomy: Taxonomy) -> Figure:
    """Draws average precision over the level in the tree: leaves, ancestors, and what ancestors gain.

    Args:
        result: The average precisions.
        taxonomy: The tree; its root is level 0.

    Returns:
        Three panels: leaves by their own names, ancestors by theirs, and the gain of ancestors that are scored by the
        leaves below them.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.5), layout="constrained")
    panels = figure.subplots(1, 3)
    _boxes(panels[0], 100 * result.raw, result.leaves, taxonomy, CYCLE[0], "Leaves")
    _boxes(panels[1], 100 * result.raw, result.ancestors, taxonomy, CYCLE[1], "Ancestors, own name")
    _boxes(
        panels[2], 100 * (result.leaf - result.raw), result.ancestors, taxonomy, CYCLE[2], "Ancestors, gain by leaves"
    )
    for panel in panels[:2]:
        panel.set_ylim(-3, 103)
        panel.set_ylabel("average precision (%)")
    panels[2].axhline(0, color=GREY, linewidth=0.8, zorder=0)
    panels[2].set_ylabel("gain in average precision (points)")
    return figure


def _boxes(
    axes: Axes, values: NDArray[np.float64], wanted: NDArray[np.bool_], taxonomy: Taxonomy, colour: str, title: str
) -> None:
    axes.set_title(title, loc="left", fontsize=10)
    levels = sorted(set(taxonomy.depth[wanted].tolist()))
    if not levels:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", color=GREY)
        axes.set_xticks([])
        return
    groups = [values[wanted & (taxonomy.depth == level)] for level in levels]
    line = {"color": INK, "linewidth": 0.9}  # copied for each part: matplotlib adds to what it is given
    boxes = axes.boxplot(
        groups,
        positions=levels,
        widths=0.62,
        patch_artist=True,
        medianprops={"color": INK, "linewidth": 1.6},
        whiskerprops=dict(line),
        capprops=dict(line),
        boxprops=dict(line),
        flierprops={"marker": "o", "markersize": 2.5, "markerfacecolor": "none", "markeredgecolor": GREY},
    )
    for box in boxes["boxes"]:
        box.set_facecolor(colour)
        box.set_alpha(0.75)
    # Of a deep tree the numbers of labels would run into each other; the table of levels has them.
    if len(levels) <= 10:
        axes.set_xticks(levels, [f"{level}\n({len(group)})" for level, group in zip(levels, groups, strict=True)])
        axes.set_xlabel("level in the tree (labels)")
    else:
        axes.set_xticks(levels, [str(level) for level in levels])
        axes.set_xlabel("level in the tree")
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlim(levels[0] - 0.7, levels[-1] + 0.7)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)


def draw_accuracies(
    names: Sequence[str], series: Mapping[str, Sequence[Interval]], *, marks: Mapping[str, float] | None = None
) -> Figure:
    """Draws a dot with its interval for each row and series, in %.

    Args:
        names: What the rows are called, at least one.
        series: By name, an accuracy in 0..1 for each row; NaN is not drawn.
        marks: Accuracies in 0..1 to compare with, by name, drawn as lines from top to bottom.

    Returns:
        The figure.
    """
    from matplotlib.figure import Figure

    rows = np.arange(len(names))
    several = len(series) > 1
    step = 0.16
    figure = Figure(figsize=(7.4, (0.28 + (0.3 if several else 0.12) * len(series)) * len(names) + 1.3))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    for i, (shown, intervals) in enumerate(series.items()):
        draw_intervals(
            axes,
            rows + step * (i - (len(series) - 1) / 2),
            intervals,
            scale=100,
            fmt=MARKER_CYCLE[i % len(MARKER_CYCLE)],
            color=CYCLE[i % len(CYCLE)],
            markersize=5.5,
            linewidth=1.5,
            label=shown,
        )
    for style, (shown, value) in zip((":", "--", "-."), (marks or {}).items(), strict=False):
        axes.axvline(100 * value, color=GREY, linewidth=1, linestyle=style, label=shown)
    axes.set_yticks(rows, [name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :] for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("top-1 accuracy, %")
    axes.set_xlim(left=-2)  # a marker at 0 is not cut
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    if several or marks:
        figure.legend(loc="outside upper center", ncols=min(4, len(series) + len(marks or {})))
    return figure


def draw_frequency(
    counts: CaptionCounts, graph: LabelGraph, result: Granularity | None, correlation: Correlation | None
) -> Figure:
    """Draws the count of every label over its level, and the gain by leaves over the frequency gap.

    Args:
        counts: Captions that name each node.
        graph: The labels; the root is level 0.
        result: Average precisions, or None: only the left panel is drawn.
        correlation: The correlation over the ancestors of `result`.
    """
    from matplotlib.figure import Figure

    if result is None or correlation is None:
        figure = Figure(figsize=(5.6, 3.8), layout="constrained")
        _draw_levels(figure.subplots(), counts, graph)
        return figure
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_levels(left, counts, graph)
    _draw_gains(right, counts, graph, result, correlation)
    return figure


def _draw_levels(axes: Axes, counts: CaptionCounts, graph: LabelGraph) -> None:
    taxonomy, is_leaf = graph.tree, graph.is_leaf
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
    axes: Axes, counts: CaptionCounts, graph: LabelGraph, result: Granularity, correlation: Correlation
) -> None:
    chosen = compared(result)
    gaps = frequency_gaps(graph, counts.counts)[chosen]
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
