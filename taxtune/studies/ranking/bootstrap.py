"""Ranks of models under several measures, and how sure they are: a paired bootstrap over the examples.

Every resample draws the same examples for all models and all measures. Two models are compared on the examples that
both have a score for, so that a failed call of one model costs no other model an example and is never a zero. A
model's rank is one more than the number of models that beat it, and a tie counts a half: tied models share the average
of the ranks that they take up, and the ranks of m models always add up to m (m + 1) / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.statistics import percentiles, resample
from taxtune.progress import track

__all__ = ["MeasuredModels", "RankStatistics", "kendall_tau", "rank_models", "ranks_from_values"]

FloatArray = NDArray[np.float64]

# Values that differ by less are tied: sums of the same numbers in another order differ in the last digits.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class MeasuredModels:
    """One measure of all models on the same examples.

    Attributes:
        name: The measure's name.
        scores: Scores of shape (models, examples), NaN where there is none. Larger is better.
        other: A second array of that shape where the measure is the harmonic mean of two means (hF of hP and hR,
            paper 1, eq. 3), else None.
        parts: The examples of each data set where the value is the mean of the data sets' values; by default all
            examples are one data set.
    """

    name: str
    scores: FloatArray
    other: FloatArray | None = None
    parts: tuple[slice, ...] = (slice(None),)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which examples of which model have a score, shape (models, examples)."""
        known = ~np.isnan(self.scores)
        return known if self.other is None else known & ~np.isnan(self.other)

    def values(self) -> FloatArray:
        """Returns each model's value over the examples that it has a score for, shape (models,).

        NaN for a model that has no score in some part.
        """
        values: FloatArray = self.resampled(np.ones((1, self.scores.shape[1])))[0]
        return values

    def resampled(self, counts: FloatArray, beside: int | None = None) -> FloatArray:
        """Returns each model's value in each resample, shape (resamples, models); NaN where it has none.

        Args:
            counts: How often each example is drawn, shape (resamples, examples).
            beside: Another model, to count only what it has a score for as well.
        """
        known = self.scored if beside is None else self.scored & self.scored[beside]
        arrays = [np.where(known, array, 0.0) for array in (self.scores, self.other) if array is not None]
        values = []
        for part in self.parts:
            drawn = counts[:, part]
            with np.errstate(invalid="ignore", divide="ignore"):
                total = drawn @ known[:, part].T.astype(np.float64)
                means = [drawn @ array[:, part].T / total for array in arrays]
            values.append(means[0] if self.other is None else _harmonic(means[0], means[1]))
        mean: FloatArray = np.mean(values, axis=0)
        return mean


@dataclass(frozen=True, slots=True)
class RankStatistics:
    """Ranks of the models under each measure, best first from 1.

    Attributes:
        ranks: Ranks on the examples themselves, shape (measures, models); NaN for a model without any score.
        low: 2.5 % quantile of the rank over the resamples, same shape.
        high: 97.5 % quantile of the rank over the resamples, same shape.
        first: Share of the resamples in which the model is first, same shape; k models tied for it get 1/k each.
        tau: Kendall's τ-b of each measure's ranks with those of the last measure, shape (measures,); NaN where one of
            the two ties all models.
        tau_low: 2.5 % quantile of τ over the resamples in which it exists, shape (measures,).
        tau_high: 97.5 % quantile, same shape.
    """

    ranks: FloatArray
    low: FloatArray
    high: FloatArray
    first: FloatArray
    tau: FloatArray
    tau_low: FloatArray
    tau_high: FloatArray


