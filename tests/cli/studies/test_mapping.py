from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.commands import run_command

TAXONOMY = """path,rank,aliases
life/bird,class,birds
life/bird/duck/mallard,species,wild duck
life/bird/thrush/blackbird,species,Turdus merula
"""
PLACED = """answer,node,also,style
a mallard,mallard,,bare
some bird,bird,,coarse
a wild thrush,thrush,bird,coarse
no idea,,,off-tree
"""


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    return run_command(monkeypatch, "study", "mapping", *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(TAXONOMY, encoding="utf-8")
    (tmp_path / "placed.csv").write_text(PLACED, encoding="utf-8")
    return tmp_path


def test_tables_and_files(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "out"
    code = run(
        monkeypatch, folder / "placed.csv", "-t", folder / "tree.csv", "-m", "lexical", "-m", "rouge-1",
        "--resamples", 20, "--out", out,
    )  # fmt: skip
    assert code == 0
    captured = capsys.readouterr()
    for name in ("lexical", "lexical + Alg. 1", "ROUGE", "ROUGE + Alg. 1", "default mapper, lexical", "Not comparable"):
        assert name in captured.out
    assert "1 of 4 answers name no node; their target is the root" in captured.err
    with (out / "mapping.csv").open(encoding="utf-8") as file:
        rows = {row["mapper"]: row for row in csv.DictReader(file)}
    assert float(rows["default mapper, lexical"]["accuracy"]) == 1
    files = {path.name for path in out.iterdir()}
    assert {"study.json", "mapping.md", "mapping-agreement.csv", "mapping-agreement.png", "mapping-scores.svg"} <= files


def test_json_is_the_same_for_a_seed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (
        folder / "placed.csv", "-t", folder / "tree.csv", "-m", "mine=lexical", "--ties", "random", "--no-default",
        "--resamples", 30, "--seed", 4, "--json",
    )  # fmt: skip
    assert run(monkeypatch, *arguments) == 0
    first = capsys.readouterr().out
    assert run(monkeypatch, *arguments) == 0
    assert capsys.readouterr().out == first
    data = json.loads(first)
    assert data["settings"]["seed"] == 4
    assert [record["mapper"] for record in data["tables"]["mapping"]] == ["mine", "mine + Alg. 1"]
    assert data["scores"]["mine"]["hf"]["low"] <= data["scores"]["mine"]["hf"]["estimate"]
    assert data["answers"][0] == {
        "row": 2,
        "answer": "a mallard",
        "target": "life/bird/duck/mallard",
        "placed": {"mine": "life/bird/duck/mallard", "mine + Alg. 1": "life/bird/duck/mallard"},
    }
    assert {record["style"] for record in data["styles"]} == {"bare", "coarse", "off-tree"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "rogue-1"], "Did you mean 'rouge-1'"),
        (["--node-column", "where"], "no column 'where'"),
        (["--no-node", "error"], "placed.csv: 1 of 4 rows cannot be used:\n  row 5: node is empty"),
        (["--ties", "first"], "deepest, ancestor, random"),
        (["--names", "latin"], "all, common"),
        (["--no-alone", "--no-algorithm", "--no-default"], "Nothing is left to compare"),
        (["-m", "sentence:"], "model is empty"),
        (["-m", "clip-i2t"], "Give images of the nodes with --images"),
        (["--images", "i.csv", "--image-column", "photo"], "--images and --image-column exclude each other"),
        (["--images", "i.csv"], "i.csv"),
    ],
)
def test_errors(
    folder: Path,
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, folder / "placed.csv", "-t", folder / "tree.csv", *arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
