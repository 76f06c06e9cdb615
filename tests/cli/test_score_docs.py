"""The worked example of docs/explanation/scores.md, as its reader would run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from taxtune.metrics import leaf_information, precision_recall
from taxtune.metrics.information import information_values
from taxtune.taxonomy import Taxonomy, read_taxonomy
from tests.cli.commands import run_command

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "scores.md").read_text(
    encoding="utf-8"
)


def rows_below(heading: str) -> list[list[str]]:
    """Returns the cells of the table that begins with a heading, without the heading and the rule below it."""
    lines = PAGE[PAGE.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    tree, said = re.findall(r"```csv\n(.*?)```", PAGE, re.S)
    (tmp_path / "food.csv").write_text(tree)
    (tmp_path / "said.csv").write_text(said)
    return tmp_path / "food.csv", tmp_path / "said.csv"


def test_the_command_prints_what_the_page_shows(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, "score", "-t", files[0], files[1]) == 0
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == shown.splitlines()


def test_the_table_of_single_answers_is_right(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, "score", "-t", files[0], files[1], "--json") == 0
    data = json.loads(capsys.readouterr().out)
    found = {row["placement"].rsplit("/", 1)[-1]: row for row in data["rows"]}
    keys = ("hp", "hr", "ihp", "ihr", "remaining_uncertainty", "misinformation")
    *table, bicycle = rows_below("| said of a pho")
    for name, *cells in table:
        digits = [3, 3, 3, 3, 2, 2]
        assert cells == [f"{found[name][key]:.{n}f}" for key, n in zip(keys, digits, strict=True)]
    tree = read_taxonomy(files[0])
    pho = tree.resolve("pho")
    values = [
        *precision_recall(tree, [0], [pho], off_tree=[True]),
        *information_values(leaf_information(tree), [0], [pho], off_tree=[True]),
    ]
    assert [float(cell) for cell in bicycle[1:]] == pytest.approx(
        [float(value[0]) for value in values], abs=0.005
    )


def test_the_table_of_inat21_is_right(inat21: Taxonomy) -> None:
    information, leaves = leaf_information(inat21), inat21.leaves
    for level, (rank, *cells) in enumerate(rows_below("| rank | bits it adds"), start=1):
        nodes, above = inat21.lineage[leaves, level], inat21.lineage[leaves, level - 1]
        assert {inat21.ranks[node] for node in np.unique(nodes).tolist()} == {rank}
        _, hr = precision_recall(inat21, nodes, leaves)
        _, ihr, _, _ = information_values(information, nodes, leaves)
        # An answer as deep as the truth that leaves its path here: all leaves are of the same depth and information.
        ihp = information.content[above] / information.content[leaves]
        expected = [
            information.weight[nodes].mean(),
            hr.mean(),
            ihr.mean(),
            level / (inat21.height + 1),
            ihp.mean(),
        ]
        assert [float(cell) for cell in cells] == pytest.approx(expected, abs=0.005)
