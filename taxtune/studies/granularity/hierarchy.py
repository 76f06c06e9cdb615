"""Average precision of every label: paper 3, §4, Table 2, Figures 2 and 3.

Every image is positive for its leaf and for all ancestors of it. Every label is a binary task, scored by average
precision, an ancestor by its own name (raw), by its children (eq. 2) or by the leaves below it (eq. 3); the gain of the
last two over the first is the model's discrepancy Δ. All tables and figures come from one frame with a row per label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.metrics.average_precision import (
    average_precision,
    bootstrap_average_precision,
    resample_counts,
)
from taxtune.metrics.statistics import Interval, percentiles
from taxtune.report.output import StudyReport, Table
from taxtune.studies.frames import groups, records
from taxtune.studies.granularity.matrices import ScoreMatrix, at_leaves, label_frame
from taxtune.studies.output import draw_curves, frame_table, intervals_table
from taxtune.studies.placements import interval_frame
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "QUANTITIES",
    "Granularity",
    "from_children",
    "from_leaves",
    "hierarchy",
    "hierarchy_report",
]

FloatArray = NDArray[np.float64]
Scores = NDArray[np.floating]

#: What is estimated, as paper 3, Table 2, names it.
QUANTITIES = ("Leaves", "Anc raw", "Anc child", "Δ child", "Anc leaf", "Δ leaf")
# Average precisions that differ by less are equal: the same ranks summed in another order.
_TIE = 1e-9


class Granularity(NamedTuple):
    """Average precisions of every label of one score matrix.

    Attributes:
        name: Where the scores are from.
        images: Number of images that are ranked.
        labels: A row per node: path, level, kind ("leaf" or "ancestor"), images (that show it), in_mean (whether it
            enters the means), and the average precision in 0..1 by the scores of its own name (raw), of its direct
            children (child) and of the leaves below it (leaf); NaN where no image shows it.
        intervals: The means and gaps, in 0..1, with 95 % bootstrap intervals over the images, by `QUANTITIES`.
        notes: Stated, counted exclusions.
    """

    name: str
    images: int
    labels: pd.DataFrame
    intervals: dict[str, Interval]
    notes: list[str]

    def averaged(self) -> pd.DataFrame:
        """Returns the labels that enter the means, with `gain`, by how much the leaves exceed the own name."""
        labels = self.labels[self.labels["in_mean"]].copy()
        labels["gain"] = labels["leaf"] - labels["raw"]
        return labels

    def ancestors(self) -> pd.DataFrame:
        """Returns the ancestors among them."""
        labels = self.averaged()
        return labels[labels["kind"] == "ancestor"]


def hierarchy(
    matrix: ScoreMatrix,
    tree: Taxonomy,
    *,
    trivial: str = "keep",
    resamples: int = 500,
    seed: int = 0,
) -> Granularity:
    """Returns the average precisions of all labels, and their means over leaves and ancestors.

    Args:
        matrix: The scores; images whose label is not a leaf are left out and counted.
        tree: The labels.
        trivial: "keep", as the paper does, or "leave-out" ancestors that every image shows, such as the root.
        resamples: Bootstrap resamples of the images; 0 for no intervals.
        seed: Seed of the resampling.

    Raises:
        DataError: If no image shows a leaf, or all show the same.
    """
    matrix = at_leaves(matrix, tree)
    truth = tree.is_ancestor(np.arange(len(tree)), matrix.targets[:, np.newaxis])
    shown = np.asarray(truth.any(axis=0))
    everywhere = np.asarray(truth.all(axis=0))
    is_leaf = tree.sizes == 1
    labels = label_frame(tree)
    labels["images"] = truth.sum(axis=0)
    labels["in_mean"] = shown if trivial == "keep" else shown & ~everywhere
    sources = {
        "raw": matrix.scores,
        "child": from_children(matrix.scores, tree),
        "leaf": from_leaves(matrix.scores, tree),
    }
    raw = average_precision(matrix.scores, truth)
    for rule, scores in sources.items():
        # A leaf has nothing below it: its scores are its own by every rule.
        labels[rule] = raw
        if rule != "raw":
            labels.loc[~is_leaf, rule] = average_precision(scores[:, ~is_leaf], truth[:, ~is_leaf])
    averaged = [("raw", is_leaf & labels["in_mean"])]
    averaged += [(rule, ~is_leaf & labels["in_mean"]) for rule in sources]
    columns = [labels.loc[nodes, [rule]].to_numpy() for rule, nodes in averaged]
    estimate = _quantities(columns)[:, 0]
    ends = np.full((len(QUANTITIES), 2), np.nan)
    if resamples:
        counts = resample_counts(len(matrix.targets), resamples, seed)
        resampled = []
        for rule, nodes in averaged:
            scores = sources[rule][:, nodes]
            resampled.append(bootstrap_average_precision(scores, truth[:, nodes], counts))
        ends = _ends(_quantities(resampled), estimate)
    intervals = {}
    for name, value, (low, high) in zip(QUANTITIES, estimate.tolist(), ends.tolist(), strict=True):
        intervals[name] = Interval(value, low, high)
    is_level = np.ptp(matrix.scores, axis=0) == 0
    notes = [*matrix.notes, *_notes(shown, everywhere, is_leaf, is_level, trivial)]
    return Granularity(matrix.name, len(matrix.targets), labels, intervals, notes)


def _quantities(values: Sequence[FloatArray]) -> FloatArray:
    """Returns the six quantities of Table 2, shape (6, resamples), as means over the labels that a resample shows.

    `values` are those of leaves, and of ancestors by the three rules; each of shape (labels, resamples).
    """
    leaves, raw, child, leaf = [pd.DataFrame(some).mean().to_numpy(dtype=float) for some in values]
    return np.stack([leaves, raw, child, child - raw, leaf, leaf - raw])


def _ends(drawn: FloatArray, estimate: FloatArray) -> FloatArray:
    """Returns the ends of the intervals, shape (6, 2).

    Resamples hold fewer different images, which shifts them a little: their spread is taken about the estimate. Where
    no ancestor is left, as in a flat tree without its root, there is nothing to spread.
    """
    ends = np.full((len(drawn), 2), np.nan)
    for i, values in enumerate(drawn):
        if np.isfinite(values).any():
            ends[i] = percentiles(values + (estimate[i] - np.nanmean(values)))
    return ends


def _notes(
    shown: NDArray[np.bool_],
    everywhere: NDArray[np.bool_],
    is_leaf: NDArray[np.bool_],
    is_level: NDArray[np.bool_],
    trivial: str,
) -> list[str]:
    """Returns notes on labels that no image or every image shows, and on those with the same score for all images."""
    notes = []
    if not shown.all():
        left_out = f"{(~shown).sum():,} of {len(shown):,} labels left out of the means"
        notes.append(f"{left_out}: no image shows them. Their scores are still propagated.")
    level = int((is_level & shown & ~everywhere).sum())
    if level:
        equal = f"{level:,} of {shown.sum():,} labels have the same score for all images"
        notes.append(f"{equal}: their average precision is the share of images that show them.")
    trivia = int((everywhere & ~is_leaf).sum())
    if trivia:
        treatment = "left out of the means"
        if trivial == "keep":
            treatment = "kept in the means, as in the paper"
        every = "Ancestors that every image shows, whose average precision is 1"
        notes.append(f"{every} ({trivia:,}): {treatment}.")
    return notes


def from_children(scores: Scores, tree: Taxonomy) -> Scores:
    """Returns scores, (images, nodes), with each ancestor's replaced by the largest raw one of its children (eq. 2)."""
    return _raised(scores, scores.copy(), tree)


