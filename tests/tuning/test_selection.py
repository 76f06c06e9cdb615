"""Successive halving and the choice of the winner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import TaxtuneError
from taxtune.metrics.bounds import poisson_bound
from taxtune.objective import Constraint, Objective, make_objective
from taxtune.tuning.records import IterationRecord
from taxtune.tuning.selection import (
    aim_values,
    best,
    best_so_far,
    choose,
    most_questions,
    next_steps,
    pick,
    rungs,
)
from tests.rows import changed_row, sample_row, scores_of


def record(iteration, hp, hr, *, sure=None, **measures):
    """An iteration with these values of hP, hR and perhaps confidence by image; hP is NaN where the call failed."""
    hp, hr = np.asarray(hp, float), np.asarray(hr, float)
    rows = []
    for i, (p, r) in enumerate(zip(hp, hr, strict=True)):
        if np.isnan(p):
            rows.append(sample_row(example=str(i), failure="no answer"))
            continue
        own = {name: float(each[i]) for name, each in measures.items()}
        known = None if sure is None else float(sure[i])
        scores = {"hp": float(p), "hr": float(r), "depth": 2.0}
        rows.append(sample_row(example=str(i), node=1, confidence=known, measures=own, **scores))
    scores = scores_of(rows)
    template = f"template {iteration}"
    return IterationRecord(
        iteration, "complete", template, scores=scores, value=0.0, rows=tuple(rows)
    )


def world(seed, templates, images):
    """Templates of different boldness on images of different hardness, on a tree of four levels: hP and hR."""
    rng = np.random.default_rng(seed)
    hardness = rng.beta(1, 2, images)
    boldness = np.sort(rng.beta(1, 2, templates))
    # How deep an answer goes, and how deep it is right.
    said = np.clip(
        np.ceil(4 * (boldness[:, None] + 1 - hardness) + rng.normal(0, 0.4, (templates, images))),
        1,
        4,
    )
    right = np.clip(np.ceil(4 * (1.2 - hardness) + rng.normal(0, 0.5, (templates, images))), 1, 4)
    shared = np.minimum(said, right)
    order = rng.permutation(templates)
    return (shared / said)[order], (shared / 4)[order]


def halved(hp, hr, objective, stages):
    """Goes through the rungs; returns the records and the calls that it took."""
    records = [
        record(i, hp[i, : stages[0].images], hr[i, : stages[0].images])
        for i in range(stages[0].templates)
    ]
    calls = stages[0].images * stages[0].templates
    while steps := next_steps(records, objective, stages):
        iteration, images = steps[0]
        calls += images - len(records[iteration].rows)
        records[iteration] = record(iteration, hp[iteration, :images], hr[iteration, :images])
    return records, calls


# -- the rungs --------------------------------------------------------------------------------------------------------


@given(
    st.integers(2, 60), st.integers(0, 600), st.integers(2, 200), st.none() | st.integers(10, 5000)
)
def test_rungs_go_from_the_block_to_all_images_within_the_calls(first, more, templates, calls):
    stages = rungs(first, first + more, templates, calls)
    images = [stage.images for stage in stages]
    assert images[0] == first
    assert images == sorted(set(images))
    assert images[-1] <= first + more
    widths = [stage.templates for stage in stages]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] <= templates
    if calls is None:
        assert (images[-1], widths[0]) == (first + more, templates)
    else:
        spent = sum(
            (stage.images - before) * stage.templates
            for stage, before in zip(stages, [0, *images], strict=False)
        )
        assert spent <= max(calls, 2 * first), (
            "two templates on the first are the least that can be compared"
        )


def test_templates_are_asked_what_the_rungs_say_and_ends():
    hp, hr = world(0, 30, 200)
    stages = rungs(20, 200, 30)
    records, calls = halved(hp, hr, make_objective("hr_at_hp"), stages)
    assert sorted({len(each.rows) for each in records}) == [stage.images for stage in stages]
    assert sum(len(each.rows) == 200 for each in records) == stages[-1].templates
    before = [0, *(stage.images for stage in stages)]
    assert calls == sum((s.images - n) * s.templates for s, n in zip(stages, before, strict=False))


@pytest.mark.parametrize("kind", ["hp", "hr_at_hp"])
def test_no_race_asks_more_than_the_forecast(kind):
    hp, hr = world(8, 30, 200)
    objective = make_objective(kind)
    stages = rungs(20, 200, 30, always=int(objective.held_to_baseline))
    records, calls = halved(hp, hr, objective, stages)
    assert calls <= most_questions(objective, stages)
    # The baseline that "hp" holds others to sees what they see, and whatever it is not asked about is another's.
    assert kind != "hp" or len(records[0].rows) == 200
    baseline_went_on = (
        kind == "hp" and sum(len(each.rows) == 200 for each in records) == stages[-1].templates
    )
    assert calls == most_questions(objective, stages) or baseline_went_on


def test_halving_that_is_interrupted_goes_on_as_it_would_have():
    hp, hr = world(1, 20, 120)
    objective, stages = make_objective("hr_at_hp"), rungs(10, 120, 20)
    whole, _ = halved(hp, hr, objective, stages)
    # Whatever is stored in the middle of it, the steps that are left lead to the same.
    records = [record(i, hp[i, :10], hr[i, :10]) for i in range(20)]
    for _ in range(3):
        iteration, images = next_steps(records, objective, stages)[0]
        records[iteration] = record(iteration, hp[iteration, :images], hr[iteration, :images])
    again = list(records)
    while steps := next_steps(again, objective, stages):
        step = steps[-1]  # several workers may do them in any order
        again[step[0]] = record(step[0], hp[step[0], : step[1]], hr[step[0], : step[1]])
    assert [len(each.rows) for each in again] == [len(each.rows) for each in whole]
    assert choose(again, objective) == choose(whole, objective)


@pytest.mark.parametrize("kind", ["hp", "hr_at_hp", "hf", "accuracy"])
def test_what_is_better_on_every_image_goes_on(kind):
    hp, hr = world(7, 12, 40)
    hp[5], hr[5] = 1.0, 1.0
    records = [record(i, hp[i], hr[i]) for i in range(12)]
    objective = make_objective(kind)
    chosen = pick(records, objective, 40, 3)
    assert 5 in [each.iteration for each in chosen]
    assert len(chosen) == 3
    assert chosen == pick(records, objective, 40, 3), "the same draws"
    assert chosen == pick([record(i, hp[i], hr[i]) for i in range(12)], objective, 40, 3)


@pytest.mark.parametrize("name", ["hp", "hr_at_hp", "hf"])
def test_no_more_templates_go_on_than_a_stage_has_room_for(name: str) -> None:
    """Rows that a template got later, the baseline's among them, do not change who went on before."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        kinds = rng.integers(6, size=14)  # some templates answer alike
        hp = np.where(rng.random((6, 120)) < rng.uniform(0.02, 0.2, (6, 1)), 0.5, 1.0)[kinds]
        hr = np.where(rng.random((6, 120)) < rng.uniform(0.2, 0.8, (6, 1)), 0.5, 1.0)[kinds]
        objective, stages = make_objective(name), rungs(10, 120, len(kinds))
        records = [record(i, hp[i, :10], hr[i, :10]) for i in range(len(kinds))]
        while steps := next_steps(records, objective, stages):
            iteration, images = steps[0]
            records[iteration] = record(iteration, hp[iteration, :images], hr[iteration, :images])
        for stage in stages:
            inside = sum(len(record.rows) >= stage.images for record in records)
            # The baseline that "hp" holds others to is asked about all they are asked about.
            assert inside == stage.templates or (name == "hp" and inside == stage.templates + 1)


