from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from taxtune.metrics import precision_recall
from taxtune.metrics.diagnosis import (
    ErrorType,
    MeasuredType,
    classify,
    classify_by_measures,
    costs,
    worst_regions,
    wrong_from,
)
from taxtune.taxonomy import Taxonomy
from tests.trees import ancestor_sets, tree_and_nodes

# The nodes of the fixture `birds`: see tests/conftest.py.
LIFE, AVES, PASSERINES, THRUSHES, MERULA, MIGRATORIUS, WATERFOWL, DUCKS, MALLARD = range(9)


def test_every_type_by_hand(birds):
    placed = [MERULA, AVES, LIFE, MERULA, MIGRATORIUS, WATERFOWL, MALLARD, DUCKS]
    target = [MERULA, MERULA, MERULA, THRUSHES, MERULA, PASSERINES, MERULA, MERULA]
    correct, *general, specific, sibling, cousin, branch, other = classify(birds, placed, target)
    assert correct == "correct"
    assert general == ["too general", "too general"]
    assert specific == "too specific"
    assert sibling == cousin == "sibling"
    assert branch == other == "wrong branch"


@pytest.mark.parametrize(
    ("placed", "target", "marks", "expected"),
    [
        (LIFE, MERULA, "abstained", "abstained"),
        # An abstention on a target that is the root is still no answer.
        (LIFE, LIFE, "abstained", "abstained"),
        (LIFE, MERULA, "abstained doubtful", "abstained"),
        (MALLARD, MERULA, "doubtful", "mapper doubtful"),
        # A guess that hits the target is right.
        (MERULA, MERULA, "doubtful", "correct"),
        (LIFE, MERULA, "off_tree", "off the tree"),
        (LIFE, LIFE, "off_tree", "off the tree"),
    ],
)
def test_which_of_several_types_counts(placed, target, marks, expected, birds):
    # Beside an answer without a mark.
    masks = {mark: [True, False] for mark in marks.split()}
    types = classify(birds, [placed, MERULA], [target, MERULA], **masks)
    assert types == [expected, "correct"]


def test_costs_of_what_the_tree_lacks(birds):
    placed = [LIFE, LIFE, LIFE, MALLARD]
    target = [MERULA, LIFE, MERULA, MERULA]
    off = [True, True, False, False]
    types = classify(birds, placed, target, off_tree=off)
    table = costs(birds, placed, target, types, off_tree=off).set_index("type")
    found = table.loc["off the tree"]
    # hP 1/2 for both; hR 1/5 and, where the target is the root, 1.
    assert found["hp"] == 1 / 2
    assert found["hr"] == pytest.approx((1 / 5 + 1) / 2)
    assert found["hp_cost"] == pytest.approx(2 * (1 / 2) / 4)
    first = worst_regions(birds, [LIFE], [MERULA], types[:1], off_tree=[True], least=1)
    (region,) = first.itertuples()
    assert region.node == MERULA
    assert region.hp_cost == 1 / 2
    assert region.worst == "off the tree"
    assert worst_regions(birds, [LIFE], [MERULA], types[:1], least=1).empty


def test_the_rank_where_the_right_path_is_left(birds):
    placed = [MALLARD, MIGRATORIUS, AVES, MERULA, MERULA]
    target = [MERULA, MERULA, MERULA, MERULA, THRUSHES]
    assert wrong_from(birds, placed, target) == ["order", "species", None, None, None]
    unranked = Taxonomy(["root", "a", "b", "c"], [-1, 0, 0, 1])
    assert wrong_from(unranked, [2], [3]) == ["level 1"]


@pytest.mark.parametrize(
    ("inclusion", "similarity", "expected"),
    [
        (1, [0.9], "correct"),
        (1, [0.2], "annotation ambiguity or multi-label"),
        (0, [0.9, 0.7], "granularity error"),
        # Both low is one type, however far from the label.
        (0, [0.5, 0.1], "fine-grained discrimination failure"),
        (math.nan, [0.9], "unscored"),
        (1, [math.nan], "unscored"),
    ],
)
def test_what_two_measures_say(inclusion, similarity, expected):
    for cosine in similarity:
        assert classify_by_measures([inclusion], [cosine]) == [expected]


def test_settings_of_two_measures():
    assert classify_by_measures([0], [0.5], high=0.5) == [MeasuredType.GRANULARITY]
    with pytest.raises(ValueError, match="shape"):
        classify_by_measures([1, 0], [1])


def test_costs_by_hand(birds):
    # hP of mallard for blackbird: {life, Aves} of five nodes; of bird for blackbird: 1, hR 2/5.
    placed = [MALLARD, AVES, MERULA, MERULA]
    target = [MERULA] * 4
    types = classify(birds, placed, target)
    found = costs(birds, placed, target, types).set_index("type")
    wrong = found.loc["wrong branch"]
    general = found.loc["too general"]
    correct = found.loc["correct"]
    cost = pytest.approx((1 - 2 / 5) / 4)
    assert wrong["hp_cost"] == wrong["hr_cost"] == cost
    assert general["hp_cost"] == 0
    assert general["hr_cost"] == cost
    assert correct["count"] == 2
    assert correct["share"] == 0.5
    assert wrong["hp_low"] == 0
    assert wrong["hp_high"] > wrong["hp_cost"]


def test_clades_go_as_deep_as_their_losses(birds):
    # All losses are on one species: it is listed, and not the clades above it, which it explains.
    placed = [MALLARD, MALLARD, MIGRATORIUS]
    target = [MERULA, MERULA, MIGRATORIUS]
    types = classify(birds, placed, target)
    (region,) = worst_regions(birds, placed, target, types, least=1).itertuples()
    assert region.node == MERULA
    assert region.count == region.worst_count == 2
    assert region.hp == region.hr == pytest.approx(2 / 5)
    assert region.hp_cost == pytest.approx(2 * (1 - 2 / 5) / 3)
    assert region.worst == "wrong branch"
    # Where no species has enough answers, the clade that has them stands for them.
    (region,) = worst_regions(birds, placed, target, types, least=3, most=1).itertuples()
    assert region.node == THRUSHES


def by_sets(answer, truth, *, siblings):
    if answer == truth:
        return ErrorType.CORRECT
    if answer < truth:
        return ErrorType.TOO_GENERAL
    if truth < answer:
        return ErrorType.TOO_SPECIFIC
    return ErrorType.SIBLING if siblings else ErrorType.WRONG_BRANCH


@given(tree_and_nodes(max_size=30))
@settings(max_examples=25)
def test_costs_add_up_and_types_agree_with_sets(case):
    tree, (placed, target) = case
    types = classify(tree, placed, target)
    ancestors = ancestor_sets(tree)
    for p, t, kind in zip(placed, target, types, strict=True):
        siblings = bool(tree.parents[p] == tree.parents[t])
        assert kind is by_sets(ancestors[p], ancestors[t], siblings=siblings)
    hp, hr = precision_recall(tree, placed, target)
    listed = costs(tree, placed, target, types, resamples=50)
    assert listed["hp_cost"].sum() == pytest.approx(1 - hp.mean())
    assert listed["hr_cost"].sum() == pytest.approx(1 - hr.mean())
    assert listed["count"].sum() == len(target)
    for region in worst_regions(tree, placed, target, types, least=1, most=100).itertuples():
        below = [i for i, t in enumerate(target) if region.node in ancestors[t]]
        assert region.count == len(below)
        assert region.hp == pytest.approx(float(np.mean(hp[below])))
