"""Scores of placed answers, with intervals, bounds and paired comparisons."""

from __future__ import annotations

from taxtune.metrics.hierarchical import HierarchicalScores, precision_recall, score
from taxtune.metrics.information import InformationScores, information_scores, leaf_information
from taxtune.metrics.ranks import RankScores, rank_scores
from taxtune.metrics.registry import make_measure, measure

__all__ = [
    "HierarchicalScores",
    "InformationScores",
    "RankScores",
    "information_scores",
    "leaf_information",
    "make_measure",
    "measure",
    "precision_recall",
    "rank_scores",
    "score",
]
