"""Answers that assert what the tree lacks, in every command that scores: as a child of the root, or on the root."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taxtune.mapping.config import PAPER_PRESETS
from tests.cli.commands import run_command
from tests.cli.test_score import TAXONOMY
from tests.tuning.test_off_tree import cyclist
from tests.tuning.toy import BicycleMapper, make_files, tuned

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


@pytest.mark.parametrize("preset", PAPER_PRESETS)
def test_the_papers_presets_have_the_papers_convention(run: Run, preset: str) -> None:
    found = run("score", "answers.csv", "-t", "tree.csv", "--preset", preset)
    assert found["mapper"]["preset"] == preset
    assert found["mapper"]["off_tree"] == "root"
    assert found["off_tree"] == 2
    assert found["rows"][1]["hp"] == 1


def test_score_on_a_part_and_on_the_whole(run: Run) -> None:
    found = run("score", "answers.csv", "-t", "tree.csv", "--root", "bird")
    # The target "life" is outside. A bicycle is a child of bird there and a child of life on the whole.
    assert [(row["hp"], row["hr"]) for row in found["rows"]] == [(1, 1), (1 / 2, 1 / 3), (1, 1 / 3)]
    assert [(row["full_hp"], row["full_hr"]) for row in found["rows"]] == [(1, 1), (1 / 2, 1 / 4), (1, 2 / 4)]
    assert found["full_scores"]["hp"]["estimate"] == pytest.approx(2.5 / 3)


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


@pytest.mark.parametrize("way", ["child", "root"])
def test_ranking(run: Run, way: str) -> None:
    Path("same.csv").write_text(ANSWERS)
    arguments = ("answers.csv", "same.csv", "-t", "tree.csv", "-m", "exact-match", "--resamples", "20")
    found = run("study", "ranking", *arguments, "--off-tree-as", way)
    hp, hr, exact = WHOLE[way]
    for row in found["tables"]["scores"]:
        assert (row["answers"], row["abstained"], row["off the tree"]) == (4, 1, 2)
        assert (row["hP"], row["hR"], row["accuracy"]) == pytest.approx((hp, hr, 100 * exact))
    assert found["settings"]["mapper"]["off_tree"] == way
    part = run("study", "ranking", *arguments, "--off-tree-as", way, "--root", "bird")["tables"]["both-trees"]
    assert [row["hP on life"] for row in part] == pytest.approx([2.5 / 3 if way == "child" else 1] * 2)


@pytest.mark.parametrize("way", ["child", "root"])
def test_prompts(run: Run, way: str) -> None:
    Path("good.csv").write_text(ANSWERS.replace("A bicycle!", "a duck"))
    arguments = ("m:a=answers.csv", "m:b=good.csv", "-t", "tree.csv", "--resamples", "20", "--off-tree-as", way)
    found = run("study", "prompts", *arguments)
    first, second = found["tables"]["prompts"]
    hp, hr, exact = WHOLE[way]
    assert (first["abstained"], first["off the tree"], second["off the tree"]) == (1, 2, 1)
    assert (first["hP"], first["hR"], first["accuracy"]) == pytest.approx((hp, hr, exact))
    by_metric = {row["metric"]: row["difference"] for row in found["tables"]["differences"]}
    assert by_metric["hP"] == pytest.approx(1 / 8 if way == "child" else 0)
    part = run("study", "prompts", *arguments, "--root", "bird")["tables"]["both-trees"]
    assert part[0]["hP on life"] == pytest.approx(2.5 / 3 if way == "child" else 1)


@pytest.mark.parametrize("way", ["child", "root"])
def test_prompts_of_a_run_are_scored_as_the_run_did(tmp_path: Path, run: Run, way: str) -> None:
    session = cyclist(tmp_path / "in", tmp_path / "out", "iterations=2", f"mapper.off_tree={way}")
    result = tuned(session, tmp_path / "out")
    for tree in ((), ("-t", "in/tree.csv")):
        rows = run("study", "prompts", "out", *tree, "--resamples", "20")["tables"]["prompts"]
        for row, held in zip(rows, result.heldout, strict=True):
            assert (row["hP"], row["hR"]) == (pytest.approx(held.scores.hp), pytest.approx(held.scores.hr))
            assert row["off the tree"] == round(held.scores.off_tree * held.scores.n)
            assert row["abstained"] == round(held.scores.abstained * held.scores.n)
        assert rows[0]["off the tree"] > 0


def test_mapping_counts_both_and_judges_the_mapper_by_where_people_put_it(tmp_path: Path, run: Run) -> None:
    answers = [("a mallard", "life/bird/duck/mallard"), ("A bicycle!", None), ("I cannot tell.", None)]
    lines = (json.dumps({"answer": answer, "node": node}) for answer, node in answers)
    (tmp_path / "placed.jsonl").write_text("\n".join(lines))
    found = run("study", "mapping", "placed.jsonl", "-t", "tree.csv", "-m", "exact-match", "--resamples", "20")
    rows = {row["mapper"]: row for row in found["tables"]["mapping"]}
    default = rows["default mapper, lexical"]
    assert (default["on the root"], default["abstained"], default["off the tree"]) == (2, 1, 1)
    assert (default["hP"], default["accuracy"]) == (1, 1)
    assert rows["EM"]["off the tree"] is None


def test_a_dry_run_says_when_the_run_would_end(tmp_path: Path, run: Run) -> None:
    arguments = ("tune", make_files(tmp_path / "in"), "--dry-run", "--set", "vlm.model=builtin:fieldguide")
    line = "off the tree    the run stops if more than 50 % of the baseline's answers are off the tree (max_off_tree)"
    assert line in run(*arguments, text=True)
    assert run(*arguments, "--set", "max_off_tree=0.2")["max_off_tree"] == 0.2


def test_a_convention_that_there_is_not(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["score"], ["score", "diagnose"]):
        code = run_command(monkeypatch, *command, "answers.csv", "-t", "tree.csv", "--off-tree-as", "leaf")
        assert code == 2
        assert "child, root" in capsys.readouterr().err
