"""Bootstrap intervals of the scores, and paired differences between two sets of placements on the same examples.

The examples are resampled with replacement. An example's hP, hR, accuracy and depth depend on nothing but the lengths
of its two paths and of what they share (`overlap`), so that even a large set holds few *distinct* examples. A bootstrap
resample is a multinomial draw over those, which is the same distribution as drawing n row numbers and, for a million
examples, some thousands of times less work. hF is computed from the resampled means, as in the paper's eq. 3. The
information-weighted scores are treated in the same way, with bits in the place of lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import overlap
from taxtune.metrics.information import Information, information_values
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "INFORMATION_METRICS",
    "METRICS",
    "Interval",
    "PairedDifference",
    "bootstrap_information",
    "bootstrap_mean",
    "bootstrap_ratios",
    "bootstrap_scores",
    "paired_bootstrap",
    "paired_information",
    "paired_mean",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: The scores that have intervals, in the order in which they are shown.
METRICS = ("hp", "hr", "hf", "accuracy", "depth")
#: The information-weighted scores that have intervals, in the order in which they are shown.
INFORMATION_METRICS = ("ihp", "ihr", "ihf", "remaining_uncertainty", "misinformation")

# Where F stands among them, behind the precision and the recall that it is made of.
_F = 2
# Draws are made in chunks of about this many counts, to bound the memory at some tens of megabytes.
_CHUNK = 2_000_000
# Means that differ by less are equal: sums of the same numbers in another order differ in the last digits.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Interval:
    """A score and its percentile bootstrap interval.

    Attributes:
        estimate: The score of the examples themselves.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference of a score between two sets of placements of the same examples, a minus b.

    Attributes:
        difference: The difference on the examples themselves.
        low: Lower end of its percentile bootstrap interval.
        high: Upper end of its percentile bootstrap interval.
        p_value: Two-sided, in (0, 1]: see `paired_bootstrap`.
    """

    difference: float
    low: float
    high: float
    p_value: float


def bootstrap_scores(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Returns hP, hR, hF, accuracy and mean placed depth with percentile bootstrap intervals.

    The result depends on the examples and the seed alone, not on the order of the examples.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        off_tree: Which answers count as a child of the root that is never right, shape (n,); see `score`.
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Returns:
        An interval for each of `METRICS`.

    Raises:
        ValueError: If there are no examples, shapes differ, a node number is not on the tree, or a setting is out of
            range.
    """
    columns = overlap(taxonomy, predicted, target, off_tree=off_tree)
    _check_settings(columns[0].size, resamples, confidence)
    kinds, counts = _distinct(columns)
    return _bootstrapped(METRICS, _values(*kinds), counts, resamples, confidence, seed)


