from __future__ import annotations

import tempfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from taxtune.errors import TaxonomyError
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.build import build_tree, write_tree
from taxtune.taxonomy.label_graph import LabelGraph, read_label_graph
from taxtune.taxonomy.sources import read_graph
from tests.label_graphs import acyclic_edges, as_networkx, read_edges
from tests.trees import trees

#: A dog is a canine and a domestic animal, which has no other child.
DOGS = "child,parent,label,aliases\na,,animal,\nk,a,carnivore,\nc,k,canine,\nm,c,wild canine,\nd,a,domestic animal,\n"
DOGS += "f,m,fox,\nw,m,wolf,gray wolf\nx,c,dog,hound\nx,d,dog,\n"


def file(folder: Path, text: str) -> Path:
    path = folder / "graph.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_node_with_two_parents(tmp_path: Path) -> None:
    graph = read_label_graph(file(tmp_path, DOGS))
    tree = graph.tree
    labels = {tree.labels[v]: v for v in range(len(graph))}
    assert [tree.labels[v] for v in graph.leaves] == ["fox", "wolf", "dog"]
    above = graph.above[labels["dog"]].toarray()
    assert {tree.labels[v] for v in np.flatnonzero(above)} == {
        "animal",
        "carnivore",
        "canine",
        "domestic animal",
        "dog",
    }
    assert tree.aliases[labels["dog"]] == ("hound",)
    # In the tree of one path a label without children is a leaf, which in the graph it is not.
    assert labels["domestic animal"] in set(tree.leaves.tolist()) - set(graph.leaves.tolist())
    assert tree.resolve("x") == labels["dog"]


@settings(max_examples=60, deadline=None)
@given(acyclic_edges())
def test_against_networkx(edges: list[tuple[str, str]]) -> None:
    graph, expected = read_edges(edges), as_networkx(edges)
    labels = graph.tree.labels
    assert {labels[v] for v in graph.leaves.tolist()} == {v for v in expected if not expected.out_degree(v)}
    pairs = {(labels[c], labels[p]) for c, p in zip(graph.child.tolist(), graph.parent.tolist(), strict=True)}
    assert pairs == set(edges)
    for node, label in enumerate(labels):
        above = np.flatnonzero(graph.above[[node]].toarray()[0])
        assert {labels[v] for v in above} == nx.ancestors(expected, label) | {label}
        paths = [[label]] if label == "n0" else nx.all_simple_paths(expected, "n0", label)
        assert graph.tree.depth[node] == max(len(path) - 1 for path in paths)
    # What is passed up along the edges in their order is complete before it is passed on.
    last_into = {parent: i for i, parent in enumerate(graph.parent.tolist())}
    assert all(last_into.get(child, -1) < i for i, child in enumerate(graph.child.tolist()))


@settings(max_examples=40, deadline=None)
@given(trees())
def test_a_tree_is_the_graph_of_its_edges(tree: Taxonomy) -> None:
    graph = LabelGraph.of(tree)
    assert graph.leaves.tolist() == tree.leaves.tolist()
    for node in range(len(tree)):
        assert np.flatnonzero(graph.above[[node]].toarray()[0]).tolist() == tree.ancestors(node).tolist()


@settings(max_examples=30, deadline=None)
@given(acyclic_edges())
def test_what_building_writes_is_read_back(edges: list[tuple[str, str]]) -> None:
    # The graph of the last node alone: everything else is pruned, and no parent of the rest.
    with tempfile.TemporaryDirectory() as folder:
        path = file(Path(folder), "child,parent\n" + "".join(f"{child},{parent}\n" for child, parent in edges))
        last = max(edges, key=lambda edge: int(edge[0][1:]))[0]
        built = build_tree(read_graph([path]), leaves=[last], parents="all")
        graph = read_label_graph(write_tree(Path(folder) / "written.csv", built))
    kept = nx.ancestors(as_networkx(edges), last) | {last}
    pairs = {
        (graph.tree.ids[c], graph.tree.ids[p]) for c, p in zip(graph.child.tolist(), graph.parent.tolist(), strict=True)
    }
    assert pairs == {(child, parent) for child, parent in edges if child in kept}
    assert [graph.tree.ids[v] for v in graph.leaves.tolist()] == [last]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "child,parent\na,r\nb,a\na,b\n",
            r"graph\.csv: The graph has a cycle.*below 'r'.*1 cycle edge.*taxonomy b",
        ),
        ("child,parent\na,r\nb,a\nb,b\n", r"graph\.csv: The graph has a cycle.*1 self loop"),
        ("child,parent\na,r\nb,r\nc,s\n", r"several roots: below 'r' is all but 2 unreachable node, 1 edge"),
        ("a,b\n1,2\n", "columns child and parent"),
    ],
)
def test_what_is_no_rooted_graph_is_an_error(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TaxonomyError, match=said):
        read_label_graph(file(tmp_path, text))
