"""Ranks of models under measures, with bootstrap intervals.

Every resample draws the same examples for all models and measures. Two models are compared on the examples that both
have a score for, so that a failed call of one model costs no other model an example and is never a zero. A model's rank
is one more than the number of models that beat it, and a tie counts a half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.statistics import percentiles, resample
from taxtune.progress import track

__all__ = ["INTERVAL", "Measured", "kendall_taus", "rank_models"]

FloatArray = NDArray[np.float64]

#: The columns of the ends of an interval.
INTERVAL = ["2.5 %", "97.5 %"]
# Values that differ by less are tied: sums of the same numbers in another order differ in the last digits.
_TIE = 1e-12


class Measured(NamedTuple):
    """One measure of all models on the same examples; larger is better.

    Attributes:
        label: The measure's name.
        scores: Scores of shape (models, examples); NaN is unscored.
        other: A second array of that shape where the value is the harmonic mean of two means (hF of hP and hR, paper 1,
            eq. 3), else None.
    """

    label: str
    scores: FloatArray
    other: FloatArray | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which examples of which model have a score, shape (models, examples)."""
        scored = self.scores if self.other is None else self.scores + self.other
        return ~np.isnan(scored)

    def values(self, counts: FloatArray | None = None, beside: int | None = None) -> FloatArray:
        """Returns each model's value in each resample, shape (resamples, models); NaN where it has none.

        Args:
            counts: How often each example is drawn, shape (resamples, examples); None takes each once.
            beside: Another model, to count only the examples that it has a score for as well.
        """
        if counts is None:
            counts = np.ones((1, self.scores.shape[1]))
        known = self.known
        if beside is not None:
            known = known & known[beside]
        first = _means(self.scores, known, counts)
        if self.other is None:
            return first
        second = _means(self.other, known, counts)
        total = first + second
        is_zero = total == 0
        return np.asarray(2 * first * second / np.where(is_zero, 1, total))

    def ranks(self, counts: FloatArray | None = None) -> FloatArray:
        """Returns the ranks of the models in each resample, shape (resamples, models); NaN for one without scores."""
        is_ranked = ~np.isnan(self.values()[0])
        known = self.known[is_ranked]
        if (known == known[:1]).all():
            own = self.values(counts)[:, :, np.newaxis]
        else:
            # own[b, i, j]: model i on the examples that i and j both have a score for in resample b.
            beside = [self.values(counts, beside=j) for j in range(len(is_ranked))]
            own = np.stack(beside, axis=2)
        gap = np.swapaxes(own, 1, 2) - own
        # Two models without an example in common cannot be distinguished: they count as tied.
        is_tie = np.isnan(gap) | (np.abs(gap) <= _TIE)
        lost = np.where(is_tie, 0.5, gap > 0)
        is_rival = is_ranked & ~np.eye(len(is_ranked), dtype=bool)
        losses = (lost * is_rival).sum(axis=2)
        return np.where(is_ranked, 1 + losses, np.nan)


def _means(scores: FloatArray, known: NDArray[np.bool_], counts: FloatArray) -> FloatArray:
    """Returns the mean of each model's known scores in each resample, shape (resamples, models)."""
    total = counts @ known.T.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(counts @ np.where(known, scores, 0.0).T / total)


def rank_models(
    measures: Sequence[Measured], models: Sequence[str], *, resamples: int = 2000, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ranks models under each measure, with percentile bootstrap intervals of the ranks.

    Args:
        measures: One or more measures of the same models and examples; τ compares each with the last one.
        models: The models' names.
        resamples: Number of bootstrap resamples of the examples, at least 1.
        seed: Seed of the resampling.

    Returns:
        A row per measure and model: measure, model, rank (best first from 1; NaN without any score), the 2.5 % and
        97.5 % quantiles of the rank over the resamples, and P(first), the share of them in which the model is first (k
        models tied for it get 1/k each). And a row per measure but the last: measure, Kendall's τ-b of its ranks with
        those of the last, and its quantiles over the resamples in which neither ties all models.
    """

    def statistic(counts: FloatArray) -> FloatArray:
        task.advance(len(counts))
        return np.stack([measure.ranks(counts) for measure in measures], axis=1)

    examples = measures[0].scores.shape[1]
    with track("resamples", resamples) as task:
        drawn = resample(statistic, examples, resamples=resamples, seed=seed)
    ranks = np.stack([measure.ranks()[0] for measure in measures])
    # A quantile of ranks must be a rank that occurred, not a point between two.
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf")
    best = np.nanmin(np.where(np.isnan(drawn), np.inf, drawn), axis=2, keepdims=True)
    is_first = drawn == best
    firsts = np.maximum(is_first.sum(axis=2, keepdims=True), 1)
    first = (is_first / firsts).mean(axis=0)
    first[np.isnan(ranks)] = np.nan
    names = [measure.label for measure in measures]
    index = pd.MultiIndex.from_product([names, models], names=["measure", "model"])
    table = pd.DataFrame({"rank": ranks.ravel()}, index)
    table["2.5 %"] = low.ravel()
    table["97.5 %"] = high.ravel()
    table["P(first)"] = first.ravel()
    taus = pd.DataFrame({"measure": names, "τ": kendall_taus(ranks, ranks[-1])})
    drawn_taus = kendall_taus(drawn, drawn[:, -1:])
    taus[INTERVAL] = [percentiles(column) for column in drawn_taus.T]
    return table.reset_index(), taus[:-1]


def kendall_taus(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Returns Kendall's τ-b of rankings along the last axis, over the models that both rank; NaN where one ties all."""
    left, right = _pair_signs(a), _pair_signs(b)
    both = ~np.isnan(left + right)
    left = np.where(both, left, 0.0)
    right = np.where(both, right, 0.0)
    agreed = (left * right).sum(-1)
    untied = (left**2).sum(-1) * (right**2).sum(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(agreed / np.sqrt(untied))


def _pair_signs(ranks: ArrayLike) -> FloatArray:
    """Returns the sign of the difference of each pair of ranks along the last axis."""
    ranks = np.asarray(ranks, dtype=np.float64)
    first, second = np.triu_indices(ranks.shape[-1], 1)
    return np.asarray(np.sign(ranks[..., first] - ranks[..., second]))
