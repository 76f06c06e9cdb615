"""The part of a taxonomy below a node, and scores on it and on the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from taxtune.metrics.hierarchical import precision_recall
from taxtune.taxonomy import Taxonomy, restrict
from tests.taxonomy.conftest import refused, walk_up
from tests.trees import trees


@st.composite
def domains(draw):
    """Any domain of any tree."""
    tree = draw(trees())
    assume(len(tree) > 1)
    tops = [node for node in range(len(tree)) if len(tree.children(node))]
    top = draw(st.sampled_from(tops))
    domain = restrict(tree, "/".join(tree.path(top)))
    assert domain.root == top
    return domain


@given(domains(), st.data())
def test_both_values_of_a_placement_agree_with_sets_of_ancestors(domain, data):
    tree = domain.full
    top = domain.root
    below = [node for node in range(len(tree)) if top in walk_up(tree, node)]
    assert domain.numbers.tolist() == below
    nodes = st.lists(st.integers(0, len(below) - 1), min_size=4, max_size=4)
    predicted = data.draw(nodes)
    target = data.draw(nodes)
    full_hp, full_hr = precision_recall(tree, domain.on_full(predicted), domain.on_full(target))
    hp, hr = precision_recall(domain.tree, np.array(predicted), np.array(target))
    for i in range(4):
        above_p = set(walk_up(tree, below[predicted[i]]))
        above_t = set(walk_up(tree, below[target[i]]))
        shared = len(above_p & above_t)
        assert full_hp[i] == pytest.approx(shared / len(above_p))
        assert full_hr[i] == pytest.approx(shared / len(above_t))
        # Within the domain the ancestors of its root are not counted, on either side.
        lost = len(walk_up(tree, top)) - 1
        assert hp[i] == pytest.approx((shared - lost) / (len(above_p) - lost))
        assert hr[i] == pytest.approx((shared - lost) / (len(above_t) - lost))
        assert full_hp[i] >= hp[i] - 1e-12


@given(domains())
def test_numbers_go_there_and_back(domain):
    tree = domain.full
    for node in range(len(tree)):
        inside = domain.inside(node)
        assert (inside is not None) == (domain.root in walk_up(tree, node))
        if inside is not None:
            assert int(domain.on_full(inside)) == node
            assert domain.tree.labels[inside] == tree.labels[node]
        # Every node of the whole tree is found by its path from the very root, or is outside.
        assert domain.locate(tree.path(node)) == inside


@pytest.fixture
def life():
    return Taxonomy(
        ["life", "bird", "duck", "robin", "insect", "robin", "plant", "robin", "fern"],
        [-1, 0, 1, 1, 0, 4, 0, 6, 6],
        aliases=[(), ("Aves",), ("drake",), (), (), (), (), (), ()],
        ids=[None, "q1", "q2", None, "q4", None, None, None, "q8"],
    )


@pytest.mark.parametrize(
    ("reference", "label"),
    [
        ("duck", "duck"),
        ("Drake", "duck"),
        ("q2", "duck"),
        ("robin", "robin"),  # life has three; birds have one
        ("bird", "bird"),
        ("life/bird/duck", "duck"),
        ("bird / duck", "duck"),
        (("bird", "duck"), "duck"),
        (("life", "bird", "duck"), "duck"),
        ("life", None),
        ("fern", None),
        ("q8", None),
        ("plant/robin", None),
        (("life", "insect"), None),
    ],
)
def test_labels_are_found_in_the_domain_or_known_to_be_outside(life, reference, label):
    birds = restrict(life, "Aves")
    assert birds.label == "bird"
    assert birds.full_label == "life"
    found = birds.locate(reference)
    assert (None if found is None else birds.tree.labels[found]) == label


@pytest.mark.parametrize(
    ("root", "reference", "message"),
    [
        ("bird", "ducc", "'ducc' is not on the taxonomy.*'duck'"),
        ("bird", ("bird", "goose"), "No node has this path"),
        ("life", "robin", "3 nodes are called 'robin'"),
    ],
)
def test_what_is_nowhere_or_several_times_in_the_domain_is_an_error(life, root, reference, message):
    domain = restrict(life, root)
    with refused(message):
        domain.locate(reference)


@pytest.mark.parametrize(
    ("root", "message"),
    [("robin", "3 nodes are called 'robin'"), ("duck", "nothing below this node.*'duck'")],
)
def test_what_is_no_root_of_a_domain_is_an_error(life, root, message):
    with refused(message):
        restrict(life, root)


def test_what_is_once_or_several_times_outside_is_outside(life):
    assert restrict(life, "plant").locate("duck") is None
    tree = Taxonomy.from_paths(["a/b/c", "a/d/x", "a/x"])
    assert restrict(tree, "b").locate("x") is None
