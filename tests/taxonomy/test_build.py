from __future__ import annotations

import random
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import TaxonomyError
from taxtune.taxonomy import read_taxonomy
from taxtune.taxonomy.build import BuiltTree, build_tree, read_graph, read_leaves, write_tree
from taxtune.wordnet import WordNet


def graph(pairs: str | list[tuple[str, str]], **labels: str) -> nx.DiGraph:
    """A graph of (child, parent) pairs, or of text such as "duck<bird bird<animal"."""
    if isinstance(pairs, str):
        pairs = [(edge.split("<")[0], edge.split("<")[1]) for edge in pairs.split()]
    made = nx.DiGraph((parent, child) for child, parent in pairs)
    nx.set_node_attributes(made, labels, "label")
    return made


def parents(tree: BuiltTree) -> dict[object, object]:
    """The parent of each node on its longest path."""
    return {node.key: node.parent for node in tree.nodes}


KEYS = st.sampled_from([f"n{i}" for i in range(9)])
ANY_EDGES = st.lists(
    st.tuples(KEYS, KEYS).filter(lambda ends: ends[0] != ends[1]), min_size=1, max_size=25
)


@settings(max_examples=150, deadline=None)
@given(ANY_EDGES, st.sampled_from([None, "top"]), st.booleans(), st.integers(0, 3))
def test_every_node_and_every_edge_is_on_the_tree_or_counted(
    pairs: list[tuple[str, str]], join: str | None, prune: bool, seed: int
) -> None:
    source = graph(pairs)
    leaves = sorted(source)[-1:] if prune and join else None
    tree = build_tree(source, join_roots=join, leaves=leaves, seed=seed)
    dropped, above = tree.counts["dropped"], parents(tree)
    root = tree.nodes[0].key
    added = root not in source
    kept = nx.DiGraph((parent, node) for node, parent in above.items() if parent is not None)
    kept.add_node(root)
    assert nx.is_arborescence(kept)
    nodes = dropped.get("pruned node", 0) + dropped.get("unreachable node", 0)
    assert len(source) == len(tree.nodes) - added + nodes
    kinds = ("edge of a dropped node", "edge into the root", "cycle edge", "extra parent")
    lost = sum(dropped.get(kind, 0) for kind in kinds)
    assert source.number_of_edges() + tree.counts["root"]["joins"] == kept.number_of_edges() + lost
    if not prune:  # breaking cycles cuts no node off
        assert set(above) == ({root, *source} if added else {root} | nx.descendants(source, root))
    order = list(above)
    for i, node in enumerate(order[1:], start=1):  # depth first, siblings by id
        assert above[node] in order[:i]
        siblings = [other for other in order if above[other] == above[node]]
        assert siblings == sorted(siblings)  # type: ignore[type-var]


