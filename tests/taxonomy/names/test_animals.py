"""The English names of animals: the shape of the two files, and one node of the iNat21 tree for each name."""

from __future__ import annotations

import csv
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

FILES = ("animals.csv", "domestic.csv")
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")


def rows(file: str) -> list[dict[str, str]]:
    """Returns the rows of one names file."""
    text = resources.files("taxtune.taxonomy.names").joinpath(file).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def names(row: dict[str, str]) -> list[str]:
    """Returns the English names of a row, as they are written."""
    return row["english"].split(";")


def folded(name: str) -> str:
    """Returns a name without case, dashes and apostrophes, as two names must still differ."""
    return " ".join(name.casefold().replace("-", " ").replace("'", "").split())


def animals_of(folder: Path) -> set[tuple[str, ...]]:
    """Returns the paths of all nodes below Animalia in the category list of iNat21, each from the kingdom down."""
    with (folder / "inat21" / "inat2021-categories.csv").open(encoding="utf-8", newline="") as lines:
        paths = [(*(line[rank] for rank in RANKS[:-1]), line["name"]) for line in csv.DictReader(lines)]
    return {path[: depth + 1] for path in paths for depth in range(len(path)) if path[0] == "Animalia"}


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


@pytest.mark.parametrize("file", FILES)
def test_each_node_has_one_row(file: str) -> None:
    keys = Counter((row["rank"], row["name"], row["within"]) for row in rows(file))
    assert [key for key, count in keys.items() if count > 1] == []


def test_each_name_stands_at_one_node() -> None:
    places: dict[str, set[tuple[str, str]]] = {}
    spellings: dict[str, set[str]] = {}
    for row in (row for file in FILES for row in rows(file)):
        for name in names(row):
            places.setdefault(folded(name), set()).add((row["rank"], row["name"]))
            spellings.setdefault(name.casefold(), set()).add(name)
    assert {name: nodes for name, nodes in places.items() if len(nodes) > 1} == {}
    assert {name: forms for name, forms in spellings.items() if len(forms) > 1} == {}


def test_everyday_words_mean_the_node_that_they_assert() -> None:
    node = {name: row["name"] for file in FILES for row in rows(file) for name in names(row)}
    expected = {
        "bird": "Aves",
        "songbird": "Passeriformes",
        "owl": "Strigiformes",
        "gull": "Laridae",
        "loon": "Gavia",
        "butterfly": "Lepidoptera",
        "bee": "Hymenoptera",
        "ant": "Formicidae",
        "ladybug": "Coccinellidae",
        "spider": "Araneae",
        "snail": "Gastropoda",
        "snake": "Squamata",
        "deer": "Cervidae",
        "whale": "Artiodactyla",
        "moose": "Alces alces",
        "kitten": "Felis catus",
        "dachshund": "Canis familiaris",
        "common guillemot": "Uria aalge",
    }
    assert {name: node.get(name) for name in expected} == expected


@pytest.mark.parametrize("file", FILES)
def test_each_row_hits_one_node_of_the_inat21_tree(file: str, shared_data: Path) -> None:
    nodes: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for path in animals_of(shared_data):
        nodes.setdefault((RANKS[len(path) - 1], path[-1]), []).append(path)
    astray = {}
    for row in rows(file):
        hits = [
            path for path in nodes.get((row["rank"], row["name"]), []) if not row["within"] or row["within"] in path
        ]
        if len(hits) != 1:
            astray[row["rank"], row["name"]] = hits
    assert astray == {}


def test_every_higher_animal_node_of_inat21_has_a_name(shared_data: Path) -> None:
    named = {(row["rank"], row["name"]) for row in rows("animals.csv")}
    nodes = {(RANKS[len(path) - 1], path[-1]) for path in animals_of(shared_data)}
    assert {node for node in nodes - named if node[0] not in ("genus", "species")} == set()


def test_no_name_is_the_common_name_of_another_branch(shared_data: Path) -> None:
    with (shared_data / "inat21" / "inat2021-categories.csv").open(encoding="utf-8", newline="") as lines:
        species: dict[str, list[tuple[str, ...]]] = {}
        for line in csv.DictReader(lines):
            path = (*(line[rank] for rank in RANKS[:-1]), line["name"])
            species.setdefault(folded(line["common_name"]), []).append(path)
    strays = [
        (name, row["name"], path)
        for file in FILES
        for row in rows(file)
        for name in names(row)
        for path in species.get(folded(name), [])
        if row["name"] not in path
    ]
    assert strays == []
