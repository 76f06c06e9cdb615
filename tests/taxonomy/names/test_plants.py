"""The English names of plants and fungi: the shape of the two files, and one node of the iNat21 tree for each name."""

from __future__ import annotations

import csv
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

FILES = {"plants.csv": "Plantae", "fungi.csv": "Fungi"}
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")

# A node's labels from the kingdom down.
LabelPath = tuple[str, ...]


def rows(file: str) -> list[dict[str, str]]:
    """Returns the rows of one names file."""
    source = resources.files("taxtune.taxonomy.names").joinpath(file)
    return list(csv.DictReader(source.read_text(encoding="utf-8").splitlines()))


def names(row: dict[str, str]) -> list[str]:
    """Returns the English names of a row, as they are written."""
    return row["english"].split(";")


def folded(name: str) -> str:
    """Returns a name without case, dashes and apostrophes, as two names must still differ."""
    return " ".join(name.casefold().replace("-", " ").replace("'", "").split())


def species_of(folder: Path) -> list[tuple[LabelPath, str]]:
    """Returns each iNat21 species' path, from the kingdom down, and its common name."""
    with (folder / "inat21" / "inat2021-categories.csv").open(encoding="utf-8", newline="") as lines:
        return [
            ((*(line[rank] for rank in RANKS[:-1]), line["name"]), line["common_name"])
            for line in csv.DictReader(lines)
        ]


def nodes_of(folder: Path) -> set[LabelPath]:
    """Returns the paths of all iNat21 nodes, of every kingdom, each from the kingdom down."""
    return {path[: depth + 1] for path, _ in species_of(folder) for depth in range(len(path))}


@pytest.mark.parametrize("file", FILES)
def test_rows_are_well_formed(file: str) -> None:
    table = rows(file)
    assert table
    assert list(table[0]) == ["rank", "name", "within", "english"]
    assert {row["rank"] for row in table} <= set(RANKS)
    for row in table:
        assert (" " in row["name"]) == (row["rank"] == "species"), row
        for name in names(row):
            assert name, row
            assert name == " ".join(name.split()), row
            assert not set(name) & set(',"()[]'), row


@pytest.mark.parametrize("file", FILES)
def test_each_node_has_one_row(file: str) -> None:
    keys = Counter((row["rank"], row["name"], row["within"]) for row in rows(file))
    assert [key for key, count in keys.items() if count > 1] == []


def test_each_name_stands_once_at_one_node() -> None:
    places: dict[str, list[tuple[str, str, str]]] = {}
    for file in FILES:
        for row in rows(file):
            for name in names(row):
                places.setdefault(folded(name), []).append((row["rank"], row["name"], name))
    assert {name: nodes for name, nodes in places.items() if len(nodes) > 1} == {}


def test_everyday_words_mean_the_node_that_they_assert() -> None:
    node = {name: row["name"] for file in FILES for row in rows(file) for name in names(row)}
    expected = {
        "plant": "Plantae",
        "seaweed": "Plantae",
        "flower": "Tracheophyta",
        "tree": "Tracheophyta",
        "moss": "Bryophyta",
        "fern": "Polypodiopsida",
        "conifer": "Pinopsida",
        "palm": "Arecaceae",
        "grass": "Poaceae",
        "orchid": "Orchidaceae",
        "daisy": "Asteraceae",
        "Gramineae": "Poaceae",
        "petunia": "Solanaceae",
        "strelitzia": "Zingiberales",
        "lotus": "Nelumbo",
        "sword lily": "Gladiolus",
        "corn poppy": "Papaver rhoeas",
        "mushroom": "Fungi",
        "lichen": "Ascomycota",
        "bolete": "Boletales",
        "penny bun": "Boletus edulis",
    }
    assert {name: node.get(name) for name in expected} == expected


@pytest.mark.parametrize("file", FILES)
def test_each_row_hits_one_node_of_the_inat21_tree(file: str, shared_data: Path) -> None:
    nodes: dict[tuple[str, str], list[LabelPath]] = {}
    for path in nodes_of(shared_data):
        nodes.setdefault((RANKS[len(path) - 1], path[-1]), []).append(path)
    astray = {}
    for row in rows(file):
        hits = [
            path for path in nodes.get((row["rank"], row["name"]), []) if not row["within"] or row["within"] in path
        ]
        if len(hits) != 1 or hits[0][0] != FILES[file]:
            astray[row["rank"], row["name"]] = hits
    assert astray == {}


def test_every_higher_node_of_inat21_that_is_no_animal_has_a_name(shared_data: Path) -> None:
    named = {(row["rank"], row["name"]) for file in FILES for row in rows(file)}
    nodes = {(RANKS[len(path) - 1], path[-1]) for path in nodes_of(shared_data) if path[0] != "Animalia"}
    assert {node for node in nodes - named if node[0] not in ("genus", "species")} == set()


def test_no_species_is_given_the_common_name_of_another(shared_data: Path) -> None:
    owners: dict[str, set[str]] = {}
    for path, common_name in species_of(shared_data):
        owners.setdefault(folded(common_name), set()).add(path[-1])
    taken = {
        (row["name"], name): others
        for file in FILES
        for row in rows(file)
        if row["rank"] == "species"
        for name in names(row)
        if (others := owners.get(folded(name), set()) - {row["name"]})
    }
    assert taken == {}
