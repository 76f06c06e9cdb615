"""Does a model know coarse labels as well as the fine labels below them? Paper 3, §4, Table 2, Figures 2 and 3.

Every image is positive for its leaf and for all ancestors of it. Every label is a binary task, scored by average
precision, an ancestor by its own name (raw), by its children (eq. 2) or by the leaves below it (eq. 3); what the last
two gain over the first is the model's discrepancy Δ. All tables and figures come from one frame with a row per label.
The other forms of the study are in `classes` and `frequency`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers import AnswerTable, Excluded
from taxtune.answers.matching import excluded_records
from taxtune.errors import DataError
from taxtune.metrics.average_precision import (
    average_precision,
    bootstrap_average_precision,
    resample_counts,
)
from taxtune.metrics.statistics import Interval, percentiles
from taxtune.report.output import StudyReport, intervals_table
from taxtune.studies.granularity.classes import (
    ask_models,
    coarse_cut,
    language_report,
    two_level,
    two_level_report,
)
from taxtune.studies.granularity.frequency import count_captions, frequency_report, read_captions
from taxtune.studies.granularity.scores import (
    ScoreMatrix,
    all_scores,
    at_leaves,
    check_targets,
    label_frame,
)
from taxtune.studies.granularity.settings import GranularitySettings
from taxtune.studies.output import draw_curves, frame_table
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


__all__ = [
    "QUANTITIES",
    "Granularity",
    "from_children",
    "from_leaves",
    "hierarchy",
    "hierarchy_report",
    "run",
]

FloatArray = NDArray[np.float64]
Scores = NDArray[np.floating]

#: What is estimated, as paper 3, Table 2, names it.
QUANTITIES = ("Leaves", "Anc raw", "Anc child", "Δ child", "Anc leaf", "Δ leaf")
# Average precisions that differ by less are equal: the same ranks summed in another order.
_TIE = 1e-9
_RULES = ["raw", "child", "leaf", "gain"]


def run(settings: GranularitySettings) -> StudyReport:
    """Tell whether a model knows coarse labels as well as the fine ones below them (paper 3, §4, Appendices A, B).

    Raises:
        TaxtuneError: If a file, a label or a model is missing or malformed.
    """
    tree, part = settings.read_tree()
    record = settings.record()
    if len(tree.leaves) < 2:
        raise DataError(
            "The taxonomy needs at least two leaves.",
            file=record["taxonomy"],
            value=len(tree.leaves),
        )
    grouping = None
    if settings.form in ("two-level", "language"):
        grouping = coarse_cut(tree, level=settings.coarse_level, labels=settings.coarse)
        if settings.form == "language":
            return language_report(ask_models(settings, grouping), grouping, settings)
    # What is wrong with a file or a setting is said before a model is asked about every image.
    counts = None
    if settings.captions:
        captions = [
            text
            for path in settings.captions
            for text in read_captions(path, column=settings.caption_column)
        ]
        counts = count_captions(captions, tree, part, source=", ".join(map(str, settings.captions)))
        if settings.form == "frequency":
            return frequency_report(counts, tree, record)
    answers = (
        None if settings.answers is None else _read_answers(settings, settings.answers, tree, part)
    )
    matrices = all_scores(settings, tree, part, answers)
    if grouping is not None:
        report = two_level_report(
            [two_level(matrix, tree, grouping) for matrix in matrices], grouping, settings
        )
    else:
        how: dict[str, Any] = {
            key: getattr(settings, key) for key in ("trivial", "resamples", "seed")
        }
        results = [hierarchy(matrix, tree, **how) for matrix in matrices]
        report = hierarchy_report(results, record)
        if counts is not None:
            more = frequency_report(counts, tree, record, results)
            report = replace(
                report,
                tables=report.tables + more.tables,
                figures={**report.figures, **more.figures},
                notes=report.notes + more.notes,
                data={**report.data, **more.data},
            )
    excluded = {} if answers is None else {"excluded": excluded_records([answers])}
    return replace(report, data={**report.data, **excluded})


def _read_answers(
    settings: GranularitySettings, path: str, tree: Taxonomy, part: Domain | None
) -> AnswerTable:
    """The answers that can be embedded: an empty text has no direction."""
    answers = settings.read_answers(path, tree, part)
    kept = tuple(row for row in answers.rows if (row.answer or "").strip())
    check_targets(np.array([row.target for row in kept], dtype=np.int64), tree, answers.file)
    if len(kept) == len(answers.rows):
        return answers
    empty = [row for row in answers.rows if not (row.answer or "").strip()]
    excluded = (Excluded(row.row, row.id, "the answer is empty") for row in empty)
    note = f"{answers.file}: {len(empty):,} of {len(answers.rows):,} rows are left out: their text is empty"
    return replace(
        answers, rows=kept, excluded=(*answers.excluded, *excluded), notes=(*answers.notes, note)
    )


# -- average precision ------------------------------------------------------------------------------------------------


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
        return self.labels[self.labels["in_mean"]].assign(
            gain=self.labels["leaf"] - self.labels["raw"]
        )

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
    is_leaf, shown, everywhere = tree.sizes == 1, truth.any(axis=0), truth.all(axis=0)
    labels = label_frame(tree).assign(images=truth.sum(axis=0))
    labels["in_mean"] = np.asarray(shown if trivial == "keep" else shown & ~everywhere)
    rules = {"child": from_children, "leaf": from_leaves}
    sources = {"raw": matrix.scores} | {
        rule: raised(matrix.scores, tree) for rule, raised in rules.items()
    }
    labels["raw"] = average_precision(matrix.scores, truth)
    for rule in rules:
        # A leaf has nothing below it: its scores are its own by every rule.
        labels[rule] = labels["raw"]
        labels.loc[~is_leaf, rule] = average_precision(
            sources[rule][:, ~is_leaf], truth[:, ~is_leaf]
        )
    averaged = [
        ("raw", is_leaf & labels["in_mean"]),
        *((rule, ~is_leaf & labels["in_mean"]) for rule in sources),
    ]
    estimate = _quantities([labels.loc[nodes, [rule]].to_numpy() for rule, nodes in averaged])[:, 0]
    ends = np.full((len(QUANTITIES), 2), np.nan)
    if resamples:
        counts = resample_counts(len(matrix.targets), resamples, seed)
        drawn = _quantities(
            [
                bootstrap_average_precision(sources[rule][:, some], truth[:, some], counts)
                for rule, some in averaged
            ]
        )
        # Resamples hold fewer different images, which shifts them a little: their spread is taken about the estimate.
        # Where no ancestor is left, as in a flat tree without its root, there is nothing to spread.
        some = np.isfinite(drawn).any(axis=1)
        drawn[some] += (estimate[some] - np.nanmean(drawn[some], axis=1))[:, np.newaxis]
        ends = np.array([percentiles(row) for row in drawn])
    intervals = {
        name: Interval(float(estimate[i]), *ends[i].tolist()) for i, name in enumerate(QUANTITIES)
    }
    notes = list(matrix.notes)
    if not shown.all():
        lost = f"{(~shown).sum():,} of {len(labels):,} labels left out of the means: no image shows them."
        notes.append(f"{lost} Their scores are still propagated.")
    if level := int((np.ptp(matrix.scores, axis=0) == 0)[shown & ~everywhere].sum()):
        equal = f"{level:,} of {shown.sum():,} labels have the same score for all images"
        notes.append(f"{equal}: their average precision is the share of images that show them.")
    if (trivia := everywhere & ~is_leaf).any():
        kept = (
            "kept in the means, as in the paper" if trivial == "keep" else "left out of the means"
        )
        notes.append(
            f"Ancestors that every image shows, whose average precision is 1 ({trivia.sum():,}): {kept}."
        )
    return Granularity(matrix.name, len(matrix.targets), labels, intervals, notes)


def _quantities(values: Sequence[FloatArray]) -> FloatArray:
    """The six quantities of Table 2, shape (6, resamples), as means over the labels that a resample shows.

    `values` are those of leaves, and of ancestors by the three rules; each of shape (labels, resamples).
    """
    leaves, raw, child, leaf = (pd.DataFrame(some).mean().to_numpy(dtype=float) for some in values)
    return np.stack([leaves, raw, child, child - raw, leaf, leaf - raw])


def from_children(scores: Scores, tree: Taxonomy) -> Scores:
    """Returns scores, (images, nodes), with each ancestor's replaced by the largest raw one of its children (eq. 2)."""
    return _raised(scores, scores.copy(), tree)


