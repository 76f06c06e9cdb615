"""The files of English names: their shape, and one node of the iNat21 tree for each row."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from taxtune.taxonomy.names import EnglishNames, read_english_names

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
KINGDOMS = {
    "plants.csv": {"Plantae"},
    "fungi.csv": {"Fungi"},
    "animals.csv": {"Animalia"},
    "domestic.csv": {"Animalia"},
}
# groups.csv gives further names to nodes of any kingdom.
ROWS = [row for row in read_english_names() if row.file in KINGDOMS]


def folded(name: str) -> str:
    """A name without case, dashes and apostrophes, as two names must still differ."""
    return " ".join(name.casefold().replace("-", " ").replace("'", "").split())


@pytest.fixture(scope="module")
def species(shared_data: Path) -> list[tuple[tuple[str, ...], str]]:
    """Each iNat21 species' path, from the kingdom down, and its common name."""
    with (shared_data / "inat21" / "inat2021-categories.csv").open(
        encoding="utf-8", newline=""
    ) as lines:
        return [
            ((*(line[r] for r in RANKS[:-1]), line["name"]), line["common_name"])
            for line in csv.DictReader(lines)
        ]


def test_rows_are_well_formed_and_each_name_stands_at_one_node() -> None:
    assert [
        key
        for key, n in Counter((row.rank, row.name, row.within, row.file) for row in ROWS).items()
        if n > 1
    ] == []
    nodes: dict[tuple[bool, str], set[str]] = defaultdict(set)
    for row in ROWS:
        assert row.rank in RANKS
        assert (" " in row.name) == (row.rank == "species"), row
        for name in row.english:
            assert name == " ".join(name.split()), row
            nodes[KINGDOMS[row.file] == {"Animalia"}, folded(name)].add(row.name)
    assert {name: some for name, some in nodes.items() if len(some) > 1} == {}


def test_everyday_words_mean_the_node_that_they_assert() -> None:
    node = {name: row.name for row in ROWS for name in row.english}
    expected = "bird Aves, songbird Passeriformes, owl Strigiformes, butterfly Lepidoptera, ant Formicidae, "
    expected += "spider Araneae, snake Squamata, deer Cervidae, plant Plantae, flower Tracheophyta, moss Bryophyta, "
    expected += (
        "grass Poaceae, orchid Orchidaceae, daisy Asteraceae, mushroom Fungi, lichen Ascomycota"
    )
    pairs = dict(pair.split() for pair in expected.split(", "))
    assert {name: node.get(name) for name in pairs} == pairs


def test_each_row_hits_one_node_and_every_higher_node_has_a_name(
    species: list[tuple[tuple[str, ...], str]],
) -> None:
    nodes: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for path, _ in species:
        for depth, rank in enumerate(RANKS):
            nodes[rank, path[depth]].add(path[: depth + 1])

    def hits(row: EnglishNames) -> list[str]:
        return [
            path[0] for path in nodes[row.rank, row.name] if not row.within or row.within in path
        ]

    assert [row for row in ROWS if len(hits(row)) != 1 or {*hits(row)} != KINGDOMS[row.file]] == []
    named = {(row.rank, row.name) for row in ROWS}
    assert {
        key for key, some in nodes.items() if some and key[0] not in ("genus", "species")
    } - named == set()


def test_no_species_is_given_the_common_name_of_another(
    species: list[tuple[tuple[str, ...], str]],
) -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for path, common in species:
        owners[folded(common)].add(path[-1])
    given = [(row.name, name) for row in ROWS if row.rank == "species" for name in row.english]
    assert [(label, name) for label, name in given if owners[folded(name)] - {label}] == []
