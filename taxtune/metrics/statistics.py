"""The bootstrap: intervals of scores, and paired differences between two sets of answers to the same examples.

Examples are resampled with replacement (Efron 1979), and a statistic is computed from the number of draws of each. Even
a large set holds few *distinct* examples, as hP, hR, accuracy and depth depend on three lengths of paths alone; a
resample is then a multinomial draw over those. hF is computed from the resampled means, as in the paper's eq. 3.

Average precision of many labels at once (paper 3, §4.1) has a bootstrap over images of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import is_exact, overlap
from taxtune.metrics.information import Information, information_values
from taxtune.progress import track_each
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "INFORMATION_METRICS",
    "METRICS",
    "SIGNIFICANCE",
    "Interval",
    "PairedDifference",
    "Sample",
    "average_precision",
    "bootstrap",
    "bootstrap_average_precision",
    "hierarchical_sample",
    "information_sample",
    "interval_and_p",
    "paired_bootstrap",
    "percentiles",
    "resample",
    "resample_counts",
]

AnyArray = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Statistic = Callable[[FloatArray], FloatArray]

#: The scores that have intervals, in the order in which they are shown.
METRICS = ("hp", "hr", "hf", "accuracy", "depth")
#: The information-weighted scores that have intervals, in the order in which they are shown.
INFORMATION_METRICS = ("ihp", "ihr", "ihf", "remaining_uncertainty", "misinformation")
#: A difference is significant where its p value lies below.
SIGNIFICANCE = 0.05

_HARMONIC = {"hf": ("hp", "hr"), "ihf": ("ihp", "ihr")}  # harmonic means of two others
_GATHERED = (
    8_000_000  # entries of the table of resampled counts that are gathered for one label at a time
)
_BLOCK = 400_000  # counts drawn at once: so few that they stay in the processor's cache
# Values that differ by less are equal: sums of the same numbers in another order differ in the last digits.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Interval:
    """A score of a set of examples (`estimate`) and the ends of its percentile bootstrap interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference of a score between two sets of answers to the same examples, a minus b.

    `low` and `high` are the ends of its interval, `p_value` is two-sided; see `interval_and_p`.
    """

    difference: float
    low: float
    high: float
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the p value lies below 0.05: whether a 95 % interval excludes 0."""
        return self.p_value < SIGNIFICANCE

    def __neg__(self) -> PairedDifference:
        """The difference b minus a."""
        return PairedDifference(-self.difference, -self.high, -self.low, self.p_value)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The columns that statistics of n examples are computed from: means, quotients of sums, or harmonic means of two.

    Attributes:
        parts: By name, a value of each example, shape (n,). The statistic is Σ parts / n. An example whose value is NaN
            is left out of the mean.
        wholes: By name, shape (n,), divisors: the statistic is Σ parts / Σ wholes; None for means.
        names: The statistics, in order: names of parts, and "hf" or "ihf"; the parts where left out.
        keys: Columns of shape (n,) in which equal examples are alike; resamples are draws of distinct examples, in the
            order of these columns. None to draw the examples one by one, in their own order.
        common: Further columns of that kind which depend on the truth and not on the answers.
    """

    parts: Mapping[str, FloatArray]
    wholes: Mapping[str, FloatArray] | None = None
    names: tuple[str, ...] = ()
    keys: Sequence[AnyArray] | None = None
    common: Sequence[AnyArray] = ()

    @classmethod
    def mean(cls, name: str, values: ArrayLike) -> Sample:
        """A sample of one mean of values of shape (n,), without NaN."""
        column = np.asarray(values, dtype=np.float64)
        return cls({name: column}, keys=(column,))

    @property
    def n(self) -> int:
        """The number of examples."""
        return len(next(iter(self.parts.values())))


def hierarchical_sample(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> Sample:
    """The sample of hP, hR, hF, accuracy and depth (`METRICS`); arguments as for `hierarchical.overlap`."""
    n_predicted, n_shared, n_target = overlap(taxonomy, predicted, target, off_tree=off_tree)
    hp, hr = n_shared / n_predicted, n_shared / n_target
    parts = {"hp": hp, "hr": hr, "accuracy": is_exact(hp, hr).astype(float)}
    return Sample(
        parts | {"depth": n_predicted - 1.0}, None, METRICS, (n_predicted, n_shared), (n_target,)
    )


def information_sample(
    information: Information,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> Sample:
    """The sample of the information-weighted scores (`INFORMATION_METRICS`); see `Information.overlap`."""
    values = information_values(information, predicted, target, off_tree=off_tree)
    means = [name for name in INFORMATION_METRICS if name not in _HARMONIC]
    return Sample(dict(zip(means, values, strict=True)), names=INFORMATION_METRICS, keys=values)


def bootstrap(
    *samples: Sample, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Statistics of examples with percentile bootstrap intervals, all of a sample on the same resamples.

    Args:
        *samples: The samples, n ≥ 1 each; with keys, the order of the examples plays no part.
        resamples: Number of bootstrap resamples; 0 for no intervals, whose ends are then NaN.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Returns:
        The interval of each statistic over the resamples in which it is defined; NaN where it is in none.

    Raises:
        ValueError: If a sample is empty or a setting is out of range.
    """
    intervals: dict[str, Interval] = {}
    for sample in samples:
        _check(sample.n, resamples, confidence, least=0)
        keys = None if sample.keys is None else (*sample.keys, *sample.common)
        rows, counts = _distinct_rows(sample.n, keys)
        statistic = _statistic(sample, rows)
        drawn = resample(statistic, counts, resamples=resamples, seed=seed) if resamples else None
        estimate = statistic(_once(counts))[0]
        for i, name in enumerate(sample.names or sample.parts):
            ends = (np.nan, np.nan) if drawn is None else percentiles(drawn[:, i], confidence)
            intervals[name] = Interval(float(estimate[i]), *ends)
    return intervals


