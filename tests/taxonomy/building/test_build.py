from __future__ import annotations

import csv
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import TaxonomyError, TaxtuneError
from taxtune.taxonomy import read_taxonomy
from taxtune.taxonomy.building import (
    BuildOptions,
    EdgeCollector,
    EdgeFate,
    NodeFate,
    build_tree,
    name_nodes,
    records,
    summary,
    write_report,
    write_tree,
)
from taxtune.taxonomy.building.build import BuiltTree
from taxtune.taxonomy.building.edges import tidy

from .graphs import built, graph, kept_edges, parents


def fates(tree: BuiltTree, fate: NodeFate) -> set[str]:
    return {tree.ids[node] for node in np.flatnonzero(tree.node_fate == fate).tolist()}


@st.composite
def any_edges(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Edges of any graph: cycles, self loops, repeats, islands."""
    keys = st.sampled_from([f"n{i}" for i in range(draw(st.integers(2, 9)))])
    return draw(st.lists(st.tuples(keys, keys), min_size=1, max_size=25))


@settings(max_examples=150, deadline=None)
@given(any_edges(), st.sampled_from(["lose-no-node", "fewest-edges"]), st.booleans(), st.booleans(), st.integers(0, 3))
def test_every_node_and_every_edge_is_on_the_tree_or_accounted_for(
    pairs: list[tuple[str, str]], cycles: str, join: bool, prune: bool, seed: int
) -> None:
    source = graph(pairs)
    options = BuildOptions(
        join_roots="top" if join else None,
        cycles=cycles,  # type: ignore[arg-type]
        leaves=(source.ids[-1],) if prune and join else None,
        seed=seed,
    )
    tree = build_tree(source, options)
    facts = summary(tree, name_nodes(tree))
    above = parents(tree)
    down = nx.DiGraph((parent, child) for child, parent in above.items() if parent is not None)
    down.add_node(tree.ids[tree.root])
    assert nx.is_arborescence(down)
    assert set(down) == set(above)
    added = len(tree.ids) - len(source)
    assert len(source) == len(above) - added + sum(facts["dropped"]["nodes"].values())
    in_tree = len(above) - 1 - (int((tree.parent == tree.root).sum()) - _pruned_joins(tree) if added else 0)
    assert len(pairs) == in_tree + sum(facts["dropped"]["edges"].values())
    if cycles == "lose-no-node" and not prune:
        reached = nx.descendants(nx.DiGraph((p, c) for c, p in pairs), tree.ids[tree.root]) if not added else source.ids
        assert set(above) == {tree.ids[tree.root], *reached}
    listed = list(records(tree, name_nodes(tree)))
    assert sum(record["what"] == "cycle edge" for record in listed) == facts["cycles"]["edges_dropped"]
    # Depth first: a node comes after its parent, and right behind the subtree of its earlier sibling.
    order = [tree.ids[node] for node in tree.order.tolist()]
    assert order == [order[0], *_walk(above, order[0])]


def _pruned_joins(tree: BuiltTree) -> int:
    return int(((tree.parent == tree.root) & (tree.edge_fate != EdgeFate.KEPT)).sum())


def _walk(above: dict[str, str | None], node: str) -> list[str]:
    return [key for child in sorted(c for c, p in above.items() if p == node) for key in (child, *_walk(above, child))]


def test_the_root_is_the_node_that_reaches_most() -> None:
    tree = built("a<r b<a c<a x<q y<x z<top")
    assert tree.ids[tree.root] == "r"
    facts = summary(tree, name_nodes(tree))
    assert facts["root"] | {"label": ""} == {
        "id": "r",
        "label": "",
        "how": "the node that reaches the most nodes",
        "reaches": 4,
        "candidates": 3,
        "next_best_reaches": 3,
    }
    assert fates(tree, NodeFate.NOT_BELOW_THE_ROOT) == {"q", "x", "y", "z", "top"}


@settings(max_examples=60, deadline=None)
@given(any_edges())
def test_no_other_node_reaches_more_than_the_root_that_is_chosen(pairs: list[tuple[str, str]]) -> None:
    down = nx.DiGraph((parent, child) for child, parent in pairs)
    tree = built(pairs)
    assert len(tree.order) == max(len(nx.descendants(down, node)) + 1 for node in down)


def test_a_root_is_named_by_id_or_by_a_label_that_one_node_has() -> None:
    labels = {"Q1": "bird", "Q2": "duck", "Q3": "Duck", "Q4": "gull"}
    pairs = "Q2<Q1 Q3<Q2 Q4<Q2"
    assert built(pairs, labels, root="Q2").root == 1
    assert built(pairs, labels, root="duck").root == 1
    assert built(pairs, labels, root="GULL").root == 3
    with pytest.raises(TaxonomyError, match=r"2 nodes have this name: Q2, Q3.*Give the id to --root"):
        built(pairs, labels, root="DUCK")
    with pytest.raises(TaxonomyError, match="Did you mean 'gull'"):
        built(pairs, labels, root="gul")
    with pytest.raises(TaxonomyError, match="exclude each other"):
        built(pairs, labels, root="Q1", join_roots="all")


def test_what_lies_above_a_named_root_goes_and_so_do_edges_into_it() -> None:
    tree = built("b<a c<b d<c b<d x<a", root="b")
    assert parents(tree) == {"b": None, "c": "b", "d": "c"}
    assert kept_edges(tree, EdgeFate.INTO_THE_ROOT) == {("b", "d")}
    assert fates(tree, NodeFate.NOT_BELOW_THE_ROOT) == {"a", "x"}


def test_all_roots_go_under_a_new_one() -> None:
    tree = built("a<r b<s c<c", join_roots="s")
    assert parents(tree) == {"s (root)": None, "a": "r", "b": "s", "c": "s (root)", "r": "s (root)", "s": "s (root)"}
    assert tree.label(tree.root) == "s"
    alone = built("a<r b<r", join_roots="top")
    assert alone.ids[alone.root] == "r"
    assert summary(alone, name_nodes(alone))["root"]["how"] == "the only node without parents"


def test_a_left_out_class_takes_its_edges_along_and_children_keep_their_other_parents() -> None:
    pairs = "abstract<root a<abstract b<abstract b<other other<root c<a"
    tree = built(pairs, leave_out=("abstract",))
    assert parents(tree) == {"root": None, "other": "root", "b": "other"}
    assert fates(tree, NodeFate.LEFT_OUT) == {"abstract"}
    assert fates(tree, NodeFate.BELOW_LEFT_OUT) == {"a", "c"}
    facts = summary(tree, name_nodes(tree))
    assert facts["dropped"]["nodes"] == {"unreachable node": 2, "left-out class": 1, "pruned node": 0}
    assert facts["dropped"]["edges"]["edge of a left-out class"] == 3


def test_lifting_makes_no_node_its_own_parent() -> None:
    tree = built("b<root b<x x<b c<b", leave_out=("x",), lift=True)
    assert tree.lifted == 0
    assert parents(tree) == {"root": None, "b": "root", "c": "b"}


def test_children_of_left_out_classes_can_be_lifted_through_several_of_them() -> None:
    pairs = "u<root v<u u<v a<v b<v b<root c<a"
    tree = built(pairs, leave_out=("u", "v"), lift=True)
    assert parents(tree) == {"root": None, "a": "root", "b": "root", "c": "a"}
    assert tree.lifted == 1  # the edge from b to the root was there
    assert not tree.broken
    with pytest.raises(TaxonomyError, match="The root is left out"):
        built(pairs, leave_out=("u",), root="u")


def test_leaving_out_a_class_breaks_its_cycles() -> None:
    assert len(built("a<root b<a a<b").broken) == 1
    assert not built("a<root b<a a<b", leave_out=("b",)).broken


def test_only_what_is_above_wanted_leaves_stays() -> None:
    pairs = "a<root b<root x<a y<a z<b x<b"
    tree = built(pairs, leaves=("x", "nowhere"))
    assert set(parents(tree)) in ({"root", "a", "x"}, {"root", "b", "x"})
    assert tree.missing_leaves == ("nowhere",)
    facts = summary(tree, name_nodes(tree))
    assert facts["leaves"] == {"not_in_the_graph": ["nowhere"], "not_on_the_tree": []}
    assert facts["dropped"]["nodes"]["pruned node"] == 3
    lost = built(pairs, leaves=("x", "z"), root="a")
    assert [lost.ids[node] for node in lost.lost_leaves] == ["z"]
    with pytest.raises(TaxonomyError, match="None of the 1 leaves is in the graph"):
        built(pairs, leaves=("nowhere",))
    with pytest.raises(TaxonomyError, match="The root is above none of the leaves"):
        built("a<root c<b", leaves=("c",), root="root")
    with pytest.raises(TaxonomyError, match="None of the 1 leaves is below the root"):
        built("a<root b<a c<b d<b a<c a<d", leaves=("d",), root="root", cycles="fewest-edges")


def test_the_tree_for_some_leaves_is_that_part_of_the_whole_tree() -> None:
    lot = np.random.default_rng(0)
    pairs = [(f"n{i:03}", f"n{lot.integers(0, i):03}") for i in range(1, 300) for _ in range(2)]
    pairs += [(f"n{i:03}", f"n{i + lot.integers(1, 4):03}") for i in range(1, 290, 20)]
    whole = parents(built(pairs, root="n000"))
    wanted = tuple(f"n{i:03}" for i in range(200, 300, 9))
    part = parents(built(pairs, root="n000", leaves=wanted))
    expected: set[str | None] = {None}
    for leaf in wanted:
        node: str | None = leaf
        while node not in expected:
            expected.add(node)
            node = whole[node or ""]
    assert set(part) == expected - {None}
    assert all(whole[node] == parent for node, parent in part.items())


def test_repeats_and_self_loops_are_counted_and_listed_with_their_rows() -> None:
    tree = built("a<root a<root b<a b<b a<root")
    listed = list(records(tree, name_nodes(tree)))
    assert [(r["what"], r["child"], r["file"], r["row"]) for r in listed if "row" in r] == [
        ("duplicate edge", "a", "edges.csv", 2),
        ("duplicate edge", "a", "edges.csv", 5),
        ("self loop", "b", "edges.csv", 4),
    ]


def test_an_extra_parent_is_listed_with_the_one_that_stays_and_both_depths() -> None:
    tree = built("a<root b<a c<b c<root d<a d<e e<root")
    listed = {(r["child"], r["parent"]): r for r in records(tree, name_nodes(tree)) if "parent" in r}
    assert listed["c", "root"] | {"file": ""} == {
        "what": "extra parent",
        "child": "c",
        "child_label": "c",
        "parent": "root",
        "parent_label": "root",
        "why": "a shorter path from the root",
        "kept_parent": "b",
        "depth": 1,
        "kept_depth": 3,
        "file": "",
        "row": 4,
    }
    (tied,) = [record for key, record in listed.items() if key[0] == "d"]
    assert tied["why"] == "an equally long path, chosen at random"
    assert summary(tree, name_nodes(tree))["several_parents"] == {"nodes": 2, "decided_by_lot": 1}


ODD = [
    'the "odd" one',
    "with\ttab",
    "a/b",
    "a, b; c | d",
    "l'eau",
    "line\nend",
    "ابيض",
    "🦆 duck",
    "nul\0",
    "\ud83e\udd86",
    "half \ud83e",
    "  spaced   out ",
    "A\u030a",
    "=1+1",
    "'quoted'",
]


def test_odd_labels_survive_writing_and_reading(tmp_path: Path) -> None:
    into = EdgeCollector()
    into.start("x")
    for number, label in enumerate(ODD):
        into.edge(f"Q{number}", "Q1000")
        into.name(f"Q{number}", label)
        into.alias(f"Q{number}", f"{label} too")
    tree = build_tree(into.finish(), BuildOptions())
    names = name_nodes(tree)
    read = read_taxonomy(write_tree(tmp_path / "tree.csv", tree, names), names=False)
    assert list(read.ids) == [tree.ids[node] for node in tree.order.tolist()]
    for number, label in enumerate(ODD):
        node = read.by_id[f"Q{number}"]
        assert read.labels[node] == tidy(label) != ""
        assert read.aliases[node] == (tidy(f"{label} too"),)
        assert read.resolve(f"Q{number}") == node
    assert read.labels[read.by_id["Q9"]] == "🦆"


def test_labels_of_hundreds_of_nodes_survive_and_siblings_are_told_apart(tmp_path: Path) -> None:
    pairs = [(f"Q{i}", f"Q{i // 3}") for i in range(1, 400)]
    labels = {f"Q{i}": "gene" for i in range(400)} | {"Q7": "gene (Q8)"}
    tree = built(pairs, labels)
    names = name_nodes(tree)
    read = read_taxonomy(write_tree(tmp_path / "tree.csv", tree, names), names=False)
    assert len(read) == 400
    assert read.labels[read.by_id["Q8"]] == "gene (Q8) (Q8)"
    assert read.aliases[read.by_id["Q8"]] == ("gene",)
    assert read.labels[read.by_id["Q7"]] == "gene (Q8)"
    assert len(names.renamed) == sum("(" in label for label in read.labels) - 1
    assert summary(tree, names)["names"]["most_shared_label"] == ["gene", 2]  # the root, and an only child


def test_nodes_without_a_label_are_called_by_their_id_and_counted(tmp_path: Path) -> None:
    tree = built("Q2<Q1 Q3<Q1", {"Q1": "all", "Q2": "long " * 1000, "Q3": " \t"})
    names = name_nodes(tree)
    assert [names.labels[node] for node in tree.order.tolist()] == ["all", "Q2", "Q3"]
    assert [record["child"] for record in records(tree, names) if record["what"] == "no label"] == ["Q2", "Q3"]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_the_report_lists_everything(tmp_path: Path, suffix: str) -> None:
    tree = built("a<root b<a a<b c<b c<root x<y x<y z<z", leave_out=("y",))
    names = name_nodes(tree)
    path = tmp_path / f"report.{suffix}"
    count = write_report(path, tree, names)
    if suffix == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["cycle"] for row in rows if row["what"] == "cycle edge"] == ["a b a"]
    else:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert [row["cycle"] for row in rows if row["what"] == "cycle edge"] == [["a", "b", "a"]]
    assert len(rows) == count
    whats = [row["what"] for row in rows]
    facts = summary(tree, names)["dropped"]
    for what, number in (facts["edges"] | facts["nodes"]).items():
        assert whats.count(what) == number, what
    with pytest.raises(TaxtuneError, match=r"be a \.jsonl or \.csv file"):
        write_report(tmp_path / "report.txt", tree, names)


def test_a_graph_without_edges_is_an_error() -> None:
    with pytest.raises(TaxonomyError, match="There is no edge"):
        EdgeCollector().finish()
    with pytest.raises(TaxonomyError, match="Nothing is left"):
        built("a<b", leave_out=("a", "b"))


def test_one_node_is_a_tree() -> None:
    tree = built("a<a")
    assert parents(tree) == {"a": None}


def test_a_node_keeps_its_first_label_and_the_others_become_aliases() -> None:
    into = EdgeCollector()
    into.edge("duck", "bird")
    for label in ("Duck", "Duck", "Mallard", ""):
        into.name("duck", label)
    into.name("swan", "Swan")
    source = into.finish()
    assert (source.labels, source.aliases) == ({1: "Duck"}, {1: ("Mallard",)})
    assert source.notes == {
        "further labels, kept as aliases": 1,
        "empty labels": 1,
        "names of ids that are in no edge": 1,
    }


def test_wordnets_hypernyms_become_a_tree_with_every_class_of_imagenet(shared_data: Path) -> None:
    from taxtune.taxonomy.sources import read_graph

    folder = shared_data / "imagenet"
    index = folder / "imagenet_class_index.json"
    tree = build_tree(read_graph([folder / "wordnet.parent-child.pruned.txt"], names=[index]), BuildOptions())
    above = parents(tree)
    classes = {synset for synset, _ in json.loads(index.read_text("utf-8")).values()}
    assert tree.ids[tree.root] == "n00001740"  # entity
    assert classes <= set(above)
    assert not classes & set(above.values())
    # The longest path to each class, by networkx, is as long as that in the tree.
    lines = (folder / "wordnet.parent-child.pruned.txt").read_text("utf-8").split("\n")
    down = nx.DiGraph(tuple(line.split()) for line in lines if line)
    depth = {"n00001740": 0}
    for node in nx.topological_sort(down.subgraph(nx.descendants(down, "n00001740") | {"n00001740"})):
        for child in down[node]:
            depth[child] = max(depth.get(child, 0), depth[node] + 1)
    for node in tree.order.tolist():
        assert tree.parents.depth[node] == depth[tree.ids[node]]


@settings(max_examples=80, deadline=None)
@given(any_edges(), st.sampled_from(["lose-no-node", "fewest-edges"]), st.booleans())
def test_all_parents_make_a_graph_without_cycles_below_one_root(
    pairs: list[tuple[str, str]], cycles: str, join: bool
) -> None:
    source = graph(pairs)
    common = {"join_roots": "top" if join else None, "cycles": cycles}
    whole, tree = (
        build_tree(source, BuildOptions(**common, parents=rule))  # type: ignore[arg-type]
        for rule in ("all", "longest-path")
    )
    # What the tree calls extra parents is all that the graph has more.
    assert kept_edges(whole, EdgeFate.KEPT) == kept_edges(tree, EdgeFate.KEPT, EdgeFate.EXTRA_PARENT)
    assert whole.order.tolist() == tree.order.tolist()
    down = nx.DiGraph((parent, child) for child, parent in kept_edges(whole, EdgeFate.KEPT))
    down.add_node(whole.ids[whole.root])
    assert nx.is_directed_acyclic_graph(down)
    assert {whole.ids[whole.root], *nx.descendants(down, whole.ids[whole.root])} == set(down)
    facts = summary(whole, name_nodes(whole))
    assert (facts["tree"]["nodes"], facts["tree"]["edges"]) == (len(down), down.number_of_edges())
    assert facts["tree"]["leaves"] == sum(not down.out_degree(node) for node in down)
    assert facts["several_parents"]["nodes"] == sum(down.in_degree(node) > 1 for node in down)
