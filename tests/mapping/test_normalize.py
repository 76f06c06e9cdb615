from __future__ import annotations

import pytest

from taxtune.mapping.normalize import fold_word, fold_words, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A: Red-winged  Blackbird!", "a red winged blackbird"),
        ("Steller's Jay", "stellers jay"),
        ("snake_case/and–dashes—", "snake case and dashes"),
        ("  \n", ""),
    ],
)
def test_plain(text, expected):
    assert plain(text) == expected


@pytest.mark.parametrize(
    ("plural", "singular"),
    [
        ("birds", "bird"), ("canaries", "canary"), ("finches", "finch"), ("geese", "goose"), ("mosquitoes", "mosquito"),
        ("walruses", "walrus"), ("irises", "iris"), ("wolves", "wolf"), ("leaves", "leaf"), ("foxes", "fox"),
        ("grasses", "grass"), ("mice", "mouse"), ("puppies", "puppy"), ("tortoises", "tortoise"), ("houses", "house"),
    ],
)  # fmt: skip
def test_plurals_fold(plural, singular):
    assert fold_word(plural) == fold_word(singular)


@pytest.mark.parametrize("word", ["iris", "grass", "cactus", "species", "gas", "bus", "octopus"])
def test_singulars_in_s_stay(word):
    assert fold_word(word) == word


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Grey-coloured", "gray colored"),
        ("Black & White", "black-and-white"),
        ("Schäferhund", "schaferhund"),
        ("Brandt's Cormorant", "Brandt Cormorant"),
        ("St. Bernard", "Saint Bernard"),
        ("Fern-leafed", "fern leaved"),
        ("LADY’S SLIPPER", "lady's slipper"),
    ],
)
def test_spellings_fold(left, right):
    assert fold_words(left) == fold_words(right)


def test_folding_is_stable():
    for word in ("bird", "gray", "canary", "goose", "iris", "walrus", "box", "anas"):
        assert fold_word(fold_word(word)) == fold_word(word)
