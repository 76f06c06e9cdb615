"""Scores of placed answers: hierarchical, information-weighted, and at each rank; intervals and paired comparisons."""

from __future__ import annotations

from taxtune.metrics.hierarchical import HierarchicalScores, harmonic_mean, precision_recall, score
from taxtune.metrics.information import (
    Information,
    InformationScores,
    frequency_information,
    information_scores,
    information_values,
    leaf_information,
)
from taxtune.metrics.ranks import RankIntervals, RankScores, bootstrap_ranks, rank_scores
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    METRICS,
    Interval,
    PairedDifference,
    bootstrap_information,
    bootstrap_scores,
    paired_bootstrap,
    paired_information,
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
    "bootstrap_information",
    "bootstrap_ranks",
    "bootstrap_scores",
    "frequency_information",
    "harmonic_mean",
    "information_scores",
    "information_values",
    "leaf_information",
    "paired_bootstrap",
    "paired_information",
    "precision_recall",
    "rank_scores",
    "score",
]
