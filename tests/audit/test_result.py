"""The tables and files of an audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.audit.population import Population, answers_digest, digest, place_answers
from taxtune.audit.result import Audited, AuditFiles, draw_sample, make_report, write_placed, write_result
from taxtune.audit.sampling import Drawn
from taxtune.audit.verdicts import Finding, Verdict
from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.studies.mapping.annotated import read_annotated
from taxtune.taxonomy import Taxonomy
from tests.audit.samples import TREE, item, population

RIGHT, WRONG = Finding(Verdict.RIGHT), Finding(Verdict.WRONG)


def audited(people: Population, *findings: Finding | None) -> Audited:
    sample = [Drawn(i, 0, 1.0) for i in range(len(people.items))]
    return Audited(people, sample, findings, "a person", 60, 0)


def test_distinct_answers_are_placed_once_and_counted() -> None:
    placed: list[str] = []

    class Counting(Mapper):
        def place(self, answers, images=None):  # type: ignore[no-untyped-def]
            placed.extend(answers)
            return super().place(answers, images)

    people = place_answers("x", ["pho", "cake", "pho", ""], Counting(TREE))
    assert placed == ["pho", "cake", ""]
    assert [(i.answer, i.count, i.node) for i in people.items] == [("pho", 2, 6), ("cake", 1, 2), ("", 1, 0)]
    assert people.answers == 4


def test_a_digest_tells_placements_apart_whatever_their_order() -> None:
    rows = [("pho", "food/soup", "head", 1), ("cake", "food", "abstained", 2)]
    assert digest(rows) == digest([rows[1], ("pho", "food/soup", "verbatim", 1)])
    assert digest(rows) == digest([("cake", "food", "abstained", 1), rows[0], ("cake", "food", "abstained", 1)])
    assert digest(rows) != digest([rows[0], ("cake", "food", "off_tree", 2)])
    assert digest(rows) != digest([rows[0], ("cake", "food", "abstained", 1)])
    assert digest([("half \ud83d", "food", "head", 1)]) != digest(rows)


def test_shares_by_hand() -> None:
    # 10 answers, all judged: 6 right, 1 too general, 3 wrong, counted as often as they were said.
    people = population(item("pho", 6, count=6), item("gelato", 3, "head"), item("torte", 6, "vote", count=3))
    report = make_report(audited(people, RIGHT, Finding(Verdict.TOO_GENERAL, 4), WRONG)).as_json()
    shares = {name: (found["share"], found["low"], found["high"]) for name, found in report["shares"].items()}
    assert shares["right"] == pytest.approx((0.6, 0.6, 0.6))
    assert shares["too_general"] == pytest.approx((0.1, 0.1, 0.1))
    assert shares["wrong"] == pytest.approx((0.3, 0.3, 0.3))
    stages = {row["stage"]: row for row in report["tables"]["by-stage"]}
    assert (stages["vote"]["of all"], stages["vote"]["wrong"], stages["head"]["too general"]) == (0.3, 1.0, 1.0)


def test_what_has_no_verdict_is_counted_and_never_a_figure() -> None:
    people = population(item("pho", 6), item("cake", 2, "head"))
    some = make_report(audited(people, RIGHT, None))
    assert some.data["judged"] == 1
    assert any("1 drawn answer has no verdict" in note for note in some.tables[0].notes)
    none = make_report(audited(people, None, None)).as_json()
    assert none["shares"] == {"right": None, "too_general": None, "wrong": None}
    assert none["tables"]["audit"][0]["share"] is None


def test_a_sample_stays_where_the_placements_change(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path)
    people = population(*(item(f"answer {i}", i % 8) for i in range(40)))
    sample = draw_sample(people, 10, 0, files.result)
    result = Audited(people, sample, [None] * 10, "a person", 10, 0)
    write_result(files, result, make_report(result))
    moved = population(*(item(f"answer {i}", (i + 1) % 8, "vote") for i in reversed(range(40))))
    again = draw_sample(moved, 10, 0, files.result)
    assert [moved.items[u.item].answer for u in again] == [people.items[u.item].answer for u in sample]
    assert [u.inclusion for u in again] == [u.inclusion for u in sample]
    assert draw_sample(people, 10, 1, files.result) != sample
    assert len(draw_sample(people, 11, 0, files.result)) == 11
    fewer = population(*people.items[:-1])
    assert answers_digest(fewer.items) != answers_digest(people.items)
    assert len(draw_sample(fewer, 10, 0, files.result)) == 10


@pytest.mark.parametrize("content", ["nonsense", "[]", "{}", '{"answers_digest": 1, "settings": {}}'])
def test_a_result_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "audit.json").write_text(content)
    with pytest.raises(DataError, match=r"audit\.json: This is not a taxtune audit"):
        draw_sample(population(item("pho", 6)), 1, 0, tmp_path / "audit.json")


def test_placed_answers_are_what_study_mapping_reads(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path)
    people = population(
        item("pho", 6), item("torte", 6, "vote"), item("gelato", 3), item("a bike", 0, "off_tree"), item("x", 1)
    )
    found = (RIGHT, Finding(Verdict.WRONG, 2), Finding(Verdict.TOO_GENERAL), RIGHT, None)
    assert write_placed(files, audited(people, *found)) == 3
    read = read_annotated(files.placed, TREE)
    assert read.frame["answer"].tolist() == ["pho", "torte", "a bike"]
    assert read.frame["target"].tolist() == [6, 2, 0]
    assert read.frame["style"].tolist() == ["verbatim", "vote", "off_tree"]
    assert json.loads(files.placed.read_text().splitlines()[2])["node"] is None


def test_a_label_with_a_slash_is_read_back(tmp_path: Path) -> None:
    tree = Taxonomy(["food", "surf/turf", "surf"], [-1, 0, 0])
    people = population(item("surf and turf", 1), tree=tree)
    write_placed(AuditFiles(tmp_path), audited(people, RIGHT))
    assert read_annotated(tmp_path / "audit-placed.jsonl", tree).frame["target"].tolist() == [1]
