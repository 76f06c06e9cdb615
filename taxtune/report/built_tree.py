"""The figure of a tree made from a graph: its levels along longest and along shortest paths, and parents a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from taxtune.report.drawing import CYCLE, FAINT, MARKER_CYCLE, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.taxonomy.building import BuiltTree

__all__ = ["draw_built_tree", "shortest_levels"]


def shortest_levels(built: BuiltTree) -> list[int]:
    """Returns how many of a tree's nodes are at each number of edges from the root along shortest paths of the graph.

    The edges are those of the tree and of its nodes' further parents.
    """
    from taxtune.taxonomy.building import EdgeFate
    from taxtune.taxonomy.building.arcs import Follows

    usable = np.isin(built.edge_fate, (EdgeFate.KEPT, EdgeFate.EXTRA_PARENT))
    follows = Follows.of(built.parent, built.child, len(built.ids), usable)
    seen = np.ones(len(built.ids), dtype=bool)
    seen[built.order] = False
    front = np.array([built.root], dtype=np.int64)
    levels = []
    while len(front):
        seen[front] = True
        levels.append(len(front))
        found = follows.target[follows.after(front)]
        front = np.unique(found[~seen[found]])
    return levels


def draw_built_tree(built: BuiltTree) -> Figure:
    """Draws nodes by level, along longest paths (the tree) and shortest ones, and how many parents nodes have."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    figure = Figure(figsize=(8.4, 3.1))
    left, right = figure.subplots(1, 2, width_ratios=[1.7, 1])
    longest = np.bincount(built.parents.depth[built.order]).tolist()
    for i, (levels, name) in enumerate(
        ((longest, "longest path (the tree)"), (shortest_levels(built), "shortest path"))
    ):
        left.plot(
            range(len(levels)), levels, color=CYCLE[i], marker=MARKER_CYCLE[i], ms=4.5, lw=1.4, mec=PAPER, mew=0.6,
            ls=("-", "--")[i], label=name,
        )  # fmt: skip
    left.set_title("nodes by level", loc="left", fontsize=9.5, fontweight="bold")
    left.set_xlabel("edges from the root")
    left.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    left.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    left.legend(loc="upper right")

    parents = np.bincount(built.graph.edges.child, minlength=len(built.graph))
    counts = np.bincount(parents)
    places = np.flatnonzero(counts)
    right.bar(places, counts[places], color=CYCLE[2], width=0.7)
    right.set_yscale("log")
    right.set_ylim(0.7, 4 * counts.max())
    for place in places.tolist() if len(places) <= 8 else ():
        right.annotate(
            f"{counts[place]:,}",
            (place, counts[place]),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    if len(places) <= 8:
        right.set_xticks(places)
    right.set_title("nodes by number of parents", loc="left", fontsize=9.5, fontweight="bold")
    right.set_xlabel("parents")
    for axes in (left, right):
        axes.grid(axis="y", color=FAINT, lw=0.6)
        axes.set_axisbelow(True)
        axes.set_ylabel("nodes")
    figure.subplots_adjust(wspace=0.28)
    return figure
