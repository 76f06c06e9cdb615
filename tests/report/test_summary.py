"""The summary of a run: the counts, the scores, and the verdict in its three wordings."""

from __future__ import annotations

from collections.abc import Sequence
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


def record(iteration: int, hp: Sequence[float | None]) -> IterationRecord:
    rows = []
    for i, value in enumerate(hp):
        bare = SampleResult(f"i{i}", "", 1, "a/b/c", hp=value, hr=0.5)
        rows.append(bare if value is None else replace(bare, node=1))
    scores = samples.scores(0.9, 0.5, 0.1)
    return IterationRecord(iteration, "complete", "Name it.", scores, rows=tuple(rows))


def said(
    status: Status | None,
    bound: float,
    hp: Sequence[float | None],
    *,
    constraints: tuple[Constraint, ...] = HELD,
) -> str:
    finalist = Finalist(3, 0.8, 0.7, {each.measure: bound for each in constraints})
    chosen = Selection(3, status == "certified", len(hp), (finalist,), status=status)
    aim = replace(AIM, constraints=constraints)
    return selection_in_words(chosen, aim, [record(0, hp), record(3, hp)])


def test_a_certified_winner() -> None:
    assert said("certified", 0.984, [1.0] * 200) == (
        "Certified: hP is at least 0.984 with 90 % confidence (200 tuning images)."
    )


def test_a_winner_that_passes_alone() -> None:
    assert said("passes-alone", 0.986, [1.0] * 200) == (
        "Passes alone, but a more cautious prompt failed first: that hP is at least 0.986 with 90 % confidence "
        "(200 tuning images) is not certified."
    )


def test_a_best_estimate_says_how_many_more_photos_would_certify_it() -> None:
    text = said("estimate", 0.977, [1.0] * 50)
    assert text == (
        "Best estimate, not certified: label 8 more photos for tuning to prove hP 0.980 "
        "(50 tuning images prove 0.977 with 90 % confidence)."
    )
    bounds = [poisson_bound([0.0] * n, 0.9, typical=ASSUMED_LOSS) for n in (57, 58)]
    assert bounds[0] > 0.02 >= bounds[1]


def test_photos_that_were_answered_wrongly_are_expected_among_further_ones() -> None:
    losses = [0.5, 0.5] + [0.0] * 98
    text = said("estimate", 0.97, [*(1 - loss for loss in losses), None])
    more = int(text.split("label ")[1].split()[0])
    assert more > 50
    bounds = [poisson_bound(losses, 0.9, typical=0.5, images=100 + n) for n in (more - 1, more)]
    assert bounds[0] > 0.02 >= bounds[1]


def test_without_a_confidence_nothing_is_called_certified() -> None:
    floor = (Constraint("hr", 0.5),)
    chosen = "Chosen for the highest hR, less a margin for luck"
    with_floor = f"{chosen}, among those with hR at least 0.500 on average (20 tuning images)."
    assert said(None, 0.6, [1.0] * 20, constraints=floor) == with_floor
    assert said(None, 0.4, [1.0], constraints=floor) == (
        "No prompt has hR at least 0.500 on average; this one comes nearest (1 tuning image)."
    )
    assert said(None, 0.4, [1.0] * 20, constraints=()) == f"{chosen} (20 tuning images)."


def certified(run: TuneResult) -> TuneResult:
    finalist = Finalist(run.winner, 0.8, 0.7, {"hp": 0.985})
    chosen = Selection(run.winner, True, 120, (finalist,), status="certified")
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
    rows[3] = replace(rows[3], abstained=True)
    rows[4] = replace(rows[4], off_tree=True)
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
        (AIM, "the highest hR, with hP at least 0.980 (90 % confidence)"),
        (
            ObjectiveSpec("hp", "hp", (Constraint("hr", 0.26),)),
            "the highest hP, with hR at least 0.260",
        ),
        (ObjectiveSpec("own", None), "the highest 'own'"),
    ],
)
def test_the_objective_in_words(aim: ObjectiveSpec, said: str) -> None:
    assert goal_in_words(aim) == said
