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
    return Taxonomy(
        labels,
        [-1, 0, 1, 1, 0, 4, 4, 4, 0, 8, 9, 8, 11],
        aliases=[()] * 7 + [("dog rose",)] + [()] * 5,
    )


def test_names_paths_and_underscores(tree: Taxonomy) -> None:
    find = target_finder(tree)
    for value, node in (
        ("duck", 3), ("AC/DC", 6), ("plant/robin", 5), (["life", "bird", "robin"], 2), (["plant"], 4), ("dog_rose", 7),
    ):  # fmt: skip
        assert (find(value).node, find(value).moved, find(value).problem) == (node, False, "")
    moved = find(["Aves", "Anatidae", "duck"])
    assert (moved.node, moved.moved, moved.text) == (3, True, "Aves/Anatidae/duck")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("duk", "'duk' is not on the taxonomy. Did you mean 'duck'?"),
        ("robin", "2 nodes are called 'robin'. Give the path: life/bird/robin, life/plant/robin."),
        (
            "duck/rose",
            "'duck/rose' is not on the taxonomy. Did you mean 'rose'",
        ),  # either of two is not a path
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
    assert [find(value).node for value in ("robin", "bird", "life/bird/duck", "bird/duck", ["Aves", "duck"])] == [
        1, 0, 2, 2, 2,
    ]  # fmt: skip
    for value in ("rose", "dog_rose", "life", "plant/robin", "AC/DC", ["Plantae", "rose"], "cod"):
        assert (find(value).node, find(value).outside, find(value).problem) == (None, True, "")
    assert (
        find("tulip").problem
        == "'tulip' is not on the taxonomy. No similar name is on the taxonomy."
    )
    assert not find("tulip").outside


def test_names_are_also_read_as_the_readers_of_taxonomies_write_them() -> None:
    tree = Taxonomy(["life", "Pâquerette des prés", "tab duck", 'the "green" one'], [-1, 0, 0, 0])
    find = target_finder(tree)
    decomposed = "Pa\u0302querette des pre\u0301s"
    assert [find(value).node for value in (decomposed, "tab\tduck", 'the "green" one')] == [1, 2, 3]
    assert (find(["life", decomposed]).node, find(["life", decomposed]).moved) == (1, False)
    assert (find(["other", "tab\n duck"]).node, find(["other", "tab\n duck"]).moved) == (2, True)
