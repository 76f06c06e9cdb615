"""Labels that may have several parents: a rooted graph without cycles, of which a tree is the special case.

What is asked of such a graph is what holds along any path: which labels are above a node, and which leaves are below.
For what needs one path, a node's level and its full name, the longest is taken, as where a tree is built from the graph
(`taxtune.taxonomy.building`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building import BuildOptions, BuiltTree, EdgeFate, NodeFate, build_tree, name_nodes
from taxtune.taxonomy.sources import read_graph
from taxtune.taxonomy.tree import Taxonomy

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
        format: One of `taxtune.taxonomy.sources.SOURCES`.

    Raises:
        TaxonomyError: If the file cannot be read, or the graph has cycles or no root that reaches all of it.
    """
    file = Path(path)
    built = build_tree(read_graph([file], format=format), BuildOptions(parents="all"))
    _check(built, file)
    names = name_nodes(built)
    order = built.order.tolist()
    number = np.full(len(built.ids), -1, dtype=np.int64)
    number[built.order] = np.arange(len(order))
    tree = Taxonomy(
        [names.labels[node] for node in order],
        [-1, *(int(number[built.parent_of(node)]) for node in order[1:])],
        aliases=[names.aliases.get(node, ()) for node in order],
        source=str(file),
        ids=[built.ids[node] for node in order],
        leads=[built.graph.leads.get(node, ()) for node in order],
    )
    return LabelGraph.of(tree, number[built.child], number[built.parent])


def _check(built: BuiltTree, file: Path) -> None:
    """Raises an error if anything of the graph is not below its root: nothing is left out of what is measured."""
    graph, ids = built.graph, built.ids
    remedy = f"Make one with `taxtune taxonomy build {file} --parents all --out graph.csv`, which breaks cycles and "
    remedy += "takes one root, and give that."
    loops = graph.self_loops
    cyclic = np.flatnonzero(np.isin(built.edge_fate, (EdgeFate.CYCLE, EdgeFate.INTO_THE_ROOT)))
    if len(loops) or len(cyclic):
        edges, at = (loops, 0) if len(loops) else (graph.edges, int(cyclic[0]))
        child, parent = int(edges.child[at]), int(edges.parent[at])
        raise TaxonomyError(
            "The graph has a cycle: a node is above itself.",
            file=file,
            row=int(edges.row[at]) or None,
            value=f"{ids[child]} under {ids[parent]}",
            remedy=remedy,
        )
    unreached = np.flatnonzero(built.node_fate != NodeFate.KEPT)
    if len(unreached):
        raise TaxonomyError(
            f"The graph has several roots: {len(unreached):,} of {len(graph):,} nodes are not below "
            f"{ids[built.root]!r}.",
            file=file,
            value=ids[int(unreached[0])],
            remedy=remedy,
        )
