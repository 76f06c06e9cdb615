"""Scores of placed answers: hierarchical precision, recall and F, with intervals and paired comparisons."""

from __future__ import annotations

from taxtune.metrics.hierarchical import HierarchicalScores, harmonic_mean, precision_recall, score
from taxtune.metrics.statistics import METRICS, Interval, PairedDifference, bootstrap_scores, paired_bootstrap

__all__ = [
    "METRICS",
    "HierarchicalScores",
    "Interval",
    "PairedDifference",
    "bootstrap_scores",
    "harmonic_mean",
    "paired_bootstrap",
    "precision_recall",
    "score",
]
