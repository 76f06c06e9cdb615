"""Tests of finding the node that a target means."""

from __future__ import annotations

import pytest

from taxtune.answers.targets import target_finder
from taxtune.taxonomy import Taxonomy, restrict


@pytest.fixture
def tree() -> Taxonomy:
    """life / bird / robin, duck; life / plant / robin, AC/DC, rose; life / fish / cod, cod."""
    labels = [
        "life",
        "bird",
        "robin",
        "duck",
        "plant",
        "robin",
        "AC/DC",
        "rose",
        "fish",
        "salt",
        "cod",
        "sweet",
        "cod",
    ]
    aliases: list[tuple[str, ...]] = [()] * len(labels)
    aliases[labels.index("rose")] = ("dog rose",)
    return Taxonomy(labels, [-1, 0, 1, 1, 0, 4, 4, 4, 0, 8, 9, 8, 11], aliases=aliases)


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
def test_names_paths_and_underscores(tree: Taxonomy, value: object, node: int) -> None:
    target = target_finder(tree)(value)
    assert (target.node, target.moved, target.problem) == (node, False, "")


def test_a_name_that_leads_answers_to_a_node_is_no_reference_to_it() -> None:
    tree = Taxonomy(["life", "Fratercula"], [-1, 0], leads=[(), ("horned puffin",)])
    for label in ("horned puffin", "Horned-Puffins"):
        target = target_finder(tree)(label)
        assert target.node is None
        assert "is not on the taxonomy" in target.problem


def test_a_path_of_another_tree_goes_by_its_last_name(tree: Taxonomy) -> None:
    moved = target_finder(tree)(["Aves", "Anatidae", "duck"])
    assert (moved.node, moved.moved, moved.text) == (3, True, "Aves/Anatidae/duck")


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
def test_what_is_wrong_is_said(tree: Taxonomy, value: object, problem: str) -> None:
    found = target_finder(tree)(value)
    assert found.problem.startswith(problem)
    assert (found.node, found.outside) == (None, False)


def test_of_a_part_what_the_whole_has_is_outside_and_the_rest_off_the_tree(tree: Taxonomy) -> None:
    part = restrict(tree, "bird")
    find = target_finder(part.tree, part)
    # The one robin of the part is meant, though the whole has two; of two cods neither is in the part.
    nodes = {"robin": 1, "bird": 0, "life/bird/duck": 2, "bird/duck": 2}
    assert {value: find(value).node for value in nodes} == nodes
    assert find(["Aves", "duck"]).node == 2
    for value in ("rose", "dog_rose", "life", "plant/robin", "AC/DC", ["Plantae", "rose"], "cod"):
        assert (find(value).node, find(value).outside, find(value).problem) == (None, True, "")
    tulip = find("tulip")
    assert tulip.problem == "'tulip' is not on the taxonomy. No similar name is on the taxonomy."
    assert not tulip.outside


def test_names_are_also_read_as_the_readers_of_taxonomies_write_them() -> None:
    tree = Taxonomy(["life", "Pâquerette des prés", "tab duck", 'the "green" one'], [-1, 0, 0, 0])
    find = target_finder(tree)
    decomposed = "Pa\u0302querette des pre\u0301s"
    nodes = {decomposed: 1, "tab\tduck": 2, 'the "green" one': 3}
    assert {value: find(value).node for value in nodes} == nodes
    inside = find(["life", decomposed])
    assert (inside.node, inside.moved) == (1, False)
    moved = find(["other", "tab\n duck"])
    assert (moved.node, moved.moved) == (2, True)
