"""What tuning images can show: by hand on a small tree, and against tables of power."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from taxtune.metrics.bounds import ASSUMED_LOSS, poisson_bound
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import information_scores, leaf_information
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.objective import Objective, make_objective
from taxtune.tuning.outlook import (
    Resolution,
    ceiling_reached,
    highest_provable,
    images_needed,
    make_outlook,
    one_level_wrong,
    rank_levels,
    smallest_difference,
)
from taxtune.tuning.records import ExampleRow, IterationRecord, TemplateScores

# Birds have three ranks, mosses two; the kiwi stands right below its order.
TREE = Taxonomy.from_dict(
    {"life": {"bird": {"songbird": {"thrush": ["blackbird", "robin"]}, "ratite": ["kiwi"]}, "moss": ["peat moss"]}}
)


def nodes(*labels: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([TREE.resolve(label) for label in labels])


def test_trivial_answers_at_every_level() -> None:
    found = rank_levels(TREE, TREE.root, nodes("blackbird", "kiwi"), leaf_information(TREE))
    assert [level.rank for level in found] == [None, "level 1", "level 2", "level 3", "level 4"]
    # The truths' paths have 5 and 4 nodes; the kiwi's answers stay at its own node from level 3 on.
    assert [level.scores["hr"] for level in found] == pytest.approx(
        [(1 / 5 + 1 / 4) / 2, (2 / 5 + 2 / 4) / 2, (3 / 5 + 3 / 4) / 2, (4 / 5 + 1) / 2, 1]
    )
    assert {level.scores["hp"] for level in found} == {1.0}
    assert [level.scores["accuracy"] for level in found] == [0, 0, 0, 0.5, 1]
    assert found[0].scores["ihr"] == 0
    assert found[-1].scores["ihf"] == 1


def test_trivial_answers_begin_at_the_domain() -> None:
    found = rank_levels(TREE, TREE.resolve("bird"), nodes("robin", "blackbird"), leaf_information(TREE))
    assert [level.rank for level in found] == [None, "level 2", "level 3", "level 4"]
    assert found[0].scores["hr"] == 2 / 5


@pytest.mark.parametrize("measure", ["hp", "hr", "ihp", "ihr", "accuracy"])
def test_one_image_is_worth_what_the_scores_say(measure: str) -> None:
    """One of the answers becomes a sibling of the truth, and the mean falls by that much."""
    information = leaf_information(TREE)
    truth = nodes("blackbird", "blackbird", "blackbird")
    answers = truth.copy()
    answers[1] = TREE.resolve("robin")
    scores = [(score(TREE, each, truth), information_scores(information, each, truth)) for each in (truth, answers)]
    before, after = ({**plain.as_dict(), **bits.as_dict()}[measure] for plain, bits in scores)
    assert one_level_wrong(TREE, truth, information, measure) / 3 == pytest.approx(before - after)


@pytest.mark.parametrize(("effect", "n"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_the_smallest_difference_is_that_of_tables_of_power(effect: float, n: int) -> None:
    """Cohen's small, medium and large effects in a paired t test, two-sided 5 %, 80 % power: so many pairs it takes."""
    here, before = smallest_difference(n, 1.0), smallest_difference(n - 1, 1.0)
    assert here is not None
    assert before is not None
    assert here <= effect < before


def test_the_smallest_difference_is_found_as_often_as_said() -> None:
    from scipy import stats

    rng = np.random.default_rng(0)
    differences = rng.normal(smallest_difference(20, 0.2), 0.2, size=(4000, 20))
    found = stats.ttest_1samp(differences, 0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("n", "spread"), [(1, 0.1), (2, 0.5)])
def test_too_few_images_show_nothing(n: int, spread: float) -> None:
    assert smallest_difference(n, spread) is None


@pytest.mark.parametrize(("least", "confidence"), [(0.98, 0.9), (0.9, 0.9), (0.98, 0.95), (0.5, 0.6)])
def test_so_many_images_without_an_error_are_needed_and_no_more(least: float, confidence: float) -> None:
    n = images_needed(least, confidence)
    bounds = [1 - poisson_bound(np.zeros(k), confidence, typical=ASSUMED_LOSS) for k in (n, max(n - 1, 1))]
    assert bounds[0] >= least - 1e-9
    assert n == 1 or bounds[1] < least
    assert highest_provable(n, confidence) == pytest.approx(bounds[0])


def record(*hp: float | None) -> IterationRecord:
    known: dict[str, Any] = {"image": "", "target": 1, "truth": ""}
    return IterationRecord(
        0,
        "complete",
        "x",
        rows=tuple(
            ExampleRow(f"image {i}", **known, node=None if value is None else 1, hp=value, hr=0.5)
            for i, value in enumerate(hp)
        ),
    )


def outlook(objective: str) -> Any:
    return make_outlook(TREE, TREE.root, nodes(*["robin"] * 4), leaf_information(TREE), [make_objective(objective)])


def test_an_outlook_learns_from_what_was_answered() -> None:
    before = outlook("hp")
    assert [(each.measure, each.source) for each in before.resolutions] == [("hp", "assumed"), ("hr", "assumed")]
    baseline = record(1.0, 0.5, 1.0, 0.5)
    one, other = before.seen(baseline).resolutions
    assert (one.source, one.spread) == ("baseline", pytest.approx(math.sqrt(1 / 12)))
    assert other == before.resolutions[1], "no spread says nothing of other templates"
    # Against the baseline the templates differ on 0, 1 and 1 images; what has no answer is in no pair, nor what was
    # not asked.
    tried = [record(1.0, 0.5, 1.0, 0.5), record(1.0, 1.0, 1.0, 0.5), record(1.0, 1.0, None)]
    (after, _) = before.seen(baseline, *tried).resolutions
    assert (after.source, after.spread) == ("templates", pytest.approx(0.25))
    assert after.difference == smallest_difference(4, 0.25)


def test_a_score_without_levels_is_all_or_nothing() -> None:
    (found,) = outlook("exact-match").resolutions
    assert found == Resolution("exact-match", 0.25, math.sqrt(0.15), "assumed", smallest_difference(4, math.sqrt(0.15)))


SCORES = TemplateScores(hp=1.0, hr=0.75, hf=6 / 7, accuracy=0.0, depth=2.0, n=20, ihp=1.0, ihr=0.5, ihf=2 / 3)
EXACT = replace(SCORES, hr=1.0, hf=1.0, accuracy=1.0, ihr=1.0, ihf=1.0)


@pytest.mark.parametrize(
    ("objective", "scores", "reached"),
    [
        ("hp", SCORES, True),
        ("hp", replace(SCORES, hp=0.99), False),
        ("hr_at_hp", SCORES, False),
        ("hr_at_hp", EXACT, True),
        ("hr_at_hp", replace(EXACT, hp=0.97), False),
        ("f_beta", SCORES, False),
        ("f_beta", EXACT, True),
        ("accuracy", EXACT, True),
        ("ihf", SCORES, False),
        (Objective("my own", lambda scores: scores.hp, shown=("hp",)), EXACT, False),
    ],
)
def test_nothing_is_left_to_win_where_the_exact_labels_would_do_no_better(
    objective: str | Objective, scores: TemplateScores, reached: bool
) -> None:
    assert ceiling_reached(make_objective(objective), scores) is reached