@settings(max_examples=60, deadline=None)
@given(ANY_EDGES, st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_order_of_the_edges_does_not_matter_and_no_node_reaches_more(
    pairs: list[tuple[str, str]], lot: random.Random, seed: int
) -> None:
    tree = build_tree(graph(pairs), seed=seed)
    assert len(tree.nodes) == max(
        len(nx.descendants(graph(pairs), node)) + 1 for node in graph(pairs)
    )
    shuffled = lot.sample(pairs, len(pairs))
    assert build_tree(graph(shuffled), seed=seed).nodes == tree.nodes


@settings(max_examples=60, deadline=None)
@given(ANY_EDGES, st.integers(0, 3))
def test_a_node_keeps_the_parent_on_its_longest_path(
    pairs: list[tuple[str, str]], seed: int
) -> None:
    acyclic = graph([(max(ends), min(ends)) for ends in pairs])
    above = parents(build_tree(acyclic, join_roots="top", seed=seed))
    for node in set(above) & set(acyclic):
        longest = max(
            (len(path) for top in acyclic for path in nx.all_simple_paths(acyclic, top, node)),
            default=1,
        )
        walk = [node]
        while above[walk[-1]] in acyclic:
            walk.append(above[walk[-1]])
        assert len(walk) == longest


def test_each_longest_path_is_as_likely_as_any_other() -> None:
    # Three paths lead to x through a, one through b.
    edges = graph("p<r q<r s<r t<r a<p a<q a<s b<t x<a x<b")
    drawn = [parents(build_tree(edges, seed=seed))["x"] for seed in range(400)]
    assert 270 < drawn.count("a") < 330
    # However many paths there are.
    ladder = graph(
        [(f"n{i:04}{c}", f"n{i - 1:04}{p}") for i in range(1, 1200) for c in "ab" for p in "ab"]
    )
    assert build_tree(ladder, join_roots="top").counts["parents"]["chosen at random"] == 2398


def test_the_tree_for_some_leaves_is_that_part_of_the_whole_tree() -> None:
    lot = random.Random(0)
    edges = graph(
        [(f"n{i:03}", f"n{lot.randrange(i):03}") for i in range(1, 300) for _ in range(2)]
    )
    whole = parents(build_tree(edges, root="n000"))
    wanted = [f"n{i:03}" for i in range(200, 300, 9)]
    part = parents(build_tree(edges, root="n000", leaves=wanted))
    expected: set[object] = {None}
    for node in wanted:
        above: object = node
        while above not in expected:
            expected.add(above)
            above = whole[above]
    assert part == {node: parent for node, parent in whole.items() if node in expected}


def test_roots() -> None:
    tree = build_tree(graph("a<r b<a c<a x<q y<x z<top"))
    assert (tree.nodes[0].key, tree.counts["dropped"]["unreachable node"]) == ("r", 5)
    named = build_tree(graph("b<a c<b d<c b<d x<a"), root="b")
    assert parents(named) == {"b": None, "c": "b", "d": "c"}
    assert named.counts["dropped"] == {
        "unreachable node": 2,
        "edge of a dropped node": 2,
        "edge into the root": 1,
    }
    joined = build_tree(graph("a<r b<s"), join_roots="s")
    assert parents(joined) == {
        "s (root)": None,
        "r": "s (root)",
        "a": "r",
        "s": "s (root)",
        "b": "s",
    }
    assert (joined.nodes[0].label, joined.counts["root"]["joins"]) == ("s", 2)
    assert build_tree(graph("a<r b<r"), join_roots="top").nodes[0].key == "r"
    assert build_tree(graph("duck<bird gull<bird", bird="Bird"), root="Bird").nodes[0].key == "bird"


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
def test_what_cannot_be_built_is_an_error(options: dict[str, object], message: str) -> None:
    source = graph("Q2<Q1 Q3<Q2 Q4<Q2", Q1="bird", Q2="duck", Q3="duck", Q4="gull")
    with pytest.raises(TaxonomyError, match=message):
        build_tree(source, **options)  # type: ignore[arg-type]


def test_leaves_that_are_lost_are_named() -> None:
    tree = build_tree(
        graph("a<root b<root x<a y<a z<b x<b"), root="a", leaves=["x", "z", "nowhere"]
    )
    assert parents(tree) == {"a": None, "x": "a"}
    assert tree.counts["lost"] == {"z": "not below the root", "nowhere": "unknown"}


def test_siblings_are_told_apart_and_odd_names_survive_writing_and_reading(tmp_path: Path) -> None:
    odd = ['the "odd" one', "a/b", "a, b; c | d", "l'eau", "ابيض", "🦆 duck", "=1+1", "back\\slash"]
    source = graph(
        [(f"Q{i}", "Q99") for i in range(len(odd))] + [("G1", "Q1"), ("G2", "Q1"), ("G3", "Q1")]
    )
    for i, label in enumerate(odd):
        source.nodes[f"Q{i}"].update(
            label=label, aliases=(f"{label} too", label.upper()), leads=(f"{label} lead",)
        )
    for key, label in {"G1": "gene", "G2": "gene", "G3": "gene (G2)"}.items():
        source.nodes[key]["label"] = label
    tree = build_tree(source)
    read = read_taxonomy(write_tree(tmp_path / "tree.csv", tree), names=False)
    assert list(read.ids) == [node.key for node in tree.nodes]
    for i, label in enumerate(odd):
        node = read.by_id[f"Q{i}"]
        assert (read.labels[node], read.aliases[node][0], read.leads[node]) == (
            label,
            f"{label} too",
            (f"{label} lead",),
        )
    genes = {
        key: (read.labels[read.by_id[key]], read.aliases[read.by_id[key]])
        for key in ("G1", "G2", "G3")
    }
    assert genes == {
        "G1": ("gene (G1)", ("gene",)),
        "G2": ("gene (G2) (G2)", ("gene",)),
        "G3": ("gene (G2)", ()),
    }
    assert read.labels[0] == "Q99"
    assert list(tree.counts["labels"].values()) == [1, 2]


@pytest.mark.heavy
def test_wordnet_has_no_cycle_and_imagenets_part_of_it_is_the_documented_one(
    shared_data: Path, wordnet: WordNet
) -> None:
    if wordnet.version != "3.0":
        pytest.skip("needs WordNet 3.0, which ImageNet's ids are of")
    nouns = read_graph([Path(wordnet.place) / "data.noun"])
    assert (len(nouns), nouns.number_of_edges(), nx.is_directed_acyclic_graph(nouns)) == (
        82_115,
        84_427,
        True,
    )
    counts = build_tree(nouns).counts
    assert counts["dropped"] == {"extra parent": 2313}
    assert (counts["tree"]["leaves"], counts["tree"]["height"]) == (65_145, 19)
    assert counts["parents"] == {"several": 2213, "chosen at random": 605}
    leaves = read_leaves(shared_data / "imagenet" / "imagenet_class_index.json")
    part = build_tree(nouns, leaves=leaves).counts
    assert (part["tree"]["nodes"], part["tree"]["leaves"], part["tree"]["height"]) == (
        1819,
        1000,
        18,
    )
    assert part["dropped"] == {
        "pruned node": 80_296,
        "edge of a dropped node": 82_533,
        "extra parent": 76,
    }
