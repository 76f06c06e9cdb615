"""Average precision by level of the tree, as box plots (paper 3, Figure 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.report.drawing import CYCLE, FAINT, GREY, INK
from taxtune.studies.granularity.study import Granularity
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_levels"]


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
