"""A tree small enough to read and rich enough to have homonyms, breeds, shared heads and ranks."""

from __future__ import annotations

import pytest

from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy

NODES: list[tuple[str, str, tuple[str, ...]]] = [
    ("Animalia", "kingdom", ("animal",)),
    ("Animalia/Aves", "class", ("bird",)),
    ("Animalia/Aves/Passeriformes", "order", ("songbird", "warbler")),
    ("Animalia/Aves/Passeriformes/Turdidae", "family", ("thrush",)),
    ("Animalia/Aves/Passeriformes/Turdidae/Turdus", "genus", ()),
    (
        "Animalia/Aves/Passeriformes/Turdidae/Turdus/Turdus migratorius",
        "species",
        ("American Robin",),
    ),
    ("Animalia/Aves/Passeriformes/Turdidae/Turdus/Turdus merula", "species", ("Common Blackbird",)),
    ("Animalia/Aves/Passeriformes/Muscicapidae", "family", ()),
    ("Animalia/Aves/Passeriformes/Muscicapidae/Erithacus", "genus", ()),
    (
        "Animalia/Aves/Passeriformes/Muscicapidae/Erithacus/Erithacus rubecula",
        "species",
        ("European Robin",),
    ),
    ("Animalia/Aves/Passeriformes/Corvidae", "family", ("corvid",)),
    ("Animalia/Aves/Passeriformes/Corvidae/Corvus", "genus", ("crow",)),
    (
        "Animalia/Aves/Passeriformes/Corvidae/Corvus/Corvus brachyrhynchos",
        "species",
        ("American Crow",),
    ),
    ("Animalia/Aves/Passeriformes/Corvidae/Corvus/Corvus corax", "species", ("Common Raven",)),
    ("Animalia/Aves/Passeriformes/Corvidae/Cyanocitta", "genus", ()),
    (
        "Animalia/Aves/Passeriformes/Corvidae/Cyanocitta/Cyanocitta stelleri",
        "species",
        ("Steller's Jay",),
    ),
    (
        "Animalia/Aves/Passeriformes/Corvidae/Cyanocitta/Cyanocitta cristata",
        "species",
        ("Blue Jay",),
    ),
    ("Animalia/Aves/Piciformes", "order", ()),
    ("Animalia/Aves/Piciformes/Picidae", "family", ()),
    ("Animalia/Aves/Piciformes/Picidae/Dryobates", "genus", ()),
    (
        "Animalia/Aves/Piciformes/Picidae/Dryobates/Dryobates pubescens",
        "species",
        ("Downy Woodpecker",),
    ),
    (
        "Animalia/Aves/Piciformes/Picidae/Dryobates/Dryobates villosus",
        "species",
        ("Hairy Woodpecker",),
    ),
    ("Animalia/Aves/Piciformes/Picidae/Melanerpes", "genus", ()),
    (
        "Animalia/Aves/Piciformes/Picidae/Melanerpes/Melanerpes carolinus",
        "species",
        ("Red-bellied Woodpecker",),
    ),
    ("Animalia/Aves/Anseriformes", "order", ("waterfowl",)),
    ("Animalia/Aves/Anseriformes/Anatidae", "family", ("duck", "goose")),
    ("Animalia/Aves/Anseriformes/Anatidae/Aythya", "genus", ()),
    ("Animalia/Aves/Anseriformes/Anatidae/Aythya/Aythya americana", "species", ("Redhead",)),
    ("Animalia/Aves/Gruiformes", "order", ()),
    ("Animalia/Aves/Gruiformes/Rallidae", "family", ()),
    ("Animalia/Aves/Gruiformes/Rallidae/Fulica", "genus", ("coot",)),
    ("Animalia/Aves/Gruiformes/Rallidae/Fulica/Fulica atra", "species", ("Eurasian Coot",)),
    ("Animalia/Mammalia", "class", ("mammal",)),
    ("Animalia/Mammalia/Carnivora", "order", ()),
    ("Animalia/Mammalia/Carnivora/Felidae", "family", ()),
    ("Animalia/Mammalia/Carnivora/Felidae/Panthera", "genus", ()),
    ("Animalia/Mammalia/Carnivora/Felidae/Panthera/Panthera onca", "species", ("Jaguar",)),
    ("Animalia/Mammalia/Carnivora/Canidae", "family", ()),
    ("Animalia/Mammalia/Carnivora/Canidae/Vulpes", "genus", ()),
    ("Animalia/Mammalia/Carnivora/Canidae/Vulpes/Vulpes vulpes", "species", ("Red Fox",)),
    ("Animalia/Mammalia/Carnivora/Canidae/Canis", "genus", ()),
    (
        "Animalia/Mammalia/Carnivora/Canidae/Canis/Canis familiaris",
        "species",
        ("Domestic Dog", "dog", "puppy", "foxhound", "Basset Hound", "Beagle"),
    ),
    ("Animalia/Insecta", "class", ("insect",)),
    ("Animalia/Insecta/Hymenoptera", "order", ("bee",)),
    ("Animalia/Insecta/Hymenoptera/Formicidae", "family", ("ant",)),
    ("Animalia/Insecta/Coleoptera", "order", ("beetle",)),
    ("Animalia/Insecta/Lepidoptera", "order", ("butterfly",)),
    ("Plantae", "kingdom", ("plant",)),
    ("Plantae/Tracheophyta", "phylum", ("flower", "petal", "tree")),
    ("Plantae/Tracheophyta/Sapindaceae", "family", ()),
    ("Plantae/Tracheophyta/Sapindaceae/Acer", "genus", ("maple",)),
    ("Plantae/Tracheophyta/Plantaginaceae", "family", ()),
    ("Plantae/Tracheophyta/Plantaginaceae/Digitalis", "genus", ("foxglove",)),
    (
        "Plantae/Tracheophyta/Plantaginaceae/Digitalis/Digitalis purpurea",
        "species",
        ("Purple Foxglove",),
    ),
    ("Plantae/Tracheophyta/Amaryllidaceae", "family", ()),
    ("Plantae/Tracheophyta/Amaryllidaceae/Narcissus", "genus", ("daffodil",)),
    ("Plantae/Tracheophyta/Boraginaceae", "family", ()),
    ("Plantae/Tracheophyta/Boraginaceae/Myosotis", "genus", ("forget-me-not",)),
    ("Plantae/Tracheophyta/Tropaeolaceae", "family", ()),
    ("Plantae/Tracheophyta/Tropaeolaceae/Tropaeolum", "genus", ("nasturtium",)),
    ("Plantae/Tracheophyta/Brassicaceae", "family", ()),
    ("Plantae/Tracheophyta/Brassicaceae/Nasturtium", "genus", ("watercress",)),
    ("Plantae/Tracheophyta/Brassicaceae/Nasturtium/Nasturtium officinale", "species", ()),
    ("Plantae/Tracheophyta/Iridaceae", "family", ()),
    ("Plantae/Tracheophyta/Iridaceae/Star", "genus", ()),
]


@pytest.fixture(scope="session")
def nature() -> Taxonomy:
    """The tree."""
    numbers = {"": 0}
    labels, parents, aliases, ranks = ["life"], [-1], [()], [None]
    for path, rank, names in NODES:
        above, _, label = path.rpartition("/")
        numbers[path] = len(labels)
        labels.append(label)
        parents.append(numbers[above])
        aliases.append(names)
        ranks.append(rank)
    return Taxonomy(labels, parents, aliases=aliases, ranks=ranks)


@pytest.fixture(scope="session")
def mapper(nature: Taxonomy) -> Mapper:
    """The default preset with the lexical similarity."""
    return Mapper(nature)
