"""Thresholds of scores and of a model's answers, tested together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.metrics import precision_recall
from taxtune.metrics.groups import Groups
from taxtune.policies import THRESHOLDS, RiskGuarantee, control_risk, weighted_paths, worst_loss
from taxtune.policies.cascade import (
    FIRST,
    PART,
    PART_MODEL,
    join_nodes,
    known_first,
    part_of,
    price_list,
    wanted_nodes,
)
from taxtune.policies.risk import last_kept, threshold_levels
from taxtune.taxonomy import Taxonomy
from tests.trees import ancestor_sets, tree_and_nodes

BIRDS = Taxonomy.from_paths(["bird/duck/mallard", "bird/duck/teal", "bird/gull/kittiwake"])
MALLARD, TEAL, KITTIWAKE, DUCK = map(BIRDS.resolve, ("mallard", "teal", "kittiwake", "duck"))
LEAVES = wanted_nodes(BIRDS, None)
VOTES = (1.0, 0.75, 0.5, 0.25)
HP = RiskGuarantee.asked(0.2, 0.9)


def alone(n):
    return Groups.of([""] * n)


def drawn(seed, n=150, sure=3.0, right=0.8):
    """Scores, votes of four answers, and truths of images of BIRDS."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([MALLARD, TEAL, KITTIWAKE], n)
    leaves = np.array([MALLARD, TEAL, KITTIWAKE])
    column = truth[:, None]
    logits = rng.normal(size=(n, 3))
    logits += sure * rng.random((n, 1)) * (leaves == column)
    scores = np.exp(logits)
    scores /= scores.sum(axis=1, keepdims=True)
    said = rng.choice(leaves, (n, 4))
    is_right = rng.random((n, 4)) < right
    votes = np.where(is_right, column, said)
    return weighted_paths(BIRDS, leaves, scores), weighted_paths(BIRDS, votes), truth


def priced(scores, answers, truth, promise=HP, thresholds=VOTES):
    """The price list of images of which each counts by itself."""
    groups = alone(len(truth))
    return price_list(BIRDS, scores, answers, truth, promise, groups, LEAVES, thresholds)


@given(tree_and_nodes())
def test_joined_nodes_are_the_deeper_one_or_the_common_ancestor(case):
    tree, (one, other) = case
    above = ancestor_sets(tree)
    joined = join_nodes(tree, one, other).tolist()
    assert joined == join_nodes(tree, other, one).tolist()
    for a, b, both in zip(one, other, joined, strict=True):
        if a in above[b] or b in above[a]:
            assert both == (b if a in above[b] else a)
        else:
            assert above[both] == above[a] & above[b]


def test_leaves_say_enough_and_nodes_from_a_rank_on():
    tree = Taxonomy.from_paths(["bird/duck/mallard/drake", "bird/gull"])
    labels = np.array(tree.labels)
    assert set(labels[wanted_nodes(tree, None)]) == {"drake", "gull"}
    assert set(labels[wanted_nodes(tree, "2")]) == {"mallard", "drake", "gull"}


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.2, 0.35]))
@settings(max_examples=8, deadline=None)
def test_a_price_list_is_that_of_a_loop_over_images_and_pairs(seed, risk):
    scores, answers, truth = drawn(seed)
    promise = replace(HP, risk=risk)
    points = priced(scores, answers, truth, promise)
    assert [point.first for point in points[1:]] == list(FIRST)
    assert PART_MODEL + PART * len(FIRST) == pytest.approx(1)
    asked = [point.asked for point in points]
    assert asked == sorted(asked)
    assert (asked[0], asked[-1]) == (0, 1)
    for point in points[1:]:
        level = 1 - 0.1 * (0.3 if point.first is None else 0.1)
        first = scores.depths(2.0 if point.first is None else point.first)
        careful = scores.depths(max(point.first or 0.0, 0.9))
        expected = None
        for second in VOTES:
            losses = []
            for image, target in enumerate(truth):
                known = 0 if point.first is None else scores.nodes[image, first[image]]
                label = known
                if not LEAVES[known]:
                    if point.first is not None:
                        known = label = scores.nodes[image, careful[image]]
                    said = answers.nodes[image, answers.depths(second)[image]]
                    (label,) = join_nodes(BIRDS, [known], [said])
                hp, _ = precision_recall(BIRDS, [known, label], [target, target])
                losses.append(1 - hp.min())
            (tested,) = control_risk([losses], risk, level, worst=worst_loss(BIRDS))
            if not tested.kept:
                break
            expected = second
        assert point.kept == (expected is not None)
        assert point.second == (VOTES[0] if expected is None else expected)


