"""The bootstrap: intervals of scores, and paired differences between two sets of answers.

Examples are resampled with replacement (Efron 1979), and a statistic is computed from the number of
draws of each. Even a large set holds few *distinct* examples, as hP, hR, accuracy and depth depend
on three lengths of paths alone; a resample is then a multinomial draw over those. hF is computed
from the resampled means, as in the paper's eq. 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import is_exact, overlap
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "INFORMATION_METRICS",
    "METRICS",
    "SIGNIFICANCE",
    "Interval",
    "PairedDifference",
    "Sample",
    "bootstrap",
    "hierarchical_sample",
    "interval_and_p",
    "paired_bootstrap",
    "percentiles",
    "resample",
]

AnyArray = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
#: From the number of draws of each example, shape (block, examples), the statistics, (block, ...).
Statistic = Callable[[FloatArray], FloatArray]

#: The scores that have intervals, in the order in which they are shown.
METRICS = ("hp", "hr", "hf", "accuracy", "depth")
#: The information-weighted scores that have intervals, in the order in which they are shown.
INFORMATION_METRICS = ("ihp", "ihr", "ihf", "remaining_uncertainty", "misinformation")
#: A difference is significant where its p value lies below.
SIGNIFICANCE = 0.05

# Harmonic means of two other statistics.
_HARMONIC = {"hf": ("hp", "hr"), "ihf": ("ihp", "ihr")}
# Counts drawn at once: so few that they stay in the processor's cache.
_BLOCK = 400_000
# Values that differ by less are equal: sums of the same numbers in another order differ in the last
# digits.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Interval:
    """A score of a set of examples (`estimate`) and the ends of its percentile interval."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The columns that statistics of n examples are computed from.

    Statistics are means, quotients of sums, or harmonic means of two others.

    Attributes:
        parts: By name, a value of each example, shape (n,). The statistic is Σ parts / n. An
            example whose value is NaN is left out of the mean.
        wholes: By name, shape (n,), divisors: the statistic is Σ parts / Σ wholes; None for means.
        names: The statistics, in order: names of parts, and "hf" or "ihf"; the parts where left
            out.
        keys: Columns of shape (n,) in which equal examples are alike; resamples are draws of
            distinct examples, in the order of these columns. None to draw the examples one by one,
            in their own order.
        rest: Further columns of that kind, which come after the keys of all samples.
    """

    parts: Mapping[str, FloatArray]
    wholes: Mapping[str, FloatArray] | None = None
    names: tuple[str, ...] = ()
    keys: Sequence[AnyArray] | None = None
    rest: Sequence[AnyArray] = ()

    @classmethod
    def mean(cls, name: str, values: ArrayLike) -> Sample:
        """Returns a sample of one mean of values of shape (n,), without NaN."""
        column = np.asarray(values, dtype=np.float64)
        return cls(parts={name: column}, keys=(column,))

    @property
    def n(self) -> int:
        """The number of examples."""
        return len(next(iter(self.parts.values())))

    @property
    def statistics(self) -> tuple[str, ...]:
        """The names of the statistics, in order."""
        return self.names or tuple(self.parts)


def hierarchical_sample(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> Sample:
    """Returns the sample of hP, hR, hF, accuracy and depth (`METRICS`).

    The arguments are those of `hierarchical.overlap`.
    """
    n_predicted, n_shared, n_target = overlap(taxonomy, predicted, target, off_tree=off_tree)
    hp = n_shared / n_predicted
    hr = n_shared / n_target
    accuracy = is_exact(hp, hr).astype(float)
    depth = n_predicted - 1.0
    parts = {"hp": hp, "hr": hr, "accuracy": accuracy, "depth": depth}
    keys = (n_predicted, n_shared)
    return Sample(parts=parts, names=METRICS, keys=keys, rest=[n_target])


def bootstrap(
    *samples: Sample, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> dict[str, Interval]:
    """Returns statistics of examples with percentile intervals, each sample on the same resamples.

    Args:
        *samples: The samples, n ≥ 1 each; with keys, the order of the examples plays no part.
        resamples: Number of bootstrap resamples; 0 for no intervals, whose ends are then NaN.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Returns:
        The interval of each statistic over the resamples in which it is defined; NaN where it is in
        none.

    Raises:
        ValueError: If a sample is empty or a setting is out of range.
    """
    intervals: dict[str, Interval] = {}
    for sample in samples:
        _check(sample.n, resamples, confidence, least=0)
        examples = _Examples.of(sample)
        statistic = _statistic(sample, examples.rows)
        estimate = examples.estimate(statistic)
        drawn = np.empty((0, len(estimate)))
        if resamples:
            drawn = resample(statistic, examples.drawn, resamples=resamples, seed=seed)
        for name, value, values in zip(sample.statistics, estimate, drawn.T, strict=True):
            low, high = percentiles(values, confidence)
            intervals[name] = Interval(estimate=float(value), low=low, high=high)
    return intervals


def paired_bootstrap(
    *pairs: tuple[Sample, Sample], resamples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> dict[str, PairedDifference]:
    """Returns the differences a minus b of statistics, on the same resampled examples.

    The test is that of `interval_and_p`.

    Args:
        *pairs: Samples a and b of the same examples in the same order, with the same statistics;
            n ≥ 1.
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Raises:
        ValueError: If a sample is empty, two of a pair do not fit together, or a setting is out of
            range.
    """
    differences: dict[str, PairedDifference] = {}
    for a, b in pairs:
        is_pair = a.n == b.n and list(a.parts) == list(b.parts)
        if not is_pair:
            raise ValueError(f"{_described(a)} cannot be paired with {_described(b)}")
        _check(a.n, resamples, confidence)
        differences |= _paired_differences(a, b, resamples, confidence, seed)
    return differences


def _described(sample: Sample) -> str:
    return f"{sample.n} examples of {', '.join(sample.parts)}"


def _paired_differences(
    a: Sample, b: Sample, resamples: int, confidence: float, seed: int
) -> dict[str, PairedDifference]:
    if len(a.parts) == 1 and a.wholes is None:
        # The difference of two means is a mean of differences, few of which are distinct.
        (name,) = a.parts
        differences = a.parts[name] - b.parts[name]
        a = Sample.mean(name, differences)
        b = Sample.mean(name, np.zeros(a.n))
    examples = _Examples.of(a, b)
    of_a = _statistic(a, examples.rows)
    of_b = _statistic(b, examples.rows)

    def change(drawn: FloatArray) -> FloatArray:
        return of_a(drawn) - of_b(drawn)

    estimate = examples.estimate(change)
    drawn = resample(change, examples.drawn, resamples=resamples, seed=seed)
    paired = {}
    for name, value, values in zip(a.statistics, estimate, drawn.T, strict=True):
        differs = np.zeros(a.n, dtype=bool)
        columns = (name,) if name in a.parts else _HARMONIC[name]
        for column in columns:
            differs |= _differs(a, b, column)
        moved = int(differs[examples.rows] @ examples.counts)
        low, high, p_value = interval_and_p(values, confidence, moved)
        difference = float(value)
        paired[name] = PairedDifference(difference, low=low, high=high, p_value=p_value)
    return paired


def resample(
    statistic: Statistic,
    examples: int | IntArray,
    *,
    resamples: int,
    seed: int,
) -> FloatArray:
    """Returns a statistic in each bootstrap resample, shape (resamples, ...).

    These are the draws of all intervals.

    Args:
        statistic: From the number of draws of each example, shape (block, examples), the
            statistics, (block, ...).
        examples: Number of examples n, to draw n of them with replacement; or the number of
            occurrences of each distinct example, to draw as many in all.
        resamples: Number of resamples, at least 1.
        seed: The same seed gives the same draws, and so pairs whatever is computed from them.

    Raises:
        ValueError: If there are no examples or `resamples` is below 1.
    """
    n_distinct = examples if isinstance(examples, int) else len(examples)
    _check(n_distinct, resamples)
    rng = np.random.default_rng(seed)
    blocks = []
    step = max(1, _BLOCK // n_distinct)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        if isinstance(examples, int):
            counts = _draw_examples(rng, examples, size)
        else:
            n = int(examples.sum())
            counts = rng.multinomial(n, examples / n, size=size)
        blocks.append(statistic(counts.astype(np.float64)))
    return np.concatenate(blocks)


def _draw_examples(rng: np.random.Generator, n: int, resamples: int) -> IntArray:
    """Returns the number of draws of each of n examples, shape (resamples, n)."""
    drawn = rng.integers(0, n, size=(resamples, n))
    drawn += np.arange(resamples)[:, np.newaxis] * n
    counts = np.bincount(drawn.ravel(), minlength=resamples * n)
    return counts.reshape(resamples, n)


def percentiles(samples: FloatArray, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the ends of the percentile interval of a statistic from its values (resamples,).

    Values that are NaN are left out; the ends are NaN without any.
    """
    defined = samples[np.isfinite(samples)]
    if not defined.size:
        return math.nan, math.nan
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)


