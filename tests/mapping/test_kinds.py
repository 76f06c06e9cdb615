from __future__ import annotations

import pytest

from taxtune.mapping import Mapper, MapperConfig, Stage
from taxtune.taxonomy import Taxonomy

INNER = {
    "weapon": ["handgun"],
    "musical instrument": ["accordion"],
    "clothing": ["footwear"],
    "tool": ["jigsaw"],
    "animal": ["dog", "pig"],
}
LEAVES = ["airplane", "fruit", "car", "surfing", "nail"]
THINGS = Taxonomy.from_dict({"object": [INNER, *LEAVES]})


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
def test_words_that_the_tree_lacks(wordnet, answer, expected):
    placement = Mapper(THINGS).place_one(answer)
    assert placement.path[-1] == expected
    assert (placement.stage is Stage.KIND) == (expected != "object")


def test_hyphens_and_plural_labels_are_found(wordnet):
    pets = Taxonomy.from_paths(["pet/dog"])
    assert Mapper(pets).place_one("a shih tzu").path[-1] == "dog"


def test_names_on_the_tree_come_first(wordnet):
    tree = Taxonomy.from_paths(["thing/weapon/handgun", "thing/tool/pistol"])
    assert Mapper(tree).place_one("pistol").path[-1] == "pistol"


@pytest.mark.parametrize(
    ("above", "other", "answer"),
    [("bird", "stork", "whooping crane"), ("machine", "tractor", "gantry crane")],
)
def test_senses_agree_with_the_tree(wordnet, above, other, answer):
    """A crane is a bird among birds and a machine among machines."""
    tree = Taxonomy.from_dict({"thing": {above: ["crane", other]}})
    assert Mapper(tree).place_one(answer).path[-1] == "crane"


def test_it_says_whether_it_used_wordnet(wordnet):
    assert Mapper(THINGS).identity()["wordnet"] == wordnet.source
    without = Mapper(THINGS, config=MapperConfig(wordnet=False))
    assert without.identity()["wordnet"] is None
    assert without.place_one("pistol").off_tree
    listing = Mapper(THINGS, config=MapperConfig(preset="paper-listing"))
    assert listing.identity()["wordnet"] is None


def test_without_wordnet_it_does_without(monkeypatch):
    monkeypatch.setenv("TAXTUNE_WORDNET", "none")
    mapper = Mapper(THINGS)
    assert mapper.identity()["wordnet"] is None
    assert mapper.place_one("pistol").off_tree
    assert mapper.place_one("a handgun").path[-1] == "handgun"
