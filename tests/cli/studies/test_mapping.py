from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.cli.commands import run_command
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


def test_a_root_changes_the_metrics_and_both_are_shown(folder: Path, study: Study) -> None:
    only = ("-m", "lexical", "--resamples", 10)
    arguments = (folder / "placed.csv", "-t", folder / "tree.csv", *only)
    found = study.json(*arguments, "--root", "bird")
    row, both = (found["tables"][name][-1] for name in ("mapping", "both-trees"))
    # A blackbird and a mallard share bird of 3 nodes from bird down, life and bird of 4 from life; "bird" is 1 of the
    # mallard's 3 nodes, or 2 of 4; "no idea" is on the root of the part, where it belongs, and the mallard is right.
    hp, hr = (1 / 3 + 1 + 1 + 1) / 4, (1 / 3 + 1 / 3 + 1 + 1) / 4
    whole_hp, whole_hr = (2 / 4 + 1 + 1 + 1) / 4, (2 / 4 + 2 / 4 + 1 + 1) / 4
    assert (row["n"], row["hP"], row["hR"]) == (4, pytest.approx(hp), pytest.approx(hr))
    assert row["acceptable"] == 2 / 4
    assert (both["hP on life"], both["hR on life"]) == (pytest.approx(whole_hp), pytest.approx(whole_hr))
    assert found["excluded"] == [{"file": str(folder / "placed.csv"), "row": 4, "reason": "node outside bird"}]
    for note in ("target is the root, bird", "left out: node outside bird", "acceptable nodes outside bird"):
        assert any(note in text for text in found["notes"])
    assert [record["truth"] for record in found["answers"]][2] == "bird"
    # Without a root all rows count, and there is one tree.
    found = study.json(*arguments)
    assert (found["tables"]["mapping"][0]["n"], found["settings"]["root"], found["excluded"]) == (5, None, [])
    assert "both-trees" not in found["tables"]


@pytest.mark.parametrize("root", ["birdy", "oak"])
def test_a_bad_root_is_told_as_score_tells_it(
    folder: Path, root: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "p.csv").write_text("predicted,target\nmallard,mallard\n", encoding="utf-8")
    said = set()
    for command in (("score", folder / "p.csv"), ("study", "mapping", folder / "placed.csv"), ("study", "encoder")):
        assert run_command(monkeypatch, *command, "-t", folder / "tree.csv", "--root", root) == 2
        said.add(capsys.readouterr().err)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "rogue-1"], "Did you mean 'rouge-1'"),
        (["--node-column", "where"], "no column 'where'"),
        (["--no-node", "error"], "placed.csv: 1 of 5 rows cannot be used: row 5: node is missing"),
        (["--ties", "first"], "deepest, ancestor, random"),
        (["-m", "sentence:"], "model is empty"),
        (["-m", "clip-i2t"], "needs images"),
    ],
)
def test_errors(folder: Path, arguments: list[str], said: str, study: Study) -> None:
    assert said in study.refused(folder / "placed.csv", "-t", folder / "tree.csv", *arguments)
