"""What images show, told from the labels and the tree."""

from __future__ import annotations

import pytest

from taxtune.init.draft import find_subject
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.names import attach_english_names

FOOD = Taxonomy.from_paths(
    [
        "food/dessert/ice cream",
        "food/dessert/cake/cheesecake",
        "food/dessert/cake/angel cake",
        "food/soup/pho",
    ],
    aliases={"ice cream": ["gelato"]},
)


@pytest.mark.parametrize(
    ("labels", "node", "examples"),
    [
        ("ice cream, pho", "food", "food, dessert, cake, cheesecake"),
        ("ice cream, cheesecake", "dessert", "dessert, cake, angel cake"),
        ("ice cream, cheesecake, angel cake, angel cake", "dessert", "dessert, cake, cheesecake"),
        ("cheesecake, cheesecake", "cheesecake", ""),
    ],
)
def test_the_lowest_node_above_all_labels(labels, node, examples):
    targets = [FOOD.resolve(label) for label in labels.split(", ")]
    subject = find_subject(FOOD, targets)
    assert FOOD.labels[subject.node] == node
    assert subject.word == node
    assert ", ".join(subject.examples) == examples
    assert subject.ranks == ()


WORDS = {
    "dogs": "dog",
    "Sea Birds": "sea bird",
    "glasses": "glass",
    "thing": None,
    "Root": None,
    "physical entity": None,
    "sushi": "sushi",
}


@pytest.mark.parametrize("label", WORDS)
def test_a_word_is_singular_or_none(label):
    tree = Taxonomy.from_paths([f"{label}/a", f"{label}/b"])
    assert find_subject(tree, [1, 2]).word == WORDS[label]


@pytest.mark.parametrize(
    ("root", "rank", "word"),
    [
        ("bird", None, "bird"),
        ("Aves", None, "bird"),
        ("aves", None, "bird"),
        ("Aves", "class", "bird"),
        ("Canidae", None, "canid"),
        ("pisces", None, "pisces"),
        ("Things", None, None),
        ("Warblers", None, "warbler"),
    ],
)
def test_a_root_with_or_without_a_rank_is_a_word_of_english(root, rank, word):
    labels = [root, "Anas crecca", "Turdus merula"]
    ranks = [rank, "species", "species"]
    tree = Taxonomy(labels, [-1, 0, 0], ranks=ranks)
    named = find_subject(attach_english_names(tree), [1, 2])
    assert named.word == word
    plain = Taxonomy([root, "duck", "thrush"], [-1, 0, 0])
    assert find_subject(plain, [1, 2]).word == word


def test_latin_names_give_way_to_english_ones():
    labels = ["Animalia", "Felidae", "Panthera", "Panthera leo", "Panthera tigris"]
    aliases = [["animals"], ["cats"], [], ["lion"], ["tiger"]]
    ranks = ["kingdom", "family", "genus", "species", "species"]
    tree = Taxonomy(labels, [-1, 0, 1, 2, 2], aliases=aliases, ranks=ranks)
    subject = find_subject(tree, [3, 3, 4])
    assert tree.labels[subject.node] == "Panthera"
    # Panthera has no English name; the family has.
    assert subject.word == "cat"
    assert subject.ranks == ("species",)
    assert subject.examples == ("cat", "tiger")
