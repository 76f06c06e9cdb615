from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.taxonomy import read_taxonomy
from taxtune.taxonomy.build import build_tree, read_graph, read_leaves, write_tree
from tests.taxonomy.conftest import refused


def graph(pairs, **labels):
    """A graph of (child, parent) pairs, or of text such as "duck<bird bird<animal"."""
    if isinstance(pairs, str):
        pairs = [edge.split("<") for edge in pairs.split()]
    made = nx.DiGraph((parent, child) for child, parent in pairs)
    nx.set_node_attributes(made, labels, "label")
    return made


def parents(tree):
    """The parent of each node on its longest path."""
    return {node.key: node.parent for node in tree.nodes}


KEYS = st.sampled_from([f"n{i}" for i in range(9)])
EDGE = st.tuples(KEYS, KEYS).filter(lambda ends: ends[0] != ends[1])
ANY_EDGES = st.lists(EDGE, min_size=1, max_size=25)


@settings(max_examples=150, deadline=None)
@given(ANY_EDGES, st.sampled_from([None, "top"]), st.booleans(), st.integers(0, 3))
def test_every_node_and_every_edge_is_on_the_tree_or_counted(pairs, join, prune, seed):
    source = graph(pairs)
    leaves = sorted(source)[-1:] if prune and join else None
    tree = build_tree(source, join_roots=join, leaves=leaves, seed=seed)
    dropped = Counter(tree.counts["dropped"])
    above = parents(tree)
    root = tree.nodes[0].key
    added = root not in source
    kept = nx.DiGraph((parent, node) for node, parent in above.items() if parent is not None)
    kept.add_node(root)
    assert nx.is_arborescence(kept)
    nodes = dropped["pruned node"] + dropped["unreachable node"]
    assert len(source) == len(tree.nodes) - added + nodes
    kinds = ("edge of a dropped node", "edge into the root", "cycle edge", "extra parent")
    lost = sum(dropped[kind] for kind in kinds)
    assert source.number_of_edges() + tree.counts["root"]["joins"] == kept.number_of_edges() + lost
    if not prune:  # breaking cycles cuts no node off
        below = set(source) if added else nx.descendants(source, root)
        assert set(above) == {root, *below}
    before = {root}
    last = {}
    for node in list(above)[1:]:  # depth first, siblings by id
        parent = above[node]
        assert parent in before
        assert str(node) > last.get(parent, "")
        last[parent] = str(node)
        before.add(node)


@settings(max_examples=60, deadline=None)
@given(ANY_EDGES, st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_the_edges_does_not_matter_and_no_node_reaches_more(pairs, lot, seed):
    source = graph(pairs)
    tree = build_tree(source, seed=seed)
    below = [nx.descendants(source, node) for node in source]
    assert len(tree.nodes) == 1 + max(map(len, below))
    shuffled = lot.sample(pairs, len(pairs))
    assert build_tree(graph(shuffled), seed=seed).nodes == tree.nodes


@settings(max_examples=60, deadline=None)
@given(ANY_EDGES, st.integers(0, 3))
def test_a_node_keeps_the_parent_on_its_longest_path(pairs, seed):
    acyclic = graph([(max(ends), min(ends)) for ends in pairs])
    above = parents(build_tree(acyclic, join_roots="top", seed=seed))
    for node in set(above) & set(acyclic):
        upper = acyclic.subgraph({node} | nx.ancestors(acyclic, node))
        length = 0
        parent = above[node]
        while parent in acyclic:
            length += 1
            parent = above[parent]
        assert length == nx.dag_longest_path_length(upper)


def test_each_longest_path_is_as_likely_as_any_other():
    # Three paths lead to x through a, one through b.
    edges = graph("p<r q<r s<r t<r a<p a<q a<s b<t x<a x<b")
    drawn = [parents(build_tree(edges, seed=seed))["x"] for seed in range(400)]
    assert 270 < drawn.count("a") < 330
    # However many paths there are.
    rungs = []
    for i in range(1, 1200):
        for child, parent in product("ab", "ab"):
            rungs.append((f"n{i:04}{child}", f"n{i - 1:04}{parent}"))
    counts = build_tree(graph(rungs), join_roots="top").counts
    assert counts["parents"]["chosen at random"] == 2398


def test_the_tree_for_some_leaves_is_that_part_of_the_whole_tree():
    lot = random.Random(0)
    pairs = []
    for i in range(1, 300):
        for _ in range(2):
            pairs.append((f"n{i:03}", f"n{lot.randrange(i):03}"))
    edges = graph(pairs)
    whole = parents(build_tree(edges, root="n000"))
    wanted = [f"n{i:03}" for i in range(200, 300, 9)]
    part = parents(build_tree(edges, root="n000", leaves=wanted))
    expected = {None}
    for node in wanted:
        above = node
        while above not in expected:
            expected.add(above)
            above = whole[above]
    assert part == {node: parent for node, parent in whole.items() if node in expected}


def test_the_root_is_the_node_that_reaches_most():
    tree = build_tree(graph("a<r b<a c<a x<q y<x z<top"))
    assert tree.nodes[0].key == "r"
    assert tree.counts["dropped"]["unreachable node"] == 5


def test_a_root_that_is_named():
    named = build_tree(graph("b<a c<b d<c b<d x<a"), root="b")
    assert parents(named) == {"b": None, "c": "b", "d": "c"}
    assert named.counts["dropped"] == {
        "unreachable node": 2,
        "edge of a dropped node": 2,
        "edge into the root": 1,
    }
    birds = graph("duck<bird gull<bird", bird="Bird")
    assert build_tree(birds, root="Bird").nodes[0].key == "bird"


def test_a_root_above_several():
    joined = build_tree(graph("a<r b<s"), join_roots="s")
    top = "s (root)"
    assert parents(joined) == {top: None, "r": top, "a": "r", "s": top, "b": "s"}
    assert joined.nodes[0].label == "s"
    assert joined.counts["root"]["joins"] == 2
    assert build_tree(graph("a<r b<r"), join_roots="top").nodes[0].key == "r"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"root": "duck"}, r"2 nodes have this label: Q2, Q3.*'duck'.*Give an id to --root"),
        (
            {"root": "gul"},
            "--root is neither an id nor a label of the graph.*'gul'.*Did you mean 'gull'",
        ),
        ({"root": "Q1", "join_roots": "all"}, "exclude each other"),
        ({"leaves": ["nowhere"]}, "None of the leaves is below the root.*'nowhere'"),
        ({"leaves": ["Q2"], "root": "Q4"}, "None of the leaves is below the root"),
    ],
)
def test_what_cannot_be_built_is_an_error(options, message):
    source = graph("Q2<Q1 Q3<Q2 Q4<Q2", Q1="bird", Q2="duck", Q3="duck", Q4="gull")
    with refused(message):
        build_tree(source, **options)


