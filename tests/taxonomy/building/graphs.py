"""Graphs for the tests of building: from pairs, and at random."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import strategies as st

from taxtune.taxonomy.building import BuildOptions, BuiltTree, EdgeCollector, Graph, build_tree
from taxtune.taxonomy.building.cycles import Component

__all__ = ["built", "component", "components", "graph", "kept_edges", "parents"]


def graph(pairs: Iterable[tuple[str, str]] | str, labels: dict[str, str] | None = None) -> Graph:
    """A graph of (child, parent) pairs, or of text such as "duck<bird bird<animal"."""
    if isinstance(pairs, str):
        pairs = [(child, parent) for child, parent in (edge.split("<") for edge in pairs.split())]
    into = EdgeCollector()
    into.start("edges.csv")
    for row, (child, parent) in enumerate(pairs, start=1):
        into.edge(child, parent, row)
    for key, label in (labels or {}).items():
        into.name(key, label)
    return into.finish()


def built(pairs: Iterable[tuple[str, str]] | str, labels: dict[str, str] | None = None, **options: object) -> BuiltTree:
    return build_tree(graph(pairs, labels), BuildOptions(**options))  # type: ignore[arg-type]


def parents(tree: BuiltTree) -> dict[str, str | None]:
    """The parent that each node of the tree keeps, by id."""
    above = {node: tree.parent_of(node) for node in tree.order.tolist()}
    return {tree.ids[node]: None if parent < 0 else tree.ids[parent] for node, parent in above.items()}


def kept_edges(tree: BuiltTree, *fates: int) -> set[tuple[str, str]]:
    """Edges (child, parent) by id that have one of some fates."""
    return {
        (tree.ids[c], tree.ids[p])
        for c, p, fate in zip(tree.child.tolist(), tree.parent.tolist(), tree.edge_fate.tolist(), strict=True)
        if fate in fates
    }


def component(arcs: Iterable[tuple[int, int]], lots: Iterable[float], entries: Iterable[bool]) -> Component:
    """A strongly connected component from arcs (parent, child)."""
    parent, child = np.array(list(arcs)).T
    return Component(parent, child, np.array(list(lots)), np.array(list(entries)))


@st.composite
def components(draw: st.DrawFn, max_nodes: int = 6) -> Component:
    """Strongly connected graphs: a ring and further arcs; one node at least can be entered."""
    n = draw(st.integers(2, max_nodes))
    ring = {(i, (i + 1) % n) for i in range(n)}
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    arcs = sorted(ring | set(draw(st.lists(st.sampled_from(pairs), max_size=9))))
    entries = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    lots = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=len(arcs), max_size=len(arcs)))
    return component(arcs, lots, entries)
