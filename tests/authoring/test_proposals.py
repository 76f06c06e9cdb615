from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.authoring.proposals import AMBIGUOUS, Proposal, apply_proposals, proposals_csv, read_proposals
from taxtune.errors import DataError
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy(["food", "soup", "hot/cold", "cake"], [-1, 0, 0, 0], aliases=[[], ["broth"], [], []])
ROWS = [
    Proposal(1, "potage", "wordnet", comment="soup.n.01: liquid food"),
    Proposal(2, "either", "short", "lead"),
    Proposal(3, "bar", "wordnet", mark=AMBIGUOUS, comment='would also name "food/soup"'),
    Proposal(1, "Broth", "llm", "lead"),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text(proposals_csv(TREE, ROWS))
    assert file.read_text().splitlines()[0] == "node,alias,kind,source,mark,comment"
    assert read_proposals(file, TREE) == ROWS


def test_a_file_without_proposals_proposes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text(proposals_csv(TREE, []))
    assert read_proposals(file, TREE) == []


def test_marked_names_and_names_that_are_there_are_not_added() -> None:
    more, counts = apply_proposals(TREE, ROWS)
    assert more.aliases == ((), ("broth", "potage"), (), ())
    assert more.leads == ((), (), ("either",), ())
    assert counts == {"alias": 1, "lead": 1, "marked": 1, "already there": 1}
    more, counts = apply_proposals(TREE, ROWS, marked=True)
    assert more.aliases[3] == ("bar",)
    assert counts["marked"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node,names\nfood,x\n", r"p\.csv:1: The proposals file has no column alias\. \(got 'node,names'\).*enrich"),
        ("alias\nx\n", r"no column node"),
        ("node,alias\nfood/pizza,x\n", r"p\.csv:2: The node is not on the tree: .*'food/pizza'"),
        ("node,alias\nsoup,a\nfood\\/cake,b\n", r"p\.csv:3: The node is not on the tree"),
        ("node,alias\nsoup,\n", r"p\.csv:2: The row proposes no alias"),
        ("node,alias\nsoup,a;b\n", r"p\.csv:2: A name cannot contain .*'a;b'.*Give each name its own row"),
        (
            "node,alias,kind\nsoup,a,synonym\n",
            r"p\.csv:2: The kind of a name must be alias or lead\. \(got 'synonym'\)",
        ),
        ("", r"p\.csv: The proposals file is empty"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "p.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        read_proposals(file, TREE)


def test_a_file_of_ones_own_needs_two_columns(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("Node;Alias\ncake;gateau\nbroth;stock\n")
    assert read_proposals(file, TREE) == [Proposal(3, "gateau", ""), Proposal(1, "stock", "")]
