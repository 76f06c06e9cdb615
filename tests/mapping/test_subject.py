"""Answers that speak of something else than what the tree is about."""

from __future__ import annotations

import pytest

from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy

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
    mapper = Mapper(TREE)
    assert not_subject(mapper, answer) == wanted


@pytest.mark.parametrize(
    ("paths", "answer", "wanted"),
    [
        # The only thing below a root that says nothing is what everything on the tree is.
        (["photos/bird/gull", "photos/bird/owl"], "There are no birds here.", True),
        (["photos/bird/gull", "photos/bird/owl"], "None of these is a bird.", True),
        (["photos/bird/gull", "photos/bird/owl"], "This is not a gull.", False),
        (["photos/bird/gull", "photos/cat"], "This is not a bird.", False),
        # The tree does not say that its gulls are birds.
        (["photos/gull", "photos/owl"], "This is not a bird.", False),
    ],
)
def test_what_everything_is_by_the_names_of_the_tree(paths, answer, wanted):
    assert not_subject(Mapper(Taxonomy.from_paths(paths)), answer) == wanted