def paired_bootstrap(
    *pairs: tuple[Sample, Sample], resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> dict[str, PairedDifference]:
    """The differences a minus b of statistics, on the same resampled examples, by the test of `interval_and_p`.

    Args:
        *pairs: Samples a and b of the same examples in the same order, with the same statistics; n ≥ 1.
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Raises:
        ValueError: If a sample is empty, two of a pair do not fit together, or a setting is out of range.
    """
    differences: dict[str, PairedDifference] = {}
    for a, b in pairs:
        if a.n != b.n or list(a.parts) != list(b.parts):
            described = [f"{sample.n} examples of {', '.join(sample.parts)}" for sample in (a, b)]
            raise ValueError(f"{described[0]} cannot be paired with {described[1]}")
        _check(a.n, resamples, confidence)
        if len(a.parts) == 1 and a.wholes is None:
            # The difference of two means is a mean of differences, few of which are distinct.
            (name,) = a.parts
            a, b = (
                Sample.mean(name, a.parts[name] - b.parts[name]),
                Sample.mean(name, np.zeros(a.n)),
            )
        keys = None if a.keys is None or b.keys is None else (*a.keys, *b.keys, *a.common)
        rows, counts = _distinct_rows(a.n, keys)
        change = partial(_change, _statistic(a, rows), _statistic(b, rows))
        drawn = resample(change, counts, resamples=resamples, seed=seed)
        estimate = change(_once(counts))[0]
        for i, name in enumerate(a.names or a.parts):
            differs = np.any(
                [_differs(a, b, column)[rows] for column in _HARMONIC.get(name, (name,))], axis=0
            )
            moved = int(differs @ (np.ones(a.n) if isinstance(counts, int) else counts))
            differences[name] = PairedDifference(
                float(estimate[i]), *interval_and_p(drawn[:, i], confidence, moved)
            )
    return differences


def _change(first: Statistic, second: Statistic, drawn: FloatArray) -> FloatArray:
    return first(drawn) - second(drawn)


def resample(
    statistic: Statistic,
    examples: int | IntArray,
    *,
    resamples: int,
    seed: int,
) -> FloatArray:
    """A statistic in each bootstrap resample, shape (resamples, ...): the draws of all intervals.

    Args:
        statistic: From the number of draws of each example, shape (block, examples), the statistics, (block, ...).
        examples: Number of examples n, to draw n of them with replacement; or the number of occurrences of each
            distinct example, to draw as many in all.
        resamples: Number of resamples, at least 1.
        seed: The same seed gives the same draws, and so pairs whatever is computed from them.

    Raises:
        ValueError: If there are no examples or `resamples` is below 1.
    """
    weights = None if isinstance(examples, int) else np.asarray(examples)
    kinds = examples if isinstance(examples, int) else len(examples)
    _check(kinds, resamples)
    rng = np.random.default_rng(seed)
    blocks = []
    step = max(1, _BLOCK // kinds)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        if weights is None:
            drawn = (
                rng.integers(0, kinds, size=(size, kinds)) + np.arange(size)[:, np.newaxis] * kinds
            )
            counts = np.bincount(drawn.ravel(), minlength=size * kinds).reshape(size, kinds)
        else:
            n = int(weights.sum())
            counts = rng.multinomial(n, weights / n, size=size)
        blocks.append(statistic(counts.astype(np.float64)))
    return np.concatenate(blocks)


def percentiles(samples: FloatArray, confidence: float = 0.95) -> tuple[float, float]:
    """The ends of the percentile interval of a statistic from its values (resamples,) that are not NaN; NaN without."""
    defined = samples[np.isfinite(samples)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail]) if defined.size else (np.nan, np.nan)
    return float(low), float(high)


def interval_and_p(
    differences: FloatArray, confidence: float = 0.95, moved: int | None = None
) -> tuple[float, float, float]:
    """The ends of the interval of a resampled difference and its p-value, which always agree; NaN if undefined.

    The p-value of a difference δ is twice the smaller share of resamples in which the difference is at most, or at
    least, δ, with one added to count and total. The interval holds each δ whose p-value is not below 1 - confidence
    (Davison and Hinkley 1997, "Bootstrap methods and their application", §5.3.1). Where m examples differ the p-value
    is at least 2^(1 - m), below which no exchange of a and b can go, and the interval then reaches to 0.

    Args:
        differences: The difference in each resample, shape (resamples,); those where it is NaN are left out.
        confidence: Coverage of the interval, between 0 and 1, both excluded.
        moved: Number of examples that differ; None where it is not known, for no bound on the p-value.
    """
    drawn = np.sort(differences[np.isfinite(differences)])
    if not drawn.size:
        return float("nan"), float("nan"), float("nan")
    drawn[np.abs(drawn) <= _TIE] = 0.0
    level, total = 1 - confidence, len(drawn) + 1
    count = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    p_value = min(1.0, 2 * (1 + count) / total)
    if moved is not None:
        p_value = max(p_value, min(1.0, 2.0 ** (1 - min(moved, 1000))))
    # The first value that the test does not refute; the subtrahend is far above rounding and below a whole number.
    first = max(math.ceil(level * total / 2 - 1 - 1e-9), 1) - 1
    low, high = float(drawn[first]), float(drawn[-1 - first])
    if p_value >= level:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high, p_value


def _check(n: int, resamples: int, confidence: float = 0.95, least: int = 1) -> None:
    if n == 0:
        raise ValueError("there are no examples to score")
    if resamples < least:
        raise ValueError(f"resamples must be at least {least}, not {resamples}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")


def _distinct_rows(n: int, keys: Sequence[AnyArray] | None) -> tuple[IntArray, int | IntArray]:
    """An example of each distinct kind in the order of the keys, and the number of examples of each kind.

    Without keys, all examples and their number.
    """
    if keys is None:
        return np.arange(n), n
    code = np.zeros(n, dtype=np.int64)
    for column in keys:
        _, place = np.unique(column, return_inverse=True)
        # Numbering the rows anew after each column keeps the code small.
        _, code = np.unique(code * (int(place.max()) + 1) + place, return_inverse=True)
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    return first, counts


def _once(examples: int | IntArray) -> FloatArray:
    """The draw that takes every example once, shape (1, examples)."""
    return np.atleast_2d(
        np.ones(examples) if isinstance(examples, int) else examples.astype(np.float64)
    )


def _differs(a: Sample, b: Sample, column: str) -> NDArray[np.bool_]:
    differs: NDArray[np.bool_] = np.abs(a.parts[column] - b.parts[column]) > _TIE
    if a.wholes is not None and b.wholes is not None:
        differs |= a.wholes[column] != b.wholes[column]
    return differs


def _statistic(sample: Sample, rows: IntArray) -> Statistic:
    """The function from the number of draws of each row to the statistics of a sample."""
    parts = np.stack([column[rows] for column in sample.parts.values()], axis=1)
    wholes = None
    if sample.wholes is not None:
        wholes = np.stack([sample.wholes[name][rows] for name in sample.parts], axis=1)
    elif np.isnan(parts).any():
        wholes = (~np.isnan(parts)).astype(np.float64)
        parts = np.nan_to_num(parts)

    def statistic(drawn: FloatArray) -> FloatArray:
        sums = drawn @ parts
        if wholes is None:
            means = sums / drawn[0].sum()  # as many are drawn in each resample
        else:
            below = drawn @ wholes
            means = np.divide(sums, below, out=np.full_like(sums, np.nan), where=below > 0)
        columns = dict(zip(sample.parts, means.T, strict=True))
        for name, (first, second) in _HARMONIC.items():
            if name in sample.names:
                total, twice = (
                    columns[first] + columns[second],
                    2 * columns[first] * columns[second],
                )
                columns[name] = np.divide(twice, total, out=np.zeros_like(total), where=total > 0)
        return np.stack([columns[name] for name in sample.names or sample.parts], axis=1)

    return statistic


# -- average precision -------------------------------------------------------------------------------------------------


def average_precision(scores: ArrayLike, positive: ArrayLike) -> FloatArray:
    """Scikit-learn's average precision of each label, shape (labels,), in (0, 1]; NaN if no image shows it.

    Args:
        scores: The score of each image under each label, shape (images, labels), finite; larger is surer.
        positive: Whether the image shows the label, same shape.
    """
    from sklearn.metrics import average_precision_score

    values, truth = np.asarray(scores), np.asarray(positive, dtype=bool)
    result = np.full(values.shape[1], np.nan)
    for label in track_each(range(values.shape[1]), "labels"):
        if truth[:, label].any():
            result[label] = average_precision_score(truth[:, label], values[:, label])
    return result


def resample_counts(images: int, resamples: int, seed: int) -> NDArray[np.float32]:
    """The number of times each image is drawn in each bootstrap resample, shape (images, resamples)."""
    drawn = resample(
        lambda counts: counts.astype(np.float32), images, resamples=resamples, seed=seed
    )
    return np.ascontiguousarray(drawn.T)


def bootstrap_average_precision(
    scores: ArrayLike, positive: ArrayLike, counts: ArrayLike
) -> FloatArray:
    """The average precision of each label in each bootstrap resample of the images, shape (labels, resamples).

    Copies of an image would raise the precision at its rank, so that the mean over resamples lies 0.6 to 1.7 points
    above the estimate for ten images of a label: to its own precision an image therefore adds itself once. Counts of 1
    give `average_precision`. NaN where a resample holds no image of the label.

    Args:
        scores: As for `average_precision`.
        positive: As for `average_precision`.
        counts: Number of draws of each image in each resample, shape (images, resamples); see `resample_counts`. The
            same counts for two score matrices make their comparison paired.
    """
    values, truth = np.asarray(scores), np.asarray(positive, dtype=bool)
    weights = np.asarray(counts, dtype=np.float32)
    result = np.full((values.shape[1], weights.shape[1]), np.nan)
    step = max(1, _GATHERED // max(1, len(values)))
    for label in track_each(range(values.shape[1]), "labels"):
        order = np.argsort(-values[:, label], kind="stable")
        own = truth[order, label]
        if not own.any():
            continue
        # An image's precision counts all images up to the end of its run of equal scores; what lies between two such
        # ends is summed at once.
        ordered = -values[order, label]
        ends = np.searchsorted(ordered, ordered[own], side="right")
        own_ends = np.searchsorted(ordered[own], ordered[own], side="right") - 1
        cuts, place = np.unique(ends, return_inverse=True)
        for start in range(0, weights.shape[1], step):
            part = slice(start, start + step)
            copies = weights[order[own], part].astype(np.float64)
            sums = np.add.reduceat(weights[order[: cuts[-1]], part], [0, *cuts[:-1]], axis=0)
            above = np.cumsum(sums, axis=0, dtype=np.float64)[place]
            # What is not drawn weighs 0, whatever its precision.
            precision = (np.cumsum(copies, axis=0)[own_ends] - copies + 1) / (above - copies + 1)
            with np.errstate(invalid="ignore"):
                result[label, part] = (copies * precision).sum(axis=0) / copies.sum(axis=0)
    return result
