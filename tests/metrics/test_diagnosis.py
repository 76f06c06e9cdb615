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
from tests.trees import Case, ancestor_sets, tree_and_nodes

# The nodes of the fixture `birds`: see tests/conftest.py.
LIFE, AVES, PASSERINES, THRUSHES, MERULA, MIGRATORIUS, WATERFOWL, DUCKS, MALLARD = range(9)


@pytest.mark.parametrize(
    ("placed", "target", "expected"),
    [
        (MERULA, MERULA, ErrorType.CORRECT),
        (AVES, MERULA, ErrorType.TOO_GENERAL),
        (LIFE, MERULA, ErrorType.TOO_GENERAL),
        (MERULA, THRUSHES, ErrorType.TOO_SPECIFIC),
        (MIGRATORIUS, MERULA, ErrorType.SIBLING),
        (WATERFOWL, PASSERINES, ErrorType.SIBLING),
        (MALLARD, MERULA, ErrorType.WRONG_BRANCH),
        (DUCKS, MERULA, ErrorType.WRONG_BRANCH),
    ],
)
def test_every_type_by_hand(placed: int, target: int, expected: ErrorType, birds: Taxonomy) -> None:
    assert classify(birds, [placed], [target]) == [expected]


@pytest.mark.parametrize(
    ("placed", "target", "marks", "expected"),
    [
        (LIFE, MERULA, {"abstained"}, ErrorType.ABSTAINED),
        # An abstention on a target that is the root is still no answer.
        (LIFE, LIFE, {"abstained"}, ErrorType.ABSTAINED),
        (LIFE, MERULA, {"abstained", "doubtful"}, ErrorType.ABSTAINED),
        (MALLARD, MERULA, {"doubtful"}, ErrorType.DOUBTFUL),
        # A guess that hits the target is right.
        (MERULA, MERULA, {"doubtful"}, ErrorType.CORRECT),
        (LIFE, MERULA, {"off_tree"}, ErrorType.OFF_TREE),
        (LIFE, LIFE, {"off_tree"}, ErrorType.OFF_TREE),
        (LIFE, MERULA, set(), ErrorType.TOO_GENERAL),
    ],
)
def test_which_of_several_types_counts(
    placed: int, target: int, marks: set[str], expected: ErrorType, birds: Taxonomy
) -> None:
    # Beside an answer without a mark.
    masks = {mark: [True, False] for mark in marks}
    types = classify(birds, [placed, MERULA], [target, MERULA], **masks)
    assert types == [expected, ErrorType.CORRECT]


def test_costs_of_what_the_tree_lacks(birds: Taxonomy) -> None:
    placed = [LIFE, LIFE, LIFE, MALLARD]
    target = [MERULA, LIFE, MERULA, MERULA]
    off = [True, True, False, False]
    types = classify(birds, placed, target, off_tree=off)
    found = costs(birds, placed, target, types, off_tree=off).set_index("type").loc["off the tree"]
    # hP 1/2 for both; hR 1/5 and, where the target is the root, 1.
    assert (found["hp"], found["hr"]) == (1 / 2, pytest.approx((1 / 5 + 1) / 2))
    assert found["hp_cost"] == pytest.approx(2 * (1 / 2) / 4)
    first = birds, placed[:1], target[:1], types[:1]
    (region,) = worst_regions(*first, off_tree=off[:1], least=1).itertuples()
    assert (region.node, region.hp_cost, region.worst) == (MERULA, 1 / 2, "off the tree")
    assert worst_regions(*first, least=1).empty


def test_the_rank_where_the_right_path_is_left(birds: Taxonomy) -> None:
    placed = [MALLARD, MIGRATORIUS, AVES, MERULA, MERULA]
    target = [MERULA, MERULA, MERULA, MERULA, THRUSHES]
    assert wrong_from(birds, placed, target) == ["order", "species", None, None, None]
    unranked = Taxonomy(["root", "a", "b", "c"], [-1, 0, 0, 1])
    assert wrong_from(unranked, [2], [3]) == ["level 1"]


@pytest.mark.parametrize(
    ("inclusion", "similarity", "expected"),
    [
        (1, 0.9, "correct"),
        (1, 0.2, "annotation ambiguity or multi-label"),
        (0, 0.9, "granularity error"),
        (0, 0.7, "granularity error"),
        # Both low is one type, however far from the label.
        (0, 0.5, "fine-grained discrimination failure"),
        (0, 0.1, "fine-grained discrimination failure"),
        (math.nan, 0.9, "unscored"),
        (1, math.nan, "unscored"),
    ],
)
def test_what_two_measures_say(inclusion: float, similarity: float, expected: str) -> None:
    assert classify_by_measures([inclusion], [similarity]) == [expected]


def test_settings_of_two_measures() -> None:
    assert classify_by_measures([0], [0.5], high=0.5) == [MeasuredType.GRANULARITY]
    with pytest.raises(ValueError, match="shape"):
        classify_by_measures([1, 0], [1])


def test_costs_by_hand(birds: Taxonomy) -> None:
    # hP of mallard for blackbird: {life, Aves} of five nodes; of bird for blackbird: 1, hR 2/5.
    placed = [MALLARD, AVES, MERULA, MERULA]
    target = [MERULA] * 4
    types = classify(birds, placed, target)
    found = costs(birds, placed, target, types).set_index("type")
    wrong, general, correct = (found.loc[t] for t in ("wrong branch", "too general", "correct"))
    cost = pytest.approx((1 - 2 / 5) / 4)
    assert (wrong["hp_cost"], wrong["hr_cost"]) == (cost, cost)
    assert (general["hp_cost"], general["hr_cost"]) == (0, cost)
    assert (correct["count"], correct["share"]) == (2, 0.5)
    assert wrong["hp_low"] == 0
    assert wrong["hp_high"] > wrong["hp_cost"]


def test_clades_go_as_deep_as_their_losses(birds: Taxonomy) -> None:
    # All losses are on one species: it is listed, and not the clades above it, which it explains.
    placed = [MALLARD, MALLARD, MIGRATORIUS]
    target = [MERULA, MERULA, MIGRATORIUS]
    types = classify(birds, placed, target)
    (region,) = worst_regions(birds, placed, target, types, least=1).to_dict("records")
    assert region == {
        "node": MERULA,
        "count": 2,
        "hp": pytest.approx(2 / 5),
        "hr": pytest.approx(2 / 5),
        "hp_cost": pytest.approx(2 * (1 - 2 / 5) / 3),
        "worst": "wrong branch",
        "worst_count": 2,
    }
    # Where no species has enough answers, the clade that has them stands for them.
    (region,) = worst_regions(birds, placed, target, types, least=3, most=1).to_dict("records")
    assert region["node"] == THRUSHES


def by_sets(answer: set[int], truth: set[int], *, siblings: bool) -> ErrorType:
    if answer == truth:
        return ErrorType.CORRECT
    if answer < truth:
        return ErrorType.TOO_GENERAL
    if truth < answer:
        return ErrorType.TOO_SPECIFIC
    return ErrorType.SIBLING if siblings else ErrorType.WRONG_BRANCH


@given(tree_and_nodes(max_size=30))
@settings(max_examples=25)
def test_costs_add_up_and_types_agree_with_sets(case: Case) -> None:
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
