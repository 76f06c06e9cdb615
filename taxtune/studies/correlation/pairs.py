"""Pairs of a leaf and another node at a chosen distance on the tree (paper 1, §5).

A leaf is drawn uniformly, then a distance uniformly among those at which that leaf has a node, then a node at that
distance: uniformly among all of them, or first the number of steps up the tree and then a node. The paper does not say
which; on a tree with most of its nodes at the bottom the first draws few ancestors and the second many.

Nothing is listed for all pairs: in the order of a walk through the tree the nodes that lie at one depth below one
ancestor stand side by side, so that two binary searches count them, and the nodes at distance d from a leaf are d + 1
such runs, one for each number of steps up, less the branch that was come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, TaxonomyError
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["DRAWS", "FARTHEST", "PairSampler", "Pairs", "check_range"]

IntArray = NDArray[np.int64]

Draw = Literal["nodes", "steps"]

#: How a node at a distance is drawn: uniformly among the nodes, or the number of steps up uniformly and then a node.
DRAWS: tuple[Draw, ...] = ("nodes", "steps")
#: The farthest distance in edges (paper 1, §5).
FARTHEST = 7


@dataclass(frozen=True, slots=True)
class Pairs:
    """Drawn pairs.

    Attributes:
        leaves: The reference node of each pair, shape (n,).
        nodes: The candidate node of each pair, shape (n,).
        distances: Edges between them, shape (n,).
    """

    leaves: IntArray
    nodes: IntArray
    distances: IntArray


class PairSampler:
    """Draws pairs from a tree.

    Args:
        taxonomy: The tree, of up to some million nodes.
    """

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        n = len(taxonomy)
        # Ancestors stand before their descendants, because -1, which fills up a line, is the least.
        walk = np.lexsort(taxonomy.lineage.T[::-1])
        self._first = np.empty(n, dtype=np.int64)
        self._first[walk] = np.arange(n)
        below = np.zeros(n, dtype=np.int64)
        for column in taxonomy.lineage.T:
            below += np.bincount(column[column >= 0], minlength=n)
        self._last = self._first + below
        keys = taxonomy.depth * (n + 1) + self._first
        self._by_key = np.argsort(keys)
        self._keys = keys[self._by_key]

    def _run(self, ancestors: IntArray, depth: IntArray) -> tuple[IntArray, IntArray]:
        """Returns where the descendants at a depth begin and end among the nodes sorted by depth and walk."""
        base = depth * (len(self.taxonomy) + 1)
        start = np.searchsorted(self._keys, base + self._first[ancestors])
        stop = np.searchsorted(self._keys, base + self._last[ancestors])
        return start.astype(np.int64), stop.astype(np.int64)

    def _branches(self, nodes: IntArray, distance: int) -> tuple[IntArray, IntArray, IntArray]:
        """Returns the runs that hold the nodes at a distance, by steps up.

        Returns:
            Start of each run, its length without the branch that was come from, and the start and length of that
            branch within it: shapes (nodes, distance + 1), (nodes, distance + 1) and (nodes, distance + 1, 2).
        """
        depth = self.taxonomy.depth[nodes]
        shape = (len(nodes), distance + 1)
        starts, counts = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        gaps = np.zeros((*shape, 2), dtype=np.int64)
        for up in range(distance + 1):
            there = np.flatnonzero(depth >= up)
            level = depth[there] + distance - 2 * up
            start, stop = self._run(self.taxonomy.lineage[nodes[there], depth[there] - up], level)
            starts[there, up], counts[there, up] = start, stop - start
            if up:
                start, stop = self._run(self.taxonomy.lineage[nodes[there], depth[there] - up + 1], level)
                counts[there, up] -= stop - start
                gaps[there, up, 0], gaps[there, up, 1] = start, stop - start
        return starts, counts, gaps

    def count(self, nodes: IntArray, distance: int) -> IntArray:
        """Returns how many nodes are `distance` edges away from each of `nodes`, shape (n,)."""
        counted: IntArray = self._branches(nodes, distance)[1].sum(axis=1)
        return counted

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        nearest: int = 1,
        farthest: int = FARTHEST,
        ancestors: bool = False,
        draw: Draw = "nodes",
    ) -> Pairs:
        """Draws pairs with replacement.

        Args:
            n: How many.
            rng: The generator.
            nearest: The least distance; 0 takes a leaf with itself for a pair.
            farthest: The greatest distance. A leaf whose tree ends sooner has fewer distances to draw from.
            ancestors: Whether to draw ancestors of the leaf only, so that hP = 1.
            draw: One of `DRAWS`: how a node is drawn among those at its distance.

        Raises:
            DataError: If the range of distances is empty or there is to be no pair.
            TaxonomyError: If a leaf has no node in the range.
        """
        check_range(n, nearest, farthest)
        leaves = rng.choice(self.taxonomy.leaves, n)
        distances = np.arange(nearest, farthest + 1)
        kinds, kind = np.unique(leaves, return_inverse=True)
        if ancestors:
            there = distances <= self.taxonomy.depth[kinds][:, np.newaxis]
        else:
            there = np.stack([self.count(kinds, d) > 0 for d in distances.tolist()], axis=1)
        lonely = kinds[~there.any(axis=1)]
        if len(lonely):
            raise TaxonomyError(
                f"Of the leaves drawn, {len(lonely):,}, such as {self.taxonomy.labels[lonely[0]]!r}, "
                f"ha{'s' if len(lonely) == 1 else 've'} no {'ancestor' if ancestors else 'node'} at a distance of "
                f"{nearest} to {farthest}.",
                file=self.taxonomy.source,
                remedy="Use a wider range of distances, or a larger tree.",
            )
        choices = there.sum(axis=1)[kind]
        # The j-th distance that there is: the first column where that many have been counted.
        drawn = (np.cumsum(there, axis=1)[kind] > rng.integers(0, choices)[:, np.newaxis]).argmax(axis=1)
        distance = distances[drawn]
        if ancestors:
            nodes = self.taxonomy.lineage[leaves, self.taxonomy.depth[leaves] - distance]
        else:
            nodes = self._nodes(leaves, distance, rng, draw)
        return Pairs(leaves, nodes, distance)

    def _nodes(self, leaves: IntArray, distances: IntArray, rng: np.random.Generator, draw: Draw) -> IntArray:
        """Draws a node at the given distance from each leaf."""
        nodes = np.empty(len(leaves), dtype=np.int64)
        for distance in np.unique(distances).tolist():
            rows = np.flatnonzero(distances == distance)
            starts, counts, gaps = self._branches(leaves[rows], distance)
            row = np.arange(len(rows))
            if draw == "nodes":
                ends = counts.cumsum(axis=1)
                picked = rng.integers(0, ends[:, -1])
                up = (ends > picked[:, np.newaxis]).argmax(axis=1)
                picked -= (ends - counts)[row, up]
            else:
                ways = (counts > 0).cumsum(axis=1)
                up = (ways > rng.integers(0, ways[:, -1])[:, np.newaxis]).argmax(axis=1)
                picked = rng.integers(0, counts[row, up])
            place = starts[row, up] + picked
            # Step over the branch that was come from.
            gap = gaps[row, up]
            place += np.where((gap[:, 1] > 0) & (place >= gap[:, 0]), gap[:, 1], 0)
            nodes[rows] = self._by_key[place]
        return nodes


def check_range(n: int, nearest: int, farthest: int) -> None:
    """Checks the settings of a sample.

    Raises:
        DataError: If the range of distances is empty or there is to be no pair.
    """
    if n < 1:
        raise DataError("At least one pair is needed.", value=n)
    if not 0 <= nearest <= farthest or farthest < 1:
        raise DataError(
            "The smallest distance must be at least 0, and the largest at least 1 and not below it.",
            value=(nearest, farthest),
        )
