"""Successive halving and the choice of the winner."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import TaxtuneError
from taxtune.metrics.bounds import poisson_bound
from taxtune.objective import Constraint, Objective, make_objective
from taxtune.tuning.records import IterationRecord
from taxtune.tuning.selection import (
    Standings,
    aim_values,
    best,
    choose,
    leaders,
    most_questions,
    next_steps,
    pick,
    rungs,
)
from tests.rows import changed_row, sample_row, scores_of

SEEDS = st.integers(0, 10_000)
KINDS = st.sampled_from(["hp", "hr_at_hp", "hf", "accuracy"])


def record(iteration, hp, hr, *, sure=None, **measures):
    """Returns an iteration with these scores of each image; hP is NaN where the call failed.

    A single hR is that of every image.
    """
    hp = np.asarray(hp, dtype=float)
    hr = np.broadcast_to(hr, hp.shape)
    rows = []
    for i, image_hp in enumerate(hp):
        if np.isnan(image_hp):
            rows.append(sample_row(example=str(i), failure="no answer"))
            continue
        row = sample_row(
            example=str(i),
            node=1,
            confidence=None if sure is None else float(sure[i]),
            measures={name: float(values[i]) for name, values in measures.items()},
            hp=float(image_hp),
            hr=float(hr[i]),
            depth=2.0,
        )
        rows.append(row)
    return IterationRecord(
        iteration=iteration,
        state="complete",
        template=f"template {iteration}",
        scores=scores_of(rows),
        value=0.0,
        rows=tuple(rows),
    )


def records_of(hp, hr, images=None):
    """Returns an iteration for each row of hP and hR, asked about the first images."""
    numbers = range(len(hp))
    return [record(i, hp[i, :images], hr[i, :images]) for i in numbers]


def losses(n, wrong, size=0.5):
    return np.where(np.arange(n) < wrong, 1 - size, 1.0)


def with_losses(n, wrong, hr):
    """Returns iterations on n images, of which some are wrong and the rest right."""
    numbers = range(len(wrong))
    return [record(i, losses(n, wrong[i]), hr[i]) for i in numbers]


def world(seed, templates, images):
    """Returns hP and hR of templates of different boldness on images of different hardness.

    The tree has four levels.
    """
    rng = np.random.default_rng(seed)
    hardness = rng.beta(1, 2, images)
    boldness = np.sort(rng.beta(1, 2, templates))
    # How deep an answer goes, and how deep it is right.
    said = 4 * (boldness[:, None] + 1 - hardness)
    said = said + rng.normal(0, 0.4, (templates, images))
    said = np.ceil(said).clip(1, 4)
    right = 4 * (1.2 - hardness) + rng.normal(0, 0.5, (templates, images))
    right = np.ceil(right).clip(1, 4)
    shared = np.minimum(said, right)
    order = rng.permutation(templates)
    return (shared / said)[order], (shared / 4)[order]


def take_steps(records, hp, hr, objective, stages, *, which=0, most=None):
    """Asks what the rungs say until they end, or for so many steps; returns the calls."""
    calls = taken = 0
    while taken != most and (steps := next_steps(records, objective, stages)):
        iteration, images = steps[which]
        asked = slice(images)
        calls += images - len(records[iteration].rows)
        records[iteration] = record(iteration, hp[iteration, asked], hr[iteration, asked])
        taken += 1
    return calls


def halved(hp, hr, objective, stages):
    """Goes through the rungs; returns the records and the calls that it took."""
    first = stages[0]
    records = records_of(hp[: first.templates], hr[: first.templates], first.images)
    calls = take_steps(records, hp, hr, objective, stages)
    return records, calls + first.images * first.templates


def planned(stages):
    """Returns the calls that rungs take."""
    calls = stages[0].images * stages[0].templates
    for before, stage in pairwise(stages):
        calls += (stage.images - before.images) * stage.templates
    return calls


def iterations(records):
    return [each and each.iteration for each in records]


def sizes(records):
    return [len(each.rows) for each in records]


# -- the rungs -------------------------------------------------------------------------------------


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
        # Two templates on the first images are the least that can be compared.
        assert planned(stages) <= max(calls, 2 * first)


def test_templates_are_asked_what_the_rungs_say_and_ends():
    hp, hr = world(0, 30, 200)
    stages = rungs(20, 200, 30)
    records, calls = halved(hp, hr, make_objective("hr_at_hp"), stages)
    assert sorted(set(sizes(records))) == [stage.images for stage in stages]
    assert sizes(records).count(200) == stages[-1].templates
    assert calls == planned(stages)


@pytest.mark.parametrize("kind", ["hp", "hr_at_hp"])
def test_no_race_asks_more_than_the_forecast(kind):
    hp, hr = world(8, 30, 200)
    objective = make_objective(kind)
    stages = rungs(20, 200, 30, always=int(objective.held_to_baseline))
    records, calls = halved(hp, hr, objective, stages)
    forecast = most_questions(objective, stages)
    assert calls <= forecast
    # The baseline that "hp" holds others to sees what they see; what it is not asked is another's.
    assert kind != "hp" or len(records[0].rows) == 200
    baseline_went_on = kind == "hp" and sizes(records).count(200) == stages[-1].templates
    assert calls == forecast or baseline_went_on


def test_halving_that_is_interrupted_goes_on_as_it_would_have():
    hp, hr = world(1, 20, 120)
    objective = make_objective("hr_at_hp")
    stages = rungs(10, 120, 20)
    whole, _ = halved(hp, hr, objective, stages)
    # Whatever is stored in the middle of it, the steps that are left lead to the same.
    again = records_of(hp, hr, 10)
    take_steps(again, hp, hr, objective, stages, most=3)
    # Several workers may do them in any order.
    take_steps(again, hp, hr, objective, stages, which=-1)
    assert sizes(again) == sizes(whole)
    assert choose(again, objective) == choose(whole, objective)


@pytest.mark.parametrize("kind", ["hp", "hr_at_hp", "hf", "accuracy"])
def test_what_is_better_on_every_image_goes_on(kind):
    hp, hr = world(7, 12, 40)
    hp[5] = hr[5] = 1.0
    records = records_of(hp, hr)
    objective = make_objective(kind)
    chosen = pick(records, objective, 40, 3)
    assert 5 in iterations(chosen)
    assert len(chosen) == 3
    assert chosen == pick(records, objective, 40, 3), "the same draws"
    assert chosen == pick(records_of(hp, hr), objective, 40, 3)


@pytest.mark.parametrize("name", ["hp", "hr_at_hp", "hf"])
def test_no_more_templates_go_on_than_a_stage_has_room_for(name):
    """Rows that a template got later, the baseline's too, do not change who went on before."""
    objective = make_objective(name)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        kinds = rng.integers(6, size=14)  # some templates answer alike
        wrong = rng.random((6, 120)) < rng.uniform(0.02, 0.2, (6, 1))
        hp = np.where(wrong, 0.5, 1.0)[kinds]
        vague = rng.random((6, 120)) < rng.uniform(0.2, 0.8, (6, 1))
        hr = np.where(vague, 0.5, 1.0)[kinds]
        stages = rungs(10, 120, len(kinds))
        records = records_of(hp, hr, 10)
        take_steps(records, hp, hr, objective, stages)
        for stage in stages:
            inside = sum(size >= stage.images for size in sizes(records))
            # The baseline that "hp" holds others to is asked about all they are asked about.
            assert inside == stage.templates or (name == "hp" and inside == stage.templates + 1)


