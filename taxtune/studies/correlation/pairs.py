"""Pairs of a leaf and another node at a chosen distance on the tree (paper 1, §5).

A leaf is drawn uniformly, then a distance uniformly among those at which it has a node, then a node at that distance:
uniformly among all of them ("nodes"), or first the number of steps up and then a node ("steps"). The paper does not say
which. In the order of a walk through the tree the nodes at one depth below one ancestor are a run, which two binary
searches find; the nodes at distance d from a leaf are d + 1 such runs, less the branch of the leaf itself.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["PairSampler"]

IntArray = NDArray[np.int64]


class PairSampler:
    """Draws pairs from a tree of up to some million nodes."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        n = len(taxonomy)
        # Ancestors come before their descendants, because -1, which fills up a lineage, is the least.
        walk = np.lexsort(taxonomy.lineage.T[::-1])
        self._first = np.empty(n, dtype=np.int64)
        self._first[walk] = np.arange(n)
        below = sum(np.bincount(column[column >= 0], minlength=n) for column in taxonomy.lineage.T)
        self._last = self._first + below
        keys = taxonomy.depth * (n + 1) + self._first
        self._by_key = np.argsort(keys)
        self._keys = keys[self._by_key]

    def _run(self, ancestors: IntArray, depth: IntArray) -> tuple[IntArray, IntArray]:
        """Start and length of the run of descendants at a depth, among the nodes sorted by depth and walk."""
        base = depth * (len(self.taxonomy) + 1)
        start = np.searchsorted(self._keys, base + self._first[ancestors])
        return start, np.searchsorted(self._keys, base + self._last[ancestors]) - start

    def _branches(self, nodes: IntArray, distance: int) -> tuple[IntArray, IntArray, IntArray]:
        """The runs that hold the nodes at a distance, by steps up, each of shape (nodes, distance + 1).

        They are the start of each run, its length without the node's own branch, and that branch's start and length.
        """
        depth, lineage = self.taxonomy.depth[nodes], self.taxonomy.lineage[nodes]
        starts, counts = np.zeros((2, len(nodes), distance + 1), dtype=np.int64)
        gaps = np.zeros((len(nodes), distance + 1, 2), dtype=np.int64)
        for up in range(distance + 1):
            rows = np.flatnonzero(depth >= up)
            level = depth[rows] + distance - 2 * up
            starts[rows, up], counts[rows, up] = self._run(lineage[rows, depth[rows] - up], level)
            if up:
                gaps[rows, up] = np.stack(self._run(lineage[rows, depth[rows] - up + 1], level), axis=1)
        return starts, counts - gaps[..., 1], gaps

    def count(self, nodes: IntArray, distance: int) -> IntArray:
        """Returns the number of nodes that are `distance` edges away from each of `nodes`, shape (n,)."""
        counts: IntArray = self._branches(nodes, distance)[1].sum(axis=1)
        return counts

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        nearest: int = 1,
        farthest: int = 7,
        ancestors: bool = False,
        draw: Literal["nodes", "steps"] = "nodes",
    ) -> pd.DataFrame:
        """Draws pairs with replacement.

        Args:
            n: Number of pairs, at least 1.
            rng: The generator.
            nearest: Least distance in edges; 0 pairs a leaf with itself.
            farthest: Greatest distance, at least `nearest` and 1.
            ancestors: Whether to draw ancestors of the leaf only, so that hP = 1.
            draw: Whether to draw nodes uniformly, or first the steps up.

        Returns:
            The columns leaf, node (numbers) and distance.

        Raises:
            TaxonomyError: If a leaf has no node in the range of distances.
        """
        leaves = rng.choice(self.taxonomy.leaves, n)
        distances = np.arange(nearest, farthest + 1)
        kinds, kind = np.unique(leaves, return_inverse=True)
        if ancestors:
            possible = distances <= self.taxonomy.depth[kinds][:, np.newaxis]
        else:
            possible = np.stack([self.count(kinds, distance) > 0 for distance in distances.tolist()], axis=1)
        lonely = kinds[~possible.any(axis=1)]
        if len(lonely):
            what, leaf = "ancestor" if ancestors else "node", self.taxonomy.labels[lonely[0]]
            message = f"A leaf has no {what} at a distance of {nearest} to {farthest}."
            remedy = "Use a wider range of distances, or a larger tree."
            raise TaxonomyError(message, file=self.taxonomy.source, value=leaf, remedy=remedy)
        choice = rng.integers(0, possible.sum(axis=1)[kind])
        distance = distances[(np.cumsum(possible, axis=1)[kind] > choice[:, np.newaxis]).argmax(axis=1)]
        if ancestors:
            nodes = self.taxonomy.lineage[leaves, self.taxonomy.depth[leaves] - distance]
        else:
            nodes = np.empty(n, dtype=np.int64)
            for steps in np.unique(distance).tolist():
                rows = distance == steps
                nodes[rows] = self._nodes(leaves[rows], steps, rng, draw)
        return pd.DataFrame({"leaf": leaves, "node": nodes, "distance": distance})

    def _nodes(self, leaves: IntArray, distance: int, rng: np.random.Generator, draw: str) -> IntArray:
        starts, counts, gaps = self._branches(leaves, distance)
        row = np.arange(len(leaves))
        if draw == "nodes":
            ends = counts.cumsum(axis=1)
            picked = rng.integers(0, ends[:, -1])
            up = (ends > picked[:, np.newaxis]).argmax(axis=1)
            picked -= (ends - counts)[row, up]
        else:
            ways = (counts > 0).cumsum(axis=1)
            up = (ways > rng.integers(0, ways[:, -1])[:, np.newaxis]).argmax(axis=1)
            picked = rng.integers(0, counts[row, up])
        picked += starts[row, up]
        start, length = gaps[row, up].T
        nodes: IntArray = self._by_key[picked + np.where((length > 0) & (picked >= start), length, 0)]
        return nodes