@pytest.mark.parametrize("promise", ["hp", "labels"])
@pytest.mark.parametrize("size", [1, 3])
def test_each_source_alone_is_a_calibration_of_its_own(promise, size):
    scores, answers, truth = drawn(1, n=600, sure=6.0, right=0.97)
    asked = RiskGuarantee.asked(0.1, 0.9, promise)
    groups = Groups.of([str(i // size) for i in range(len(truth))])
    points = price_list(BIRDS, scores, answers, truth, asked, groups, LEAVES, VOTES)
    of_scores, of_model = part_of(asked, 0.1), part_of(asked, 0.3)
    by_scores = threshold_levels(BIRDS, scores, truth, of_scores, groups, THRESHOLDS[::5])
    by_answers = threshold_levels(BIRDS, answers, truth, of_model, groups, VOTES)
    assert points[0].level == last_kept(by_scores)
    assert points[-1].level == last_kept(by_answers)


def test_it_is_kept_wherever_a_run_stops():
    """Who is not asked about keeps a label that is wrong, although every answer would correct it."""
    n = 300
    truth = np.full(n, KITTIWAKE)
    scores = weighted_paths(BIRDS, np.tile([MALLARD, TEAL], (n, 1)), np.full((n, 2), 0.5))
    answers = weighted_paths(BIRDS, np.full((n, 1), KITTIWAKE))
    points = priced(scores, answers, truth, thresholds=(1.0,))
    by_first = {point.first: point for point in points[1:]}
    # By these scores they are ducks, and with the answers birds.
    assert by_first[0.9].level.hp == 1
    assert not by_first[0.9].kept
    assert by_first[None].kept


@given(st.integers(0, 10_000))
@settings(max_examples=1, deadline=None)
def test_figures_are_of_thresholds_that_were_chosen_on_other_images(seed):
    scores, answers, truth = drawn(seed, n=200)
    found = priced(scores, answers, truth)
    nodes = np.zeros((len(found), len(truth)), dtype=int)
    for fold in range(20):
        own = np.arange(len(truth)) % 20 == fold
        others = ~own
        points = priced(scores.select(others), answers.select(others), truth[others])
        for row, point in zip(nodes, points, strict=True):
            if point.kept and point.second is None:
                row[own] = scores.at(scores.depths(point.first))[0][own]
            elif point.kept:
                known, asked = known_first(scores, point.first, LEAVES)
                said = answers.at(answers.depths(point.second))[0]
                row[own] = np.where(asked, join_nodes(BIRDS, known, said), known)[own]
    for point, row in zip(found, nodes, strict=True):
        hp, hr = precision_recall(BIRDS, row, truth)
        assert (point.hp, point.hr) == pytest.approx((hp.mean(), hr.mean()))
        wrong = ~BIRDS.is_ancestor(row, truth)
        given = (row != BIRDS.root).sum()
        assert point.wrong == (pytest.approx(wrong.sum() / given) if given else None)


def test_what_is_gained_by_asking_is_told_by_depth():
    """Of ducks the answers say which; of what is known only to be a bird they say nothing."""
    n = 300
    truth = np.where(np.arange(n) % 2, MALLARD, KITTIWAKE)
    weights = np.where(truth[:, None] == MALLARD, [0.5, 0.5, 0.0], [0.3, 0.3, 0.4])
    scores = weighted_paths(BIRDS, np.array([MALLARD, TEAL, KITTIWAKE]), weights)
    answers = weighted_paths(BIRDS, np.where(truth == MALLARD, MALLARD, -1)[:, None])
    points = priced(scores, answers, truth)
    (point,) = (each for each in points if each.first == 0.95)
    assert point.asked == 1
    assert point.gain(0, 0.3) == pytest.approx(0)
    assert point.gain(1, 0.5) == pytest.approx(1 / 3)
    assert points[0].gain(1, 0.5) == 0


def test_what_is_gained_by_asking_is_told_by_the_share_of_the_likeliest():
    """Of all it is known only that they are birds; answers name those of which scores are surer."""
    n = 300
    is_named = np.arange(n) % 2 == 0
    truth = np.full(n, KITTIWAKE)
    weights = np.where(is_named[:, None], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6])
    scores = weighted_paths(BIRDS, np.array([MALLARD, TEAL, KITTIWAKE]), weights)
    answers = weighted_paths(BIRDS, np.where(is_named, KITTIWAKE, -1)[:, None])
    points = priced(scores, answers, truth)
    (point,) = (each for each in points if each.first == 0.95)
    assert point.gain(0, 0.8) == pytest.approx(2 / 3)
    assert point.gain(0, 0.6) == pytest.approx(0)


def test_hr_is_of_nodes_as_deep_as_wanted():
    """Scores know the group of each bird, and answers the species: of groups these add nothing."""
    n = 300
    truth = np.where(np.arange(n) % 2, MALLARD, TEAL)
    scores = weighted_paths(BIRDS, np.full((n, 1), DUCK))
    answers = weighted_paths(BIRDS, truth[:, None])
    groups_wanted = wanted_nodes(BIRDS, "1")
    points = {}
    for name, wanted in (("leaf", LEAVES), ("group", groups_wanted)):
        found = price_list(BIRDS, scores, answers, truth, HP, alone(n), wanted, VOTES)
        points[name] = found[0], found[-1]
    (scores_alone, model_alone), (of_groups, model_of_groups) = points.values()
    assert scores_alone.hr == pytest.approx(2 / 3)
    assert model_alone.hr == 1
    assert of_groups.hr == model_of_groups.hr == 1


def test_nothing_is_promised_in_expectation():
    scores, answers, truth = drawn(0)
    promise = RiskGuarantee.asked(0.2)
    with pytest.raises(ValueError, match="in expectation"):
        priced(scores, answers, truth, promise)
