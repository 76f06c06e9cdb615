"""Random graphs of labels for property tests, as pairs and as networkx sees them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import networkx as nx
from hypothesis import strategies as st

from taxtune.taxonomy.label_graph import LabelGraph, read_label_graph

__all__ = ["acyclic_edges", "as_networkx", "read_edges"]


@st.composite
def acyclic_edges(draw: st.DrawFn, max_nodes: int = 12) -> list[tuple[str, str]]:
    """Edges (child, parent) of a graph without cycles below the root "n0", where a node may have several parents."""
    n = draw(st.integers(3, max_nodes))
    edges = []
    for child in range(1, n):
        parents = draw(st.sets(st.integers(0, child - 1), min_size=1, max_size=3))
        edges += [(f"n{child}", f"n{parent}") for parent in sorted(parents)]
    return draw(st.permutations(edges))


def as_networkx(edges: list[tuple[str, str]]) -> nx.DiGraph:
    """The graph with its edges from parent to child."""
    return nx.DiGraph((parent, child) for child, parent in edges)


def read_edges(edges: list[tuple[str, str]]) -> LabelGraph:
    """The graph that taxtune reads from a file of these edges."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.csv"
        path.write_text("child,parent\n" + "".join(f"{child},{parent}\n" for child, parent in edges), encoding="utf-8")
        return read_label_graph(path)
