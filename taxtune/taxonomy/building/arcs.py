"""Walking graphs that are arrays: who follows whom, what is reached, and how far from the root a node lies at most.

An arc runs from a parent to its child, the way a tree is read.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.taxonomy.building.edges import IntArray

__all__ = ["Follows", "components", "draws", "longest_depths", "reached", "reached_each", "reached_together"]

BoolArray = NDArray[np.bool_]

_BITS = 512  # starts in a batch
_ROWS = 1 << 15  # nodes whose bits are counted at once


@dataclass(frozen=True, slots=True)
class Follows:
    """The arcs of a graph, sorted by where they start.

    Attributes:
        start: `start[v]:start[v + 1]` are the positions of the arcs out of node v.
        target: Where each arc ends.
        arc: Which arc it is, by its position in the arrays that it was made from.
    """

    start: IntArray
    target: IntArray
    arc: IntArray

    @classmethod
    def of(cls, source: IntArray, target: IntArray, nodes: int, keep: BoolArray | None = None) -> Follows:
        """Sorts arcs.

        Args:
            source: Where each arc starts.
            target: Where it ends.
            nodes: How many nodes there are.
            keep: Which arcs to take; all by default.
        """
        arc = np.arange(len(source)) if keep is None else np.flatnonzero(keep)
        arc = arc[np.argsort(source[arc], kind="stable")]
        start = np.zeros(nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(source[arc], minlength=nodes), out=start[1:])
        return cls(start, target[arc], arc)

    def after(self, nodes: IntArray) -> IntArray:
        """Returns the positions of all arcs out of some nodes, one node after the other."""
        first = self.start[nodes]
        count = self.start[nodes + 1] - first
        total = int(count.sum())
        return np.repeat(first - (np.cumsum(count) - count), count) + np.arange(total)


def reached(follows: Follows, start: IntArray) -> BoolArray:
    """Returns which nodes can be reached from some nodes, those included."""
    seen = np.zeros(len(follows.start) - 1, dtype=bool)
    seen[start] = True
    front = np.unique(start)
    while len(front):
        found = follows.target[follows.after(front)]
        front = np.unique(found[~seen[found]])
        seen[front] = True
    return seen


def reached_each(follows: Follows, starts: Iterable[int], limit: int) -> list[int]:
    """Returns how many nodes can be reached from each of some nodes, itself included, each on its own.

    The time it takes grows with what is reached and not with the graph.

    Args:
        follows: The arcs.
        starts: The nodes.
        limit: A node that reaches more than so many is given up: its number is -1.
    """
    stamp = np.full(len(follows.start) - 1, -1, dtype=np.int64)
    counts = []
    for number, start in enumerate(starts):
        stamp[start] = number
        front = np.array([start], dtype=np.int64)
        count = 1
        while len(front) and count <= limit:
            found = follows.target[follows.after(front)]
            front = np.unique(found[stamp[found] != number])
            stamp[front] = number
            count += len(front)
        counts.append(count if count <= limit else -1)
    return counts


def reached_together(source: IntArray, target: IntArray, weight: IntArray, starts: IntArray) -> list[int]:
    """Returns how much can be reached from each of some nodes of a graph without cycles, for many nodes at a time.

    The time it takes grows with the graph, and hardly with what is reached: a bit a start goes down the arcs.

    Args:
        source: Where each arc starts.
        target: Where it ends.
        weight: What each node counts.
        starts: The nodes.
    """
    follows = Follows.of(source, target, len(weight))
    tops = np.flatnonzero(np.bincount(target, minlength=len(weight)) == 0)
    depth = longest_depths(follows, tops)
    order = np.lexsort((target, depth[target]))
    above, below = source[order], target[order]
    first = np.flatnonzero(np.diff(below, prepend=-1))  # an arc's node is complete before an arc leaves it
    levels = np.flatnonzero(np.diff(depth[below[first]], prepend=0)).tolist()
    ends = np.r_[first, len(below)]
    counts: list[int] = []
    for low in range(0, len(starts), _BITS):
        batch = starts[low : low + _BITS]
        bits = np.zeros((len(weight), -(-len(batch) // 64)), dtype=np.uint64)
        places = np.arange(len(batch))
        bits[batch, places // 64] |= np.uint64(1) << (places % 64).astype(np.uint64)
        for begin, end in itertools.pairwise([*levels, len(first)]):
            arcs = slice(int(ends[begin]), int(ends[end]))
            bits[below[first[begin:end]]] |= np.bitwise_or.reduceat(
                bits[above[arcs]], first[begin:end] - arcs.start, axis=0
            )
        total = np.zeros(64 * bits.shape[1])
        for rows in range(0, len(weight), _ROWS):
            octets = bits[rows : rows + _ROWS].view(np.uint8)
            total += weight[rows : rows + _ROWS] @ np.unpackbits(octets, axis=1, bitorder="little").astype(np.float64)
        counts += total[: len(batch)].astype(np.int64).tolist()
    return counts


def components(source: IntArray, target: IntArray, nodes: int) -> IntArray:
    """Returns the number of the strongly connected component of each node."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    matrix = csr_array((np.ones(len(source), dtype=np.int8), (source, target)), shape=(nodes, nodes))
    _, label = connected_components(matrix, directed=True, connection="strong")
    return np.asarray(label, dtype=np.int64)


def longest_depths(follows: Follows, roots: IntArray) -> IntArray:
    """Returns the number of arcs of the longest path from a root to each node of a graph without cycles.

    Args:
        follows: The arcs; every node that has one must be reached from a root.
        roots: The roots, none of which is reached from another.

    Returns:
        The depths; -1 for nodes that no root reaches.
    """
    depth = np.full(len(follows.start) - 1, -1, dtype=np.int64)
    waiting = np.bincount(follows.target, minlength=len(depth))
    depth[roots] = 0
    front = roots
    level = 0
    while len(front):
        # A node is due once the last of its parents is: its depth is one more than the deepest parent's.
        found, times = np.unique(follows.target[follows.after(front)], return_counts=True)
        waiting[found] -= times
        front = found[waiting[found] == 0]
        level += 1
        depth[front] = level
    return depth


def draws(seed: int, what: str, keys: Iterable[str]) -> NDArray[np.float64]:
    """Returns a number in [0, 1) for each key, as good as random, that depends on the seed and the key alone.

    A node's lot is thus the same whatever else the graph holds, and in whatever order it was read.

    Args:
        seed: The seed.
        what: What is drawn; different things are drawn independently.
        keys: Ids.
    """
    secret = hashlib.blake2b(f"{seed}\0{what}".encode(), digest_size=32).digest()
    blake2b, big = hashlib.blake2b, int.from_bytes
    numbers = [big(blake2b(key.encode(), digest_size=8, key=secret).digest(), "big") >> 11 for key in keys]
    return np.array(numbers, dtype=np.float64) * 2.0**-53
