"""Children of classes that are left out: lifted to those classes' own parents."""

from __future__ import annotations

import numpy as np

from taxtune.taxonomy.building.arcs import BoolArray
from taxtune.taxonomy.building.edges import IntArray

__all__ = ["lifted_edges"]


def lifted_edges(child: IntArray, parent: IntArray, gone: BoolArray) -> tuple[IntArray, IntArray]:
    """Returns the edges from children of classes that go to those classes' nearest parents that stay.

    Edges that are there already, and edges from a node to itself, are not among them.

    Args:
        child: The child of each edge.
        parent: Its parent.
        gone: Which nodes go.
    """
    below = gone[child]
    parents: dict[int, list[int]] = {}
    for c, p in zip(child[below].tolist(), parent[below].tolist(), strict=True):
        parents.setdefault(c, []).append(p)

    def staying(node: int) -> list[int]:
        found: dict[int, None] = {}
        seen = {node}
        stack = [node]
        while stack:
            for above in parents.get(stack.pop(), ()):
                if not gone[above]:
                    found[above] = None
                elif above not in seen:
                    seen.add(above)
                    stack.append(above)
        return list(found)

    affected = gone[parent] & ~gone[child]
    tops = {node: staying(node) for node in set(parent[affected].tolist())}
    nodes = len(gone)
    new = {
        c * nodes + top
        for c, p in zip(child[affected].tolist(), parent[affected].tolist(), strict=True)
        for top in tops[p]
        if top != c
    }
    keys = np.array(sorted(new), dtype=np.int64)
    keys = keys[~np.isin(keys, child * nodes + parent)]
    return keys // nodes, keys % nodes
