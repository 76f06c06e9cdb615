"""Pairs of a leaf and another node of a tree, drawn by their distance (paper 1, §5)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.errors import TaxonomyError
from taxtune.taxonomy import Taxonomy

__all__ = ["PairSampler"]

IntArray = NDArray[np.int64]


class PairSampler:
    """Draws pairs of a leaf and another node from a tree of up to some million nodes (paper 1, §5).

    A leaf is drawn uniformly, then a distance uniformly among those at which it has a node, then a node at that
    distance: uniformly among all of them ("nodes"), or first the number of steps up and then a node ("steps"). The
    paper does not say which. In the order of a walk through the tree the nodes at one depth below one ancestor are a
    run, which two binary searches find; the nodes at distance d are d + 1 such runs, less the leaf's own branches.
    """

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        n = len(taxonomy)
        # Ancestors come before their descendants, because -1, which fills up a lineage, is the least.
        walk = np.lexsort(taxonomy.lineage.T[::-1])
        self._first = np.empty(n, dtype=np.int64)
        self._first[walk] = np.arange(n)
        self._last = self._first.copy()
        for column in taxonomy.lineage.T:
            self._last += np.bincount(column[column >= 0], minlength=n)
        keys = taxonomy.depth * (n + 1) + self._first
        self._by_key = np.argsort(keys)
        self._keys = keys[self._by_key]

    def _run(self, ancestors: IntArray, depth: IntArray) -> tuple[IntArray, IntArray]:
        """Returns start and end of the run of descendants at a depth, among the nodes sorted by depth and walk."""
        base = depth * (len(self.taxonomy) + 1)
        first = np.searchsorted(self._keys, base + self._first[ancestors])
        last = np.searchsorted(self._keys, base + self._last[ancestors])
        return first, last

    def _runs(self, nodes: IntArray, distance: int) -> tuple[IntArray, IntArray]:
        """Returns start and length of the runs that hold the nodes at a distance.

        Each is of shape (nodes, 2 (distance + 1)): by steps up, the run before the node's own branch and that after it.
        """
        depth = self.taxonomy.depth[nodes]
        lineage = self.taxonomy.lineage[nodes]
        starts = np.zeros((len(nodes), 2 * (distance + 1)), dtype=np.int64)
        lengths = np.zeros_like(starts)
        for up in range(distance + 1):
            rows = np.flatnonzero(depth >= up)
            level = depth[rows] + distance - 2 * up
            ancestors = lineage[rows, depth[rows] - up]
            start, end = self._run(ancestors, level)
            own_start, own_end = end, end
            if up:
                branches = lineage[rows, depth[rows] - up + 1]
                own_start, own_end = self._run(branches, level)
            starts[rows, 2 * up] = start
            lengths[rows, 2 * up] = own_start - start
            starts[rows, 2 * up + 1] = own_end
            lengths[rows, 2 * up + 1] = end - own_end
        return starts, lengths

    def count(self, nodes: IntArray, distance: int) -> IntArray:
        """Returns the number of nodes that are `distance` edges away from each of `nodes`, shape (n,)."""
        _, lengths = self._runs(nodes, distance)
        return np.asarray(lengths.sum(axis=1))

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
        """Draws n pairs with replacement: the columns leaf, node (numbers) and distance.

        Args:
            n: Number of pairs, at least 1.
            rng: The generator.
            nearest: Least distance in edges; 0 pairs a leaf with itself.
            farthest: Greatest distance, at least `nearest` and 1.
            ancestors: Whether to draw ancestors of the leaf only, so that hP = 1.
            draw: Whether to draw nodes uniformly, or first the steps up.

        Raises:
            TaxonomyError: If a leaf has no node in the range of distances.
        """
        leaves = rng.choice(self.taxonomy.leaves, n)
        distances = np.arange(nearest, farthest + 1)
        kinds, kind = np.unique(leaves, return_inverse=True)
        if ancestors:
            possible = distances <= self.taxonomy.depth[kinds][:, np.newaxis]
        else:
            counts = [self.count(kinds, distance) for distance in distances.tolist()]
            possible = np.stack(counts, axis=1) > 0
        lonely = kinds[~possible.any(axis=1)]
        if len(lonely):
            what = "ancestor" if ancestors else "node"
            message = f"A leaf has no {what} at a distance of {nearest} to {farthest}."
            leaf = self.taxonomy.labels[lonely[0]]
            remedy = "Use a wider range of distances, or a larger tree."
            raise TaxonomyError(message, file=self.taxonomy.source, value=leaf, remedy=remedy)
        choice = rng.integers(0, possible.sum(axis=1)[kind])
        reached = np.cumsum(possible, axis=1)[kind] > choice[:, np.newaxis]
        distance = distances[reached.argmax(axis=1)]
        if ancestors:
            nodes = self.taxonomy.lineage[leaves, self.taxonomy.depth[leaves] - distance]
        else:
            nodes = np.empty(n, dtype=np.int64)
            for edges in np.unique(distance).tolist():
                rows = distance == edges
                nodes[rows] = self._nodes(leaves[rows], edges, rng, draw)
        return pd.DataFrame({"leaf": leaves, "node": nodes, "distance": distance})

    def _nodes(
        self, leaves: IntArray, distance: int, rng: np.random.Generator, draw: str
    ) -> IntArray:
        """Draws a node at a distance from each of the leaves."""
        starts, counts = self._runs(leaves, distance)
        rows = np.arange(len(leaves))
        ends = counts.cumsum(axis=1)
        if draw == "nodes":
            picked = rng.integers(0, ends[:, -1])
        else:
            # The two runs of each number of steps up follow one another.
            by_steps = counts[:, ::2] + counts[:, 1::2]
            possible = (by_steps > 0).cumsum(axis=1)
            choice = rng.integers(0, possible[:, -1])
            up = (possible > choice[:, np.newaxis]).argmax(axis=1)
            before = ends[:, 1::2] - by_steps
            picked = before[rows, up] + rng.integers(0, by_steps[rows, up])
        run = (ends > picked[:, np.newaxis]).argmax(axis=1)
        offset = picked - (ends - counts)[rows, run]
        return np.asarray(self._by_key[starts[rows, run] + offset])
