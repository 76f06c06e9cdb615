"""Do models miss coarse names because captions seldom have them? Paper 3, §4.2, "Granularity Bias", Figure 4.

The paper counts how often the captions that a model was trained on have each class name, and compares, ancestor by
ancestor, how far the leaves below it are named more often than itself with what it gains when it is scored by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.studies.granularity.caption_counts import CaptionCounts
from taxtune.studies.granularity.study import Granularity
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Correlation", "compared", "correlate", "frequency_gaps", "mean_of_leaves"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_FEWEST = 3
# Values that differ by less are equal: the same number summed in another order.
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Correlation:
    """How the frequency gap of ancestors goes with what they gain by their leaves.

    Attributes:
        name: Where the scores are from.
        ancestors: How many ancestors are compared.
        pearson: Pearson's r; NaN where it is not defined.
        pearson_p: Its two-sided p-value.
        spearman: Spearman's ρ; NaN where it is not defined.
        spearman_p: Its two-sided p-value.
        undefined: Why there is no coefficient, or None.
    """

    name: str
    ancestors: int
    pearson: float
    pearson_p: float
    spearman: float
    spearman_p: float
    undefined: str | None = None


def mean_of_leaves(taxonomy: Taxonomy, counts: NDArray[np.int64]) -> FloatArray:
    """Returns the mean count of the leaves below each node, shape (nodes,); that of a leaf is its own."""
    totals = np.zeros(len(taxonomy))
    leaves = np.zeros(len(taxonomy))
    lineage = taxonomy.lineage[taxonomy.leaves]
    for level in lineage.T:
        there = level >= 0
        np.add.at(totals, level[there], counts[taxonomy.leaves[there]])
        np.add.at(leaves, level[there], 1)
    return totals / leaves


def frequency_gaps(taxonomy: Taxonomy, counts: NDArray[np.int64]) -> FloatArray:
    """Returns the frequency gap Δ_freq of every ancestor: log10(mean count of its leaves + 1) − log10(own count + 1).

    The paper plots the gap "between ancestor class names and their leaf children" and gives no formula; this one is
    ours. Counts of names spread over orders of magnitude, hence the logarithm, and many are 0, hence the 1.

    Args:
        taxonomy: The tree.
        counts: Captions that name each node, shape (nodes,).

    Returns:
        Shape (nodes,), positive where the leaves are named more often; NaN for leaves.
    """
    gaps = np.log10(mean_of_leaves(taxonomy, counts) + 1) - np.log10(counts + 1)
    gaps[taxonomy.leaves] = np.nan
    return np.asarray(gaps, dtype=np.float64)


def compared(result: Granularity) -> BoolArray:
    """Tells which ancestors are compared: those with an average precision, but for those that every image shows.

    Of the latter, such as the root, the average precision is 1 and the gain 0 by any scores.
    """
    return np.asarray(result.ancestors & (result.shown < result.images))


def correlate(result: Granularity, taxonomy: Taxonomy, counts: CaptionCounts) -> Correlation:
    """Returns the correlation of the frequency gap with Δ_leaf over the ancestors.

    Args:
        result: Average precisions; Δ_leaf is that by leaves minus that by the ancestor's own name.
        taxonomy: The tree.
        counts: Captions that name each node.
    """
    chosen = compared(result)
    gaps = frequency_gaps(taxonomy, counts.counts)[chosen]
    gains = (result.leaf - result.raw)[chosen]
    n = int(chosen.sum())
    reason = None
    if n < _FEWEST:
        reason = f"{n} ancestor{'' if n == 1 else 's'} with an average precision, and it takes {_FEWEST}"
    elif np.ptp(gaps) < _SAME:
        reason = "the frequency gap is the same for all ancestors"
    elif np.ptp(gains) < _SAME:
        reason = "all ancestors gain the same"
    if reason is not None:
        return Correlation(result.name, n, math.nan, math.nan, math.nan, math.nan, reason)
    from scipy.stats import pearsonr, spearmanr

    linear, ranked = pearsonr(gaps, gains), spearmanr(gaps, gains)
    return Correlation(
        result.name,
        n,
        float(linear.statistic),
        float(linear.pvalue),
        float(ranked.statistic),
        float(ranked.pvalue),
    )