# -- the winner -------------------------------------------------------------------------------------------------------


def test_of_templates_that_reach_the_target_the_one_that_says_most_wins():
    n = 400
    losses = np.zeros(n)
    losses[:4] = 0.25
    records = [record(i, 1 - losses, np.full(n, hr)) for i, hr in enumerate((0.6, 0.8, 0.7))]
    bold = np.ones(n)
    bold[:60] = 0.75
    records.append(record(3, bold, np.full(n, 0.95)))
    found = choose(records, make_objective("hr_at_hp"))
    assert (found.winner, found.reached, found.images) == (1, True, n)
    assert [each.reached for each in found.finalists] == [True, True, True, False]
    assert 0.98 <= found.finalists[1].bounds["hp"] < 1 - losses.mean()


def test_what_is_right_only_by_luck_is_not_believed():
    """Bolder templates are less often right here, and one of the boldest has a spotless record on its few images."""
    rng = np.random.default_rng(3)
    records = []
    for i, boldness in enumerate(np.linspace(0, 1, 12)):
        wrong = rng.random(20) < 0.5 * boldness
        if i == 10:
            wrong[:] = False
        records.append(
            record(i, np.where(wrong, 0.5, 1.0), np.where(wrong, 0.5, 0.5 + boldness / 2))
        )
    by_means = max(records, key=lambda each: (each.scores.hp, each.scores.hr))
    assert by_means.iteration == 10, "the plain rule, ties by hR, takes the lucky one"
    assert choose(records, make_objective("hp")).winner < 6


