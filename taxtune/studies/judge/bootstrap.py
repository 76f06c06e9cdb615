"""Rank correlations with one column, resampled: Spearman's rho and Kendall's tau-b of many measures at once.

A resample is how often it draws each row. Ranks, ties and pairs are counted from these numbers, without sorting anew,
so that 5,000 resamples of 2,000 answers and 12 measures take 14 s where SciPy on each resample takes 111 s; the same
draws serve every measure, which makes the differences between measures paired.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.statistics import resample
from taxtune.progress import track

__all__ = ["Correlations", "bootstrap_correlations"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Up to so many different values of one side, pairs are counted class by class; beyond, SciPy sorts each resample.
_FEW = 12


@dataclass(frozen=True, slots=True)
class Correlations:
    """Correlations of measures with one column.

    Attributes:
        rho: Spearman's, shape (measures,); NaN where undefined, since one side is constant.
        tau: Kendall's tau-b, likewise.
        rho_p: p-values of rho (two-sided, no correlation).
        tau_p: p-values of tau.
        rho_resamples: Rho in each resample, shape (resamples, measures); NaN where undefined in it.
        tau_resamples: Tau likewise.
    """

    rho: FloatArray
    tau: FloatArray
    rho_p: FloatArray
    tau_p: FloatArray
    rho_resamples: FloatArray
    tau_resamples: FloatArray


def bootstrap_correlations(
    scores: FloatArray,
    human: FloatArray,
    *,
    resamples: int,
    seed: int,
) -> Correlations:
    """Returns the correlation of each measure's scores with the human ratings, and in each resample of the answers.

    Args:
        scores: Shape (measures, answers); all of a measure's are NaN where it has none, or none is.
        human: Shape (answers,), without NaN.
        resamples: How many, at least 1.
        seed: Seed of the draws.
    """
    from scipy import stats

    measures, n = scores.shape
    rho, tau = np.full(measures, np.nan), np.full(measures, np.nan)
    rho_p, tau_p = rho.copy(), rho.copy()
    scored: NDArray[np.bool_] = np.asarray(~np.isnan(scores).any(axis=1))
    for i, row in enumerate(scores):
        if n >= 2 and scored[i] and np.ptp(row) > 0 and np.ptp(human) > 0:
            spearman, kendall = stats.spearmanr(row, human), stats.kendalltau(row, human)
            rho[i], rho_p[i] = spearman.statistic, spearman.pvalue
            tau[i], tau_p[i] = kendall.statistic, kendall.pvalue
    people = _Column(human)
    columns = [_Column(row) for row in scores[scored]]

    def correlated(counts: FloatArray) -> FloatArray:
        task.advance(len(counts))
        found = np.full((len(counts), 2, measures), np.nan)
        found[:, :, scored] = np.array([_correlate(column, people, counts) for column in columns]).transpose(2, 1, 0)
        return found

    with track("resamples", resamples) as task:
        drawn = resample(correlated, n, resamples=resamples, seed=seed)
    return Correlations(rho, tau, rho_p, tau_p, drawn[:, 0], drawn[:, 1])


class _Column:
    """A column of values: which rows hold the same, in ascending order."""

    def __init__(self, values: FloatArray) -> None:
        distinct, group = np.unique(values, return_inverse=True)
        self.group: IntArray = group.reshape(-1)
        self.groups = len(distinct)
        self.order = np.argsort(self.group, kind="stable")
        self.starts = np.searchsorted(self.group[self.order], np.arange(self.groups))

    def totals(self, numbers: FloatArray) -> FloatArray:
        """Returns the sum of a number of each row over the rows of each value, shape (block, groups)."""
        return np.add.reduceat(numbers[:, self.order], self.starts, axis=1)


def _ranks(counts: FloatArray) -> FloatArray:
    """Returns the mid-rank of each value from how often it is drawn, less the mean rank; shape (block, groups)."""
    ranks: FloatArray = np.cumsum(counts, axis=1) - (counts - 1) / 2
    ranks -= (counts[0].sum() + 1) / 2
    return ranks


def _correlate(x: _Column, y: _Column, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns rho and tau-b in each resample, NaN where a side is constant in it.

    Args:
        x: One side.
        y: The other; neither rho nor tau asks which is which.
        counts: How often each row is drawn, shape (block, rows).
    """
    if y.groups > x.groups:
        x, y = y, x  # the side with fewer values gives the classes
    x_counts, y_counts = x.totals(counts), y.totals(counts)
    x_ranks, y_ranks = _ranks(x_counts), _ranks(y_counts)
    n = float(counts[0].sum())
    pairs = n * (n - 1) / 2
    if y.groups > _FEW:
        drawn_ranks = x.totals(counts * y_ranks[:, y.group])
        tau = _sorted_tau(x, y, counts)
    else:
        drawn_ranks = np.zeros_like(x_counts)
        lower: list[tuple[FloatArray, FloatArray]] = []
        surplus = np.zeros(len(counts))
        for value in range(y.groups):
            # How often each value of x is drawn together with this one of y, and how often what lies below it in x.
            table = _together(x, y, value, counts)
            below = np.cumsum(table, axis=1) - table
            for earlier, earlier_below in lower:
                surplus += _dot(table, earlier_below) - _dot(earlier, below)
            lower.append((table, below))
            drawn_ranks += table * y_ranks[:, value, np.newaxis]
        x_tied, y_tied = _dot(x_counts, x_counts - 1) / 2, _dot(y_counts, y_counts - 1) / 2
        tau = _ratio(surplus, (pairs - x_tied) * (pairs - y_tied))
    spread = _dot(x_counts, x_ranks**2) * _dot(y_counts, y_ranks**2)
    return _ratio(_dot(x_ranks, drawn_ranks), spread), tau


def _together(x: _Column, y: _Column, value: int, counts: FloatArray) -> FloatArray:
    """Returns how often each value of x is drawn together with one value of y, shape (block, groups of x)."""
    rows = x.order[y.group[x.order] == value]
    groups, starts = np.unique(x.group[rows], return_index=True)
    table = np.zeros((len(counts), x.groups))
    table[:, groups] = np.add.reduceat(counts[:, rows], starts, axis=1)
    return table


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    product: FloatArray = np.einsum("ij,ij->i", a, b)
    return product


def _ratio(value: FloatArray, squared: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(squared > 0, value / np.sqrt(squared), np.nan)


def _sorted_tau(x: _Column, y: _Column, counts: FloatArray) -> FloatArray:
    from scipy import stats

    taus = np.full(len(counts), np.nan)
    for i, row in enumerate(counts):
        drawn = np.repeat(np.arange(len(row)), row.astype(np.int64))
        a, b = x.group[drawn], y.group[drawn]
        if np.ptp(a) > 0 and np.ptp(b) > 0:
            taus[i] = stats.kendalltau(a, b).statistic
    return taus
