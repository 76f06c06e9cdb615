from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.audit.verdicts import Finding, Verdict, VerdictLog, judged_by_node
from taxtune.errors import DataError, TaxtuneError
from taxtune.taxonomy import Taxonomy
from tests.audit.samples import TREE, item, population

CAKE = item("a cake", 2)


def test_a_verdict_follows_from_the_node_that_an_answer_belongs_on() -> None:
    assert judged_by_node(TREE, item("cake", 2), 2) is Verdict.RIGHT
    assert judged_by_node(TREE, item("cake", 1), 2) is Verdict.TOO_GENERAL
    assert judged_by_node(TREE, item("cake", 3), 2) is Verdict.WRONG
    assert judged_by_node(TREE, item("a dessert", 2), 1) is Verdict.WRONG  # more exact than was said
    # Nothing said is the most general of placements; something wrong said is none.
    assert judged_by_node(TREE, item("cake", 0, "abstained"), 2) is Verdict.TOO_GENERAL
    assert judged_by_node(TREE, item("cake", 0, "off_tree"), 2) is Verdict.WRONG
    assert judged_by_node(TREE, item("a bike", 0, "off_tree"), 0) is Verdict.RIGHT


def test_verdicts_are_on_disk_at_once_and_the_last_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    answers = population(CAKE, item("half a pair: \ud83d", 3))
    log = VerdictLog(file)
    assert log.find(answers, CAKE) is None
    log.add(answers, CAKE, Finding(Verdict.WRONG, 3))
    log.add(answers, answers.items[1], Finding(Verdict.TOO_GENERAL))
    assert VerdictLog(file).find(answers, CAKE) == Finding(Verdict.WRONG, 3)
    log.add(answers, CAKE, Finding(Verdict.RIGHT))
    again = VerdictLog(file)
    assert again.find(answers, CAKE) == Finding(Verdict.RIGHT)
    assert again.find(answers, answers.items[1]) == Finding(Verdict.TOO_GENERAL)
    assert len(file.read_text().splitlines()) == 3


def test_a_changed_placement_has_no_verdict_but_an_earlier_one(tmp_path: Path) -> None:
    log = VerdictLog(tmp_path / "audit.jsonl")
    log.add(population(CAKE), CAKE, Finding(Verdict.WRONG))
    moved = item("a cake", 3)
    assert log.find(population(moved), moved) is None
    assert log.earlier("a cake") == "placed on food › dessert › cake it was wrong"
    assert log.earlier("pho") is None
    # Off the tree is another placement than nothing said, though both are on the root.
    nothing = item("a bike", 0, "abstained")
    log.add(population(nothing), nothing, Finding(Verdict.WRONG))
    off = item("a bike", 0, "off_tree")
    assert log.find(population(off), off) is None
    # Which stage put it on its node does not matter else.
    by_head = item("a cake", 2, "head")
    assert log.find(population(by_head), by_head) == Finding(Verdict.WRONG)


def test_an_answer_that_is_by_now_where_it_was_said_to_belong_is_right(tmp_path: Path) -> None:
    log = VerdictLog(tmp_path / "audit.jsonl")
    log.add(population(CAKE), CAKE, Finding(Verdict.WRONG, 3))
    mended = item("a cake", 3)
    assert log.find(population(mended), mended) == Finding(Verdict.RIGHT, 3)
    other = Taxonomy(["food", "cake"], [-1, 0])  # a tree that lacks the node: the verdict stands, the node is gone
    placed = item("a cake", 1)
    assert log.find(population(placed, tree=other), placed) is None


@pytest.mark.parametrize("cut", ["", '{"answer": "a ca', '{"answer": "a cake", "placed": ["food"]'])
def test_a_line_that_a_crash_cut_off_is_no_verdict_and_in_nobodys_way(tmp_path: Path, cut: str) -> None:
    file = tmp_path / "audit.jsonl"
    answers = population(CAKE, item("pho", 6))
    VerdictLog(file).add(answers, CAKE, Finding(Verdict.RIGHT))
    with file.open("a") as end:
        end.write(cut)
    log = VerdictLog(file)
    log.add(answers, answers.items[1], Finding(Verdict.WRONG))
    again = VerdictLog(file)
    assert [again.find(answers, i) for i in answers.items] == [Finding(Verdict.RIGHT), Finding(Verdict.WRONG)]
    assert [json.loads(line)["answer"] for line in file.read_text().splitlines()] == ["a cake", "pho"]


def test_a_whole_last_line_without_its_end_stays(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    answers = population(CAKE, item("pho", 6))
    VerdictLog(file).add(answers, CAKE, Finding(Verdict.RIGHT))
    file.write_text(file.read_text().rstrip("\n"))
    VerdictLog(file).add(answers, answers.items[1], Finding(Verdict.WRONG))
    assert [VerdictLog(file).find(answers, i) is not None for i in answers.items] == [True, True]


@pytest.mark.parametrize(
    "line", ["nonsense", '{"answer": "x"}', '{"answer": "x", "placed": "a/b", "nowhere": "", "verdict": "right"}',
             '{"answer": "x", "placed": ["a"], "nowhere": "", "verdict": "fine", "node": null}']
)  # fmt: skip
def test_a_line_that_is_no_verdict_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "audit.jsonl"
    VerdictLog(file).add(population(CAKE), CAKE, Finding(Verdict.RIGHT))
    file.write_text(file.read_text() + line + "\n" + file.read_text())
    with pytest.raises(DataError, match=r"audit.jsonl:2: The line is not a verdict"):
        VerdictLog(file)


def test_what_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        VerdictLog(tmp_path)
    log = VerdictLog(tmp_path / "gone" / "audit.jsonl")
    with pytest.raises(TaxtuneError):
        log.add(population(CAKE), CAKE, Finding(Verdict.RIGHT))
