"""The summary of a run: the counts, the scores, and the verdict in its three wordings."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from taxtune.metrics.outcomes import Outcomes
from taxtune.objective import Constraint, ObjectiveSpec
from taxtune.report.formatting import role_of
from taxtune.report.html import render_report
from taxtune.report.summary import goal_in_words, selection_in_words, summarise, verdict
from taxtune.tuning.records import Candidate, Held, Selection
from tests.report import samples
from tests.rows import changed_row

HELD = (Constraint("hp", 0.98, 0.9),)


CERTIFIED = "Certified: hP is at least 0.984 with 90 % confidence (200 tuning images)."
PASSES_ALONE = (
    "Passes alone, not certified: by its own images hP is at least 0.986 with 90 % confidence "
    "(200 tuning images), but a more careful prompt failed the test before it."
)
MORE_PHOTOS = (
    "Best estimate, not certified: 50 tuning images prove hP 0.977 with 90 % confidence, not 0.980. "
    "Cheapest first: a goal that these photos can prove, hP 0.97; about 8 more photos for tuning."
)
SHORT = (
    "Best estimate, not certified: its hP is 0.970, short of the goal 0.980 (50 tuning images). "
    "What helps: a goal that these photos can prove, hP 0.95."
)
TOO_CLOSE = (
    "Best estimate, not certified: 50 tuning images prove hP 0.950 with 90 % confidence, not 0.980. "
    "What helps: a goal that these photos can prove, hP 0.95."
)
AMONG = (
    "Chosen for the highest hR, less a margin for luck, among those with hR at least 0.500 on "
    "average (20 tuning images)."
)
NEAREST = "No prompt has hR at least 0.500 on average; this one comes nearest (1 tuning image)."
CHOSEN = "Chosen for the highest hR, less a margin for luck (20 tuning images)."


@pytest.mark.parametrize(
    ("status", "images", "held", "words"),
    [
        ("certified", 200, Held("hp", 0.98, 0.9, low=0.984, mean=1.0), CERTIFIED),
        ("passes-alone", 200, Held("hp", 0.98, 0.9, low=0.986, mean=1.0), PASSES_ALONE),
        ("estimate", 50, Held("hp", 0.98, 0.9, low=0.977, mean=1.0, more=8), MORE_PHOTOS),
        ("estimate", 50, Held("hp", 0.98, 0.9, low=0.95, mean=0.97), SHORT),
        ("estimate", 50, Held("hp", 0.98, 0.9, low=0.95, mean=0.98), TOO_CLOSE),
        (None, 20, Held("hr", 0.5, 0.5, low=0.6, mean=0.6), AMONG),
        (None, 1, Held("hr", 0.5, 0.5, low=0.4, mean=0.6), NEAREST),
        (None, 20, None, CHOSEN),
    ],
)
def test_the_standing_of_a_winner(status, images, held, words):
    constraints = () if held is None else (held,)
    chosen = Selection(3, status == "certified", images, status=status, held=constraints)
    assert selection_in_words(chosen, ObjectiveSpec("hr_at_hp", "hr")) == words


def estimate(more, there, low=0.962):
    held = Held("hp", 0.98, 0.9, low=low, mean=0.986, more=more)
    outcomes = Outcomes({"wrong": 2, "exact": 47}, labels=49)
    taken = Candidate(3, (), outcomes, hp=0.986, low=low, confidence=0.9, taken=True)
    chosen = Selection(3, False, 49, status="estimate", held=(held,), candidates=(taken,))
    return selection_in_words(replace(chosen, there=there), ObjectiveSpec("hr_at_hp", "hr"))


@pytest.mark.parametrize(
    ("more", "there", "low", "remedies"),
    [
        # The images that are there may do.
        (60, 163, 0.962, ["ask about the 114 other tuning images", "hP 0.96"]),
        (
            504,
            163,
            0.962,
            ["ask about the 114 other tuning images", "hP 0.96", "about 400 more photos"],
        ),
        (144, 49, 0.9799, ["hP 0.97", "about 140 more photos"]),
        (673, 49, 0.962, ["hP 0.96"]),  # far too many to be advice
        (None, 163, 0.962, ["hP 0.96"]),
    ],
)
def test_the_cheapest_remedy_comes_first_and_no_number_is_too_exact(more, there, low, remedies):
    words = estimate(more, there, low)
    assert words.startswith("Best estimate, not certified: 49 tuning images with 2 wrong answers ")
    *_, said = re.split("Cheapest first: |What helps: ", words)
    for part, remedy in zip(said.split("; "), remedies, strict=True):
        assert remedy in part


@pytest.mark.parametrize(
    ("low", "goal"), [(0.9913, "hP 0.991"), (0.9899, "hP 0.98"), (0.6, "hP 0.6")]
)
def test_a_goal_that_can_be_proven_is_rounded_down(low, goal):
    held = Held("hp", 0.995, 0.9, low=low, mean=0.999, more=48)
    chosen = Selection(3, False, 49, status="estimate", held=(held,))
    words = selection_in_words(chosen, ObjectiveSpec("hr_at_hp", "hr"))
    assert words.endswith(f"can prove, {goal}; about 50 more photos for tuning.")


def certified(run):
    held = Held("hp", 0.98, 0.9, low=0.985, mean=1.0)
    chosen = Selection(run.winner, True, 120, status="certified", held=(held,))
    return replace(run, constraints=HELD, selection=chosen)


def test_report_and_result_say_what_the_terminal_says():
    run = certified(samples.tune(n=3))
    expected = "Certified: hP is at least 0.985 with 90 % confidence (120 tuning images)."
    assert verdict(run) == expected
    assert expected in render_report(run)
    assert verdict(samples.tune(n=3)) == ""


def test_a_choice_says_what_is_proven_of_it_and_of_what_the_objective_took():
    run = samples.with_candidates_of(samples.tune(n=4))
    assert verdict(replace(run, winner=1)) == (
        "Chosen by a person after looking at the results (proves hP 0.962 of 0.980); the run "
        "chose iteration 2 (certified)."
    )
    assert role_of(replace(run, winner=1), 2) == "the run's choice, most careful"
    assert "(not among the candidates)" in verdict(replace(run, winner=3))


def test_counts_add_up_whatever_became_of_the_answers():
    run = samples.answered(
        ["a/b/c"] * 6,
        baseline=["a/b/c", "a/b", "a/x", "a/b/c", "a/b/c", None],
        winner=["a/b/c", "a/b", "a/b", "a", "a", "a/b/c"],
    )
    baseline, winner = run.heldout
    rows = list(winner.rows)
    rows[3] = changed_row(rows[3], abstained=True)
    rows[4] = changed_row(rows[4], off_tree=True)
    winner = replace(winner, rows=tuple(rows))
    found = summarise(replace(run, heldout=(baseline, winner)))
    assert found.images == 6
    before, after = (
        {state: column.outcomes.count(state) for state in found.states} for column in found.columns
    )
    assert before == {
        "wrong": 1,
        "off the tree": 0,
        "abstained": 0,
        "right, but general": 1,
        "exact": 3,
        "missing": 1,
    }
    assert list(after.values()) == [0, 1, 1, 2, 2, 0]
    assert found.states == tuple(before)


def test_the_scores_that_matter_with_their_goals():
    found = summarise(samples.tune(n=3))
    assert found.scores == {"hp": "precision hP", "hr": "recall hR (goal 0.420)"}
    baseline, tuned = found.columns
    assert (baseline.title, tuned.title, tuned.scores["hp"]) == ("baseline", "winner", 0.962)
    assert baseline.changes == {}
    assert tuned.changes["hp"].difference == pytest.approx(0.091)
    several = summarise(samples.comparison(n=3))
    assert list(several.scores) == ["hp", "hr", "accuracy"]
    assert [each.title for each in several.columns] == ["baseline", "hP-tuned", "accuracy-tuned"]
    assert [each.name for each in several.winners] == ["hp", "accuracy"]


def test_the_objective_in_words():
    assert goal_in_words(ObjectiveSpec("hf", "hf")) == "the highest hF"
    bound = "the highest hR, with hP at least 0.980 (90 % confidence)"
    assert goal_in_words(ObjectiveSpec("hr_at_hp", "hr", HELD)) == bound
    floor = ObjectiveSpec("hp", "hp", (Constraint("hr", 0.26),))
    assert goal_in_words(floor) == "the highest hP, with hR at least 0.260"
    assert goal_in_words(ObjectiveSpec("own", None)) == "the highest 'own'"
