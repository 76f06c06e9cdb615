"""Names proposed for the nodes of a tree, the file in which they are reviewed, and their way onto the tree."""

from __future__ import annotations

import pytest

from taxtune.authoring.enrich import (
    ProposedName,
    apply_proposals,
    inflections,
    proposals_csv,
    propose_names,
    read_proposals,
)
from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(
    ["food/soup", r"food/hot\/cold", "food/cake"], aliases={"soup": ["broth"]}
)
ROWS = [
    ProposedName(1, "potage", "wordnet", comment="soup.n.01: liquid food"),
    ProposedName(3, "bar", "wordnet", "ambiguous", 'would also name "food/soup"'),
    ProposedName(1, "Broth", "mine"),
]


def test_inflections_of_a_name():
    assert inflections("chest of drawers") == ["chests of drawers"]
    assert "bread knives" in inflections("bread knife")
    assert inflections("Ford Focus") == inflections("FIAT") == inflections("") == []


def test_only_what_the_mapper_does_not_place_is_proposed(small):
    taxonomy = Taxonomy.from_paths(["animal/dog", "animal/bird/mallard", "animal/bird/crane"])
    mapper = Mapper(taxonomy)
    proposals = propose_names(taxonomy, mapper, small)
    mallard = taxonomy.resolve("mallard")
    (latin,) = [row for row in proposals if row.name == "Anas platyrhynchos"]
    assert latin.node == mallard
    assert latin.source == "wordnet"
    for row in proposals:
        assert mapper.place_one(row.name).node != row.node
        assert row.source != "inflection"  # the mapper folds plurals itself
    more, counts = apply_proposals(taxonomy, proposals)
    assert counts["added"] == len(proposals)
    assert Mapper(more).place_one("Anas platyrhynchos").node == mallard


def test_a_name_of_two_nodes_is_marked_and_says_which(small):
    paths = ["thing/animal/dog", "thing/animal/duck", "thing/gadget/domestic dog"]
    taxonomy = Taxonomy.from_paths(paths)
    proposals = propose_names(taxonomy, Mapper(taxonomy), small)
    (row,) = [row for row in proposals if row.name == "domestic dog"]
    assert row.mark == "ambiguous"
    assert row.comment.startswith("names thing/gadget/domestic dog; dog.n.01")
    assert apply_proposals(taxonomy, [row])[1]["marked"] == 1


def test_what_is_written_is_read(tmp_path):
    file = tmp_path / "p.csv"
    for rows in (ROWS, []):
        file.write_text(proposals_csv(TREE, rows))
        assert read_proposals(file, TREE) == rows
    file.write_text("Node;Alias\ncake;gateau\nbroth;stock\n")
    gateau, stock = read_proposals(file, TREE)
    assert gateau == ProposedName(3, "gateau", "")
    assert stock == ProposedName(1, "stock", "")


def test_marked_names_and_names_that_the_tree_has_are_not_added():
    more, counts = apply_proposals(TREE, ROWS)
    assert more.aliases == ((), ("broth", "potage"), (), ())
    assert counts == {"added": 1, "marked": 1, "already there": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node,names\nfood,x\n", r"p\.csv:1: The proposals file has no column alias"),
        ("node,alias\nfood/pizza,x\n", r"p\.csv:2: The node is not on the tree: .*'food/pizza'"),
        ("node,alias\nsoup,a\nsoup,\n", r"p\.csv:3: The row proposes no alias"),
        ("node,alias\nsoup,a;b\n", r"p\.csv:2: A name cannot contain .*'a;b'.*one name per row"),
    ],
)
def test_a_bad_row_is_named(tmp_path, text, message):
    file = tmp_path / "p.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        read_proposals(file, TREE)