def test_leaves_that_are_lost_are_named():
    source = graph("a<root b<root x<a y<a z<b x<b")
    tree = build_tree(source, root="a", leaves=["x", "z", "nowhere"])
    assert parents(tree) == {"a": None, "x": "a"}
    assert tree.counts["lost"] == {"z": "not below the root", "nowhere": "unknown"}


ODD = ['the "odd" one', "a/b", "a, b; c | d", "l'eau", "ابيض", "🦆 duck", "=1+1", "back\\slash"]


@pytest.mark.parametrize("label", ODD)
def test_odd_names_survive_writing_and_reading(label, tmp_path):
    source = graph("Q1<Q99", Q1=label)
    source.nodes["Q1"]["aliases"] = (f"{label} too", label.upper())
    source.nodes["Q1"]["leads"] = (f"{label} lead",)
    read = read_taxonomy(write_tree(tmp_path / "tree.csv", build_tree(source)), names=False)
    assert read.ids == ("Q99", "Q1")
    assert read.labels == ("Q99", label)
    assert read.aliases[1][0] == f"{label} too"
    assert read.leads[1] == (f"{label} lead",)


def test_siblings_are_told_apart(tmp_path):
    tree = build_tree(graph("G1<Q1 G2<Q1 G3<Q1", G1="gene", G2="gene", G3="gene (G2)"))
    read = read_taxonomy(write_tree(tmp_path / "tree.csv", tree), names=False)
    assert read.ids == ("Q1", "G1", "G2", "G3")
    assert read.labels == ("Q1", "gene (G1)", "gene (G2) (G2)", "gene (G2)")
    assert read.aliases[1:] == (("gene",), ("gene",), ())
    assert list(tree.counts["labels"].values()) == [1, 2]


@pytest.mark.heavy
def test_wordnet_has_no_cycle_and_imagenets_part_of_it_is_the_documented_one(shared_data, wordnet):
    if wordnet.version != "3.0":
        pytest.skip("needs WordNet 3.0, which ImageNet's ids are of")
    nouns = read_graph([Path(wordnet.place) / "data.noun"])
    assert len(nouns) == 82_115
    assert nouns.number_of_edges() == 84_427
    assert nx.is_directed_acyclic_graph(nouns)
    counts = build_tree(nouns).counts
    assert counts["dropped"] == {"extra parent": 2313}
    assert counts["tree"]["leaves"] == 65_145
    assert counts["tree"]["height"] == 19
    assert counts["parents"] == {"several": 2213, "chosen at random": 605}
    leaves = read_leaves(shared_data / "imagenet" / "imagenet_class_index.json")
    part = build_tree(nouns, leaves=leaves).counts
    assert part["tree"]["nodes"] == 1819
    assert part["tree"]["leaves"] == 1000
    assert part["tree"]["height"] == 18
    assert part["dropped"] == {
        "pruned node": 80_296,
        "edge of a dropped node": 82_533,
        "extra parent": 76,
    }
