"""Texts that name nodes of a known level: levels, held-out names and templates."""

from __future__ import annotations

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.studies.level_texts import (
    held_out_texts,
    template_texts,
    tree_levels,
    without_names,
)
from taxtune.taxonomy import Taxonomy
from tests.trees import outlined


def rng():
    return np.random.default_rng(0)


def test_levels_are_ranks_or_depths(birds):
    levels = tree_levels(birds)
    assert (levels.by, levels.names) == ("rank", ["class", "order", "family", "species"])
    assert levels.nodes("order") == [2, 6]
    assert levels.of[0] == "root"
    assert tree_levels(birds, "depth").names == ["depth 1", "depth 2", "depth 3", "depth 4"]
    bare = outlined("a: b", "b: c")
    assert tree_levels(bare).by == "depth"
    with pytest.raises(DataError, match="has a rank"):
        tree_levels(bare, "rank")
    mixed = Taxonomy(["a", "b", "c", "d"], [-1, 0, 1, 1], ranks=[None, "order", None, "species"])
    assert tree_levels(mixed, "rank").names == ["order", "species", "without a rank"]


def test_held_out_names_leave_the_tree(birds):
    texts, hidden, notes = held_out_texts(birds, tree_levels(birds), 10, rng())
    # Only these nodes have an alias; the blackbird loses one of its two.
    assert texts["target"].tolist() == [1, 3, 4, 5, 8]
    reduced = without_names(birds, hidden)
    assert reduced.labels == birds.labels
    for text, node in zip(texts["text"], texts["target"], strict=True):
        assert text in birds.aliases[node]
        assert text not in reduced.aliases[node]
    assert len(reduced.aliases[4]) == 1
    assert "order 0 of 2" in notes[0]


@pytest.mark.parametrize(
    ("names", "hidden"),
    [
        # "foxes" is the label in the plural, "hound" is two nodes' name; the two spellings of the beast go together.
        (
            "Fox = foxes, Wolf = grey beast = Gray Beast = hound, Dog = hound",
            "grey beast, Gray Beast",
        ),
        # The mapper finds "sea star" on a node called "seastar".
        (
            "Barkfly = bark fly, Asteroidea = sea star = seastar = sea-stars, Psocodea = bark louse, "
            "Isopoda = barklouse",
            "sea star, seastar, sea-stars",
        ),
    ],
)
def test_names_that_are_the_same_are_held_out_together(names, hidden):
    tree = outlined(f"life: {names}")
    texts, found, _ = held_out_texts(tree, tree_levels(tree), 10, rng())
    assert found == {2: set(hidden.split(", "))}
    (placed,) = Mapper(without_names(tree, found)).place(texts["text"].tolist())
    assert placed.node == 0


def test_templates(birds):
    templates = ("A: {name}.", "two {plural}")
    texts, notes = template_texts(birds, tree_levels(birds), templates, 10, rng())
    by_kind = dict(list(texts.groupby("kind")))
    named, plural = by_kind["A: {name}."], by_kind["two {plural}"]
    assert named["target"].tolist() == [1, 2, 6, 3, 7, 4, 5, 8]
    assert named["text"].tolist() == [f"A: {birds.common_name(v)}." for v in named["target"]]
    assert "A: thrush." in named["text"].tolist()
    # The tree has aliases, so that its labels may be Latin and have no plural.
    plurals = ["two birds", "two thrushes", "two blackbirds", "two American robins", "two mallards"]
    assert plural["text"].tolist() == plurals
    assert "3 nodes have only a label" in notes[0]
    bare = outlined("thing: dog")
    dogs, _ = template_texts(bare, tree_levels(bare), ("{plural}",), 10, rng())
    assert dogs["text"].tolist() == ["dogs"]


@pytest.mark.parametrize("template", ["a photo", "{label}", "{name", "{}"])
def test_a_template_needs_a_name_and_nothing_else(birds, template):
    with pytest.raises(DataError, match="template"):
        template_texts(birds, tree_levels(birds), (template,), 10, rng())