def from_leaves(scores: Scores, tree: Taxonomy) -> Scores:
    """Returns scores, (images, nodes), with each ancestor's replaced by the largest of the leaves below it (eq. 3)."""
    result = scores.copy()
    return _raised(result, result, tree)


def _raised(source: Scores, result: Scores, tree: Taxonomy) -> Scores:
    """Sets each ancestor's column of `result` to the maximum over its children's columns of `source`."""
    # Children come after their parents: they are final before these.
    for node in reversed(range(len(tree))):
        children = tree.children(node)
        if len(children):
            result[:, node] = source[:, children].max(axis=1)
    return result


# -- the report -------------------------------------------------------------------------------------------------------


def hierarchy_report(results: Sequence[Granularity], settings: Mapping[str, Any]) -> StudyReport:
    """Returns the tables, figures and numbers of one or more score matrices."""
    notes = []
    for result in results:
        for note in result.notes:
            notes.append(note if len(results) == 1 else f"{result.name}: {note}")
    tables = [_summary_table(results)]
    tables.append(_intervals_table(results, settings.get("resamples", 0)))
    tables.append(_levels_table(results))
    return StudyReport(
        study="granularity",
        title="Does a model know coarse labels as well as the fine labels below them?",
        settings=settings,
        tables=tuple(tables),
        figures={"granularity-levels": partial(_draw_levels, results)},
        notes=tuple(dict.fromkeys(notes)),
        data={"labels": {result.name: records(result.labels) for result in results}},
    )


