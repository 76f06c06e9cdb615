from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.taxonomy import Taxonomy
from tests.taxonomy.conftest import refused, walk_up
from tests.trees import tree_and_nodes, trees

#: A tree and lists of its nodes, of the same length.
Case = tuple[Taxonomy, list[list[int]]]


def below(tree, node):
    """The nodes at and below a node, by their ancestors."""
    return [other for other in range(len(tree)) if node in walk_up(tree, other)]


@given(trees())
def test_ancestors_and_depth_follow_the_parents(tree):
    for node in range(len(tree)):
        above = walk_up(tree, node)
        assert tree.ancestors(node).tolist() == above
        assert tree.depth[node] == len(above) - 1
        assert tree.path(node) == tuple(tree.labels[i] for i in above)
    assert tree.height == max(tree.depth)


@given(tree_and_nodes())
def test_relations_of_two_nodes_agree_with_sets(case):
    tree, (a, b) = case
    shared = []
    lowest = []
    is_ancestor = []
    for x, y in zip(a, b, strict=True):
        common = [node for node in walk_up(tree, x) if node in walk_up(tree, y)]
        shared.append(len(common))
        lowest.append(common[-1])
        is_ancestor.append(x in walk_up(tree, y))
        assert tree.lca(x, y) == common[-1]
    assert tree.shared(a, b).tolist() == shared
    assert tree.lca(a, b).tolist() == lowest
    assert tree.lca(b, a).tolist() == lowest
    assert tree.lca(a, a).tolist() == a
    assert tree.is_ancestor(a, b).tolist() == is_ancestor


@given(trees())
def test_large_arrays_broadcast_like_small_ones(tree):
    nodes = np.arange(len(tree))
    table = tree.shared(nodes[:, np.newaxis], nodes)
    assert table.shape == (len(tree), len(tree))
    for x in nodes:
        assert table[x].tolist() == [tree.shared(x, y) for y in nodes]


@given(tree_and_nodes(rows=1))
def test_common_ancestor_of_many_folds_the_pairwise_one(case):
    tree, (nodes,) = case
    folded = nodes[0]
    for node in nodes[1:]:
        folded = tree.lca(folded, node)
    assert tree.common_ancestor(nodes) == folded


@given(trees(), st.data())
def test_subtree_keeps_the_nodes_below_and_their_relations(tree, data):
    top = data.draw(st.integers(0, len(tree) - 1))
    inside = below(tree, top)
    part = tree.subtree(top)
    assert len(part) == len(inside)
    for new, old in enumerate(inside):
        assert part.path(new) == tree.path(old)[tree.depth[top] :]


@given(trees())
def test_children_and_leaves(tree):
    parents = tree.parents.tolist()
    for node in range(len(tree)):
        assert tree.children(node).tolist() == np.flatnonzero(tree.parents == node).tolist()
    assert tree.leaves.tolist() == [node for node in range(len(tree)) if node not in parents]


@given(trees())
def test_what_is_below_a_node_is_a_range_of_places(tree):
    assert tree.places[tree.walk].tolist() == list(range(len(tree)))
    leaves = set(tree.leaves.tolist())
    counts = tree.leaves_below(range(len(tree)))
    for node in range(len(tree)):
        inside = below(tree, node)
        start = tree.places[node]
        stop = start + len(inside)
        assert tree.sizes[node] == len(inside)
        assert sorted(tree.walk[start:stop]) == inside
        assert tree.descendants(node).tolist() == inside
        assert counts[node] == len(leaves.intersection(inside))
        children = tree.places[tree.children(node)].tolist()
        assert children == sorted(children)


def test_arrays_cannot_be_written_to(birds):
    with pytest.raises(ValueError, match="read-only"):
        birds.lineage[0, 0] = 3


@pytest.mark.parametrize(
    ("labels", "parents", "message"),
    [
        ("", [], "no nodes"),
        ("ab", [-1, 1], "comes before"),
        ("ab", [-1, -1], "comes before"),
        ("ab", [0, 0], "comes before"),
        ("a ", [-1, 0], "empty label"),
        ("abb", [-1, 0, 0], "both called 'b'"),
    ],
)
def test_what_is_no_tree_is_refused(labels, parents, message):
    with refused(message):
        Taxonomy(list(labels), parents)