def rank_models(
    measures: Sequence[MeasuredModels],
    *,
    resamples: int = 2000,
    seed: int = 0,
    strata: Sequence[int] | None = None,
) -> RankStatistics:
    """Ranks models under each measure, with percentile bootstrap intervals of the ranks.

    Args:
        measures: The measures, all of the same models and examples; τ compares each with the last one.
        resamples: Number of bootstrap resamples of the examples, at least 1.
        seed: Seed of the resampling.
        strata: How many examples each data set has, one after the other, to resample each by itself; None for one.

    Raises:
        ValueError: If there are no measures or no examples, shapes differ, or resamples is below 1.
    """
    if not measures or not measures[0].scores.size:
        raise ValueError("there are no scores to rank")
    shape = measures[0].scores.shape
    if any(m.scores.shape != shape or (m.other is not None and m.other.shape != shape) for m in measures):
        raise ValueError("all measures need the same models and examples")
    n = shape[1]
    whole = np.ones((1, n))
    ranks = np.stack([_ranks(measure, whole)[0] for measure in measures])

    with track("resamples", resamples) as task:

        def ranked(counts: FloatArray) -> FloatArray:
            task.advance(len(counts))
            return np.stack([_ranks(measure, counts) for measure in measures], axis=1)

        drawn = resample(ranked, n, resamples=resamples, seed=seed, strata=strata)
    # A quantile of ranks must be a rank that occurred, not a point between two.
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf")
    best = drawn == np.nanmin(np.where(np.isnan(drawn), np.inf, drawn), axis=2, keepdims=True)
    # Models tied for the first place share it; a model without a score has no part in it.
    first = (best / np.maximum(best.sum(axis=2, keepdims=True), 1)).mean(axis=0)
    unscored = np.isnan(ranks)
    tau = np.array([kendall_tau(row, ranks[-1]) for row in ranks])
    taus = np.stack([_taus(drawn[:, i], drawn[:, -1]) for i in range(len(measures))], axis=1)
    tau_low, tau_high = np.array([percentiles(column) for column in taus.T]).T
    return RankStatistics(
        ranks=ranks,
        low=np.where(unscored, np.nan, low),
        high=np.where(unscored, np.nan, high),
        first=np.where(unscored, np.nan, first),
        tau=tau,
        tau_low=tau_low,
        tau_high=tau_high,
    )


def ranks_from_values(values: FloatArray) -> FloatArray:
    """Returns the ranks of values, the largest 1, ties sharing the average rank, NaN staying NaN; shape (models,)."""
    higher = values[np.newaxis, :] > values[:, np.newaxis] + _TIE
    tied = np.abs(values[np.newaxis, :] - values[:, np.newaxis]) <= _TIE
    ranks: FloatArray = 1 + higher.sum(axis=1) + (tied.sum(axis=1) - 1) / 2
    return np.where(np.isnan(values), np.nan, ranks)


def kendall_tau(a: FloatArray, b: FloatArray) -> float:
    """Returns Kendall's τ-b of two rankings over the models that both rank; NaN where one of them ties all models."""
    return float(_taus(a[np.newaxis], b[np.newaxis])[0])


def _ranks(measure: MeasuredModels, counts: FloatArray) -> FloatArray:
    """Returns the ranks of the models in each resample, shape (resamples, models), from counts (resamples, n)."""
    unscored = np.isnan(measure.values())
    known = measure.scored[~unscored]
    if (known == known[:1]).all():
        values = measure.resampled(counts)
        mine, theirs = values[:, :, np.newaxis], values[:, np.newaxis, :]
    else:
        # mine[b, i, j]: model i on what i and j both have a score for in resample b.
        mine = np.stack([measure.resampled(counts, beside=j) for j in range(len(unscored))], axis=2)
        theirs = mine.transpose(0, 2, 1)
    beaten = theirs > mine + _TIE
    # Two models without an example in common cannot be distinguished: they count as tied.
    tied = (np.abs(theirs - mine) <= _TIE) | np.isnan(mine) | np.isnan(theirs)
    opponents = np.broadcast_to(~unscored & ~np.eye(len(unscored), dtype=bool), beaten.shape)
    ranks: FloatArray = 1 + (beaten & opponents).sum(axis=2) + (tied & opponents).sum(axis=2) / 2
    return np.where(unscored, np.nan, ranks)


def _harmonic(a: FloatArray, b: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(a + b == 0, 0.0, 2 * a * b / (a + b))


def _taus(a: FloatArray, b: FloatArray) -> FloatArray:
    """Returns τ-b of each row of `a` with that of `b`, shapes (rows, models)."""
    first, second = np.triu_indices(a.shape[1], 1)
    left, right = np.sign(a[:, first] - a[:, second]), np.sign(b[:, first] - b[:, second])
    both = ~np.isnan(left) & ~np.isnan(right)
    left, right = np.where(both, left, 0.0), np.where(both, right, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        taus: FloatArray = (left * right).sum(axis=1) / np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))
    return taus