def test_the_first_test_that_fails_ends_the_tests():
    n = 300
    fine, poor = np.ones(n), np.ones(n)
    poor[:30] = 0.5
    records = [record(0, poor, np.full(n, 0.5)), record(1, fine, np.full(n, 0.8))]
    found = choose(records, make_objective("hr_at_hp"))
    assert not found.reached, (
        "a template that says more is not let through where one that says less failed"
    )
    assert found.winner == 1, "it comes nearest all the same"


def losses(n, wrong, size=0.5):
    return np.where(np.arange(n) < wrong, 1 - size, 1.0)


def test_a_best_estimate_is_the_most_specific_template_that_is_believed_to_keep_the_target():
    n = 40  # of which nothing can be proven
    careful, fair, bold = (
        record(i, losses(n, wrong), np.full(n, hr))
        for i, (wrong, hr) in enumerate([(0, 0.5), (0, 0.7), (15, 0.9)])
    )
    objective = make_objective("hr_at_hp")
    assert choose([careful, fair, bold], objective).winner == 1, "the boldest is not believed"
    assert choose([careful, bold], objective).winner == 0
    # The likeliest is the careful one, which says less: it is enough to be believed.
    slip = record(1, losses(n, 1), np.full(n, 0.7))
    assert choose([careful, slip], objective).winner == 1
    assert choose([careful, record(1, losses(n, 2), np.full(n, 0.7))], objective).winner == 0
    doubtful = [
        record(i, losses(n, wrong), np.full(n, hr))
        for i, (wrong, hr) in enumerate([(8, 0.5), (20, 0.9)])
    ]
    found = choose(doubtful, objective)
    assert (found.winner, found.status) == (0, "estimate"), "where none is believed, the likeliest"


def test_where_no_finalist_is_believed_a_template_of_an_earlier_round_may_be():
    objective = make_objective("hr_at_hp")
    early = [record(i, losses(60, 0), np.full(60, hr)) for i, hr in enumerate((0.5, 0.6))]
    poor = [record(i, losses(200, 40 + i), np.full(200, 0.9)) for i in (2, 3)]
    fine = record(4, losses(200, 2), np.full(200, 0.7))
    assert choose([*early, *poor], objective).winner == 1
    assert choose([*early, *poor, fine], objective).winner == 4, (
        "a finalist that is believed comes first"
    )
    hopeless = [record(i, losses(60, 40), np.full(60, 0.8)) for i in (0, 1)]
    assert choose([*hopeless, *poor], objective).winner == 2, (
        "of templates that nobody believes the likeliest"
    )


def test_the_status_of_a_winner():
    n, objective = 300, make_objective("hr_at_hp")
    fine, poor = record(0, np.ones(n), np.full(n, 0.8)), record(1, losses(n, 60), np.full(n, 0.5))
    assert choose([fine], objective).status == "certified"
    assert choose([fine, poor], objective).status == "passes-alone"
    assert choose([poor], objective).status == "estimate"
    assert choose([fine], make_objective("hf")).status is None


def figures(each, found, objective):
    """What a template is judged by: its aim, and the mean and the bound of all that is held."""
    finalist = next(
        finalist for finalist in found.finalists if finalist.iteration == each.iteration
    )
    held = [
        value
        for measure, low in finalist.bounds.items()
        for value in (each.scores.get(measure), low)
    ]
    return np.round([objective.aimed(each.scores), *held], 12)