# -- the winner ------------------------------------------------------------------------------------


def test_of_templates_that_reach_the_target_the_one_that_says_most_wins():
    n = 400
    fine = losses(n, 4, 0.25)
    records = [record(i, fine, hr) for i, hr in enumerate((0.6, 0.8, 0.7))]
    records.append(record(3, losses(n, 60, 0.25), 0.95))
    found = choose(records, make_objective("hr_at_hp"))
    assert (found.winner, found.reached, found.images) == (1, True, n)
    standings = Standings.of(records, make_objective("hr_at_hp"), None)
    assert standings.reached.tolist() == [True, True, True, False]
    assert 0.98 <= found.held[0].low < fine.mean()


def test_what_is_right_only_by_luck_is_not_believed():
    """Bolder templates are less often right, but one of the boldest has a spotless record."""
    rng = np.random.default_rng(3)
    records = []
    for i, boldness in enumerate(np.linspace(0, 1, 12)):
        wrong = rng.random(20) < 0.5 * boldness
        if i == 10:
            wrong[:] = False
        hr = np.where(wrong, 0.5, 0.5 + boldness / 2)
        records.append(record(i, np.where(wrong, 0.5, 1.0), hr))
    by_means = max(records, key=lambda each: (each.scores.hp, each.scores.hr))
    assert by_means.iteration == 10, "the plain rule, ties by hR, takes the lucky one"
    assert choose(records, make_objective("hp")).winner < 6


