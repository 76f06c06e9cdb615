from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from tests.trees import trees

# The nodes of the fixture `birds`: see tests/conftest.py.
LIFE, AVES, PASSERINES, THRUSHES, MERULA, MIGRATORIUS, WATERFOWL, DUCKS, MALLARD = range(9)


def test_every_type_by_hand(birds: Taxonomy) -> None:
    cases = [
        (MERULA, MERULA, ErrorType.CORRECT),
        (AVES, MERULA, ErrorType.TOO_GENERAL),
        (LIFE, MERULA, ErrorType.TOO_GENERAL),
        (MERULA, THRUSHES, ErrorType.TOO_SPECIFIC),
        (MIGRATORIUS, MERULA, ErrorType.SIBLING),
        (WATERFOWL, PASSERINES, ErrorType.SIBLING),
        (MALLARD, MERULA, ErrorType.WRONG_BRANCH),
        (DUCKS, MERULA, ErrorType.WRONG_BRANCH),
    ]
    placed, target, expected = zip(*cases, strict=True)
    assert classify(birds, list(placed), list(target)) == list(expected)


def test_abstentions_and_guesses_come_before_the_tree_but_not_before_the_truth(
    birds: Taxonomy,
) -> None:
    types = classify(
        birds,
        [LIFE, LIFE, MALLARD, MERULA, LIFE],
        [MERULA, LIFE, MERULA, MERULA, MERULA],
        abstained=[True, True, False, False, True],
        doubtful=[False, False, True, True, True],
    )
    # An abstention on a target that is the root is still no answer; a guess that hits the target is right.
    assert types == [
        ErrorType.ABSTAINED,
        ErrorType.ABSTAINED,
        ErrorType.DOUBTFUL,
        ErrorType.CORRECT,
        ErrorType.ABSTAINED,
    ]


def test_what_the_tree_lacks_is_a_type_of_its_own_whatever_the_target_is(birds: Taxonomy) -> None:
    placed, target, off = (
        [LIFE, LIFE, LIFE, MALLARD],
        [MERULA, LIFE, MERULA, MERULA],
        [True, True, False, False],
    )
    types = classify(birds, placed, target, off_tree=off, doubtful=[False, False, False, True])
    assert types == [
        ErrorType.OFF_TREE,
        ErrorType.OFF_TREE,
        ErrorType.TOO_GENERAL,
        ErrorType.DOUBTFUL,
    ]
    found = costs(birds, placed, target, types, off_tree=off).set_index("type").loc["off the tree"]
    # hP 1/2 for both; hR 1/5 and, where the target is the root, 1.
    assert (found["hp"], found["hr"]) == (1 / 2, pytest.approx((1 / 5 + 1) / 2))
    assert found["hp_cost"] == pytest.approx(2 * (1 / 2) / 4)
    (region,) = worst_regions(
        birds, placed[:1], target[:1], types[:1], off_tree=off[:1], least=1
    ).itertuples()
    assert (region.node, region.hp_cost, region.worst) == (MERULA, 1 / 2, "off the tree")
    assert worst_regions(birds, placed[:1], target[:1], types[:1], least=1).empty


def test_the_rank_where_the_right_path_is_left(birds: Taxonomy) -> None:
    placed = [MALLARD, MIGRATORIUS, AVES, MERULA, MERULA]
    target = [MERULA, MERULA, MERULA, MERULA, THRUSHES]
    assert wrong_from(birds, placed, target) == ["order", "species", None, None, None]
    unranked = Taxonomy(["root", "a", "b", "c"], [-1, 0, 0, 1])
    assert wrong_from(unranked, [2], [3]) == ["level 1"]


def test_what_two_measures_say() -> None:
    nan = math.nan
    cases = [
        (1, 0.9, "correct"),
        (1, 0.2, "annotation ambiguity or multi-label"),
        (0, 0.9, "granularity error"),
        (0, 0.7, "granularity error"),
        # Both low is one type, however far from the label.
        (0, 0.5, "fine-grained discrimination failure"),
        (0, 0.1, "fine-grained discrimination failure"),
        (nan, 0.9, "unscored"),
        (1, nan, "unscored"),
    ]
    inclusion, similarity, expected = zip(*cases, strict=True)
    assert classify_by_measures(inclusion, similarity) == list(expected)
    assert classify_by_measures([0], [0.5], high=0.5) == [MeasuredType.GRANULARITY]
    with pytest.raises(ValueError, match="shape"):
        classify_by_measures([1, 0], [1])


def test_costs_by_hand(birds: Taxonomy) -> None:
    # hP of mallard for blackbird: {life, Aves} of five nodes; of bird for blackbird: 1, hR 2/5.
    placed, target = [MALLARD, AVES, MERULA, MERULA], [MERULA] * 4
    types = classify(birds, placed, target)
    found = costs(birds, placed, target, types).set_index("type").to_dict("index")
    assert found["wrong branch"]["hp_cost"] == pytest.approx((1 - 2 / 5) / 4)
    assert found["wrong branch"]["hr_cost"] == pytest.approx((1 - 2 / 5) / 4)
    assert found["too general"]["hp_cost"] == 0
    assert found["too general"]["hr_cost"] == pytest.approx((1 - 2 / 5) / 4)
    assert found["correct"]["count"] == 2
    assert found["correct"]["share"] == 0.5
    assert found["wrong branch"]["hp_low"] == 0
    assert found["wrong branch"]["hp_high"] > found["wrong branch"]["hp_cost"]


def test_clades_go_as_deep_as_their_losses(birds: Taxonomy) -> None:
    # All losses are on one species: it is listed, and not the clades above it, which it explains.
    placed, target = [MALLARD, MALLARD, MIGRATORIUS], [MERULA, MERULA, MIGRATORIUS]
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
    assert worst_regions(birds, placed, target, types, least=3, most=1)["node"].tolist() == [
        THRUSHES
    ]


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_costs_add_up_and_types_agree_with_sets(data: st.DataObject) -> None:
    tree = data.draw(trees())
    node = st.integers(0, len(tree) - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), min_size=1, max_size=30))
    placed, target = (list(side) for side in zip(*pairs, strict=True))
    types = classify(tree, placed, target)
    for a, b, kind in zip(placed, target, types, strict=True):
        above, right = set(tree.ancestors(a).tolist()), set(tree.ancestors(b).tolist())
        if a == b:
            expected = ErrorType.CORRECT
        elif above < right:
            expected = ErrorType.TOO_GENERAL
        elif right < above:
            expected = ErrorType.TOO_SPECIFIC
        elif tree.parents[a] == tree.parents[b]:
            expected = ErrorType.SIBLING
        else:
            expected = ErrorType.WRONG_BRANCH
        assert kind is expected
    hp, hr = precision_recall(tree, placed, target)
    listed = costs(tree, placed, target, types, resamples=50)
    assert listed["hp_cost"].sum() == pytest.approx(1 - hp.mean())
    assert listed["hr_cost"].sum() == pytest.approx(1 - hr.mean())
    assert listed["count"].sum() == len(pairs)
    for region in worst_regions(tree, placed, target, types, least=1, most=100).to_dict("records"):
        below = [i for i, b in enumerate(target) if region["node"] in tree.ancestors(b)]
        assert region["count"] == len(below)
        assert region["hp"] == pytest.approx(float(np.mean(hp[below])))
