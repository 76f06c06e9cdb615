"""The worked example of docs/explanation/scores.md, as its reader would run it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from taxtune.metrics import leaf_information, precision_recall
from taxtune.metrics.information import information_values
from taxtune.metrics.table import Predictions
from taxtune.report.formatting import number
from taxtune.taxonomy import read_taxonomy
from tests.cli.commands import run_json, run_well

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "explanation" / "scores.md").read_text(encoding="utf-8")
#: The scores of the table of single answers.
SHOWN = ("hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation")


def rows_below(heading):
    """Returns the cells of the table that begins with a heading, without the heading and the rule below it."""
    table, *_ = PAGE[PAGE.index(heading) :].split("\n\n")
    rows = []
    for line in table.splitlines()[2:]:
        cells = line.strip("|").split("|")
        rows.append([cell.strip(" *") for cell in cells])
    return rows


@pytest.fixture
def here(tmp_path):
    tree, said = re.findall(r"```csv\n(.*?)```", PAGE, re.S)
    (tmp_path / "food.csv").write_text(tree)
    (tmp_path / "said.csv").write_text(said)
    return tmp_path


def test_the_command_prints_what_the_page_shows(here):
    out = run_well("score", "-t", "food.csv", "said.csv", folder=here).out
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    assert [line.rstrip() for line in out.splitlines()] == shown.splitlines()


def test_the_table_of_single_answers_is_right(here):
    data = run_json("score", "-t", "food.csv", "said.csv", folder=here)
    scores = {row["placement"].rsplit("/", 1)[-1]: row for row in data["rows"]}
    *table, bicycle = rows_below("| said of a pho")
    for name, *cells in table:
        assert cells == [number(scores[name][key], key) for key in SHOWN]
    tree = read_taxonomy(here / "food.csv")
    pho = tree.resolve("pho")
    off_tree = np.array([True])
    values = Predictions(leaf_information(tree), np.array([0]), np.array([pho]), off_tree).scores()
    expected = [float(values[key][0]) for key in SHOWN]
    assert list(map(float, bicycle[1:])) == pytest.approx(expected, abs=0.005)


def test_the_table_of_inat21_is_right(inat21):
    information = leaf_information(inat21)
    leaves = inat21.leaves
    for level, (rank, *cells) in enumerate(rows_below("| rank | bits it adds"), start=1):
        nodes = inat21.lineage[leaves, level]
        above = inat21.lineage[leaves, level - 1]
        assert {inat21.ranks[node] for node in np.unique(nodes).tolist()} == {rank}
        _, hr = precision_recall(inat21, nodes, leaves)
        _, ihr, _, _ = information_values(information, nodes, leaves)
        # An answer as deep as the truth that leaves its path here: all leaves are of the same depth
        # and information.
        ihp = information.content[above] / information.content[leaves]
        expected = [
            information.weight[nodes].mean(),
            hr.mean(),
            ihr.mean(),
            level / (inat21.height + 1),
            ihp.mean(),
        ]
        assert [float(cell) for cell in cells] == pytest.approx(expected, abs=0.005)