def test_the_same_label_may_stand_under_two_parents():
    tree = Taxonomy.from_paths(["root/a/Iris", "root/b/Iris"])
    assert tree.find("iris") == [2, 4]
    with refused("2 nodes are called 'Iris'.*root/a/Iris, root/b/Iris"):
        tree.resolve("Iris")
    assert tree.resolve("a/Iris") == 2
    assert tree.resolve("root/b/iris") == 4
    assert tree.resolve(["b", "Iris"]) == 4


def test_a_label_beats_an_alias_and_the_exact_spelling_another_case():
    aliases = {"thrush": ["robin", "throstle"]}
    tree = Taxonomy.from_paths(["root/robin", "root/thrush/Robin"], aliases=aliases)
    assert tree.resolve("robin") == 1
    assert tree.resolve("Robin") == 3
    assert tree.resolve("Throstle") == 2
    with refused("2 nodes"):
        tree.resolve("ROBIN")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Turdus merulla", "'Turdus merulla' is not on the taxonomy.*'Turdus merula'"),
        ("Boeing 747", "No similar name is on the taxonomy"),
        (["Aves", "Corvidae"], "No node has this path"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name, message, birds):
    with refused(message):
        birds.resolve(name)


@pytest.mark.parametrize(
    "name",
    [
        "Pa\u0302querette",
        "pa\u0302querette ",
        "fleur/Pa\u0302querette",
        "vie/fleur/Pa\u0302querette",
        ["fleur", " Pa\u0302querette"],
    ],
)
def test_accents_may_be_written_as_signs_of_their_own(name):
    tree = Taxonomy.from_paths(["vie/fleur/P\u00e2querette"])
    assert tree.resolve(name) == 2
    with refused("'Paquerette' is not on the taxonomy"):
        tree.resolve("Paquerette")


@given(trees())
def test_every_path_leads_to_its_node(tree):
    for node in range(len(tree)):
        path = tree.path(node)
        assert tree.resolve(path) == node
        assert tree.resolve([label.upper() for label in path]) == node
        if node and path[1] != path[0]:
            assert tree.resolve(path[1:]) == node


def test_of_paths_that_differ_in_case_only_the_one_as_written_is_meant():
    tree = Taxonomy.from_paths(["top/Aa/x", "top/aA/X"])
    assert tree.resolve(["Aa", "x"]) == 2
    assert tree.resolve(["aA", "X"]) == 4
    assert tree.resolve(["AA", "X"]) == 2


def test_the_digest_is_that_of_the_content():
    def digest(labels="top one two", last=0, **others):
        content = {"aliases": ["ab", "", ""], "ranks": ["x", None, None], "leads": ["", "c", ""]}
        content |= others
        return Taxonomy(labels.split(), [-1, 0, last], **content).digest

    first = digest()
    assert digest(source="elsewhere", ids=["1", None, None]) == first
    assert digest("top on etwo") != first
    assert digest(last=1) != first
    assert digest(aliases=["a", "b", ""]) != first
    assert digest(leads=["", "", "c"]) != first
    assert digest(ranks=[None, "x", None]) != first
    tree = Taxonomy(["top", "one"], [-1, 0])
    assert tree.with_names(leads=[(), ("first",)]).digest != tree.digest


def test_a_lead_is_a_name_that_identifies_nothing():
    tree = Taxonomy.from_paths(["life/Fratercula", "life/stork"], aliases={"stork": ["puffer"]})
    tree = tree.with_names(leads=[(), ("puffin",), ()])
    assert tree.names(1) == ("Fratercula", "puffin")
    assert tree.common_name(1) == "puffin"
    assert tree.find("puffin") == []
    assert tree.led(" PUFFIN ") == [1]
    with refused("only a lead to life/Fratercula; .* Did you mean 'puffer'") as refusal:
        tree.resolve("Puffin")
    assert "'puffin'" not in str(refusal.value)  # that suggestion would be refused again
    assert tree.with_names(aliases=[(), ("puffin",), ()]).resolve("Puffin") == 1
    assert tree.with_names(leads=[(), (), ()]).led("puffin") == []
    assert tree.subtree(1).leads == (("puffin",),)


def test_there_are_names_for_each_node():
    with pytest.raises(ValueError, match="same length"):
        Taxonomy(["life"], [-1], leads=[])
    with pytest.raises(ValueError, match="as many"):
        Taxonomy(["life"], [-1]).with_names(leads=[])
