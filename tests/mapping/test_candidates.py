"""The nodes that an arbiter chooses from."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy
from tests.cases import cases

CARS = ["hatchback", "estate car", "sports car", "limousine"]
BIRDS = {
    "passerine": {
        "thrush": {"Turdus": ["blackbird", "fieldfare"]},
        "crow": {"Corvus": ["jackdaw"]},
    },
    "crane bird": {"Grus": ["common crane"]},
}
SPARE = {f"group {i}": {f"kind {i}": [f"thing {i}-{j}" for j in range(20)]} for i in range(20)}
TREE = Taxonomy.from_dict({"all": {"car": CARS, "bird": BIRDS, "machine": ["crane"], **SPARE}})
MAPPER = Mapper(TREE)
WORDS = ["a", "crane", "blackbird", "or", "jackdaw", "car", "thing 3-4", "estate", "not", "lattice"]


def candidates(answer):
    [question] = MAPPER.questions([(MAPPER.place_one(answer), "")])
    return question.candidates


def labels(answer):
    return [TREE.labels[node] for node in candidates(answer)]


@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_they_are_a_tree_of_few_nodes_in_walking_order(answer):
    nodes = candidates(answer)
    assert nodes[0] == TREE.root
    assert list(TREE.places[list(nodes)]) == sorted(set(TREE.places[list(nodes)].tolist()))
    assert len(nodes) <= 70
    for one in nodes:
        for other in nodes:
            assert TREE.lca(one, other) in nodes, "where two paths part is shown"
    placed = MAPPER.place_one(answer).node
    assert {placed, max(int(TREE.parents[placed]), 0)} <= set(nodes)


@pytest.mark.parametrize(
    ("answer", "label"),
    cases(
        """
        a blackbird, not a fieldfare = fieldfare
        It looks like a jackdaw. Actually, it is a blackbird. = jackdaw
        a limousine in front of a crane = limousine
        a crane = crane bird
        a limosine = limousine
        a black bird = blackbird
        """
    ),
)
def test_what_the_words_name_or_are_spelt_like_is_among_them(answer, label):
    assert label in labels(answer)


def test_ranks_between_are_left_out_but_for_the_parent_and_where_paths_part():
    shown = set(labels("a jackdaw on a limousine"))
    assert {"jackdaw", "Corvus", "limousine", "car", "all"} <= shown
    assert shown.isdisjoint(["crow", "passerine", "bird"])
    assert len(shown) <= 12
    assert {"passerine", "thrush", "crow"} <= set(labels("a jackdaw or a blackbird"))


def test_upper_levels_of_a_small_tree_stand_beside_what_is_named():
    small = Taxonomy.from_dict(
        {"pet": {"cat": ["tabby", "manx"], "dog": [f"d{i}" for i in range(9)]}}
    )
    mapper = Mapper(small)
    [question] = mapper.questions([(mapper.place_one("a d3, or something like it"), "")])
    shown = {small.labels[node] for node in question.candidates}
    assert {"pet", "cat", "dog", "d3"} <= shown
    assert "tabby" not in shown, "a level that does not fit as a whole is left out"


def test_an_answer_that_names_nothing_is_shown_the_upper_levels():
    shown = set(candidates("xyzzy"))
    upper = {node for node in range(len(TREE)) if TREE.depth[node] <= 2}
    assert len(upper) <= 70 < len(TREE)
    assert upper <= shown
    small = TREE.subtree(TREE.resolve("bird"))
    mapper = Mapper(small)
    [question] = mapper.questions([(mapper.place_one("xyzzy"), "")])
    assert len(question.candidates) == len(small)


class Choosing:
    """An arbiter that always chooses one node."""

    identity: ClassVar = {"name": "choosing"}

    def __init__(self, label):
        self.label = label

    def __call__(self, taxonomy, questions):
        return [taxonomy.resolve(self.label) for _ in questions]


def test_evidence_is_what_reading_found():
    arbiter = Choosing("jackdaw")
    mapper = Mapper(TREE, arbiter=arbiter)
    placed = mapper.place_one("a limousine on the left")
    assert placed.path[-1] == "jackdaw"
    assert placed.evidence == "reading: limousine"
