"""Risk at a coverage, the calibration error and what hangs on doubt, against computations of another kind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.calibration import calibration_curve

from taxtune.metrics import precision_recall
from taxtune.metrics.confidence import COVERAGES, calibration_error, influence_of_doubt, risk_at_coverage
from taxtune.taxonomy import Taxonomy


def test_without_ties_both_are_what_they_are_by_hand_and_by_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    sure = rng.permutation(np.linspace(0.01, 0.99, 400))
    right = rng.random(400) < sure**1.5
    order = np.argsort(-sure)
    by_hand = [1 - right[order[: round(c * 400)]].mean() for c in COVERAGES]
    assert risk_at_coverage(sure, right) == pytest.approx(by_hand)
    true, said = calibration_curve(right, sure, n_bins=10, strategy="quantile")
    assert calibration_error(sure, right) == pytest.approx(np.abs(true - said).mean())
    # Sizes that differ by one, each bin with its own size.
    bins = np.array_split(np.argsort(-sure[:57]), 10)
    gaps = [abs(sure[some].mean() - right[some].mean()) * len(some) / 57 for some in bins]
    assert calibration_error(sure[:57], right[:57]) == pytest.approx(sum(gaps))


def test_ties_count_as_the_mean_over_all_their_orders() -> None:
    sure, right = np.array([0.9, 0.7, 0.7, 0.7, 0.2]), np.array([1, 1, 0, 0, 1])
    orders = [[0, *middle, 4] for middle in itertools.permutations([1, 2, 3])]
    expected = [np.mean([1 - right[order[:kept]].mean() for order in orders]) for kept in (1, 2, 3, 4, 5)]
    assert risk_at_coverage(sure, right) == pytest.approx(expected)
    for order in orders:
        assert risk_at_coverage(sure[order], right[order]) == pytest.approx(expected)
        assert calibration_error(sure[order], right[order], bins=2) == calibration_error(sure, right, bins=2)
    # Of one confidence alone the risk is the same at every coverage, and the error the one of the mean.
    assert risk_at_coverage([0.6] * 10, [1] * 7 + [0] * 3) == pytest.approx([0.3] * 5)
    assert calibration_error([0.6] * 10, [1] * 7 + [0] * 3) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("confidence", "correct", "coverages"),
    [([], [], (1.0,)), ([0.5, np.nan], [1, 0], (1.0,)), ([0.5], [1, 0], (1.0,)), ([0.5], [1], (0.0,)),
     ([0.5], [1], (1.2,)), ([0.5], [2], (1.0,))],
)  # fmt: skip
def test_what_cannot_be_ranked_is_refused(confidence, correct, coverages) -> None:
    with pytest.raises(ValueError, match=r"confidence|flags|coverages"):
        risk_at_coverage(confidence, correct, coverages)


def test_doubtful_placements_left_out_and_wrong(birds: Taxonomy) -> None:
    nodes, target = np.array([4, 1, 6, 8, 0]), np.array([4, 4, 8, 4, 4])
    doubtful = np.array([False, True, False, True, False])
    off = np.array([False, False, False, False, True])
    hp, hr = precision_recall(birds, nodes, target, off_tree=off)
    found = influence_of_doubt(birds, nodes, target, doubtful, off_tree=off)
    assert found.n == 2
    assert found.without == pytest.approx({"hp": hp[~doubtful].mean(), "hr": hr[~doubtful].mean()})
    # "bird" becomes a wrong child of the root; the fourth is on another branch already, with less than half right.
    assert hp[3] < 0.5
    wrong = {"hp": np.mean([hp[0], 0.5, hp[2], hp[3], hp[4]]), "hr": np.mean([hr[0], 0.2, hr[2], 0.2, hr[4]])}
    assert found.wrong == pytest.approx(wrong)
    assert influence_of_doubt(birds, nodes, target, np.ones(5, dtype=bool)).without is None
    none = influence_of_doubt(birds, nodes, target, np.zeros(5, dtype=bool))
    assert (none.n, none.without) == (0, none.wrong)
