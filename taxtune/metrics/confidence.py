"""What a confidence is worth.

*Risk at a coverage* is the share of wrong placements among those that the confidence puts first, at
the share of all that is kept (Geifman and El-Yaniv 2017, "Selective classification for deep neural
networks", NeurIPS). *AURC*, the area under this curve, is the mean of the risks of the k most
confident, k = 1 to n (Geifman, Uziel and El-Yaniv 2019, "Bias-reduced uncertainty estimation for
deep neural classifiers", ICLR). The *calibration error* is the mean distance, over bins of the
sorted confidences, from the mean confidence to the share that is right (Naeini, Cooper and
Hauskrecht 2015, "Obtaining well calibrated probabilities using Bayesian binning", AAAI; Guo et al.
2017, "On calibration of modern neural networks", ICML), here in bins of equal mass. Of placements
with the same confidence none comes first: each counts as their mean, the expectation over random
orders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "COVERAGES",
    "aurc_parts",
    "calibration_error",
    "risk_at_coverage",
]

#: The coverages at which studies and benchmarks show the risk.
COVERAGES = (0.2, 0.4, 0.6, 0.8, 1.0)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def risk_at_coverage(
    confidence: ArrayLike, correct: ArrayLike, coverages: Sequence[float] = COVERAGES
) -> list[float]:
    """Returns the risk at each coverage, in [0, 1].

    It is the expected share of wrong placements among the most confident.

    Args:
        confidence: The confidence of each placement, shape (n,), n ≥ 1, larger is surer.
        correct: Whether each is right, or what share of it is, such as its hP; in [0, 1], shape
            (n,).
        coverages: Shares of the placements in (0, 1]; where c n is no whole number, the last one
            counts in part.

    Raises:
        ValueError: If the shapes do not fit, there is no placement, a confidence is NaN or a
            coverage out of range.
    """
    _, right = _ranked(confidence, correct)
    if not all(0 < coverage <= 1 for coverage in coverages):
        raise ValueError(f"coverages must be above 0 and at most 1, not {coverages}")
    kept = np.array(coverages) * len(right)
    wrong_so_far = np.append(0.0, np.cumsum(1 - right))
    counts = np.arange(len(right) + 1)
    wrong = np.interp(kept, counts, wrong_so_far)
    risks: list[float] = (wrong / kept).tolist()
    return risks


def aurc_parts(confidence: ArrayLike, correct: ArrayLike) -> FloatArray:
    """Returns each placement's contribution to the AURC, shape (n,).

    Their mean is the AURC, in [0, 1]. With R(k) the risk of the k most confident, the placement of
    rank r and loss l contributes R(r) + Σ (l - R(k)) / k over k ≥ r, the AURC plus its influence
    (Hampel 1974, "The influence curve and its role in robust estimation", JASA), so that the AURC
    has the noise of a mean. Arguments and errors are those above. Where `correct` is hP, an answer
    that says nothing has no risk: look at hR too.
    """
    _, right = _ranked(confidence, correct)
    rank = np.arange(1, len(right) + 1)
    risk = np.cumsum(1 - right) / rank
    weights = _tail_sums(1 / rank)
    later_risks = _tail_sums(risk / rank)
    by_rank = np.stack([risk, weights, later_risks])
    # Of placements with the same confidence the mean over their ranks.
    group, size = _groups(np.asarray(confidence))
    starts = np.cumsum(size) - size
    sums = np.add.reduceat(by_rank, starts, axis=1)
    own, weight, others = (sums / size)[:, group]
    loss = 1 - np.asarray(correct, dtype=np.float64)
    parts: FloatArray = own + loss * weight - others
    return parts


def _tail_sums(values: FloatArray) -> FloatArray:
    """Returns the sum of each value and all that follow it."""
    return np.cumsum(values[::-1])[::-1]


def calibration_error(confidence: ArrayLike, correct: ArrayLike, bins: int = 10) -> float:
    """Returns the expected calibration error in bins of equal mass, in [0, 1].

    Arguments and errors are those above. Where n is no multiple of the bins, their sizes differ by
    one, and each counts with its size.
    """
    sure, right = _ranked(confidence, correct)
    distance = 0.0
    for gaps in np.array_split(sure - right, bins):
        distance += abs(float(gaps.sum()))
    return distance / len(sure)


def _ranked(confidence: ArrayLike, correct: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Returns the confidences, the highest first, and the mean share that is right at each.

    Both have the shape (n,).
    """
    sure = np.asarray(confidence, dtype=np.float64)
    is_row = sure.ndim == 1 and sure.size > 0
    if not is_row or np.isnan(sure).any():
        raise ValueError(
            "confidence must be numbers of shape (n,), n at least 1, "
            f"not shape {sure.shape} or with NaN"
        )
    right = np.asarray(correct, dtype=np.float64)
    in_range = (right >= 0) & (right <= 1)
    if right.shape != sure.shape or not in_range.all():
        raise ValueError(
            f"correct must be shares in [0, 1] of shape {sure.shape}, "
            f"not of shape {right.shape} or beyond"
        )
    group, size = _groups(sure)
    share = np.bincount(group, right) / size
    order = np.argsort(group, kind="stable")
    return sure[order], share[group[order]]


def _groups(confidence: FloatArray) -> tuple[IntArray, IntArray]:
    """Returns the group of equal confidences that each is in, the surest first, and their sizes."""
    _, group, size = np.unique(-confidence, return_inverse=True, return_counts=True)
    return group, size
