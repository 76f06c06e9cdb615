from __future__ import annotations

import pytest

from taxtune.mapping import Mapper, MapperConfig, Stage
from taxtune.taxonomy import Taxonomy
from taxtune.wordnet import WordNet

THINGS = Taxonomy(
    [
        "object", "weapon", "handgun", "musical instrument", "accordion", "clothing", "footwear", "airplane", "fruit",
        "tool", "jigsaw", "animal", "dog", "pig", "car", "surfing", "nail",
    ],
    [-1, 0, 1, 0, 3, 0, 5, 0, 0, 0, 9, 0, 11, 11, 0, 0, 0],
)  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("pistol", "handgun"),
        ("a rusty old pistol", "handgun"),
        ("squeezebox", "accordion"),
        ("shoes", "footwear"),
        ("Seaplane", "airplane"),
        ("a golden retriever", "dog"),
        ("a banana", "fruit"),
        # words that together are a noun of their own do not name what one of them names
        # what is no kind of anything here
        ("a cathedral", "object"),
        ("it is hard to tell from this angle", "object"),
    ],
)
def test_words_that_the_tree_lacks(wordnet: WordNet, answer: str, expected: str) -> None:
    placement = Mapper(THINGS).place_one(answer)
    assert THINGS.labels[placement.node] == expected
    assert (placement.stage is Stage.KIND) == (expected not in ("object", "car"))


def test_hyphens_and_plural_labels_are_found(wordnet: WordNet) -> None:
    pets = Taxonomy(["pet", "dog"], [-1, 0])
    assert pets.labels[Mapper(pets).place_one("a shih tzu").node] == "dog"


def test_names_on_the_tree_come_first(wordnet: WordNet) -> None:
    tree = Taxonomy(["thing", "weapon", "handgun", "tool", "pistol"], [-1, 0, 1, 0, 3])
    assert tree.labels[Mapper(tree).place_one("pistol").node] == "pistol"


def test_senses_agree_with_the_tree(wordnet: WordNet) -> None:
    """A crane is a bird among birds and a machine among machines."""
    for above, other, expected in (
        ("bird", "stork", "whooping crane"),
        ("machine", "tractor", "gantry crane"),
    ):
        tree = Taxonomy(["thing", above, "crane", other], [-1, 0, 1, 1])
        assert tree.labels[Mapper(tree).place_one(expected).node] == "crane"


def test_it_says_whether_it_used_wordnet(wordnet: WordNet) -> None:
    assert Mapper(THINGS).identity()["wordnet"] == wordnet.source
    without = Mapper(THINGS, config=MapperConfig(wordnet=False))
    assert without.identity()["wordnet"] is None
    assert without.place_one("pistol").off_tree
    assert Mapper(THINGS, config=MapperConfig(preset="paper-listing")).identity()["wordnet"] is None


def test_without_wordnet_it_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAXTUNE_WORDNET", "none")
    mapper = Mapper(THINGS)
    assert mapper.identity()["wordnet"] is None
    assert mapper.place_one("pistol").off_tree
    assert THINGS.labels[mapper.place_one("a handgun").node] == "handgun"
