"""Scores of placed answers with bootstrap intervals, and paired differences, as frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from taxtune.metrics.statistics import (
    Interval,
    PairedDifference,
    Sample,
    bootstrap,
    hierarchical_sample,
    paired_bootstrap,
)
from taxtune.studies.frames import groups
from taxtune.taxonomy import Taxonomy

__all__ = ["PlacementScorer", "interval_frame", "wide_intervals"]

_ENDS = ["estimate", "low", "high"]


@dataclass(frozen=True)
class PlacementScorer:
    """Scores sets of answers that are placed on a tree.

    Placed answers are a frame with the columns node and target and, where some answers are scored as a child of the
    root that is never right, as_child.

    Attributes:
        taxonomy: The tree.
        resamples: Number of bootstrap resamples of the answers.
        seed: Seed of the draws.
    """

    taxonomy: Taxonomy
    resamples: int
    seed: int

    def sample(self, placed: pd.DataFrame) -> Sample:
        """Returns the sample of placed answers for the bootstrap."""
        off_tree = placed.get("as_child")
        return hierarchical_sample(
            self.taxonomy, placed["node"], placed["target"], off_tree=off_tree
        )

    def intervals(self, placed: pd.DataFrame) -> pd.DataFrame:
        """Returns the scores with 95 % intervals: estimate, low and high by metric."""
        intervals = bootstrap(self.sample(placed), resamples=self.resamples, seed=self.seed)
        return interval_frame(intervals)

    def scores(self, placed: pd.DataFrame, by: list[str]) -> pd.DataFrame:
        """Returns a row per group and metric: the columns of `by`, metric, estimate, low, high."""
        scores = {}
        for key, group in groups(placed, by).items():
            scores[key] = self.intervals(group)
        table: pd.DataFrame = pd.concat(scores, names=[*by, "metric"]).reset_index()
        return table

    def differences(
        self, first: pd.DataFrame, second: pd.DataFrame, confidence: float = 0.95
    ) -> pd.DataFrame:
        """Returns the paired differences, first minus second, of two placements of the same answers.

        The columns are difference, low, high and p_value, by metric.
        """
        samples = self.sample(first), self.sample(second)
        differences = paired_bootstrap(
            samples, resamples=self.resamples, confidence=confidence, seed=self.seed
        )
        return interval_frame(differences)


def interval_frame(intervals: Mapping[str, Interval | PairedDifference]) -> pd.DataFrame:
    """Returns a row per interval or difference, with a column per field; the index holds the keys."""
    return pd.DataFrame(list(intervals.values()), index=list(intervals))


def wide_intervals(
    scores: pd.DataFrame, by: list[str], shown: dict[str, str], ends: Sequence[str] = _ENDS
) -> pd.DataFrame:
    """Returns scores with a row per group, in their order, and a column per metric and end: "hP", "hP low", ...

    Args:
        scores: Columns of `by`, metric, estimate, low and high.
        by: The columns that tell the groups apart, which become the index.
        shown: The metrics to show, with their headings.
        ends: Which of estimate, low and high to show.
    """
    order = scores.drop_duplicates(by).set_index(by).index
    wide = scores.pivot(index=by, columns="metric", values=_ENDS)
    columns = {}
    for metric, heading in shown.items():
        for end in ends:
            name = heading if end == "estimate" else f"{heading} {end}"
            columns[name] = wide[end, metric]
    return pd.DataFrame(columns).reindex(order)
