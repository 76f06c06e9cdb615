"""Answers that assert what the tree lacks, in every command that scores: as a child of the root, or on the root."""

from __future__ import annotations

import json
from collections.abc import Callable
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
WHOLE = {
    "child": (3 / 4, (1 + 1 / 4 + 1 / 4 + 1) / 4, 1 / 4),
    "root": (1.0, (1 + 1 / 4 + 1 / 4 + 1) / 4, 2 / 4),
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command in a folder with a tree and answers, and returns what it prints as JSON."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("taxtune.mapping.Mapper", BicycleMapper)
    monkeypatch.setattr("taxtune.studies.mapping.Mapper", BicycleMapper)
    (tmp_path / "tree.csv").write_text(TAXONOMY)
    (tmp_path / "answers.csv").write_text(ANSWERS)

    def run(*arguments, text=False):
        assert run_command(monkeypatch, *arguments, *([] if text else ["--json"])) == 0
        out = capsys.readouterr().out
        return out if text else json.loads(out)

    return run


@pytest.mark.parametrize("way", ["child", "root"])
def test_score(run, way):
    options = ("score", "answers.csv", "-t", "tree.csv", "--off-tree-as", way)
    found = run(*options)
    scores = {name: found["scores"][name]["estimate"] for name in ("hp", "hr", "accuracy")}
    assert tuple(scores.values()) == pytest.approx(WHOLE[way])
    assert (found["n"], found["abstained"], found["off_tree"]) == (4, 1, 2)
    assert [row["off_tree"] for row in found["rows"]] == [False, True, False, True]
    assert [row["hp"] for row in found["rows"]] == (
        [1, 0.5, 1, 0.5] if way == "child" else [1, 1, 1, 1]
    )
    assert found["mapper"]["off_tree"] == way
    assert (
        "4 examples, 1 (25.0 %) of them abstentions, which claim nothing, and 2 (50.0 %) off the tree"
        in run(*options, text=True)
    )