def test_the_first_test_that_fails_ends_the_tests():
    records = with_losses(300, wrong=(30, 0), hr=(0.5, 0.8))
    found = choose(records, make_objective("hr_at_hp"))
    assert not found.reached, "what says more does not pass where what says less failed"
    assert found.winner == 1, "it comes nearest all the same"


def test_a_best_estimate_is_the_most_specific_template_that_is_believed_to_keep_the_target():
    # Of 40 images nothing can be proven.
    careful, fair, bold = with_losses(40, wrong=(0, 0, 15), hr=(0.5, 0.7, 0.9))
    objective = make_objective("hr_at_hp")
    assert choose([careful, fair, bold], objective).winner == 1, "the boldest is not believed"
    assert choose([careful, bold], objective).winner == 0
    # The likeliest is the careful one, which says less: it is enough to be believed.
    for wrong, winner in {1: 1, 2: 0}.items():
        slip = record(1, losses(40, wrong), 0.7)
        assert choose([careful, slip], objective).winner == winner
    doubtful = with_losses(40, wrong=(8, 20), hr=(0.5, 0.9))
    found = choose(doubtful, objective)
    assert (found.winner, found.status) == (0, "estimate"), "where none is believed, the likeliest"


def test_where_no_finalist_is_believed_a_template_of_an_earlier_round_may_be():
    objective = make_objective("hr_at_hp")
    early = with_losses(60, wrong=(0, 0), hr=(0.5, 0.6))
    poor = [record(i, losses(200, 40 + i), 0.9) for i in (2, 3)]
    fine = record(4, losses(200, 2), 0.7)
    assert choose([*early, *poor], objective).winner == 1
    winner = choose([*early, *poor, fine], objective).winner
    assert winner == 4, "a finalist that is believed comes first"
    hopeless = with_losses(60, wrong=(40, 40), hr=(0.8, 0.8))
    winner = choose([*hopeless, *poor], objective).winner
    assert winner == 2, "of templates that nobody believes the likeliest"


def test_the_status_of_a_winner():
    objective = make_objective("hr_at_hp")
    fine, poor = with_losses(300, wrong=(0, 60), hr=(0.8, 0.5))
    assert choose([fine], objective).status == "certified"
    assert choose([fine, poor], objective).status == "passes-alone"
    assert choose([poor], objective).status == "estimate"
    assert choose([fine], make_objective("hf")).status is None


def figures(each, standings, objective):
    """Returns a template's figures: its aim, and the mean and the bound of all that is held."""
    position = [one.iteration for one in standings.finalists].index(each.iteration)
    values = [objective.aimed(each.scores)]
    for held in standings.held(position):
        values += [each.scores.get(held.measure), held.low]
    return np.round(values, 12)