def interval_and_p(
    differences: FloatArray, confidence: float = 0.95, moved: int | None = None
) -> tuple[float, float, float]:
    """Returns the ends of the interval of a resampled difference and its p-value.

    They always agree, and are NaN if undefined. The p-value of a difference δ is twice the smaller
    share of resamples in which the difference is at most, or at least, δ, with one added to count
    and total. The interval holds each δ whose p-value is not below 1 - confidence (Davison and
    Hinkley 1997, "Bootstrap methods and their application", §5.3.1). Where m examples differ the
    p-value is at least 2^(1 - m), below which no exchange of a and b can go, and the interval then
    reaches to 0.

    Args:
        differences: The difference in each resample, shape (resamples,); those where it is NaN are
            left out.
        confidence: Coverage of the interval, between 0 and 1, both excluded.
        moved: Number of examples that differ; None where it is not known, for no bound on the
            p-value.
    """
    drawn = np.sort(differences[np.isfinite(differences)])
    if not drawn.size:
        return math.nan, math.nan, math.nan
    drawn[np.abs(drawn) <= _TIE] = 0.0
    level = 1 - confidence
    total = len(drawn) + 1
    not_above = int((drawn <= 0).sum())
    not_below = int((drawn >= 0).sum())
    count = min(not_above, not_below)
    p_value = min(1.0, 2 * (1 + count) / total)
    if moved is not None:
        least = 2.0 ** (1 - min(moved, 1000))
        p_value = max(p_value, min(1.0, least))
    # The first value that the test does not refute; the subtrahend is far above rounding and below
    # a whole number.
    place = math.ceil(level * total / 2 - 1 - 1e-9)
    first = max(place, 1) - 1
    low = float(drawn[first])
    high = float(drawn[-1 - first])
    if p_value >= level:
        low = min(low, 0.0)
        high = max(high, 0.0)
    return low, high, p_value