@pytest.mark.parametrize("losses", [[0.0] * 50, [0.5, 0.5] + [0.0] * 98])
def test_a_winner_that_is_not_certified_says_how_many_more_images_would_do(losses):
    hp = np.array([*(1 - loss for loss in losses), np.nan])
    (held,) = choose([record(0, hp, np.full(len(hp), 0.5))], make_objective("hr_at_hp")).held
    assert (held.measure, held.goal, held.confidence, held.missed) == ("hp", 0.98, 0.9, True)
    assert held.mean == pytest.approx(1 - np.mean(losses))
    images = [len(losses) + more for more in (held.more - 1, held.more)]
    bounds = [poisson_bound(losses, 0.9, typical=0.5, images=n) for n in images]
    assert bounds[0] > 0.02 >= bounds[1]


def holding_hp(least, confidence):
    return Objective(
        "hr", lambda scores: scores.hr, constraints=(Constraint("hp", least, confidence),)
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([20, 60, 200]),
    st.sampled_from(
        [
            *(
                holding_hp(least, confidence)
                for least in (0.7, 0.9, 0.98)
                for confidence in (0.5, 0.9)
            ),
            *map(make_objective, ("hp", "hf", "accuracy", "ihr_at_ihp")),
        ]
    ),
)
def test_no_template_wins_that_another_beats_in_every_figure(seed, images, objective):
    """Among certified winners and best estimates, finalists and what was left behind, and whatever bolder ones do."""
    rng = np.random.default_rng(seed)
    hp, hr = world(seed, 8, images)
    better = rng.integers(8, size=4)
    raised = np.clip(hp[better] + (rng.random((4, images)) < rng.choice([0, 0.02, 0.2])), 0, 1)
    more = np.clip(hr[better] + rng.uniform(0, 0.5, (4, images)) * (rng.random((4, 1)) < 0.7), 0, 1)
    hp, hr = np.vstack([hp, raised]), np.vstack([hr, more])
    order = rng.permutation(12)
    asked = rng.choice([images // 2, images], 12)
    records = [record(i, hp[k, : asked[i]], hr[k, : asked[i]]) for i, k in enumerate(order)]
    if objective.name == "ihr_at_ihp":
        records = [with_bits(each) for each in records]
    found = choose(records, objective)
    winner = records[found.winner]
    others = [each for each in records if len(each.rows) == len(winner.rows)]
    own = figures(winner, found, objective)
    assert not any((figures(each, found, objective) > own).all() for each in others)
    losses = [(each, each.table.column("hp").tolist()) for each in others]
    alike = [each for each, lost in losses if lost == winner.table.column("hp").tolist()]
    if objective.name == "hr":
        assert winner.scores.hr >= max(each.scores.hr for each in alike) - 1e-9


def with_bits(each):
    """An iteration whose scores in bits are those on the tree."""
    rows = tuple(changed_row(row, ihp=row.hp, ihr=row.hr) for row in each.rows)
    bits = {"ihp": each.scores.hp, "ihr": each.scores.hr}
    return replace(each, rows=rows, scores=each.scores.changed(bits))


def test_what_bolder_templates_do_is_no_reason_to_pass_over_what_is_better_in_every_figure():
    """Where more is said more is wrong here, but of one template that says more and is less often wrong."""
    n = 150
    wrong, said = (7, 15, 20, 6), (0.55, 0.78, 0.8, 0.75)
    records = [record(i, losses(n, wrong[i]), np.full(n, said[i])) for i in range(4)]
    found = choose(records, make_objective("hr_at_hp"))
    assert (found.winner, found.status) == (3, "estimate")


def test_what_beats_a_certified_template_wins_in_its_place():
    """It says more than one that fails, which ends the tests before it."""
    n = 400
    wrong, said = (2, 90, 0), (0.5, 0.6, 0.9)
    records = [record(i, losses(n, wrong[i]), np.full(n, said[i])) for i in range(3)]
    found = choose(records, make_objective("hr_at_hp"))
    assert [each.reached for each in found.finalists] == [True, False, True]
    assert (found.winner, found.reached, found.status) == (2, True, "passes-alone")


def test_a_template_without_the_hard_images_beats_none_that_answered_them():
    n, hard = 60, np.arange(60) < 6
    hp = np.where(hard, 0.25, 1.0)
    whole = record(0, hp, np.where(hard, 0.25, 0.82))
    part = record(1, np.where(hard, np.nan, hp), np.full(n, 0.8))
    objective = holding_hp(0.5, 0.9)
    assert part.scores.hp > whole.scores.hp
    assert choose([whole, part], objective).winner == 0, (
        "it says more on the images that both answered"
    )


# -- the best so far --------------------------------------------------------------------------------------------------


def scored(iteration, value, *, feasible=True, images=20):
    each = record(iteration, np.ones(images), np.full(images, 0.5))
    return replace(each, value=value, feasible=feasible)


def test_the_best_so_far_by_its_means():
    records = [
        IterationRecord(0, "void", "template 0"),
        scored(1, -0.02, feasible=False),
        scored(2, -0.01, feasible=False),
        scored(3, 0.7),
        scored(4, 0.8),
        scored(5, 0.8),
        IterationRecord(6, "failed", None),
        scored(7, -0.01, feasible=False),
    ]
    path = [None, 1, 2, 3, 4, 4, 4, 4]
    assert [leader and leader.iteration for leader in best_so_far(records)] == path
    assert best(records).iteration == 4
    assert best(records[:1]) is None


def test_what_was_asked_about_most_images_comes_first_as_it_does_in_the_choice():
    lucky, known = scored(1, 0.9), scored(2, 0.7, images=60)
    assert best([lucky, known]).iteration == 2
    assert [leader.iteration for leader in best_so_far([lucky, known, scored(3, 0.95)])] == [
        1,
        2,
        2,
    ]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["hp", "hr_at_hp", "hf", "accuracy"]))
