"""Scores of placed answers, with intervals, bounds and paired comparisons."""

from __future__ import annotations

from taxtune.metrics.bounds import p_value, upper_bound
from taxtune.metrics.hierarchical import (
    HierarchicalScores,
    harmonic_mean,
    precision_recall,
    score,
)
from taxtune.metrics.information import (
    Information,
    InformationScores,
    frequency_information,
    information_scores,
    information_values,
    leaf_information,
)
from taxtune.metrics.ranks import RankIntervals, RankScores, bootstrap_ranks, rank_scores
from taxtune.metrics.registry import make_measure, measure
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    METRICS,
    Interval,
    PairedDifference,
    Sample,
    bootstrap,
    hierarchical_sample,
    information_sample,
    paired_bootstrap,
)

__all__ = [
    "INFORMATION_METRICS",
    "METRICS",
    "HierarchicalScores",
    "Information",
    "InformationScores",
    "Interval",
    "PairedDifference",
    "RankIntervals",
    "RankScores",
    "Sample",
    "bootstrap",
    "bootstrap_ranks",
    "frequency_information",
    "harmonic_mean",
    "hierarchical_sample",
    "information_sample",
    "information_scores",
    "information_values",
    "leaf_information",
    "make_measure",
    "measure",
    "p_value",
    "paired_bootstrap",
    "precision_recall",
    "rank_scores",
    "score",
    "upper_bound",
]
