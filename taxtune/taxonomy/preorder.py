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

    It takes 4 + b log2(n) bytes per node for a tree of n nodes, where b is 1 up to a height of 255 and else 2.

    Args:
        places: Where each node comes in preorder, shape (n,).
        depth: Edges from the root of each node, shape (n,).
    """

    def __init__(self, places: IntArray, depth: IntArray) -> None:
        n, height = len(places), int(depth.max())
        shallowest = np.empty((n.bit_length(), n), dtype=np.min_scalar_type(height))
        shallowest[0, places] = depth
        for k in range(1, len(shallowest)):
            half = 1 << (k - 1)
            np.minimum(shallowest[k - 1, : n - half], shallowest[k - 1, half:], out=shallowest[k, : n - half])
        self._place = places.astype(np.int32)
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
