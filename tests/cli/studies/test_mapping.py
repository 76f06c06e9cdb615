from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.studies.study import Study

STUDY = "mapping"

# Below bird; the oak's row is not, and neither is a node that the last row's answer may also be placed on.
TAXONOMY = """path,aliases
life/bird/duck/mallard,
life/bird/thrush/blackbird,
life/plant/oak,oak tree
"""
PLACED = """answer,node,also,style
a blackbird,mallard,,wrong
some bird,mallard,,coarse
an oak tree,oak,,bare
no idea,,,off-tree
a mallard,mallard,oak|duck,bare
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(TAXONOMY, encoding="utf-8")
    (tmp_path / "placed.csv").write_text(PLACED, encoding="utf-8")
    return tmp_path


def test_tables_and_files(folder: Path, study: Study) -> None:
    out = folder / "out"
    printed, err = study.said(
        folder / "placed.csv", "-t", folder / "tree.csv", "-m", "lexical", "-m", "rouge-1",
        "--resamples", 20, "--out", out,
    )  # fmt: skip
    for name in ("lexical", "lexical + Alg. 1", "ROUGE", "ROUGE + Alg. 1", "default mapper, lexical", "Not comparable"):
        assert name in printed
    assert "1 of 5 answers name no node, so their target is the root" in err
    with (out / "mapping.csv").open(encoding="utf-8") as file:
        rows = {row["mapper"]: row for row in csv.DictReader(file)}
    assert float(rows["default mapper, lexical"]["accuracy"]) == 3 / 5
    files = {path.name for path in out.iterdir()}
    assert {"study.json", "mapping.md", "mapping-agreement.csv", "mapping-agreement.png", "mapping-scores.svg"} <= files


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "rogue-1"], "Did you mean 'rouge-1'"),
        (["--node-column", "where"], "no column 'where'"),
        (["--no-node", "error"], "placed.csv: 1 of 5 rows cannot be used: row 5: node is missing"),
        (["--ties", "first"], "deepest, ancestor, random"),
        (["--no-alone", "--no-algorithm", "--no-default"], "Nothing is left to compare"),
        (["-m", "sentence:"], "model is empty"),
        (["-m", "clip-i2t"], "needs images"),
    ],
)
def test_errors(folder: Path, arguments: list[str], said: str, study: Study) -> None:
    assert said in study.refused(folder / "placed.csv", "-t", folder / "tree.csv", *arguments)