def test_the_best_so_far_is_not_beaten_either(seed, kind):
    hp, hr = world(seed, 8, 30)
    objective = make_objective(kind)
    records = [record(i, hp[i], hr[i]) for i in range(8)]
    start = records[0].scores
    judged = []
    for each in records:
        value, feasible = (
            objective.value(each.scores, start),
            objective.feasible(each.scores, start),
        )
        judged.append(replace(each, value=value, feasible=feasible))
    found = choose(judged, objective)
    for number, leader in enumerate(best_so_far(judged), 1):
        own = figures(leader, found, objective)
        assert not any((figures(each, found, objective) > own).all() for each in judged[:number])


def test_a_floor_without_a_confidence_is_met_by_the_mean():
    records = [
        record(0, np.full(20, 0.8), np.full(20, 0.9)),
        record(1, np.ones(20), np.full(20, 0.7)),
    ]
    assert choose(records, make_objective("hp")).winner == 0, "0.7 is less than 80 % of 0.9"
    records.append(record(2, np.full(20, 0.9), np.full(20, 0.73)))
    found = choose(records, make_objective("hp"))
    assert (found.winner, found.reached) == (2, True)


def test_failed_calls_are_left_out():
    hp, hr = np.ones((3, 50)), np.full((3, 50), 0.6)
    hp[1, :10] = np.nan
    records = [record(i, hp[i], hr[i]) for i in range(3)]
    assert np.isnan(records[1].table.column("hp")[:10]).all()
    found = choose(records, make_objective("accuracy"))
    assert all(np.isfinite((each.estimate, each.low)).all() for each in found.finalists)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["hp", "hr_at_hp", "hf", "accuracy"]))
def test_the_winner_is_a_finalist_and_its_bound_is_below_its_estimate(seed, kind):
    hp, hr = world(seed, 8, 30)
    found = choose([record(i, hp[i], hr[i]) for i in range(8)], make_objective(kind))
    winner = next(each for each in found.finalists if each.iteration == found.winner)
    assert winner.low <= winner.estimate
    assert winner.reached == found.reached
    assert found.reached or not any(each.reached for each in found.finalists)


# -- what an image adds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hf", lambda scores: scores.hp * scores.hr])
def test_influences_agree_with_the_jackknife(kind):
    hp, hr = world(5, 1, 80)
    objective, n = make_objective(kind), 80
    whole = record(0, hp[0], hr[0])
    influence = aim_values(whole, objective)
    assert influence.mean() == pytest.approx(objective.aimed(whole.scores))
    kept = [record(0, np.delete(hp[0], i), np.delete(hr[0], i)) for i in range(n)]
    pseudo = [n * influence.mean() - (n - 1) * objective.aimed(each.scores) for each in kept]
    assert influence == pytest.approx(np.array(pseudo), abs=0.02)


def test_a_plain_mean_is_made_of_the_images_own_values():
    hp, hr = world(6, 1, 25)
    one = record(0, hp[0], hr[0], words=np.arange(25))
    assert aim_values(one, make_objective("hp")) == pytest.approx(hp[0])
    assert aim_values(one, make_objective("words", metrics=("words",))) == pytest.approx(
        np.arange(25.0), abs=1e-9
    )
    fewest = Objective("fewest", lambda scores: -scores.measures["words"])
    assert aim_values(one, fewest) == pytest.approx(-np.arange(25.0), abs=1e-9)


