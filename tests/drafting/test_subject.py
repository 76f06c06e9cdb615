"""What images show, told from the labels and the tree."""

from __future__ import annotations

import pytest

from taxtune.drafting.subject import find_subject
from taxtune.taxonomy import Taxonomy

FOOD = Taxonomy.from_paths(
    ["food/dessert/ice cream", "food/dessert/cake/cheesecake", "food/dessert/cake/angel cake", "food/soup/pho"],
    aliases={"ice cream": ["gelato"]},
)


def nodes(tree: Taxonomy, *labels: str) -> list[int]:
    return [tree.resolve(label) for label in labels]


@pytest.mark.parametrize(
    ("labels", "reference", "word", "examples"),
    [
        (("ice cream", "pho"), None, "food", ("food", "dessert", "cake", "cheesecake")),
        (("ice cream", "cheesecake"), "dessert", "dessert", ("dessert", "cake", "angel cake")),
        (
            ("ice cream", "cheesecake", "angel cake", "angel cake"),
            "dessert",
            "dessert",
            ("dessert", "cake", "cheesecake"),
        ),
        (("cheesecake", "cheesecake"), "cheesecake", "cheesecake", ()),
    ],
)
def test_the_lowest_node_above_all_labels(
    labels: tuple[str, ...], reference: str | None, word: str, examples: tuple[str, ...]
) -> None:
    found = find_subject(FOOD, nodes(FOOD, *labels))
    assert (found.reference, found.word, found.examples) == (reference, word, examples)
    assert found.ranks == ()


@pytest.mark.parametrize(
    ("label", "word"),
    [
        ("dogs", "dog"),
        ("Sea Birds", "sea bird"),
        ("glasses", "glass"),
        ("thing", None),
        ("Root", None),
        ("physical entity", None),
        ("sushi", "sushi"),
    ],
)
def test_a_word_is_singular_or_none(label: str, word: str | None) -> None:
    tree = Taxonomy.from_paths([f"{label}/a", f"{label}/b"])
    assert find_subject(tree, [1, 2]).word == word


def test_a_node_that_shares_its_name_is_referred_to_by_its_path() -> None:
    tree = Taxonomy.from_paths(["food/pizza/pizza/marinara", "food/pizza/pizza/romana", "food/soup"])
    targets = nodes(tree, "marinara", "romana")
    found = find_subject(tree, targets)
    assert found.reference == "food/pizza/pizza"
    assert tree.resolve(found.reference) == found.node


def test_latin_names_give_way_to_english_ones() -> None:
    tree = Taxonomy(
        ["Animalia", "Felidae", "Panthera", "Panthera leo", "Panthera tigris"],
        [-1, 0, 1, 2, 2],
        aliases=[["animals"], ["cats"], [], ["lion"], ["tiger"]],
        ranks=["kingdom", "family", "genus", "species", "species"],
    )
    found = find_subject(tree, [3, 3, 4])
    assert (found.reference, found.word) == ("Panthera", "cat"), "Panthera has no English name; the family has"
    assert (found.ranks, found.examples) == (("species",), ("cat", "tiger"))
