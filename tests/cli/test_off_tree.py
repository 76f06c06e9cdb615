"""Answers that assert what the tree lacks, in every command that scores: as a child of the root, or on the root."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import run_command
from tests.cli.test_score import TAXONOMY
from tests.tuning.toy import BicycleMapper

Run = Callable[..., Any]

# Right, off the tree twice (once where the target is the root itself), and no answer at all.
ANSWERS = """id,answer,target
1,a mallard,mallard
2,A bicycle!,mallard
3,I cannot tell.,mallard
4,A red bicycle.,life
"""
#: hP, hR and accuracy by convention, worked out on life/bird/duck/mallard; with --root bird on bird/duck/mallard.
WHOLE = {"child": (3 / 4, (1 + 1 / 4 + 1 / 4 + 1) / 4, 1 / 4), "root": (1.0, (1 + 1 / 4 + 1 / 4 + 1) / 4, 2 / 4)}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in a folder with a tree and answers, and returns what it prints as JSON."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("taxtune.mapping.Mapper", BicycleMapper)
    monkeypatch.setattr("taxtune.studies.mapping.study.Mapper", BicycleMapper)
    (tmp_path / "tree.csv").write_text(TAXONOMY)
    (tmp_path / "answers.csv").write_text(ANSWERS)

    def run(*arguments: object, text: bool = False) -> Any:
        assert run_command(monkeypatch, *arguments, *([] if text else ["--json"])) == 0
        out = capsys.readouterr().out
        return out if text else json.loads(out)

    return run


@pytest.mark.parametrize("way", ["child", "root"])
def test_score(run: Run, way: str) -> None:
    options = ("score", "answers.csv", "-t", "tree.csv", "--off-tree-as", way)
    found = run(*options)
    scores = {name: found["scores"][name]["estimate"] for name in ("hp", "hr", "accuracy")}
    assert tuple(scores.values()) == pytest.approx(WHOLE[way])
    assert (found["n"], found["abstained"], found["off_tree"]) == (4, 1, 2)
    assert [row["off_tree"] for row in found["rows"]] == [False, True, False, True]
    assert [row["hp"] for row in found["rows"]] == ([1, 0.5, 1, 0.5] if way == "child" else [1, 1, 1, 1])
    assert found["mapper"]["off_tree"] == way
    assert "4 examples, 1 of them abstentions (25.0 %), which claim nothing, and 2 off the tree (50.0 %)" in run(
        *options, text=True
    )


def test_place(run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(monkeypatch, "place", "-t", "tree.csv", "answers.csv") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split("\t") == ["life", "off_tree", "life", "A bicycle!"]
    assert "4 answers placed, 1 of them abstentions, 2 off the tree" in err
    assert run_command(monkeypatch, "place", "-t", "tree.csv", "answers.csv", "--json") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(r["off_tree"], r["abstained"]) for r in records] == [
        (False, False),
        (True, False),
        (False, True),
        (True, False),
    ]


@pytest.mark.parametrize("way", ["child", "root"])
def test_diagnose(run: Run, way: str) -> None:
    found = run("score", "diagnose", "answers.csv", "-t", "tree.csv", "--off-tree-as", way, "--least", "1")
    hp, hr, _ = WHOLE[way]
    assert (found["scores"]["hp"], found["scores"]["hr"]) == (pytest.approx(hp), pytest.approx(hr))
    assert (found["scores"]["abstained"], found["scores"]["off_tree"]) == (1 / 4, 2 / 4)
    by_type = {row["type"]: row for row in found["tables"]["types"]}
    assert (by_type["off the tree"]["answers"], by_type["off the tree"]["%"]) == (2, 50)
    assert (by_type["abstained"]["answers"], by_type["correct"]["answers"]) == (1, 1)
    assert by_type["off the tree"]["cost in hP"] == pytest.approx(1 - hp)
    assert [(row["type"], row["hp"]) for row in found["answers"]][1] == ("off the tree", 0.5 if way == "child" else 1)
    if way == "child":
        assert found["tables"]["clades"][0]["most often"].startswith("off the tree")
    both = run(
        "score",
        "diagnose",
        "answers.csv",
        "-t",
        "tree.csv",
        "--off-tree-as",
        way,
        "--root",
        "bird",
        "--off-tree",
        "leave-out",
    )
    (row,) = both["tables"]["both-trees"]
    assert row["hP on life"] == pytest.approx(2.5 / 3 if way == "child" else 1)