def test_aurc_wins_by_what_is_sure_only_where_it_is_right():
    rng = np.random.default_rng(2)
    hp, hr = np.where(rng.random(60) < 0.3, 0.5, 1.0), np.full(60, 0.7)
    hp[:2] = np.nan
    objective = make_objective("aurc")
    sure = np.nan_to_num(hp) + rng.random(60) / 9
    blind, knowing = record(0, hp, hr, sure=np.ones(60)), record(1, hp, hr, sure=sure)
    assert objective.aimed(blind.scores) == pytest.approx(np.nanmean(hp))
    assert objective.aimed(knowing.scores) > objective.aimed(blind.scores) + 0.05
    assert np.nanmean(aim_values(knowing, objective)) == pytest.approx(
        objective.aimed(knowing.scores)
    )
    assert choose([blind, knowing], objective).winner == 1
    # One that is sure and right, but of the root alone, says too little.
    vague = record(2, np.ones(60), np.full(60, 0.5), sure=np.ones(60))
    assert choose([blind, knowing, vague], objective).winner == 1
    kept = [
        record(0, *(np.delete(each, i) for each in (hp, hr)), sure=np.delete(sure, i))
        for i in range(2, 60)
    ]
    pseudo = [
        58 * objective.aimed(knowing.scores) - 57 * objective.aimed(each.scores) for each in kept
    ]
    assert aim_values(knowing, objective)[2:] == pytest.approx(np.array(pseudo), abs=0.05)
    with pytest.raises(TaxtuneError, match="needs a confidence of every answer"):
        objective.aimed(record(0, hp, hr).scores)


# -- over many runs ---------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_target_is_kept_as_often_as_promised_where_the_luckiest_breaks_it():
    """On worlds that nothing was fitted to: the share of runs whose winner truly reaches what was promised."""
    target, confidence, runs = 0.95, 0.9, 60
    objective = Objective(
        "hr_at_hp",
        lambda scores: scores.hr,
        constraints=(Constraint("hp", target, confidence),),
        shown=("hr", "hp"),
    )
    stages = rungs(10, 150, 20)
    kept, promised, lucky = 0, 0, 0
    for seed in range(runs):
        hp, hr = world(seed, 20, 1150)
        truth = hp[:, 150:].mean(axis=1)
        records, _ = halved(hp[:, :150], hr[:, :150], objective, stages)
        found = choose(records, objective)
        promised += found.reached
        kept += found.reached and truth[found.winner] >= target - 0.005
        blocks = hp[:, :20].mean(axis=1), hr[:, :20].mean(axis=1)
        plain = max(range(20), key=lambda i: (min(blocks[0][i], target), blocks[1][i]))
        lucky += truth[plain] >= target - 0.005
    assert promised > runs / 4
    # Two standard errors of a share of 0.9 below it.
    assert kept / promised >= confidence - 2 * np.sqrt(confidence * (1 - confidence) / promised)
    assert kept / promised > lucky / runs


# -- answers that were cut off ----------------------------------------------------------------------------------------


def cut(found, share):
    """Returns a record in which a share of the answers was cut off."""
    rows = [replace(row, cut=int(i < share * len(found.rows))) for i, row in enumerate(found.rows)]
    return replace(found, rows=tuple(rows))


@given(
    st.integers(0, 1000), st.lists(st.sampled_from([0.0, 0.5, 0.6, 1.0]), min_size=4, max_size=4)
)
@settings(max_examples=20)
def test_a_template_with_more_than_half_of_its_answers_cut_never_wins(seed, shares):
    hp, hr = world(seed, 4, 20)
    records = [cut(record(i, hp[i], hr[i]), shares[i]) for i in range(4)]
    whole = [i for i in range(4) if shares[i] <= 0.5]
    for objective in (make_objective("hr_at_hp"), make_objective("accuracy")):
        selection = choose(records, objective)
        if not whole:
            assert selection is None
            continue
        assert selection == choose([records[i] for i in whole], objective) or 0 not in whole
        assert selection.winner in whole
        assert {one.iteration for one in pick(records, objective, 20, 2)} <= set(whole)