def _summary_table(results: Sequence[Granularity]) -> Table:
    rows = []
    for result in results:
        row: dict[str, Any] = {"scores": result.name, "images": result.images}
        row |= _counts(result.averaged())
        row |= {name: 100 * interval.estimate for name, interval in result.intervals.items()}
        rows.append(row)
    return frame_table(
        "granularity",
        "Mean average precision of leaves and of ancestors, in % (paper 3, Table 2)",
        pd.DataFrame(rows),
        "Anc raw: an ancestor scored by its own name; Anc child: by its best direct child (eq. 2); Anc leaf: by the "
        "best leaf below it (eq. 3); Δ: gain over raw.",
        "Improved: ancestors whose average precision rises when they are scored by the leaves.",
        digits=2,
    )


def _intervals_table(results: Sequence[Granularity], resamples: int) -> Table:
    intervals = {result.name: interval_frame(result.intervals) for result in results}
    cells = pd.concat(intervals, names=["scores", "quantity"]).reset_index()
    return intervals_table(
        cells,
        f"Bootstrap over the images, {resamples:,} resamples, percentiles shifted so that the mean of the resamples "
        "equals the estimate; gaps are paired. A label absent from a resample is left out of that resample's mean.",
    )


def _levels_table(results: Sequence[Granularity]) -> Table:
    rows = []
    for result in results:
        for level, labels in result.averaged().groupby("level"):
            means = 100 * labels.groupby("kind")[["raw", "child", "leaf", "gain"]].mean()
            means = means.reindex(["leaf", "ancestor"])
            row: dict[str, Any] = {"scores": result.name, "level": level}
            row["Leaves"] = means["raw"]["leaf"]
            row["Anc raw"] = means["raw"]["ancestor"]
            row["Anc child"] = means["child"]["ancestor"]
            row["Anc leaf"] = means["leaf"]["ancestor"]
            row["Δ leaf"] = means["gain"]["ancestor"]
            rows.append(row | _counts(labels))
    title = "The same by level, the root being level 0 (paper 3, Figure 3)"
    return frame_table("levels", title, pd.DataFrame(rows), digits=2)


def _counts(labels: pd.DataFrame) -> dict[str, int]:
    """Returns the numbers of leaves, of ancestors, and of ancestors that gain by their leaves."""
    leaves = (labels["kind"] == "leaf").sum()
    improved = (labels["gain"] > _TIE).sum()
    return {"n leaves": leaves, "n anc": len(labels) - leaves, "improved": improved}


def _draw_levels(results: Sequence[Granularity]) -> Figure:
    """Draws average precision over the level in the tree: leaves, and ancestors by their own names and by their leaves.

    A mark is the median of a level's labels, its bar goes from the lower to the upper quartile.
    """
    shown = {
        "leaves": ("leaf", "raw"),
        "ancestors": ("ancestor", "raw"),
        "ancestors, by leaves": ("ancestor", "leaf"),
    }
    curves = []
    for result in results:
        by_kind = groups(result.averaged(), "kind")
        for series, (kind, rule) in shown.items():
            if kind not in by_kind:
                continue
            by_level = by_kind[kind].groupby("level")[rule]
            quartiles = 100 * by_level.quantile(np.array([0.25, 0.5, 0.75])).unstack()
            curves.append(quartiles.reset_index().assign(panel=result.name, series=series, way=""))
    names = {"level": "x", 0.25: "low", 0.5: "estimate", 0.75: "high"}
    drawn = pd.concat(curves, ignore_index=True).rename(columns=names)
    return draw_curves(drawn, "average precision, %")
