"""A small WordNet of food, animals and things, some of whose words have several senses."""

from __future__ import annotations

from pathlib import Path

from taxtune.wordnet import WordNet
from tests.small_wordnet import write_wordnet

SENSES = (
    ("entity", ("entity",), "what there is", ()),
    ("matter", ("matter",), "what has mass", ("entity",)),
    ("food", ("food", "nutrient"), "what is eaten", ("matter",)),
    ("dish", ("dish",), "a plate of prepared food", ("food",)),
    ("soup", ("soup",), "liquid food", ("dish",)),
    ("chowder", ("chowder",), "a thick soup", ("soup",)),
    ("bisque", ("bisque",), "a creamy soup", ("soup",)),
    ("salad", ("salad",), "raw vegetables", ("dish",)),
    ("baked", ("baked_goods",), "food from the oven", ("food",)),
    ("soap cake", ("cake", "bar"), "a block of something solid", ("matter",)),
    ("cake", ("cake",), "a sweet baked thing", ("baked",)),
    ("cheesecake", ("cheesecake",), "a cake with cheese", ("cake",)),
    ("pie", ("pie",), "a crust with a filling", ("baked",)),
    ("apple pie", ("apple_pie",), "a pie with apples", ("pie",)),
    ("doughnut", ("doughnut", "donut", "sinker"), "a fried ring", ("cake",)),
    ("animal", ("animal", "beast"), "a living thing that moves", ("entity",)),
    ("bird", ("bird",), "an animal with feathers", ("animal",)),
    ("crane machine", ("crane",), "a machine that lifts", ("entity",)),
    ("crane", ("crane",), "a bird with long legs", ("bird",)),
    ("duck", ("duck",), "a bird that swims", ("bird",)),
    ("mallard", ("mallard", "Anas_platyrhynchos"), "a wild duck", ("duck",)),
    ("dog", ("dog", "domestic_dog"), "an animal that barks", ("animal",)),
    ("beagle", ("beagle",), "a small hound", ("dog",)),
    ("pug", ("pug",), "a dog with a flat face", ("dog",)),
    ("colour", ("color", "colour", "coloring"), "what light does", ("entity",)),
)


def food_wordnet(folder: Path) -> WordNet:
    return WordNet(write_wordnet(folder / "wordnet", SENSES))
