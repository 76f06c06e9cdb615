"""One parent a node: along the longest path from the root, ties at random (paper 1, §4.1).

Where several longest paths lead to a node, each of these *paths* is equally likely to become the one in the tree. A
parent is therefore drawn with a weight of the number of longest paths that lead to it; equal weights for tied parents
would favour the paths through a parent that has few. Counts grow without bound, so each is kept as a mantissa and an
exponent: exact up to 2⁵³, and with 53 significant bits beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.taxonomy.building.arcs import BoolArray, Follows, draws, longest_depths
from taxtune.taxonomy.building.edges import IntArray

__all__ = ["Parents", "choose_parents"]


@dataclass(frozen=True, slots=True)
class Parents:
    """The parent that each node keeps.

    Attributes:
        depth: Arcs on the longest path from the root; -1 for nodes that the root does not reach.
        arc: The arc from the parent that is kept; -1 for the root and for nodes that it does not reach.
        tied: How many parents offered a longest path.
    """

    depth: IntArray
    arc: IntArray
    tied: IntArray


def choose_parents(
    source: IntArray, target: IntArray, keep: BoolArray, root: int, ids: Sequence[str], seed: int
) -> Parents:
    """Chooses one parent for each node of a graph without cycles.

    Args:
        source: The parent of each arc.
        target: Its child.
        keep: Which arcs there are; every node that has one must be reached from the root.
        root: The root.
        ids: The ids of the nodes, which the lots are drawn by.
        seed: The seed of the lots.
    """
    nodes = len(ids)
    follows = Follows.of(source, target, nodes, keep)
    depth = longest_depths(follows, np.array([root], dtype=np.int64))
    longest = np.flatnonzero(keep)
    longest = longest[depth[source[longest]] + 1 == depth[target[longest]]]
    # By depth, then node, then the parent's id: one stretch a level, and within it one a node.
    longest = longest[np.lexsort((source[longest], target[longest], depth[target[longest]]))]
    child, parent = target[longest], source[longest]
    first = np.flatnonzero(np.r_[True, child[1:] != child[:-1]]) if len(child) else np.zeros(0, dtype=np.int64)
    heads = child[first]

    tied = np.zeros(nodes, dtype=np.int64)
    tied[heads] = np.diff(np.r_[first, len(child)])
    lot = np.zeros(nodes, dtype=np.float64)
    contested = np.flatnonzero(tied > 1)
    lot[contested] = draws(seed, "parent", (ids[node] for node in contested.tolist()))

    arc = np.full(nodes, -1, dtype=np.int64)
    mantissa, exponent = np.zeros(nodes), np.zeros(nodes, dtype=np.int64)
    mantissa[root], exponent[root] = 0.5, 1  # one path: 0.5 · 2¹
    levels = np.flatnonzero(np.r_[True, np.diff(depth[heads]) > 0, True]) if len(heads) else np.zeros(1, dtype=np.int64)
    ends = np.r_[first, len(child)]
    for low, high in zip(levels[:-1].tolist(), levels[1:].tolist(), strict=True):
        starts = ends[low:high]
        stretch = slice(int(ends[low]), int(ends[high]))
        _draw_level(parent[stretch], starts - stretch.start, heads[low:high], mantissa, exponent, lot, arc)
    chosen = arc[heads]
    arc[heads] = longest[first + chosen]
    return Parents(depth, arc, tied)


def _draw_level(
    parent: IntArray,
    start: IntArray,
    node: IntArray,
    mantissa: NDArray[np.float64],
    exponent: IntArray,
    lot: NDArray[np.float64],
    chosen: IntArray,
) -> None:
    """Counts the longest paths to the nodes of one level and draws a parent for each; writes into the last arrays."""
    size = np.diff(np.r_[start, len(parent)])
    top = np.maximum.reduceat(exponent[parent], start)
    weight = np.ldexp(mantissa[parent], (exponent[parent] - np.repeat(top, size)).clip(min=-1100).astype(np.int32))
    total = np.add.reduceat(weight, start)
    mantissa[node], shift = np.frexp(total)
    exponent[node] = top + shift
    # The parent at which the running sum passes the lot's share of the total. The sum over the whole level may have
    # lost small weights beside large ones, so it runs within each node.
    single = size == 1
    chosen[node[single]] = 0
    for i in np.flatnonzero(~single).tolist():
        weights = weight[start[i] : start[i] + size[i]]
        passed = np.searchsorted(np.cumsum(weights), lot[node[i]] * total[i], side="right")
        chosen[node[i]] = min(int(passed), int(size[i]) - 1)
