from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TaxonomyError
from taxtune.taxonomy import Taxonomy
from tests.taxonomy.conftest import walk_up
from tests.trees import tree_and_nodes, trees


@given(trees())
def test_ancestors_and_depth_follow_the_parents(tree: Taxonomy) -> None:
    for node in range(len(tree)):
        assert tree.ancestors(node).tolist() == walk_up(tree, node)
        assert tree.depth[node] == len(walk_up(tree, node)) - 1
        assert tree.path(node) == tuple(tree.labels[i] for i in walk_up(tree, node))
    assert tree.height == max(len(walk_up(tree, node)) - 1 for node in range(len(tree)))


@given(tree_and_nodes())
def test_shared_and_lca_agree_with_sets(case: tuple[Taxonomy, list[list[int]]]) -> None:
    tree, (a, b) = case
    shared = [len(set(walk_up(tree, x)) & set(walk_up(tree, y))) for x, y in zip(a, b, strict=True)]
    assert tree.shared(a, b).tolist() == shared
    lowest = [
        max(set(walk_up(tree, x)) & set(walk_up(tree, y)), key=lambda node: tree.depth[node])
        for x, y in zip(a, b, strict=True)
    ]
    assert tree.lca(a, b).tolist() == tree.lca(b, a).tolist() == lowest
    assert [tree.lca(x, y) for x, y in zip(a, b, strict=True)] == lowest
    assert tree.lca(a, a).tolist() == a


@given(trees())
def test_large_arrays_broadcast_like_small_ones(tree: Taxonomy) -> None:
    nodes = np.arange(len(tree))
    table = tree.shared(nodes[:, np.newaxis], nodes)
    assert table.shape == (len(tree), len(tree))
    assert table.tolist() == [[int(tree.shared(x, y)) for y in nodes] for x in nodes]


@given(tree_and_nodes())
def test_is_ancestor(case: tuple[Taxonomy, list[list[int]]]) -> None:
    tree, (a, b) = case
    assert tree.is_ancestor(a, b).tolist() == [
        x in walk_up(tree, y) for x, y in zip(a, b, strict=True)
    ]


@given(tree_and_nodes(rows=1))
def test_common_ancestor_of_many_folds_the_pairwise_one(
    case: tuple[Taxonomy, list[list[int]]],
) -> None:
    tree, (nodes,) = case
    folded = nodes[0]
    for node in nodes[1:]:
        folded = tree.lca(folded, node)
    assert tree.common_ancestor(nodes) == folded


@given(trees(), st.data())
def test_subtree_keeps_the_nodes_below_and_their_relations(
    tree: Taxonomy, data: st.DataObject
) -> None:
    top = data.draw(st.integers(0, len(tree) - 1))
    below = tree.descendants(top).tolist()
    assert below == [node for node in range(len(tree)) if top in walk_up(tree, node)]
    part = tree.subtree(top)
    assert [part.labels[i] for i in range(len(part))] == [tree.labels[i] for i in below]
    for new, old in enumerate(below):
        assert part.path(new) == tree.path(old)[tree.depth[top] :]


@given(trees())
def test_children_and_leaves(tree: Taxonomy) -> None:
    for node in range(len(tree)):
        assert tree.children(node).tolist() == np.flatnonzero(tree.parents == node).tolist()
    assert tree.leaves.tolist() == [
        i for i in range(len(tree)) if i not in set(tree.parents.tolist())
    ]


def test_arrays_cannot_be_written_to(birds: Taxonomy) -> None:
    with pytest.raises(ValueError, match="read-only"):
        birds.lineage[0, 0] = 3


