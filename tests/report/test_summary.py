"""The summary of a run: the counts, the scores, and the verdict in its three wordings."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from taxtune.metrics.bounds import ASSUMED_LOSS, poisson_bound
from taxtune.report.html import render_report
from taxtune.report.summary import goal_in_words, selection_in_words, summarise, verdict
from taxtune.tuning.objective import Constraint, ObjectiveSpec
from taxtune.tuning.records import Finalist, IterationRecord, SampleResult, Selection, TuneResult
from tests.report import samples

HELD = (Constraint("hp", 0.98, 0.9),)
AIM = ObjectiveSpec("hr_at_hp", "hr", HELD)
Status = Literal["certified", "passes-alone", "estimate"]


def record(iteration: int, *hp: float | None) -> IterationRecord:
    rows = tuple(
        SampleResult(f"i{i}", "", 1, "a/b/c", node=None if value is None else 1, hp=value, hr=0.5)
        for i, value in enumerate(hp)
    )
    return IterationRecord(
        iteration, "complete", "Name the {{ domain }}.", samples.scores(0.9, 0.5, 0.1), rows=rows
    )


def said(
    status: Status | None,
    bound: float,
    *hp: float | None,
    constraints: tuple[Constraint, ...] = HELD,
) -> str:
    finalist = Finalist(3, 0.8, 0.7, {each.measure: bound for each in constraints})
    chosen = Selection(3, status == "certified", len(hp), (finalist,), status=status)
    return selection_in_words(
        chosen, replace(AIM, constraints=constraints), [record(0, *hp), record(3, *hp)]
    )


def test_a_certified_winner() -> None:
    assert said("certified", 0.984, *[1.0] * 200) == (
        "Certified: hP is at least 0.984 with 90 % confidence (200 tuning images)."
    )


def test_a_winner_that_passes_alone() -> None:
    assert said("passes-alone", 0.986, *[1.0] * 200) == (
        "Passes alone, but a more cautious prompt failed first: that hP is at least 0.986 with 90 % confidence "
        "(200 tuning images) is not certified."
    )


def test_a_best_estimate_says_how_many_more_photos_would_certify_it() -> None:
    text = said("estimate", 0.977, *[1.0] * 50)
    assert text == (
        "Best estimate, not certified: label 8 more photos for tuning to prove hP 0.980 "
        "(50 tuning images prove 0.977 with 90 % confidence)."
    )
    bounds = [poisson_bound([0.0] * n, 0.9, typical=ASSUMED_LOSS) for n in (57, 58)]
    assert bounds[0] > 0.02 >= bounds[1]


def test_photos_that_were_answered_wrongly_are_expected_among_further_ones() -> None:
    losses = [0.5, 0.5] + [0.0] * 98
    text = said("estimate", 0.97, *[1 - loss for loss in losses], None)
    more = int(text.split("label ")[1].split()[0])
    assert more > 50
    bounds = [poisson_bound(losses, 0.9, typical=0.5, images=100 + n) for n in (more - 1, more)]
    assert bounds[0] > 0.02 >= bounds[1]


def test_without_a_confidence_nothing_is_called_certified() -> None:
    floor = (Constraint("hr", 0.5),)
    assert said(None, 0.6, *[1.0] * 20, constraints=floor) == (
        "Chosen for the highest hR, less a margin for luck, among those with hR at least 0.500 on average "
        "(20 tuning images)."
    )
    assert said(None, 0.4, 1.0, constraints=floor) == (
        "No prompt has hR at least 0.500 on average; this one comes nearest (1 tuning image)."
    )
    assert (
        said(None, 0.4, *[1.0] * 20, constraints=())
        == "Chosen for the highest hR, less a margin for luck (20 tuning images)."
    )


def certified(run: TuneResult) -> TuneResult:
    chosen = Selection(
        run.winner, True, 120, (Finalist(run.winner, 0.8, 0.7, {"hp": 0.985}),), status="certified"
    )
    return replace(run, constraints=HELD, selection=chosen)


def test_report_and_result_say_what_the_terminal_says() -> None:
    run = certified(samples.tune(n=3))
    assert (
        verdict(run) == "Certified: hP is at least 0.985 with 90 % confidence (120 tuning images)."
    )
    assert verdict(run) in render_report(run)
    assert verdict(samples.tune(n=3)) == ""


def test_counts_add_up_whatever_became_of_the_answers() -> None:
    truths = ["a/b/c"] * 6
    run = samples.answered(
        truths,
        baseline=["a/b/c", "a/b", "a/x", "a/b/c", "a/b/c", None],
        winner=["a/b/c", "a/b", "a/b", "a", "a", "a/b/c"],
    )
    rows = run.heldout[1].rows
    rows = tuple(replace(row, node=1 if row.placement == row.truth else 2) for row in rows)
    strange = (
        *rows[:3],
        replace(rows[3], abstained=True),
        replace(rows[4], off_tree=True),
        rows[5],
    )
    before = tuple(
        replace(row, node=row.node and (1 if row.placement == row.truth else 2))
        for row in run.heldout[0].rows
    )
    held = (replace(run.heldout[0], rows=before), replace(run.heldout[1], rows=strange))
    found = summarise(replace(run, heldout=held))
    assert found.images == 6
    assert found.counts == (
        "wrong",
        "off the tree",
        "abstained",
        "right, but general",
        "exact",
        "missing",
    )
    assert [tuple(each.counts.values()) for each in found.columns] == [
        (1, 0, 0, 1, 3, 1),
        (0, 1, 1, 2, 2, 0),
    ]
    assert all(sum(each.counts.values()) == 6 for each in found.columns)


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
            ObjectiveSpec("hr_at_hp", "hr", (Constraint("hp", 0.98, 0.9),)),
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
