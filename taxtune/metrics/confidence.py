"""What the mapper's confidence is worth, and what hangs on the placements that it doubts.

*Risk at a coverage* is the share of wrong placements among those that the confidence puts first, at the share of all
that is kept (Geifman and El-Yaniv 2017, "Selective classification for deep neural networks", NeurIPS). The *calibration
error* is the mean distance, over bins of the sorted confidences, from the mean confidence to the share that is right
(Naeini, Cooper and Hauskrecht 2015, "Obtaining well calibrated probabilities using Bayesian binning", AAAI; Guo et al.
2017, "On calibration of modern neural networks", ICML), here in bins of equal mass. Of placements with the same
confidence none comes first: each counts as their mean, the expectation over random orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import flags, precision_recall
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["COVERAGES", "Doubt", "calibration_error", "influence_of_doubt", "risk_at_coverage"]

#: The coverages at which studies and benchmarks show the risk.
COVERAGES = (0.2, 0.4, 0.6, 0.8, 1.0)

FloatArray = NDArray[np.float64]


def risk_at_coverage(confidence: ArrayLike, correct: ArrayLike, coverages: Sequence[float] = COVERAGES) -> list[float]:
    """Returns the risk at each coverage, in [0, 1]: the expected share of wrong ones among the most confident.

    Args:
        confidence: The confidence of each placement, shape (n,), n ≥ 1, larger is surer.
        correct: Whether each is right, shape (n,).
        coverages: Shares of the placements in (0, 1]; where c n is no whole number, the last one counts in part.

    Raises:
        ValueError: If the shapes do not fit, there is no placement, a confidence is NaN or a coverage out of range.
    """
    _, right = _ranked(confidence, correct)
    if not all(0 < coverage <= 1 for coverage in coverages):
        raise ValueError(f"coverages must be above 0 and at most 1, not {coverages}")
    kept = np.array(coverages) * len(right)
    wrong = np.interp(kept, np.arange(len(right) + 1), np.append(0.0, np.cumsum(1 - right)))
    return [float(risk) for risk in wrong / kept]


def calibration_error(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> float:
    """Returns the expected calibration error in bins of equal mass, in [0, 1]; arguments and errors as above.

    Where n is no multiple of the bins, their sizes differ by one, and each counts with its size.
    """
    sure, right = _ranked(confidence, correct)
    parts = zip(np.array_split(sure, bins), np.array_split(right, bins), strict=True)
    return float(sum(abs(float((said - true).sum())) for said, true in parts)) / len(sure)


def _ranked(confidence: ArrayLike, correct: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Returns the confidences, the highest first, and the share that is right at each, shape (n,) both."""
    sure = np.asarray(confidence, dtype=np.float64)
    if sure.ndim != 1 or not sure.size or np.isnan(sure).any():
        raise ValueError(f"confidence must be numbers of shape (n,), n at least 1, not shape {sure.shape} or with NaN")
    right = flags(correct, sure.size)
    _, group, size = np.unique(-sure, return_inverse=True, return_counts=True)
    share = np.bincount(group, right) / size
    order = np.argsort(group, kind="stable")
    return sure[order], share[group[order]]


@dataclass(frozen=True, slots=True)
class Doubt:
    """What hangs on doubtful placements.

    Attributes:
        n: Number of doubtful placements.
        wrong: hP and hR, by "hp" and "hr", if all of them are wrong.
        without: hP and hR of the others; None where there are none.
    """

    n: int
    wrong: dict[str, float] = field(hash=False)
    without: dict[str, float] | None = field(default=None, hash=False)


def influence_of_doubt(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    doubtful: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> Doubt:
    """Returns hP and hR with the doubtful placements wrong, and without them.

    A wrong one counts as a child of the root that is never right, and as it is where that is less.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        doubtful: Which placements are doubtful, shape (n,).
        off_tree: See `overlap`.
    """
    plain = np.stack(precision_recall(taxonomy, predicted, target, off_tree=off_tree))
    unsure = flags(doubtful, plain.shape[1])
    lowest = np.stack(precision_recall(taxonomy, predicted, target, off_tree=np.ones_like(unsure)))

    def means(scores: FloatArray) -> dict[str, float]:
        return {"hp": float(scores[0].mean()), "hr": float(scores[1].mean())}

    wrong = means(np.where(unsure, np.minimum(plain, lowest), plain))
    return Doubt(int(unsure.sum()), wrong, None if unsure.all() else means(plain[:, ~unsure]))