@pytest.mark.parametrize(
    ("labels", "parents", "message"),
    [
        ([], [], "no nodes"),
        (["a", "b"], [-1, 1], "comes before"),
        (["a", "b"], [-1, -1], "comes before"),
        (["a", "b"], [0, 0], "comes before"),
        (["a", " "], [-1, 0], "empty label"),
        (["a", "b", "b"], [-1, 0, 0], "both called 'b'"),
    ],
)
def test_what_is_no_tree_is_refused(labels: list[str], parents: list[int], message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        Taxonomy(labels, parents)


def test_the_same_label_may_stand_under_two_parents() -> None:
    tree = Taxonomy(["root", "a", "b", "Iris", "Iris"], [-1, 0, 0, 1, 2])
    assert tree.find("iris") == [3, 4]
    with pytest.raises(TaxonomyError, match=r"2 nodes are called 'Iris'.*root/a/Iris, root/b/Iris"):
        tree.resolve("Iris")
    assert tree.resolve("a/Iris") == 3
    assert tree.resolve("root/b/iris") == 4
    assert tree.resolve(["b", "Iris"]) == 4


def test_a_label_beats_an_alias_and_the_exact_spelling_another_case() -> None:
    tree = Taxonomy(
        ["root", "robin", "thrush", "Robin"],
        [-1, 0, 0, 2],
        aliases=[(), (), ("robin", "throstle"), ()],
    )
    assert tree.resolve("robin") == 1
    assert tree.resolve("Robin") == 3
    assert tree.resolve("Throstle") == 2
    with pytest.raises(TaxonomyError, match="2 nodes"):
        tree.resolve("ROBIN")


def test_an_unknown_name_suggests_the_nearest(birds: Taxonomy) -> None:
    with pytest.raises(
        TaxonomyError, match=r"'Turdus merulla' is not on the taxonomy.*'Turdus merula'"
    ):
        birds.resolve("Turdus merulla")
    with pytest.raises(TaxonomyError, match="No similar name is on the taxonomy"):
        birds.resolve("Boeing 747")
    with pytest.raises(TaxonomyError, match="No node has this path"):
        birds.resolve(["Aves", "Corvidae"])


@pytest.mark.parametrize(
    "name",
    [
        "Pa\u0302querette",
        "pa\u0302querette ",
        "fleur/Pa\u0302querette",
        "vie/fleur/Pa\u0302querette",
    ],
)
def test_accents_may_be_written_as_signs_of_their_own(name: str) -> None:
    tree = Taxonomy(["vie", "fleur", "P\u00e2querette"], [-1, 0, 1])
    assert tree.resolve(name) == 2
    assert tree.resolve(["fleur", " Pa\u0302querette"]) == 2
    with pytest.raises(TaxonomyError):
        tree.resolve("Paquerette")


@given(trees())
def test_what_is_below_a_node_is_a_range_of_places(tree: Taxonomy) -> None:
    below = [{v for v in range(len(tree)) if node in walk_up(tree, v)} for node in range(len(tree))]
    assert tree.sizes.tolist() == [len(nodes) for nodes in below]
    assert tree.places[tree.walk].tolist() == list(range(len(tree)))
    for node, nodes in enumerate(below):
        start = int(tree.places[node])
        assert set(tree.walk[start : start + len(nodes)].tolist()) == nodes
        assert tree.descendants(node).tolist() == sorted(nodes)
        assert [tree.places[child] for child in tree.children(node)] == sorted(
            tree.places[tree.children(node)]
        )
    leaves = set(tree.leaves.tolist())
    assert tree.leaves_below(range(len(tree))).tolist() == [len(nodes & leaves) for nodes in below]


@given(trees())
def test_every_path_leads_to_its_node(tree: Taxonomy) -> None:
    for node in range(len(tree)):
        path = tree.path(node)
        assert tree.resolve(path) == tree.resolve([label.upper() for label in path]) == node
        if node and path[1] != path[0]:
            assert tree.resolve(path[1:]) == node


def test_of_paths_that_differ_in_case_only_the_one_as_written_is_meant() -> None:
    tree = Taxonomy(["top", "Aa", "aA", "x", "X"], [-1, 0, 0, 1, 2])
    assert [tree.resolve(["Aa", "x"]), tree.resolve(["aA", "X"]), tree.resolve(["AA", "X"])] == [
        3,
        4,
        3,
    ]


def test_the_digest_is_that_of_the_content() -> None:
    def digest(labels: list[str], parents: list[int], **more: object) -> str:
        return Taxonomy(labels, parents, **more).digest  # type: ignore[arg-type]

    whole = {"aliases": [("a", "b"), (), ()], "ranks": ["x", None, None], "leads": [(), ("c",), ()]}
    first = digest(["top", "one", "two"], [-1, 0, 0], **whole)
    assert first == digest(
        ["top", "one", "two"], [-1, 0, 0], **whole, source="elsewhere", ids=["1", None, None]
    )
    others = [
        digest(["top", "on", "etwo"], [-1, 0, 0], **whole),
        digest(["top", "one", "two"], [-1, 0, 1], **whole),
        digest(["top", "one", "two"], [-1, 0, 0], **whole | {"aliases": [("a",), ("b",), ()]}),
        digest(["top", "one", "two"], [-1, 0, 0], **whole | {"leads": [(), (), ("c",)]}),
        digest(["top", "one", "two"], [-1, 0, 0], **whole | {"ranks": [None, "x", None]}),
    ]
    assert len({first, *others}) == 6
    tree = Taxonomy(["top", "one"], [-1, 0])
    assert tree.with_names(leads=[(), ("first",)]).digest != tree.digest


def test_a_lead_is_a_name_that_identifies_nothing() -> None:
    tree = Taxonomy(
        ["life", "Fratercula", "stork"],
        [-1, 0, 0],
        aliases=[(), (), ("puffer",)],
        leads=[(), ("puffin",), ()],
    )
    assert tree.names(1) == ("Fratercula", "puffin")
    assert tree.common_name(1) == "puffin"
    assert (tree.find("puffin"), tree.led(" PUFFIN ")) == ([], [1])
    with pytest.raises(
        TaxonomyError, match=r"only a lead to life/Fratercula; .* Did you mean 'puffer'"
    ) as refusal:
        tree.resolve("Puffin")
    assert "'puffin'" not in str(refusal.value)  # that suggestion would be refused again
    assert tree.with_names(aliases=[(), ("puffin",), ()]).resolve("Puffin") == 1
    assert tree.with_names(leads=[(), (), ()]).led("puffin") == []
    assert tree.subtree(1).leads == (("puffin",),)
    with pytest.raises(ValueError, match="same length"):
        Taxonomy(["life"], [-1], leads=[])
    with pytest.raises(ValueError, match="as many"):
        tree.with_names(leads=[()])