def bootstrap_information(
    information: Information,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """Returns the information-weighted scores with percentile bootstrap intervals; see `bootstrap_scores`.

    Args:
        information: What the nodes weigh.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        off_tree: Which answers count as a child of the root that is never right, shape (n,).
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Returns:
        An interval for each of `INFORMATION_METRICS`.

    Raises:
        ValueError: If there are no examples, shapes differ, a node number is not on the tree, or a setting is out of
            range.
    """
    values = np.stack(information_values(information, predicted, target, off_tree=off_tree), axis=1)
    _check_settings(len(values), resamples, confidence)
    kinds, counts = np.unique(values, axis=0, return_counts=True)
    return _bootstrapped(INFORMATION_METRICS, kinds, counts, resamples, confidence, seed)


def paired_bootstrap(
    taxonomy: Taxonomy,
    predicted_a: ArrayLike,
    predicted_b: ArrayLike,
    target: ArrayLike,
    *,
    off_tree_a: ArrayLike | None = None,
    off_tree_b: ArrayLike | None = None,
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, PairedDifference]:
    """Returns the differences a minus b of all scores, both scored on the same resampled examples.

    The p-value is twice the smaller share of resamples in which the difference is at most, or at least, zero, with one
    added to count and total, so that it is never 0. Nor is it smaller than 2^(1 - m), where m examples differ between
    a and b: no exact test of exchanging a and b could go below that, and without the bound a single example would
    seem significant.

    Args:
        taxonomy: The tree.
        predicted_a: Node numbers, shape (n,), n ≥ 1.
        predicted_b: Node numbers of the other set for the same examples, shape (n,).
        target: Node numbers, shape (n,).
        off_tree_a: Which answers of the first set count as a child of the root that is never right, shape (n,).
        off_tree_b: Which of the other set do.
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Returns:
        A paired difference for each of `METRICS`.

    Raises:
        ValueError: If there are no examples, shapes differ, a node number is not on the tree, or a setting is out of
            range.
    """
    said_a, shared_a, wanted = overlap(taxonomy, predicted_a, target, off_tree=off_tree_a)
    said_b, shared_b, _ = overlap(taxonomy, predicted_b, target, off_tree=off_tree_b)
    _check_settings(wanted.size, resamples, confidence)
    kinds, counts = _distinct((said_a, shared_a, said_b, shared_b, wanted))
    values_a, values_b = _values(kinds[0], kinds[1], kinds[4]), _values(kinds[2], kinds[3], kinds[4])
    return _paired(METRICS, values_a, values_b, counts, resamples, confidence, seed)


def paired_information(
    information: Information,
    predicted_a: ArrayLike,
    predicted_b: ArrayLike,
    target: ArrayLike,
    *,
    off_tree_a: ArrayLike | None = None,
    off_tree_b: ArrayLike | None = None,
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, PairedDifference]:
    """Returns the differences a minus b of the information-weighted scores; see `paired_bootstrap`.

    Args:
        information: What the nodes weigh.
        predicted_a: Node numbers, shape (n,), n ≥ 1.
        predicted_b: Node numbers of the other set for the same examples, shape (n,).
        target: Node numbers, shape (n,).
        off_tree_a: Which answers of the first set count as a child of the root that is never right, shape (n,).
        off_tree_b: Which of the other set do.
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Returns:
        A paired difference for each of `INFORMATION_METRICS`.

    Raises:
        ValueError: If there are no examples, shapes differ, a node number is not on the tree, or a setting is out of
            range.
    """
    values_a = np.stack(information_values(information, predicted_a, target, off_tree=off_tree_a), axis=1)
    values_b = np.stack(information_values(information, predicted_b, target, off_tree=off_tree_b), axis=1)
    _check_settings(len(values_a), resamples, confidence)
    kinds, counts = np.unique(np.concatenate([values_a, values_b], axis=1), axis=0, return_counts=True)
    width = values_a.shape[1]
    return _paired(INFORMATION_METRICS, kinds[:, :width], kinds[:, width:], counts, resamples, confidence, seed)


def bootstrap_ratios(
    parts: ArrayLike, wholes: ArrayLike, *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> list[Interval | None]:
    """Returns quotients of sums, Σ parts / Σ wholes, with percentile bootstrap intervals, all on the same resamples.

    Args:
        parts: What is counted of each example for each quotient, shape (n, quotients), n ≥ 1.
        wholes: Out of how many, same shape; at least as many.
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Returns:
        An interval for each quotient, over the resamples in which it is defined; None where Σ wholes is 0.

    Raises:
        ValueError: If there are no examples, the shapes differ or a setting is out of range.
    """
    above, below = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)
    if above.ndim != 2 or above.shape != below.shape:
        raise ValueError(f"parts have shape {above.shape}, wholes {below.shape}; both must be (n, quotients)")
    _check_settings(len(above), resamples, confidence)
    kinds, counts = np.unique(np.concatenate([above, below], axis=1), axis=0, return_counts=True)
    means = _resampled_means(kinds, counts, resamples, seed)
    width = above.shape[1]
    found: list[Interval | None] = []
    for i, (part, whole) in enumerate(zip(above.sum(axis=0), below.sum(axis=0), strict=True)):
        if whole == 0:
            found.append(None)
            continue
        drawn = means[:, width + i] > 0
        ratios = means[drawn, i] / means[drawn, width + i]
        # Where few examples count, no resample may have drawn one: then nothing is known of the spread.
        low, high = _percentiles(ratios, confidence) if drawn.any() else (0.0, 1.0)
        found.append(Interval(float(part / whole), float(low), float(high)))
    return found


def bootstrap_mean(values: ArrayLike, *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0) -> Interval:
    """Returns the mean of scores with a percentile bootstrap interval, as `bootstrap_scores` does for hP.

    Args:
        values: Scores, shape (n,), n ≥ 1, without NaN.
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the interval, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Raises:
        ValueError: If there are no scores or a setting is out of range.
    """
    given = np.asarray(values, dtype=np.float64)
    _check_settings(given.size, resamples, confidence)
    kinds, counts = np.unique(given, return_counts=True)
    low, high = _percentiles(_resampled_means(kinds[:, np.newaxis], counts, resamples, seed), confidence)
    return Interval(float(given.mean()), float(low[0]), float(high[0]))


def paired_mean(
    values_a: ArrayLike,
    values_b: ArrayLike,
    *,
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedDifference:
    """Returns the difference of two means over the same examples, as `paired_bootstrap` does for hP.

    Args:
        values_a: Scores, shape (n,), n ≥ 1, without NaN.
        values_b: The other scores of the same examples, shape (n,).
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the interval, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Raises:
        ValueError: If there are no scores, the shapes differ or a setting is out of range.
    """
    change = np.asarray(values_a, dtype=np.float64) - np.asarray(values_b, dtype=np.float64)
    _check_settings(change.size, resamples, confidence)
    kinds, counts = np.unique(change, return_counts=True)
    differences = _resampled_means(kinds[:, np.newaxis], counts, resamples, seed)[:, 0]
    low, high = _percentiles(differences[:, np.newaxis], confidence)
    p_value = _p_value(differences, int((np.abs(change) > _TIE).sum()))
    return PairedDifference(float(change.mean()), float(low[0]), float(high[0]), p_value)


def _p_value(differences: FloatArray, moved: int) -> float:
    """Returns the two-sided p-value of resampled differences; see `paired_bootstrap`."""
    at_most, at_least = (differences <= _TIE).sum(), (differences >= -_TIE).sum()
    p_value = min(1.0, 2 * (1 + int(min(at_most, at_least))) / (len(differences) + 1))
    return max(p_value, min(1.0, 2.0 ** (1 - min(moved, 1000))))


def _check_settings(n: int, resamples: int, confidence: float) -> None:
    if n == 0:
        raise ValueError("there are no examples to score")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")


def _distinct(columns: tuple[IntArray, ...]) -> tuple[tuple[IntArray, ...], IntArray]:
    """Returns the distinct rows of equally long columns, in ascending order, and how often each occurs."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        # Numbering the rows anew after each column keeps the code below n times the height of the tree.
        _, code = np.unique(code * (int(column.max()) + 1) + column, return_inverse=True)
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    return tuple(column[first] for column in columns), counts


def _values(said: IntArray, shared: IntArray, wanted: IntArray) -> FloatArray:
    """Returns hP, hR, accuracy and depth of each kind of example, shape (kinds, 4)."""
    exact = (said == shared) & (shared == wanted)
    return np.stack([shared / said, shared / wanted, exact, said - 1], axis=1).astype(np.float64)


def _resampled_means(values: FloatArray, counts: IntArray, resamples: int, seed: int) -> FloatArray:
    """Returns the means over bootstrap resamples, shape (resamples, columns of values)."""
    rng = np.random.default_rng(seed)
    n = int(counts.sum())
    means = np.empty((resamples, values.shape[1]))
    step = max(1, _CHUNK // len(counts))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        means[start:stop] = rng.multinomial(n, counts / n, size=stop - start) @ values / n
    return means


def _bootstrapped(
    names: Sequence[str], values: FloatArray, counts: IntArray, resamples: int, confidence: float, seed: int
) -> dict[str, Interval]:
    """Returns an interval a name from the columns (precision, recall, ...) of each kind of example, F added."""
    low, high = _percentiles(_with_f(_resampled_means(values, counts, resamples, seed)), confidence)
    estimate = _with_f((counts @ values / counts.sum())[np.newaxis])[0]
    return {name: Interval(float(estimate[i]), float(low[i]), float(high[i])) for i, name in enumerate(names)}


def _paired(
    names: Sequence[str],
    values_a: FloatArray,
    values_b: FloatArray,
    counts: IntArray,
    resamples: int,
    confidence: float,
    seed: int,
) -> dict[str, PairedDifference]:
    """Returns a paired difference a name from the columns of each kind of example in both sets, F added."""
    # One draw for both sets is what makes the comparison paired.
    means = _resampled_means(np.concatenate([values_a, values_b], axis=1), counts, resamples, seed)
    width = values_a.shape[1]
    differences = _with_f(means[:, :width]) - _with_f(means[:, width:])
    low, high = _percentiles(differences, confidence)
    total = counts.sum()
    estimate = (_with_f((counts @ values_a / total)[np.newaxis]) - _with_f((counts @ values_b / total)[np.newaxis]))[0]
    differing = np.abs(values_a - values_b) > _TIE
    # F moves where precision or recall does.
    differing = np.insert(differing, _F, differing[:, 0] | differing[:, 1], axis=1)
    moved = counts @ differing
    return {
        name: PairedDifference(
            float(estimate[i]), float(low[i]), float(high[i]), _p_value(differences[:, i], int(moved[i]))
        )
        for i, name in enumerate(names)
    }


def _with_f(means: FloatArray) -> FloatArray:
    """Inserts the harmonic mean of the first two columns, precision and recall, behind them; 0 where both are 0."""
    total = means[:, 0] + means[:, 1]
    twice = 2 * means[:, 0] * means[:, 1]
    return np.insert(means, _F, np.divide(twice, total, out=np.zeros_like(total), where=total > 0), axis=1)


def _percentiles(samples: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(samples, [tail, 1 - tail], axis=0)
    return low, high