def from_leaves(scores: Scores, tree: Taxonomy) -> Scores:
    """Returns scores, (images, nodes), with each ancestor's replaced by the largest of the leaves below it (eq. 3)."""
    result = scores.copy()
    return _raised(result, result, tree)


def _raised(source: Scores, result: Scores, tree: Taxonomy) -> Scores:
    """Sets each ancestor's column of `result` to the maximum over its children's columns of `source`."""
    for node in range(
        len(tree) - 1, -1, -1
    ):  # children come after their parents: they are final before these
        if len(children := tree.children(node)):
            result[:, node] = source[:, children].max(axis=1)
    return result


# -- the report -------------------------------------------------------------------------------------------------------


def hierarchy_report(results: Sequence[Granularity], settings: dict[str, Any]) -> StudyReport:
    """Returns the tables, figures and numbers of one or more score matrices."""
    summary, levels = [], []
    for result in results:
        means = {name: 100 * interval.estimate for name, interval in result.intervals.items()}
        summary.append(
            {"scores": result.name, "images": result.images, **_counts(result.averaged()), **means}
        )
        for level, labels in result.averaged().groupby("level"):
            leaves, ancestors = (
                100 * labels[labels["kind"] == kind][_RULES].mean() for kind in ("leaf", "ancestor")
            )
            cells = {"scores": result.name, "level": level, "Leaves": leaves["raw"]}
            cells |= {
                "Anc raw": ancestors["raw"],
                "Anc child": ancestors["child"],
                "Anc leaf": ancestors["leaf"],
            }
            levels.append({**cells, "Δ leaf": ancestors["gain"], **_counts(labels)})
    digits = dict.fromkeys(QUANTITIES, 2)
    intervals = [
        ((r.name, name), interval) for r in results for name, interval in r.intervals.items()
    ]
    return StudyReport(
        study="granularity",
        title="Does a model know coarse labels as well as the fine labels below them?",
        settings=settings,
        tables=(
            frame_table(
                "granularity",
                "Mean average precision of leaves and of ancestors, in % (paper 3, Table 2)",
                pd.DataFrame(summary),
                "Anc raw: an ancestor scored by its own name; Anc child: by its best direct child (eq. 2); Anc leaf: "
                "by the best leaf below it (eq. 3); Δ: gain over raw.",
                "Improved: ancestors whose average precision rises when they are scored by the leaves.",
                digits=digits,
            ),
            intervals_table(
                ("scores", "quantity"),
                intervals,
                f"Bootstrap over the images, {settings.get('resamples', 0):,} resamples, percentiles shifted so that "
                "the mean of the resamples equals the estimate; gaps are paired. A label absent from a resample is "
                "left out of that resample's mean.",
            ),
            frame_table(
                "levels",
                "The same by level, the root being level 0 (paper 3, Figure 3)",
                pd.DataFrame(levels),
                digits=digits,
            ),
        ),
        figures={"granularity-levels": partial(draw_levels, results)},
        notes=tuple(
            dict.fromkeys(
                n if len(results) == 1 else f"{r.name}: {n}" for r in results for n in r.notes
            )
        ),
        data={"labels": {result.name: result.labels.to_dict("records") for result in results}},
    )


def _counts(labels: pd.DataFrame) -> dict[str, int]:
    """How many leaves and ancestors there are, and how many ancestors gain by their leaves."""
    is_leaf = labels["kind"] == "leaf"
    return {
        "n leaves": is_leaf.sum(),
        "n anc": (~is_leaf).sum(),
        "improved": (labels["gain"] > _TIE).sum(),
    }


def draw_levels(results: Sequence[Granularity]) -> Figure:
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
        labels = result.averaged()
        for series, (kind, rule) in shown.items():
            by_level = labels[labels["kind"] == kind].groupby("level")[rule]
            levels = 100 * by_level.quantile(np.array([0.25, 0.5, 0.75])).unstack()
            curves.append(levels.reset_index().assign(panel=result.name, series=series, way=""))
    names = {"level": "x", 0.25: "low", 0.5: "estimate", 0.75: "high"}
    return draw_curves(
        pd.concat(curves, ignore_index=True).rename(columns=names), "average precision, %"
    )
