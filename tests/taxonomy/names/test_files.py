"""The files of English names: their shape, and one node of the iNat21 tree for each row."""

from __future__ import annotations

import csv
from collections import defaultdict

import pytest

from taxtune.taxonomy.names import read_english_names

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
KINGDOMS = {
    "plants.csv": {"Plantae"},
    "fungi.csv": {"Fungi"},
    "animals.csv": {"Animalia"},
    "domestic.csv": {"Animalia"},
}
# groups.csv gives further names to nodes of any kingdom.
ROWS = [row for row in read_english_names() if row.file in KINGDOMS]


def folded(name):
    """A name without case, dashes and apostrophes, as two names must still differ."""
    return " ".join(name.casefold().replace("-", " ").replace("'", "").split())


@pytest.fixture(scope="module")
def species(shared_data):
    """Each iNat21 species' path, from the kingdom down, and its common name."""
    text = (shared_data / "inat21" / "inat2021-categories.csv").read_text(encoding="utf-8")
    species = []
    for line in csv.DictReader(text.splitlines()):
        groups = [line[rank] for rank in RANKS[:-1]]
        species.append(((*groups, line["name"]), line["common_name"]))
    return species


def test_rows_are_well_formed_and_each_name_stands_at_one_node():
    keys = [(row.rank, row.name, row.within, row.file) for row in ROWS]
    assert len(set(keys)) == len(keys)
    nodes = defaultdict(set)
    for row in ROWS:
        assert row.rank in RANKS
        assert (" " in row.name) == (row.rank == "species"), row
        for name in row.english:
            assert name == " ".join(name.split()), row
            nodes[KINGDOMS[row.file] == {"Animalia"}, folded(name)].add(row.name)
    for name, labels in nodes.items():
        assert len(labels) == 1, name


def test_everyday_words_mean_the_node_that_they_assert():
    node = {name: row.name for row in ROWS for name in row.english}
    expected = "bird Aves, songbird Passeriformes, owl Strigiformes, butterfly Lepidoptera, ant Formicidae, "
    expected += "spider Araneae, snake Squamata, deer Cervidae, plant Plantae, flower Tracheophyta, moss Bryophyta, "
    expected += (
        "grass Poaceae, orchid Orchidaceae, daisy Asteraceae, mushroom Fungi, lichen Ascomycota"
    )
    pairs = dict(pair.split() for pair in expected.split(", "))
    assert {name: node.get(name) for name in pairs} == pairs


def test_each_row_hits_one_node_and_every_higher_node_has_a_name(
    species,
):
    nodes = defaultdict(set)
    for path, _ in species:
        for depth, rank in enumerate(RANKS):
            nodes[rank, path[depth]].add(path[: depth + 1])
    named = {(row.rank, row.name) for row in ROWS}
    for rank, label in nodes:
        assert rank in ("genus", "species") or (rank, label) in named
    for row in ROWS:
        hits = [path for path in nodes[row.rank, row.name] if row.within in ("", *path)]
        assert len(hits) == 1, row
        assert {hits[0][0]} == KINGDOMS[row.file], row


def test_no_species_is_given_the_common_name_of_another(
    species,
):
    owners = defaultdict(set)
    for path, common in species:
        owners[folded(common)].add(path[-1])
    for row in ROWS:
        if row.rank == "species":
            for name in row.english:
                assert owners[folded(name)] <= {row.name}, name
