"""From any graph of "subclass of" edges to a rooted tree (paper 1, §4.1).

In this order: classes that the user names are left out; with a list of wanted leaves, what is not above one of them
goes; a root is taken and what it does not reach goes; cycles are broken by dropping the fewest edges; and of several
parents the one on the longest path from the root stays, or all of them where a graph is wanted. Every node and every
edge that does not make it into the tree has a fate that says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import TaxonomyError
from taxtune.progress import track
from taxtune.taxonomy.building.arcs import BoolArray, Follows, reached
from taxtune.taxonomy.building.cycles import Broken, break_cycles
from taxtune.taxonomy.building.edges import Graph, IntArray
from taxtune.taxonomy.building.leaving_out import lifted_edges
from taxtune.taxonomy.building.longest_path import Parents, choose_parents
from taxtune.taxonomy.building.roots import BestRoot, best_root, find_node, sources

__all__ = ["BuildOptions", "BuiltTree", "CycleRule", "EdgeFate", "NodeFate", "ParentRule", "build_tree"]

CycleRule = Literal["lose-no-node", "fewest-edges"]
ParentRule = Literal["longest-path", "all"]


class NodeFate(IntEnum):
    """What became of a node."""

    KEPT = 0
    LEFT_OUT = 1  # named by the user
    NOT_ABOVE_A_LEAF = 2  # above none of the wanted leaves
    NOT_BELOW_THE_ROOT = 3  # no path of edges leads to it from the root
    BELOW_LEFT_OUT = 4  # every path to it from the root went through a class that was left out
    CUT_OFF = 5  # every path to it from the root went through an edge that was dropped for a cycle


class EdgeFate(IntEnum):
    """What became of an edge."""

    KEPT = 0
    LEFT_OUT = 1  # one of its ends was excluded
    NOT_ABOVE_A_LEAF = 2  # its child is above none of the wanted leaves
    NOT_BELOW_THE_ROOT = 3  # its parent, or its child too, is not reached from the root
    INTO_THE_ROOT = 4  # it would make the root a child
    CYCLE = 5  # dropped to break a cycle
    EXTRA_PARENT = 6  # the child kept another parent


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a tree is made from a graph.

    Attributes:
        root: Id or label of the root; None for the node that reaches the most nodes.
        join_roots: Label of a new root above all nodes without parents; excludes `root`.
        leave_out: Ids or labels of classes to leave out.
        lift: Whether the children of classes that are left out get those classes' parents.
        cycles: Which edges break cycles. "lose-no-node": the fewest under which every node stays within reach of the
            root. "fewest-edges": the fewest, even where that cuts nodes off; of sets of one size one that cuts off few.
        parents: Which parents a node keeps. "longest-path": the one on the longest path from the root, which makes a
            tree. "all": every one, which leaves a graph without cycles.
        leaves: Ids of nodes that the tree is for; None for all.
        seed: Seed of all lots: ties between longest paths and between sets of edges that break a cycle.
    """

    root: str | None = None
    join_roots: str | None = None
    leave_out: tuple[str, ...] = ()
    lift: bool = False
    cycles: CycleRule = "lose-no-node"
    parents: ParentRule = "longest-path"
    leaves: tuple[str, ...] | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class BuiltTree:
    """A tree and what became of everything else.

    Attributes:
        graph: The graph.
        options: How it was made.
        ids: The ids of the graph's nodes, and that of the new root, if one was added, behind them.
        root: The number of the root.
        child: The child of each edge: those of the graph, then those that lifting or the new root added.
        parent: The parent of each edge.
        edge_fate: What became of each edge.
        node_fate: What became of each node.
        parents: Depths, and the edge to each node's parent on its longest path from the root.
        broken: How the cycles of each strongly connected component were broken.
        order: The tree's nodes depth first, siblings by id.
        lifted: How many edges lifting added.
        best_root: How the root was found, if it was not named.
        missing_leaves: Wanted leaves that are not in the graph.
        lost_leaves: Wanted leaves, as numbers, that are in the graph and not on the tree.
    """

    graph: Graph
    options: BuildOptions
    ids: list[str]
    root: int
    child: IntArray
    parent: IntArray
    edge_fate: NDArray[np.int8]
    node_fate: NDArray[np.int8]
    parents: Parents
    broken: list[Broken]
    order: IntArray
    lifted: int
    best_root: BestRoot | None
    missing_leaves: tuple[str, ...]
    lost_leaves: tuple[int, ...]

    def label(self, node: int) -> str:
        """Returns the label of a node as its source gives it; its id where it has none."""
        return self.graph.label(node) if node < len(self.graph) else str(self.options.join_roots)

    @property
    def kept_edges(self) -> IntArray:
        """The numbers of the edges that are kept: one a node below the root of a tree, and more of a graph."""
        return np.flatnonzero(self.edge_fate == EdgeFate.KEPT)

    def parent_of(self, node: int) -> int:
        """Returns the parent on a node's longest path from the root, which a tree keeps; -1 for the root."""
        edge = int(self.parents.arc[node])
        return -1 if edge < 0 else int(self.parent[edge])