def _check(n: int, resamples: int, confidence: float = 0.95, least: int = 1) -> None:
    if n == 0:
        raise ValueError("there are no examples to score")
    if resamples < least:
        raise ValueError(f"resamples must be at least {least}, not {resamples}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")


@dataclass(frozen=True, slots=True)
class _Examples:
    """The distinct examples of a sample.

    Attributes:
        rows: The row of one example of each kind, in the order of the keys.
        counts: The number of examples of each kind.
        drawn: What `resample` draws: kinds, or single examples where there are no keys.
    """

    rows: IntArray
    counts: IntArray
    drawn: int | IntArray

    @classmethod
    def of(cls, *samples: Sample) -> _Examples:
        """Returns the distinct examples of samples of the same ones; without keys each is one."""
        n = samples[0].n
        columns: list[AnyArray] = []
        for sample in samples:
            if sample.keys is None:
                once = np.ones(n, dtype=np.int64)
                return cls(rows=np.arange(n), counts=once, drawn=n)
            columns += sample.keys
        for sample in samples:
            columns += sample.rest
        code = np.zeros(n, dtype=np.int64)
        for column in columns:
            values, place = np.unique(column, return_inverse=True)
            # Numbering the rows anew after each column keeps the code small.
            _, code = np.unique(code * len(values) + place, return_inverse=True)
        _, rows, counts = np.unique(code, return_index=True, return_counts=True)
        return cls(rows=rows, counts=counts, drawn=counts)

    def estimate(self, statistic: Statistic) -> FloatArray:
        """Returns a statistic of the examples themselves: of the draw that takes each once."""
        once = self.counts.astype(np.float64)
        estimate: FloatArray = statistic(once[np.newaxis])[0]
        return estimate


def _differs(a: Sample, b: Sample, column: str) -> BoolArray:
    distance = np.abs(a.parts[column] - b.parts[column])
    differs: BoolArray = distance > _TIE
    if a.wholes is not None and b.wholes is not None:
        differs |= a.wholes[column] != b.wholes[column]
    return differs


def _statistic(sample: Sample, rows: IntArray) -> Statistic:
    """Returns the function from the number of draws of each row to the statistics of a sample."""
    columns = [column[rows] for column in sample.parts.values()]
    parts = np.stack(columns, axis=1)
    wholes = None
    if sample.wholes is not None:
        columns = [sample.wholes[name][rows] for name in sample.parts]
        wholes = np.stack(columns, axis=1)
    elif np.isnan(parts).any():
        wholes = (~np.isnan(parts)).astype(np.float64)
        parts = np.nan_to_num(parts)

    def statistic(drawn: FloatArray) -> FloatArray:
        sums = drawn @ parts
        if wholes is None:
            values = sums / drawn[0].sum()  # as many are drawn in each resample
        else:
            below = drawn @ wholes
            undefined = np.full_like(sums, np.nan)
            values = np.divide(sums, below, out=undefined, where=below > 0)
        columns = dict(zip(sample.parts, values.T, strict=True))
        for name in sample.statistics:
            if name not in columns:
                first, second = _HARMONIC[name]
                columns[name] = _harmonic_means(columns[first], columns[second])
        return np.stack([columns[name] for name in sample.statistics], axis=1)

    return statistic


def _harmonic_means(first: FloatArray, second: FloatArray) -> FloatArray:
    """Returns the harmonic means, elementwise; 0 where both are 0."""
    total = first + second
    zeros = np.zeros_like(total)
    return np.divide(2 * first * second, total, out=zeros, where=total > 0)
