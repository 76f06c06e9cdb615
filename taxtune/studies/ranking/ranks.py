"""Ranks of models under several measures, and how sure they are: a paired bootstrap over the examples.

Every resample draws the same examples for all models and measures. Two models are compared on the examples that both
have a score for, so that a failed call of one model costs no other model an example and is never a zero. A model's rank
is one more than the number of models that beat it, and a tie counts a half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.statistics import percentiles, resample
from taxtune.progress import track

__all__ = ["Measured", "RankStatistics", "kendall_taus", "rank_models"]

FloatArray = NDArray[np.float64]

# Values that differ by less are tied: sums of the same numbers in another order differ in the last digits.
_TIE = 1e-12


class Measured(NamedTuple):
    """One measure of all models on the same examples; larger is better.

    Attributes:
        label: The measure's name.
        scores: Scores of shape (models, examples); NaN is unscored.
        other: A second array of that shape where the value is the harmonic mean of two means (hF of hP and hR, paper 1,
            eq. 3), else None.
        parts: The examples of each data set where the value is the mean of the data sets' values.
    """

    label: str
    scores: FloatArray
    other: FloatArray | None = None
    parts: Sequence[slice] = (slice(None),)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which examples of which model have a score, shape (models, examples)."""
        return ~np.isnan(self.scores if self.other is None else self.scores + self.other)

    def values(self, counts: FloatArray | None = None, beside: int | None = None) -> FloatArray:
        """Returns each model's value in each resample, shape (resamples, models); NaN where it has none.

        Args:
            counts: How often each example is drawn, shape (resamples, examples); None takes each once.
            beside: Another model, to count only the examples that it has a score for as well.
        """
        counts = np.ones((1, self.scores.shape[1])) if counts is None else counts
        known = self.known if beside is None else self.known & self.known[beside]
        arrays = [np.where(known, array, 0.0) for array in (self.scores, self.other) if array is not None]
        values = []
        with np.errstate(invalid="ignore", divide="ignore"):
            for part in self.parts:
                total = counts[:, part] @ known[:, part].T.astype(np.float64)
                first, *second = (counts[:, part] @ array[:, part].T / total for array in arrays)
                if second:
                    first = np.where(first + second[0] == 0, 0.0, 2 * first * second[0] / (first + second[0]))
                values.append(first)
        return np.asarray(np.mean(values, axis=0))

    def ranks(self, counts: FloatArray | None = None) -> FloatArray:
        """Returns the ranks of the models in each resample, shape (resamples, models); NaN for one without scores."""
        ranked = ~np.isnan(self.values()[0])
        known = self.known[ranked]
        if (known == known[:1]).all():
            own = self.values(counts)[:, :, np.newaxis]
            gap = np.swapaxes(own, 1, 2) - own
        else:
            # own[b, i, j]: model i on the examples that i and j both have a score for in resample b.
            own = np.stack([self.values(counts, beside=j) for j in range(len(ranked))], axis=2)
            gap = np.swapaxes(own, 1, 2) - own
        # Two models without an example in common cannot be distinguished: they count as tied.
        lost = np.where(np.isnan(gap) | (np.abs(gap) <= _TIE), 0.5, (gap > 0) * 1.0)
        return np.where(ranked, 1 + (lost * (ranked & ~np.eye(len(ranked), dtype=bool))).sum(axis=2), np.nan)


class RankStatistics(NamedTuple):
    """Ranks of the models under each measure, best first from 1.

    Attributes:
        ranks: Ranks on the examples themselves, shape (measures, models); NaN for a model without any score.
        low: 2.5 % quantile of the rank over the resamples, same shape.
        high: 97.5 % quantile, same shape.
        first: Share of the resamples in which the model is first, same shape; k models tied for it get 1/k each.
        taus: Kendall's τ-b of each measure's ranks with those of the last, with the 2.5 % and 97.5 % quantiles over the
            resamples in which it exists, shape (measures, 3); NaN where one of the two ties all models.
    """

    ranks: FloatArray
    low: FloatArray
    high: FloatArray
    first: FloatArray
    taus: FloatArray


def rank_models(
    measures: Sequence[Measured], *, resamples: int = 2000, seed: int = 0, strata: Sequence[int] | None = None
) -> RankStatistics:
    """Ranks models under each measure, with percentile bootstrap intervals of the ranks.

    Args:
        measures: One or more measures of the same models and examples; τ compares each with the last one.
        resamples: Number of bootstrap resamples of the examples, at least 1.
        seed: Seed of the resampling.
        strata: Number of examples of each data set, to resample each by itself; None for one.
    """
    ranks = np.stack([measure.ranks()[0] for measure in measures])

    def statistic(counts: FloatArray) -> FloatArray:
        task.advance(len(counts))
        return np.stack([measure.ranks(counts) for measure in measures], axis=1)

    with track("resamples", resamples) as task:
        drawn = resample(statistic, measures[0].scores.shape[1], resamples=resamples, seed=seed, strata=strata)
    # A quantile of ranks must be a rank that occurred, not a point between two.
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf")
    best = drawn == np.nanmin(np.where(np.isnan(drawn), np.inf, drawn), axis=2, keepdims=True)
    first = (best / np.maximum(best.sum(axis=2, keepdims=True), 1)).mean(axis=0)
    taus = kendall_taus(drawn, drawn[:, -1:])
    quantiles = [percentiles(column) for column in taus.T]
    low, high, first = (np.where(np.isnan(ranks), np.nan, array) for array in (low, high, first))
    return RankStatistics(ranks, low, high, first, np.column_stack([kendall_taus(ranks, ranks[-1]), quantiles]))


def kendall_taus(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Returns Kendall's τ-b of rankings along the last axis, over the models that both rank; NaN where one ties all."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    i, j = np.triu_indices(a.shape[-1], 1)
    left, right = np.broadcast_arrays(np.sign(a[..., i] - a[..., j]), np.sign(b[..., i] - b[..., j]))
    both = ~np.isnan(left + right)
    left, right = np.where(both, left, 0.0), np.where(both, right, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((left * right).sum(-1) / np.sqrt((left**2).sum(-1) * (right**2).sum(-1)))