def build_tree(
    graph: Graph,
    options: BuildOptions,
) -> BuiltTree:
    """Makes a rooted tree of a graph.

    The result depends on the graph, the options and the seed, and not on the order of the edges in their files.

    Args:
        graph: The graph.
        options: How.

    Raises:
        TaxonomyError: If options contradict each other or name what is not there, or nothing would be left.
    """
    if options.root is not None and options.join_roots is not None:
        raise TaxonomyError("--root and --join-roots exclude each other.", remedy="Give one of them.")
    return _Build(graph, options).run()


class _Build:
    def __init__(self, graph: Graph, options: BuildOptions) -> None:
        self.graph, self.options = graph, options
        self.ids = graph.ids
        self.child, self.parent = graph.edges.child, graph.edges.parent
        self.edge_fate = np.zeros(len(self.child), dtype=np.int8)
        self.node_fate = np.zeros(len(graph), dtype=np.int8)
        self.lifted = 0
        self.best: BestRoot | None = None
        self.broken: list[Broken] = []

    @property
    def live(self) -> BoolArray:
        return np.equal(self.edge_fate, EdgeFate.KEPT)

    @property
    def alive(self) -> BoolArray:
        return np.equal(self.node_fate, NodeFate.KEPT)

    def run(self) -> BuiltTree:
        self._leave_out()
        wanted, missing = self._wanted()
        if wanted is not None:
            self._keep_above(wanted)
        if not self.alive.any():
            raise TaxonomyError(
                "Nothing is left to build a tree from.", remedy="Exclude fewer classes, or check the leaves."
            )
        root = self._join() if self.options.join_roots is not None else self._hang()
        with track("longest paths", 1):
            parents = choose_parents(self.parent, self.child, self.live, root, self.ids, self.options.seed)
        if self.options.parents == "longest-path":
            extra = self.live
            extra[parents.arc[parents.arc >= 0]] = False
            self.edge_fate[extra] = EdgeFate.EXTRA_PARENT
        if wanted is not None:
            if not self.alive[wanted].any():
                raise TaxonomyError(
                    f"None of the {len(wanted)} leaves is below the root.",
                    value=self.ids[root],
                    remedy="Choose another root, or join all roots with --join-roots.",
                )
            self._keep_above(wanted)
        lost = () if wanted is None else tuple(wanted[self.node_fate[wanted] != NodeFate.KEPT].tolist())
        return BuiltTree(
            graph=self.graph,
            options=self.options,
            ids=self.ids,
            root=root,
            child=self.child,
            parent=self.parent,
            edge_fate=self.edge_fate,
            node_fate=self.node_fate,
            parents=parents,
            broken=self.broken,
            order=self._depth_first(root, parents),
            lifted=self.lifted,
            best_root=self.best,
            missing_leaves=missing,
            lost_leaves=lost,
        )

    def _leave_out(self) -> None:
        out = sorted({find_node(self.graph, name, "--leave-out") for name in self.options.leave_out})
        if not out:
            return
        self.node_fate[out] = NodeFate.LEFT_OUT
        gone = ~self.alive
        if self.options.lift:
            child, parent = lifted_edges(self.child, self.parent, gone)
            self.lifted = len(child)
            self._add_edges(child, parent)
        self.edge_fate[gone[self.child] | gone[self.parent]] = EdgeFate.LEFT_OUT

    def _add_edges(self, child: IntArray, parent: IntArray) -> None:
        self.child, self.parent = np.r_[self.child, child], np.r_[self.parent, parent]
        self.edge_fate = np.r_[self.edge_fate, np.zeros(len(child), dtype=np.int8)]

    def _wanted(self) -> tuple[IntArray | None, tuple[str, ...]]:
        if self.options.leaves is None:
            return None, ()
        number = {key: node for node, key in enumerate(self.graph.ids)}
        found, missing = [], []
        for key in dict.fromkeys(self.options.leaves):
            if key in number:
                found.append(number[key])
            else:
                missing.append(key)
        if not found:
            raise TaxonomyError(
                f"None of the {len(missing)} leaves is in the graph.",
                value=missing[0] if missing else None,
                remedy="List ids as they are in the graph.",
            )
        return np.array(sorted(found), dtype=np.int64), tuple(missing)

    def _keep_above(self, wanted: IntArray) -> None:
        upward = Follows.of(self.child, self.parent, len(self.ids), self.live)
        above = reached(upward, wanted[self.node_fate[wanted] == NodeFate.KEPT])
        pruned = self.alive & ~above
        self.node_fate[pruned] = NodeFate.NOT_ABOVE_A_LEAF
        fates = (EdgeFate.KEPT, EdgeFate.EXTRA_PARENT)
        self.edge_fate[pruned[self.child] & np.isin(self.edge_fate, fates)] = EdgeFate.NOT_ABOVE_A_LEAF

    def _hang(self) -> int:
        """Takes a root, drops what it does not reach and breaks the cycles below it; returns the root."""
        if self.options.root is not None:
            root = find_node(self.graph, self.options.root, "--root")
            if self.node_fate[root] != NodeFate.KEPT:
                why = "left out" if self.node_fate[root] == NodeFate.LEFT_OUT else "above none of the leaves"
                raise TaxonomyError(f"The root is {why}.", value=self.options.root, remedy="Choose another root.")
        else:
            with track("choosing a root", 1):
                self.best = best_root(self.parent, self.child, self.live, self.alive)
            root = self.best.node
        self._drop_unreached(root, NodeFate.NOT_BELOW_THE_ROOT)
        self.edge_fate[self.live & (self.child == root)] = EdgeFate.INTO_THE_ROOT
        entries = np.zeros(len(self.ids), dtype=bool)
        entries[root] = True
        self._break(entries)
        if self.options.cycles == "fewest-edges":
            self._drop_unreached(root, NodeFate.CUT_OFF)
        return root

    def _drop_unreached(self, root: int, fate: NodeFate) -> None:
        nodes = len(self.ids)
        start = np.array([root], dtype=np.int64)
        below = reached(Follows.of(self.parent, self.child, nodes, self.live), start)
        gone = self.alive & ~below
        self.node_fate[gone] = fate
        self.edge_fate[self.live & ~(below[self.child] & below[self.parent])] = EdgeFate.NOT_BELOW_THE_ROOT
        if fate is NodeFate.NOT_BELOW_THE_ROOT and self.options.leave_out:
            once = reached(Follows.of(self.parent, self.child, nodes), start)
            self.node_fate[gone & once] = NodeFate.BELOW_LEFT_OUT

    def _break(self, entries: BoolArray) -> None:
        self.broken = break_cycles(
            self.parent,
            self.child,
            self.live,
            self.ids,
            self.options.seed,
            entries=entries,
            lose=self.options.cycles == "fewest-edges",
        )
        for component in self.broken:
            self.edge_fate[list(component.dropped)] = EdgeFate.CYCLE

    def _join(self) -> int:
        """Breaks the cycles of the whole graph and puts every node without a parent under a new root; returns it."""
        _, top = sources(self.parent, self.child, self.live, self.alive)
        self._break(top)
        roots = np.flatnonzero(self.alive & (np.bincount(self.child[self.live], minlength=len(self.ids)) == 0))
        if len(roots) == 1:
            return int(roots[0])
        new = len(self.ids)
        key, known = str(self.options.join_roots), set(self.ids)
        while key in known:
            key += " (root)"
        self.ids = [*self.ids, key]
        self.node_fate = np.r_[self.node_fate, np.int8(NodeFate.KEPT)].astype(np.int8)
        self._add_edges(roots, np.full(len(roots), new, dtype=np.int64))
        return new

    def _depth_first(self, root: int, parents: Parents) -> IntArray:
        """Returns the nodes of the tree depth first, siblings by id; a level at a time, so that depth costs nothing."""
        node = np.flatnonzero(self.alive & (parents.arc >= 0))
        above = np.full(len(self.ids), -1, dtype=np.int64)
        above[node] = self.parent[parents.arc[node]]
        size = np.zeros(len(self.ids), dtype=np.int64)
        size[node] = 1
        size[root] = 1
        by_depth = node[np.argsort(parents.depth[node], kind="stable")]
        starts = np.flatnonzero(np.diff(parents.depth[by_depth], prepend=0))
        levels = np.split(by_depth, starts[1:])
        for level in reversed(levels):
            np.add.at(size, above[level], size[level])
        # Before a node come its parent and the subtrees of its earlier siblings.
        siblings = node[np.lexsort((node, above[node]))]
        first = np.r_[True, np.diff(above[siblings]) != 0] if len(node) else np.zeros(0, dtype=bool)
        running = np.cumsum(size[siblings]) - size[siblings]
        earlier = np.zeros(len(self.ids), dtype=np.int64)
        earlier[siblings] = running - np.repeat(running[first], np.diff(np.r_[np.flatnonzero(first), len(siblings)]))
        position = np.zeros(len(self.ids), dtype=np.int64)
        for level in levels:
            position[level] = position[above[level]] + 1 + earlier[level]
        order = np.empty(len(node) + 1, dtype=np.int64)
        order[0] = root
        order[position[node]] = node
        return order