def is_beaten(each, others, standings, objective):
    """Tells whether one of the others is better in every figure."""
    own = figures(each, standings, objective)
    return any((figures(other, standings, objective) > own).all() for other in others)


@pytest.mark.parametrize("losses", [[0.0] * 50, [0.5, 0.5] + [0.0] * 98])
def test_a_winner_that_is_not_certified_says_how_many_more_images_would_do(losses):
    hp = [*np.subtract(1, losses), np.nan]
    found = choose([record(0, hp, 0.5)], make_objective("hr_at_hp"))
    (held,) = found.held
    assert held.measure == "hp"
    assert (held.goal, held.confidence) == (0.98, 0.9)
    assert held.missed
    assert held.mean == pytest.approx(1 - np.mean(losses))
    images = len(losses) + held.more
    before = poisson_bound(losses, 0.9, typical=0.5, images=images - 1)
    assert before > 0.02 >= poisson_bound(losses, 0.9, typical=0.5, images=images)


def holding_hp(least, confidence):
    constraint = Constraint("hp", least, confidence)
    return Objective("hr", lambda scores: scores.hr, constraints=(constraint,))


OBJECTIVES = [
    *(holding_hp(*held) for held in product((0.7, 0.9, 0.98), (0.5, 0.9))),
    *map(make_objective, ("hp", "hf", "accuracy", "ihr_at_ihp")),
]


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from([20, 60, 200]), st.sampled_from(OBJECTIVES))
def test_no_template_wins_that_another_beats_in_every_figure(seed, images, objective):
    """Among certified winners, best estimates, finalists and others, whatever bolder ones do."""
    rng = np.random.default_rng(seed)
    hp, hr = world(seed, 8, images)
    better = rng.integers(8, size=4)
    is_raised = rng.random((4, images)) < rng.choice([0, 0.02, 0.2])
    gain = rng.uniform(0, 0.5, (4, images))
    gain *= rng.random((4, 1)) < 0.7
    hp = np.vstack([hp, hp[better] + is_raised]).clip(0, 1)
    hr = np.vstack([hr, hr[better] + gain]).clip(0, 1)
    order = rng.permutation(12)
    asked = rng.choice([images // 2, images], 12)
    records = []
    for i, kind in enumerate(order):
        some = slice(asked[i])
        records.append(record(i, hp[kind, some], hr[kind, some]))
    if objective.name == "ihr_at_ihp":
        records = [with_bits(each) for each in records]
    found = choose(records, objective)
    winner = records[found.winner]
    others = [each for each in records if len(each.rows) == len(winner.rows)]
    standings = Standings.of(others, objective, records[0].scores)
    assert not is_beaten(winner, others, standings, objective)
    if objective.name == "hr":
        own = winner.table.column("hp")
        alike = [each for each in others if np.array_equal(each.table.column("hp"), own)]
        assert winner.scores.hr >= max(each.scores.hr for each in alike) - 1e-9


def with_bits(each):
    """Returns an iteration whose scores in bits are those on the tree."""
    rows = tuple(changed_row(row, ihp=row.hp, ihr=row.hr) for row in each.rows)
    bits = {"ihp": each.scores.hp, "ihr": each.scores.hr}
    return replace(each, rows=rows, scores=each.scores.changed(bits))


def test_what_bolder_templates_do_is_no_reason_to_pass_over_what_is_better_in_every_figure():
    """Where more is said more is wrong, but of one template that says more and is seldom wrong."""
    records = with_losses(150, wrong=(7, 15, 20, 6), hr=(0.55, 0.78, 0.8, 0.75))
    found = choose(records, make_objective("hr_at_hp"))
    assert (found.winner, found.status) == (3, "estimate")


def test_what_beats_a_certified_template_wins_in_its_place():
    """It says more than one that fails, which ends the tests before it."""
    records = with_losses(400, wrong=(2, 90, 0), hr=(0.5, 0.6, 0.9))
    objective = make_objective("hr_at_hp")
    assert Standings.of(records, objective, None).reached.tolist() == [True, False, True]
    found = choose(records, objective)
    assert (found.winner, found.reached, found.status) == (2, True, "passes-alone")


def test_a_template_without_the_hard_images_beats_none_that_answered_them():
    hard = np.arange(60) < 6
    hp = np.where(hard, 0.25, 1.0)
    whole = record(0, hp, np.where(hard, 0.25, 0.82))
    part = record(1, np.where(hard, np.nan, 1.0), 0.8)
    assert part.scores.hp > whole.scores.hp
    winner = choose([whole, part], holding_hp(0.5, 0.9)).winner
    assert winner == 0, "it says more on the images that both answered"


# -- the best so far -------------------------------------------------------------------------------


def scored(iteration, value, *, feasible=True, images=20):
    each = record(iteration, np.ones(images), 0.5)
    return replace(each, value=value, feasible=feasible)


def test_the_best_by_its_means_as_proposers_are_told():
    records = [
        IterationRecord(0, "void", "template 0"),
        scored(1, -0.02, feasible=False),
        scored(4, 0.8),
        scored(5, 0.8),
        IterationRecord(6, "failed", None),
    ]
    assert best(records).iteration == 4
    assert best(records[:1]) is None
    assert best([scored(1, 0.9), scored(2, 0.7, images=60)]).iteration == 2


@settings(max_examples=30, deadline=None)
@given(SEEDS, KINDS)
def test_the_best_so_far_ends_with_the_winner_and_is_what_would_win(seed, kind):
    objective = make_objective(kind)
    records = records_of(*world(seed, 8, 30))
    found = leaders(records, objective)
    assert found[-1] == choose(records, objective).winner
    assert found[3] == choose(records[:4], objective).winner


def test_no_best_so_far_where_nothing_is_scored():
    void = IterationRecord(0, "void", "template 0")
    assert leaders([void, record(1, np.ones(5), 0.5)], make_objective("hp")) == [None, 1]


def test_a_floor_without_a_confidence_is_met_by_the_mean():
    objective = make_objective("hp")
    records = [record(0, np.full(20, 0.8), 0.9), record(1, np.ones(20), 0.7)]
    assert choose(records, objective).winner == 0, "0.7 is less than 80 % of 0.9"
    records.append(record(2, np.full(20, 0.9), 0.73))
    found = choose(records, objective)
    assert (found.winner, found.reached) == (2, True)


def test_failed_calls_are_left_out():
    hp = np.ones((3, 50))
    hp[1, :10] = np.nan
    records = records_of(hp, np.full((3, 50), 0.6))
    column = records[1].table.column("hp")
    assert np.isnan(column[:10]).all()
    standings = Standings.of(records, make_objective("accuracy"), None)
    assert np.isfinite((standings.estimates, standings.lows)).all()


@settings(max_examples=25, deadline=None)
@given(SEEDS, KINDS)
def test_the_winner_is_a_finalist_and_its_bound_is_below_its_estimate(seed, kind):
    records = records_of(*world(seed, 8, 30))
    found = choose(records, make_objective(kind))
    standings = Standings.of(records, make_objective(kind), records[0].scores)
    winner = [each.iteration for each in standings.finalists].index(found.winner)
    assert standings.lows[winner] <= standings.estimates[winner]
    assert standings.reached[winner] == found.reached == standings.reached.any()


# -- what an image adds ----------------------------------------------------------------------------


def pseudo_values(objective, hp, hr, positions, sure=None):
    """Returns the jackknife's pseudo-values of the images at some positions, shape (m,)."""
    columns = {"hp": hp, "hr": hr}
    if sure is not None:
        columns["sure"] = sure
    n = int((~np.isnan(hp)).sum())

    def aimed(*, without):
        kept = {name: np.delete(values, without) for name, values in columns.items()}
        return objective.aimed(record(0, **kept).scores)

    whole = aimed(without=[])
    return np.array([n * whole - (n - 1) * aimed(without=i) for i in positions])


@pytest.mark.parametrize("kind", ["hf", lambda scores: scores.hp * scores.hr])
def test_influences_agree_with_the_jackknife(kind):
    (hp,), (hr,) = world(5, 1, 80)
    objective = make_objective(kind)
    whole = record(0, hp, hr)
    influence = aim_values(whole, objective)
    assert influence.mean() == pytest.approx(objective.aimed(whole.scores))
    pseudo = pseudo_values(objective, hp, hr, range(80))
    assert influence == pytest.approx(pseudo, abs=0.02)


def test_a_plain_mean_is_made_of_the_images_own_values():
    (hp,), (hr,) = world(6, 1, 25)
    words = np.arange(25.0)
    one = record(0, hp, hr, words=words)
    assert aim_values(one, make_objective("hp")) == pytest.approx(hp)
    most = make_objective("words", metrics=("words",))
    assert aim_values(one, most) == pytest.approx(words, abs=1e-9)
    fewest = Objective("fewest", lambda scores: -scores.measures["words"])
    assert aim_values(one, fewest) == pytest.approx(-words, abs=1e-9)


def test_aurc_wins_by_what_is_sure_only_where_it_is_right():
    rng = np.random.default_rng(2)
    hp = np.where(rng.random(60) < 0.3, 0.5, 1.0)
    hp[:2] = np.nan
    hr = np.full(60, 0.7)
    objective = make_objective("aurc")
    sure = np.nan_to_num(hp) + rng.random(60) / 9
    blind = record(0, hp, hr, sure=np.ones(60))
    knowing = record(1, hp, hr, sure=sure)
    aim = objective.aimed(knowing.scores)
    assert objective.aimed(blind.scores) == pytest.approx(np.nanmean(hp))
    assert aim > objective.aimed(blind.scores) + 0.05
    influence = aim_values(knowing, objective)
    assert np.nanmean(influence) == pytest.approx(aim)
    assert choose([blind, knowing], objective).winner == 1
    # One that is sure and right, but of the root alone, says too little.
    vague = record(2, np.ones(60), 0.5, sure=np.ones(60))
    assert choose([blind, knowing, vague], objective).winner == 1
    pseudo = pseudo_values(objective, hp, hr, range(2, 60), sure)
    assert influence[2:] == pytest.approx(pseudo, abs=0.05)


def test_a_selective_hp_that_is_not_known_is_none_and_no_objective():
    scores = record(0, np.ones(4), 0.5).scores
    assert scores.selective_hp is None
    with pytest.raises(TaxtuneError, match="needs a confidence of every answer"):
        make_objective("aurc").aimed(scores)
    own = make_objective(lambda scores: 1.0 if scores.selective_hp is None else 0.0)
    assert own.aimed(scores) == 1.0


# -- over many runs --------------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_target_is_kept_as_often_as_promised_where_the_luckiest_breaks_it():
    """On worlds that nothing was fitted to: how often the winner truly reaches what was promised."""
    target, confidence, runs = 0.95, 0.9, 60
    objective = holding_hp(target, confidence)
    stages = rungs(10, 150, 20)
    kept = promised = lucky = 0
    for seed in range(runs):
        hp, hr = world(seed, 20, 1150)
        keeps = hp[:, 150:].mean(axis=1) >= target - 0.005
        records, _ = halved(hp[:, :150], hr[:, :150], objective, stages)
        found = choose(records, objective)
        promised += found.reached
        kept += found.reached and keeps[found.winner]
        block_hp = hp[:, :20].mean(axis=1)
        block_hr = hr[:, :20].mean(axis=1)
        means = list(zip(np.minimum(block_hp, target), block_hr, strict=True))
        lucky += keeps[means.index(max(means))]
    assert promised > runs / 4
    # Two standard errors of a share of 0.9 below it.
    error = np.sqrt(confidence * (1 - confidence) / promised)
    assert kept / promised >= confidence - 2 * error
    assert kept / promised > lucky / runs


# -- answers that were cut off ---------------------------------------------------------------------


def cut(found, share):
    """Returns a record in which a share of the answers was cut off."""
    most = share * len(found.rows)
    rows = [replace(row, cut=int(i < most)) for i, row in enumerate(found.rows)]
    return replace(found, rows=tuple(rows))


@given(
    st.integers(0, 1000), st.lists(st.sampled_from([0.0, 0.5, 0.6, 1.0]), min_size=4, max_size=4)
)
@settings(max_examples=20)
def test_a_template_with_more_than_half_of_its_answers_cut_never_wins(seed, shares):
    records = list(map(cut, records_of(*world(seed, 4, 20)), shares))
    whole = [i for i in range(4) if shares[i] <= 0.5]
    for objective in (make_objective("hr_at_hp"), make_objective("accuracy")):
        selection = choose(records, objective)
        if not whole:
            assert selection is None
            continue
        assert selection == choose([records[i] for i in whole], objective) or 0 not in whole
        assert selection.winner in whole
        assert set(iterations(pick(records, objective, 20, 2))) <= set(whole)


# -- images that belong together -------------------------------------------------------------------


def grouped(record, times):
    """Returns an iteration whose images are there so many times, in groups of their own."""
    rows = []
    for row in record.rows:
        rows += [replace(row, group=f"burst {row.example}")] * times
    return replace(record, rows=tuple(rows), scores=scores_of(rows))


@settings(max_examples=40)
@given(SEEDS, KINDS, st.sampled_from([2, 4]))
def test_the_race_and_the_winner_are_those_of_groups(seed, kind, times):
    rng = np.random.default_rng(seed)
    objective = make_objective(kind)
    hp = np.where(rng.random((5, 16)) < 0.1, 0.5, 1.0)
    once = records_of(hp, rng.integers(1, 5, hp.shape) / 4)
    often = [grouped(record, times) for record in once]
    winner = choose(once, objective)
    chosen = choose(often, objective)
    assert chosen == replace(winner, images=16 * times)
    alone = Standings.of(once, objective, once[0].scores)
    together = Standings.of(often, objective, often[0].scores)
    assert alone.estimates.tolist() == together.estimates.tolist()
    assert alone.lows.tolist() == together.lows.tolist()
    assert alone.held(0) == together.held(0)
    # The race goes by the same beliefs, and asks for so many images.
    assert len(pick(often, objective, 16 * times, 2)) == 2


def test_ten_images_of_a_burst_prove_what_one_does():
    objective = make_objective("hr_at_hp")
    plain = record(0, np.ones(200), 0.5)
    rows = [replace(row, group=f"burst {i // 10}") for i, row in enumerate(plain.rows)]
    bursts = replace(plain, rows=tuple(rows))
    assert choose([plain], objective).status == "certified"
    estimate = choose([bursts], objective)
    assert estimate.status == "estimate"
    assert estimate.images == 200
    (held,) = estimate.held
    single = record(0, np.ones(20), 0.5)
    (alone,) = choose([single], objective).held
    assert held == alone
    assert 20 + held.more == 58, "bursts, not images"


def test_where_one_frame_was_wrong_the_next_burst_may_be_wrong_altogether():
    objective = make_objective("hr_at_hp")
    plain = record(0, losses(200, 1), 0.5)
    rows = [replace(row, group=f"burst {i // 10}") for i, row in enumerate(plain.rows)]
    bursts = replace(plain, rows=tuple(rows), scores=scores_of(rows))
    spotless = record(0, np.ones(20), 0.5)
    (held,) = choose([bursts], objective).held
    (best_case,) = choose([spotless], objective).held
    assert held.low < best_case.low
