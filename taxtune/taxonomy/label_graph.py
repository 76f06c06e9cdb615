"""Labels that may have several parents: a rooted graph without cycles, of which a tree is the special case.

For what needs one path, a node's level and its full name, the longest is taken, as in `taxtune.taxonomy.build`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.build import build_tree
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.sources import read_graph
from taxtune.taxonomy.tree import Taxonomy, tree_of

__all__ = ["LabelGraph", "read_label_graph"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class LabelGraph:
    """Labels and the edges between them.

    Attributes:
        tree: The labels with their other names and ids, and for each the parent on its longest path from the root:
            levels and paths are this tree's. Nodes have its numbers.
        child: The child of each edge, shape (edges,). An edge comes after all edges that go further down from its
            child, so that what is passed from children to parents in this order reaches the root.
        parent: The parent of each edge, shape (edges,).
    """

    tree: Taxonomy
    child: IntArray
    parent: IntArray

    @classmethod
    def of(cls, tree: Taxonomy, child: IntArray | None = None, parent: IntArray | None = None) -> LabelGraph:
        """Returns the graph of a tree, or of the edges that its nodes have.

        Args:
            tree: The tree of the longest paths.
            child: The child of each edge; by default the tree's edges are all that there are.
            parent: The parent of each edge.
        """
        if child is None or parent is None:
            child, parent = np.arange(1, len(tree)), tree.parents[1:]
        # On longest paths a parent is always less deep than its child.
        order = np.lexsort((parent, child, -tree.depth[child]))
        return cls(tree, child[order], parent[order])

    def __len__(self) -> int:
        return len(self.tree)

    @cached_property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Tells which nodes have no children, shape (nodes,)."""
        flags = np.ones(len(self), dtype=bool)
        flags[self.parent] = False
        return flags

    @cached_property
    def leaves(self) -> IntArray:
        """The nodes without children, ascending."""
        return np.flatnonzero(self.is_leaf)

    @cached_property
    def above(self) -> Any:
        """Which nodes are above each: a sparse array of 0 and 1, shape (nodes, nodes).

        Row v has a 1 at v itself and at every node above it, however many paths lead there.
        """
        from scipy.sparse import csr_array, eye_array

        n = len(self)
        up = csr_array((np.ones(len(self.child), dtype=np.int64), (self.child, self.parent)), shape=(n, n))
        above = front = eye_array(n, dtype=np.int64, format="csr")
        while front.nnz:  # one level further up at a time
            front = (front @ up).sign()
            above = (above + front).sign()
        return above.astype(np.int8)


def read_label_graph(path: str | Path, format: str = "auto") -> LabelGraph:
    """Reads a graph of labels from any file that `taxtune taxonomy build` takes, such as one that it wrote.

    Args:
        path: The file.
        format: As `taxtune.taxonomy.sources.read_graph` takes it.

    Raises:
        TaxonomyError: If the file cannot be read, or the graph has cycles or no root that reaches all of it.
    """
    graph = read_graph([Path(path)], format=format)
    built = build_tree(graph, parents="all")
    dropped = {what: count for what, count in built.counts["dropped"].items() if what != "duplicate edge"}
    if dropped:
        raise TaxonomyError(
            f"The graph has a cycle or several roots: below {built.nodes[0].key!r} is all but "
            f"{', '.join(f'{count:,} {what}' for what, count in dropped.items())}.",
            file=path,
            remedy=f"`taxtune taxonomy build {path} --parents all --out graph.csv` breaks cycles and takes one root.",
        )
    tree = tree_of(RawTaxonomy(str(path), "graph", built.nodes))
    edges = np.array([(tree.by_id[child], tree.by_id[parent]) for parent, child in built.graph.edges], dtype=np.int64)
    return LabelGraph.of(tree, *edges.reshape(-1, 2).T)
