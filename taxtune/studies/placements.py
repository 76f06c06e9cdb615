"""Scores of placed answers with bootstrap intervals, and paired differences, as frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

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

__all__ = ["PlacementScorer", "wide_intervals"]


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

    def intervals(self, placed: pd.DataFrame) -> dict[str, Interval]:
        """Returns the scores with 95 % intervals, by metric."""
        return bootstrap(self.sample(placed), resamples=self.resamples, seed=self.seed)

    def scores(self, placed: pd.DataFrame, by: list[str]) -> pd.DataFrame:
        """Returns a row per group and metric: the columns of `by`, metric, estimate, low, high."""
        rows = []
        for key, group in groups(placed, by).items():
            for metric, interval in self.intervals(group).items():
                row: dict[str, Any] = dict(zip(by, key, strict=True))
                rows.append({**row, "metric": metric, **asdict(interval)})
        return pd.DataFrame(rows, columns=[*by, "metric", "estimate", "low", "high"])

    def differences(
        self, first: pd.DataFrame, second: pd.DataFrame, confidence: float = 0.95
    ) -> dict[str, PairedDifference]:
        """Returns the paired differences, first minus second, of two placements of the same answers, by metric."""
        return paired_bootstrap(
            (self.sample(first), self.sample(second)),
            resamples=self.resamples,
            confidence=confidence,
            seed=self.seed,
        )


def wide_intervals(
    scores: pd.DataFrame, by: list[str], shown: dict[str, str], ends: Iterable[str]
) -> pd.DataFrame:
    """Returns scores with a row per group, in their order, and a column per metric and end: "hP", "hP low", ...

    Args:
        scores: Columns of `by`, metric, estimate, low and high.
        by: The columns that tell the groups apart, which become the index.
        shown: The metrics to show, with their headings.
        ends: Which of estimate, low and high to show.
    """
    groups = scores.drop_duplicates(by).set_index(by).index
    wide = scores.pivot(index=by, columns="metric", values=["estimate", "low", "high"])
    columns = {}
    for metric, heading in shown.items():
        for end in ends:
            name = heading if end == "estimate" else f"{heading} {end}"
            columns[name] = wide[end, metric]
    return pd.DataFrame(columns).reindex(groups)
