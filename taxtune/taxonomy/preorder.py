"""How many ancestors two nodes share, in the same time for every pair, however deep the tree is.

In preorder a subtree is one interval. Of the nodes that come after u, up to a later node v, the shallowest is the child
of the lowest common ancestor on the way to v, so that its depth is the number of ancestors that u and v share (with u
among its own). That is a minimum over an interval, and the minima over all intervals of 1, 2, 4, ... nodes answer it
with two look-ups: Bender and Farach-Colton (2000), The LCA problem revisited, §3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SharedAncestors"]

IntArray = NDArray[np.int64]

# Pairs that are looked up at once: what is computed of them stays in the processor's cache.
_BLOCK = 1 << 16


class SharedAncestors:
    """The number of ancestors that two nodes of a tree share.

    It takes 4 + b log2(n) bytes a node for a tree of n nodes, where b is 1 up to a height of 255 and else 2.

    Args:
        parents: The parent of each node, smaller than the node's own number, shape (n,); -1 for the root, node 0.
        depth: Edges from the root of each node, shape (n,).
    """

    def __init__(self, parents: IntArray, depth: IntArray) -> None:
        n, height = len(parents), int(depth.max())
        by_depth = np.argsort(depth, kind="stable")
        levels = np.split(by_depth, np.searchsorted(depth[by_depth], np.arange(1, height + 1)))[1:]
        size = np.ones(n, dtype=np.int64)
        for nodes in reversed(levels):
            np.add.at(size, parents[nodes], size[nodes])
        # Where each node comes in preorder: after its parent and the subtrees of its siblings with smaller numbers.
        place = np.zeros(n, dtype=np.int64)
        siblings = np.argsort(parents, kind="stable")[1:]
        before = np.cumsum(size[siblings]) - size[siblings]
        above = parents[siblings]
        place[siblings] = before - before[np.searchsorted(above, above)] + 1
        for nodes in levels:
            place[nodes] += place[parents[nodes]]
        shallowest = np.empty((n.bit_length(), n), dtype=np.min_scalar_type(height))
        shallowest[0, place] = depth
        for k in range(1, len(shallowest)):
            half = 1 << (k - 1)
            np.minimum(shallowest[k - 1, : n - half], shallowest[k - 1, half:], out=shallowest[k, : n - half])
        self._place = place.astype(np.int32)
        # Row k, in one line: the depth of the shallowest of the 2^k nodes from each on; nobody asks beyond the last.
        self._shallowest, self._n = shallowest.ravel(), n

    def count(self, a: IntArray, b: IntArray) -> IntArray:
        """Returns |anc(a) ∩ anc(b)| for node numbers of shape (pairs,), at least 1."""
        shared = np.empty(len(a), dtype=np.int64)
        for start in range(0, len(a), _BLOCK):
            block = slice(start, start + _BLOCK)
            first, last = self._place[a[block]].astype(np.int64), self._place[b[block]].astype(np.int64)
            first, last = np.minimum(first, last), np.maximum(first, last)
            # A node shares all its ancestors with itself, one more than its depth.
            same = first == last
            first += ~same
            k = np.frexp(last - first + 1.0)[1] - 1  # the largest with 2^k nodes at most
            row = k * self._n
            found = np.minimum(self._shallowest[row + first], self._shallowest[row + last + 1 - (1 << k)])
            np.add(found, same, out=shared[block])
        return shared
