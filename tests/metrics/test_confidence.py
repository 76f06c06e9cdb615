"""Risk at a coverage, the calibration error and what hangs on doubt, against computations of another kind."""

from __future__ import annotations

import itertools

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
    influence_of_doubt,
    risk_at_coverage,
)
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
    expected = [
        np.mean([1 - right[order[:kept]].mean() for order in orders]) for kept in (1, 2, 3, 4, 5)
    ]
    assert risk_at_coverage(sure, right) == pytest.approx(expected)
    for order in orders:
        assert risk_at_coverage(sure[order], right[order]) == pytest.approx(expected)
        assert calibration_error(sure[order], right[order], bins=2) == calibration_error(
            sure, right, bins=2
        )
    # Of one confidence alone the risk is the same at every coverage, and the error the one of the mean.
    assert risk_at_coverage([0.6] * 10, [1] * 7 + [0] * 3) == pytest.approx([0.3] * 5)
    assert calibration_error([0.6] * 10, [1] * 7 + [0] * 3) == pytest.approx(0.1)


def aurc(confidence, correct) -> float:
    return float(aurc_parts(confidence, correct).mean())


def textbook_aurc(sure, lost) -> float:
    """Geifman, Uziel and El-Yaniv's definition as a loop over ranks, for confidences without ties."""
    kept, risks = [], []
    for i in sorted(range(len(sure)), key=lambda i: -sure[i]):
        kept.append(lost[i])
        risks.append(sum(kept) / len(kept))
    return sum(risks) / len(risks)


#: Confidences on a coarse grid, so that some are the same, each with a share that is right.
RANKED = st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1)), min_size=1, max_size=6)


def test_aurc_is_the_textbooks() -> None:
    rng = np.random.default_rng(5)
    sure, right = rng.permutation(np.linspace(0.01, 0.99, 333)), rng.random(333)
    assert aurc(sure, right) == pytest.approx(textbook_aurc(sure, 1 - right), abs=1e-9)


@given(RANKED)
def test_aurc_with_ties_is_the_mean_over_every_order(ranked) -> None:
    sure, right = np.array(ranked).T
    orders = [
        o for o in itertools.permutations(range(len(sure))) if (np.diff(sure[list(o)]) <= 0).all()
    ]
    # A textbook's AURC of each order in which the tied ones may come.
    every = [textbook_aurc(-np.arange(len(sure)), 1 - right[list(o)]) for o in orders]
    assert aurc(sure, right) == pytest.approx(np.mean(every), abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), min_size=1, max_size=40))
def test_what_aurc_is_and_is_not_moved_by(ranked) -> None:
    sure, right = np.array(ranked).T
    area = aurc(sure, right)
    assert -1e-12 <= area <= 1 + 1e-12
    assert aurc(np.exp(sure) - 7, right) == pytest.approx(area)
    assert aurc(right, right) <= area + 1e-12 <= aurc(-right, right) + 2e-12
    assert risk_at_coverage(sure, right)[-1] == pytest.approx(1 - right.mean())


def test_the_parts_of_the_aurc_have_its_noise() -> None:
    rng = np.random.default_rng(8)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        sure = rng.random(n).round(2)
        return sure, (rng.random(n) < sure).astype(float)

    areas = [aurc(*draw(300)) for _ in range(2000)]
    spread = np.mean([aurc_parts(*draw(300)).std() for _ in range(100)]) / 300**0.5
    assert spread == pytest.approx(np.std(areas), rel=0.08)
    # Leaving an image out changes the area as its part says.
    sure, right = draw(500)
    without = [aurc(np.delete(sure, i), np.delete(right, i)) for i in range(500)]
    pseudo = 500 * aurc(sure, right) - 499 * np.array(without)
    assert np.corrcoef(pseudo, aurc_parts(sure, right))[0, 1] > 0.99


@pytest.mark.parametrize(
    ("confidence", "correct", "coverages"),
    [([], [], (1.0,)), ([0.5, np.nan], [1, 0], (1.0,)), ([0.5], [1, 0], (1.0,)), ([0.5], [1], (0.0,)),
     ([0.5], [1], (1.2,)), ([0.5], [2], (1.0,)), ([0.5], [np.nan], (1.0,))],
)  # fmt: skip
def test_what_cannot_be_ranked_is_refused(confidence, correct, coverages) -> None:
    with pytest.raises(ValueError, match=r"confidence|correct|coverages"):
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
    wrong = {
        "hp": np.mean([hp[0], 0.5, hp[2], hp[3], hp[4]]),
        "hr": np.mean([hr[0], 0.2, hr[2], 0.2, hr[4]]),
    }
    assert found.wrong == pytest.approx(wrong)
    assert influence_of_doubt(birds, nodes, target, np.ones(5, dtype=bool)).without is None
    none = influence_of_doubt(birds, nodes, target, np.zeros(5, dtype=bool))
    assert (none.n, none.without) == (0, none.wrong)
