"""Risk at a coverage, calibration error and doubt, against computations of another kind."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from taxtune.metrics import precision_recall
from taxtune.metrics.confidence import (
    COVERAGES,
    aurc_parts,
    calibration_error,
    risk_at_coverage,
)
from taxtune.metrics.doubt import influence_of_doubt
from taxtune.metrics.information import leaf_information
from taxtune.metrics.table import Predictions


def test_without_ties_both_are_what_they_are_by_hand_and_by_scikit_learn():
    rng = np.random.default_rng(3)
    sure = rng.permutation(np.linspace(0.01, 0.99, 400))
    right = rng.random(400) < sure**1.5
    order = np.argsort(-sure)
    by_hand = []
    for coverage in COVERAGES:
        kept = right[order[: round(coverage * 400)]]
        by_hand.append(1 - kept.mean())
    assert risk_at_coverage(sure, right) == pytest.approx(by_hand)
    true, said = calibration_curve(right, sure, n_bins=10, strategy="quantile")
    assert calibration_error(sure, right) == pytest.approx(np.abs(true - said).mean())


def test_bins_whose_sizes_differ_count_with_their_sizes():
    rng = np.random.default_rng(3)
    sure = rng.random(57)
    right = rng.random(57) < sure
    expected = 0.0
    for rows in np.array_split(np.argsort(-sure), 10):
        distance = abs(sure[rows].mean() - right[rows].mean())
        expected += distance * len(rows) / 57
    assert calibration_error(sure, right) == pytest.approx(expected)


def test_ties_count_as_the_mean_over_all_their_orders():
    sure = np.array([0.9, 0.7, 0.7, 0.7, 0.2])
    right = np.array([1, 1, 0, 0, 1])
    orders = [[0, *middle, 4] for middle in permutations([1, 2, 3])]
    expected = []
    for kept in range(1, 6):
        risks = [1 - right[order[:kept]].mean() for order in orders]
        expected.append(np.mean(risks))
    assert risk_at_coverage(sure, right) == pytest.approx(expected)
    error = calibration_error(sure, right, bins=2)
    for order in orders:
        assert risk_at_coverage(sure[order], right[order]) == pytest.approx(expected)
        assert calibration_error(sure[order], right[order], bins=2) == error


def test_of_one_confidence_alone_the_risk_is_the_same_at_every_coverage():
    sure = [0.6] * 10
    right = [1] * 7 + [0] * 3
    assert risk_at_coverage(sure, right) == pytest.approx([0.3] * 5)
    assert calibration_error(sure, right) == pytest.approx(0.1)


# -- AURC ------------------------------------------------------------------------------------------


def aurc(confidence, correct):
    return float(aurc_parts(confidence, correct).mean())


def textbook_aurc(sure, lost):
    """Geifman, Uziel and El-Yaniv's definition, for confidences without ties."""
    ranked = lost[np.argsort(-sure)]
    risks = [ranked[: last + 1].mean() for last in range(len(ranked))]
    return float(np.mean(risks))


def ranked_answers(confidences, most):
    """Confidences on a coarse grid, so that some are the same, each with a share that is right."""
    answer = st.tuples(st.integers(0, confidences - 1), st.floats(0, 1))
    return st.lists(answer, min_size=1, max_size=most)


def test_aurc_is_the_textbooks():
    rng = np.random.default_rng(5)
    sure = rng.permutation(np.linspace(0.01, 0.99, 333))
    right = rng.random(333)
    assert aurc(sure, right) == pytest.approx(textbook_aurc(sure, 1 - right), abs=1e-9)


@given(ranked_answers(5, 6))
def test_aurc_with_ties_is_the_mean_over_every_order(ranked):
    sure, right = np.array(ranked).T
    ranks = np.arange(len(sure))
    areas = []
    for permutation in permutations(ranks):
        order = list(permutation)
        if (np.diff(sure[order]) <= 0).all():
            areas.append(textbook_aurc(-ranks, 1 - right[order]))
    assert aurc(sure, right) == pytest.approx(np.mean(areas), abs=1e-9)


@given(ranked_answers(10, 40))
def test_what_aurc_is_and_is_not_moved_by(ranked):
    sure, right = np.array(ranked).T
    area = aurc(sure, right)
    assert -1e-12 <= area <= 1 + 1e-12
    assert aurc(np.exp(sure) - 7, right) == pytest.approx(area)
    assert aurc(right, right) <= area + 1e-12 <= aurc(-right, right) + 2e-12
    assert risk_at_coverage(sure, right)[-1] == pytest.approx(1 - right.mean())


def test_the_parts_of_the_aurc_have_its_noise():
    rng = np.random.default_rng(8)

    def draw(n):
        sure = rng.random(n).round(2)
        right = rng.random(n) < sure
        return sure, right.astype(float)

    areas = [aurc(*draw(300)) for _ in range(2000)]
    spreads = [aurc_parts(*draw(300)).std() for _ in range(100)]
    expected = pytest.approx(np.std(areas), rel=0.08)
    assert np.mean(spreads) / 300**0.5 == expected
    # Leaving an image out changes the area as its part says.
    sure, right = draw(500)
    without = np.zeros(500)
    for i in range(500):
        without[i] = aurc(np.delete(sure, i), np.delete(right, i))
    pseudo = 500 * aurc(sure, right) - 499 * without
    correlation = np.corrcoef(pseudo, aurc_parts(sure, right))
    assert correlation[0, 1] > 0.99


@pytest.mark.parametrize(
    ("confidence", "correct"),
    [
        ([], []),
        ([0.5, np.nan], [1, 0]),
        ([0.5], [1, 0]),
        ([0.5], [2]),
        ([0.5], [np.nan]),
    ],
)
def test_what_cannot_be_ranked_is_refused(confidence, correct):
    with pytest.raises(ValueError, match=r"confidence|correct"):
        risk_at_coverage(confidence, correct, (1.0,))


@pytest.mark.parametrize("coverage", [0.0, 1.2])
def test_a_coverage_is_a_share_of_the_placements(coverage):
    with pytest.raises(ValueError, match="coverages"):
        risk_at_coverage([0.5], [1], [coverage])


# -- doubt -----------------------------------------------------------------------------------------


def test_doubtful_placements_left_out_and_wrong(birds):
    nodes = np.array([4, 1, 6, 8, 0])
    target = np.array([4, 4, 8, 4, 4])
    doubtful = np.isin(np.arange(5), [1, 3])
    off = nodes == 0
    hp, hr = precision_recall(birds, nodes, target, off_tree=off)
    predictions = Predictions(leaf_information(birds), nodes, target, off)
    found = influence_of_doubt(predictions, doubtful)
    assert found.n == 2
    assert found.without["hp"] == pytest.approx(hp[~doubtful].mean())
    assert found.without["hr"] == pytest.approx(hr[~doubtful].mean())
    # "bird" becomes a wrong child of the root; the fourth is on another branch already, with less
    # than half right.
    assert hp[3] < 0.5
    hp[1] = 0.5
    hr[[1, 3]] = 0.2
    assert found.wrong["hp"] == pytest.approx(hp.mean())
    assert found.wrong["hr"] == pytest.approx(hr.mean())


def test_where_all_or_none_are_doubtful(birds):
    nodes = np.array([4, 1, 6, 8, 0])
    predictions = Predictions(leaf_information(birds), nodes, nodes, nodes < 0)
    every = influence_of_doubt(predictions, [True] * 5)
    assert every.n == 5
    assert every.without is None
    none = influence_of_doubt(predictions, [False] * 5)
    assert none.n == 0
    assert none.without == none.wrong
