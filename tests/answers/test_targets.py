"""Tests of finding the node that a target means."""

from __future__ import annotations

import pytest

from taxtune.answers.targets import target_finder
from taxtune.taxonomy import Taxonomy, restrict


@pytest.fixture
def tree():
    """life(0) / bird(1) / robin(2), duck(3); plant(4) / robin(5), AC/DC(6), rose(7); fish(8) / two cods."""
    paths = [
        "life/bird/robin",
        "life/bird/duck",
        "life/plant/robin",
        r"life/plant/AC\/DC",
        "life/plant/rose",
        "life/fish/salt/cod",
        "life/fish/sweet/cod",
    ]
    return Taxonomy.from_paths(paths, aliases={"rose": ["dog rose"]})


@pytest.mark.parametrize(
    ("value", "node"),
    [
        ("duck", 3),
        ("AC/DC", 6),
        ("plant/robin", 5),
        (["life", "bird", "robin"], 2),
        (["plant"], 4),
        ("dog_rose", 7),
    ],
)
def test_names_paths_and_underscores(tree, value, node):
    target = target_finder(tree)(value)
    assert target.node == node
    assert not target.moved
    assert target.problem == ""


def test_a_name_that_leads_answers_to_a_node_is_no_reference_to_it():
    tree = Taxonomy(["life", "Fratercula"], [-1, 0], leads=[(), ("horned puffin",)])
    for label in ("horned puffin", "Horned-Puffins"):
        target = target_finder(tree)(label)
        assert target.node is None
        assert "is not on the taxonomy" in target.problem


def test_a_path_of_another_tree_goes_by_its_last_name(tree):
    moved = target_finder(tree)(["Aves", "Anatidae", "duck"])
    assert moved.node == 3
    assert moved.moved
    assert moved.text == "Aves/Anatidae/duck"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("duk", "'duk' is not on the taxonomy. Did you mean 'duck'?"),
        ("robin", "2 nodes are called 'robin'. Give the path: life/bird/robin, life/plant/robin."),
        # Either of two is not a path.
        ("duck/rose", "'duck/rose' is not on the taxonomy. Did you mean 'rose'"),
        (
            ["Aves", "duk"],
            "no node has the path 'Aves/duk', and 'duk' is not on the taxonomy. Did you mean 'duck'?",
        ),
        (["Aves", "robin"], "no node has the path 'Aves/robin', and 2 nodes are called 'robin'."),
        (None, "missing"),
        (" ", "missing"),
        ([], "not a label or a path: []"),
        (["bird", " "], "not a label or a path: ['bird', ' ']"),
        (["bird", 3], "not a label or a path: ['bird', 3]"),
        (7, "'7' is not on the taxonomy."),
        (True, "not a label or a path: True"),
        (float("nan"), "not a label or a path: nan"),
    ],
)
def test_what_is_wrong_is_said(tree, value, problem):
    found = target_finder(tree)(value)
    assert found.problem.startswith(problem)
    assert found.node is None
    assert not found.outside


def test_of_a_part_what_the_whole_has_is_outside_and_the_rest_off_the_tree(tree):
    part = restrict(tree, "bird")
    find = target_finder(part.tree, part)
    # The one robin of the part is meant, though the whole has two; of two cods neither is in the part.
    assert find("robin").node == 1
    assert find("bird").node == 0
    for duck in ("life/bird/duck", "bird/duck", ["Aves", "duck"]):
        assert find(duck).node == 2
    for value in ("rose", "dog_rose", "life", "plant/robin", "AC/DC", ["Plantae", "rose"], "cod"):
        target = find(value)
        assert target.node is None
        assert target.outside
        assert target.problem == ""
    tulip = find("tulip")
    assert tulip.problem == "'tulip' is not on the taxonomy. No similar name is on the taxonomy."
    assert not tulip.outside


def test_names_are_also_read_as_the_readers_of_taxonomies_write_them():
    tree = Taxonomy(["life", "Pâquerette des prés", "tab duck", 'the "green" one'], [-1, 0, 0, 0])
    find = target_finder(tree)
    decomposed = "Pa\u0302querette des pre\u0301s"
    assert find(decomposed).node == 1
    assert find("tab\tduck").node == 2
    assert find('the "green" one').node == 3
    inside = find(["life", decomposed])
    assert inside.node == 1
    assert not inside.moved
    moved = find(["other", "tab\n duck"])
    assert moved.node == 2
    assert moved.moved
