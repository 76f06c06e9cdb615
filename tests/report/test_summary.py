"""The summary of a run: the counts, the scores, and the verdict in its three wordings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.objective import Constraint, ObjectiveSpec
from taxtune.report.html import render_report
from taxtune.report.summary import goal_in_words, selection_in_words, summarise, verdict
from taxtune.tuning.records import Held, Selection, Status, TuneResult
from tests.report import samples
from tests.rows import changed_row

HELD = (Constraint("hp", 0.98, 0.9),)


def said(status: Status | None, images: int, *held: Held, objective: str = "hr") -> str:
    chosen = Selection(3, status == "certified", images, status=status, held=held)
    return selection_in_words(chosen, ObjectiveSpec("hr_at_hp", objective))


def test_a_certified_winner() -> None:
    held = Held("hp", 0.98, 0.9, low=0.984, mean=1.0)
    assert said("certified", 200, held) == (
        "Certified: hP is at least 0.984 with 90 % confidence (200 tuning images)."
    )


def test_a_winner_that_passes_alone() -> None:
    held = Held("hp", 0.98, 0.9, low=0.986, mean=1.0)
    assert said("passes-alone", 200, held) == (
        "Passes alone, but a more cautious prompt failed first: that hP is at least 0.986 with 90 % confidence "
        "(200 tuning images) is not certified."
    )


def test_a_best_estimate_says_how_many_more_photos_would_certify_it() -> None:
    held = Held("hp", 0.98, 0.9, low=0.977, mean=1.0, more=8)
    assert said("estimate", 50, held) == (
        "Best estimate, not certified: label 8 more photos for tuning to prove hP 0.980 "
        "(50 tuning images prove 0.977 with 90 % confidence)."
    )


@pytest.mark.parametrize(("mean", "near"), [(0.97, "short of"), (0.98, "too close to")])
def test_a_best_estimate_says_that_no_number_of_photos_would_do(mean: float, near: str) -> None:
    held = Held("hp", 0.98, 0.9, low=0.95, mean=mean)
    assert said("estimate", 50, held) == (
        f"Best estimate, not certified: its hP is {mean:.3f} on 50 tuning images, {near} the goal 0.980 "
        "(50 tuning images prove 0.950 with 90 % confidence)."
    )


def test_without_a_confidence_nothing_is_called_certified() -> None:
    floor = Held("hr", 0.5, 0.5, low=0.6, mean=0.6)
    assert said(None, 20, floor) == (
        "Chosen for the highest hR, less a margin for luck, among those with hR at least 0.500 on average "
        "(20 tuning images)."
    )
    assert said(None, 1, replace(floor, low=0.4)) == (
        "No prompt has hR at least 0.500 on average; this one comes nearest (1 tuning image)."
    )
    assert said(None, 20) == "Chosen for the highest hR, less a margin for luck (20 tuning images)."


def certified(run: TuneResult) -> TuneResult:
    held = Held("hp", 0.98, 0.9, low=0.985, mean=1.0)
    chosen = Selection(run.winner, True, 120, status="certified", held=(held,))
    return replace(run, constraints=HELD, selection=chosen)


def test_report_and_result_say_what_the_terminal_says() -> None:
    run = certified(samples.tune(n=3))
    expected = "Certified: hP is at least 0.985 with 90 % confidence (120 tuning images)."
    assert verdict(run) == expected
    assert expected in render_report(run)
    assert verdict(samples.tune(n=3)) == ""


def test_counts_add_up_whatever_became_of_the_answers() -> None:
    run = samples.answered(
        ["a/b/c"] * 6,
        baseline=["a/b/c", "a/b", "a/x", "a/b/c", "a/b/c", None],
        winner=["a/b/c", "a/b", "a/b", "a", "a", "a/b/c"],
    )
    baseline, winner = run.heldout
    rows = list(winner.rows)
    rows[3] = changed_row(rows[3], abstained=True)
    rows[4] = changed_row(rows[4], off_tree=True)
    found = summarise(replace(run, heldout=(baseline, replace(winner, rows=tuple(rows)))))
    assert found.images == 6
    before, after = (column.counts for column in found.columns)
    assert before == {
        "wrong": 1,
        "off the tree": 0,
        "abstained": 0,
        "right, but general": 1,
        "exact": 3,
        "missing": 1,
    }
    assert list(after.values()) == [0, 1, 1, 2, 2, 0]
    assert found.counts == tuple(before)


def test_the_scores_that_matter_with_their_goals() -> None:
    found = summarise(samples.tune(n=3))
    assert found.scores == {"hp": "precision hP", "hr": "recall hR (goal 0.420)"}
    baseline, tuned = found.columns
    assert (baseline.title, tuned.title, tuned.scores["hp"]) == ("baseline", "tuned", 0.962)
    assert baseline.changes == {}
    assert tuned.changes["hp"].difference == pytest.approx(0.091)
    several = summarise(samples.comparison(n=3))
    assert list(several.scores) == ["hp", "hr", "accuracy"]
    assert [each.title for each in several.columns] == ["baseline", "hP-tuned", "accuracy-tuned"]
    assert [each.name for each in several.winners] == ["hp", "accuracy"]


@pytest.mark.parametrize(
    ("aim", "said"),
    [
        (ObjectiveSpec("hf", "hf"), "the highest hF"),
        (
            ObjectiveSpec("hr_at_hp", "hr", HELD),
            "the highest hR, with hP at least 0.980 (90 % confidence)",
        ),
        (
            ObjectiveSpec("hp", "hp", (Constraint("hr", 0.26),)),
            "the highest hP, with hR at least 0.260",
        ),
        (ObjectiveSpec("own", None), "the highest 'own'"),
    ],
)
def test_the_objective_in_words(aim: ObjectiveSpec, said: str) -> None:
    assert goal_in_words(aim) == said
