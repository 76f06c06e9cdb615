"""Answers that speak of something else than what the tree is about."""

from __future__ import annotations

import pytest

from taxtune.mapping import Mapper, MapperConfig
from taxtune.taxonomy import Taxonomy
from taxtune.wordnet import ENVIRONMENT
from tests.small_wordnet import write_wordnet

ALIASES = {"Aves": ["bird"], "Aves/gull": ["seagull"]}
PATHS = ["Aves/duck/mallard", "Aves/finch/siskin", "Aves/gull"]
TREE = Taxonomy.from_paths(PATHS, aliases=ALIASES)


def not_subject(mapper, answer):
    placed = mapper.place_one(answer)
    assert not (placed.not_subject and placed.node)
    return placed.not_subject


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("There is no bird in this image.", True),
        ("I see no birds.", True),
        ("This is a dog, not a bird.", True),
        ("This is not a bird.", True),
        ("No birds are visible.", True),
        ("The image does not show any bird.", True),
        ("It is not possible to identify the bird.", False),
        ("The bird is not visible clearly.", False),
        ("I cannot tell whether this is a bird.", False),
        ("Not a duck.", False),
        ("There is not enough detail to tell what kind of bird it is.", False),
        ("not a bird but a siskin", False),
        ("I cannot tell.", False),
        ("", False),
        ("bird", False),
        ("a dog", False),  # nothing here knows what a dog is
        ("a mallard", False),
    ],
)
def test_an_answer_that_denies_the_root(answer, wanted):
    mapper = Mapper(TREE, config=MapperConfig(wordnet=False))
    assert not_subject(mapper, answer) == wanted


#: What each sense is a kind of.
KINDS = {
    "thing": "",
    "animal": "thing",
    "person": "thing",
    "bird": "animal",
    "dame": "person",
    "duck": "bird",
    "cloth": "thing",
    "canvas": "cloth",
    "mallard": "duck",
    "finch": "bird",
    "ostrich": "bird",
    "hoist": "thing",
    "poet": "person",
    "crane": "bird",
    "dog": "animal",
    "retriever": "dog",
}
#: The words of senses that are not called by their own name alone.
WORDS = {
    "dame": ["dame", "bird"],
    "canvas": ["duck"],
    "hoist": ["crane"],
    "poet": ["crane"],
    "retriever": ["golden_retriever"],
}


def use_wordnet(monkeypatch, folder, kinds):
    """Makes a WordNet of some senses the one that is used."""
    senses = []
    for kind, above in kinds.items():
        words = WORDS.get(kind, [kind])
        senses.append((kind, words, "", [above] if above else []))
    monkeypatch.setenv(ENVIRONMENT, str(write_wordnet(folder / "wordnet", senses)))


@pytest.fixture
def mapper(tmp_path, monkeypatch):
    """A mapper with a WordNet in which "dame" is a second sense of bird, and "duck" is cloth, too."""
    use_wordnet(monkeypatch, tmp_path, KINDS)
    return Mapper(TREE, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("answer", "wanted", "off_tree"),
    [
        ("a dog", True, True),
        ("Golden retriever", True, True),
        ("a big brown dog", True, True),
        ("an ostrich", False, True),  # a bird that the tree lacks
        ("a crane", False, True),  # a bird, if only in its third sense
        ("an animal", False, False),  # says less than that it is a bird, and nothing else
        ("a wug", False, True),  # nobody knows
        ("a wug or a dog", False, True),
        ("a dame", True, True),  # a "bird" only in a sense that the tree is not about
        ("a dog and a mallard", False, False),
    ],
)
def test_what_wordnet_knows_of_things_off_the_tree(mapper, answer, wanted, off_tree):
    assert mapper.wordnet is not None
    assert not_subject(mapper, answer) == wanted
    assert mapper.place_one(answer).off_tree == off_tree


def test_a_tree_whose_root_nobody_knows(mapper):
    tree = Taxonomy.from_paths(["my collection/duck/mallard", "my collection/finch"])
    assert not not_subject(Mapper(tree, cache_dir=mapper._cache_dir), "a dog")


ANY_ROOT = ["gull/black gull", "gull/white gull", "owl/barn owl"]


@pytest.mark.parametrize("root", ["Aves", "Bird species", "photos", "wildlife/bird"])
@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("This is not a bird.", True),
        ("There are no animals here.", True),
        ("This cannot be a bird.", True),
        ("None of these is a bird.", True),
        ("I haven't found any birds.", True),
        ("This is not a gull.", False),
        ("Nothing of a gull or an owl", False),
        ("I can't be sure that this is a bird.", False),
        ("It is not an animal but a bird.", False),
    ],
)
def test_what_denies_all_that_is_on_the_tree(tmp_path, monkeypatch, root, answer, wanted):
    """Whatever the root is called: "bird" and "animal" are what everything on the tree is a kind of."""
    use_wordnet(
        monkeypatch, tmp_path, {"animal": "", "bird": "animal", "gull": "bird", "owl": "bird"}
    )
    tree = Taxonomy.from_paths([f"{root}/{path}" for path in ANY_ROOT])
    mapper = Mapper(tree, cache_dir=tmp_path)
    assert mapper.place_one(answer).not_subject == wanted
