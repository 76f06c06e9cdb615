"""What a ranking rests on: each answer of each model scored under text measures, accuracy, hR and hP, by data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.mapping import Mapper
from taxtune.mapping.normalize import fold_words
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import Measure
from taxtune.studies.placing import PlacedAnswers, place_rows
from taxtune.studies.ranking import RankingSettings
from taxtune.studies.ranking.bootstrap import MeasuredModels
from taxtune.studies.text_scores import text_scores
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["METRICS", "Rows", "Scored", "group_columns", "score_models"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rows = Mapping[str, Sequence[AnswerRow]]

#: The metrics, after the text measures and in the order of the paper's Tables 4 and 5, hF last.
METRICS = ("accuracy", "hR", "hP", "hF")


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of several models' answers.

    Attributes:
        measured: The text measures, and on a tree the metrics, all of the same models and units.
        counts: By model, the numbers under `COUNTS`; without a tree nobody knows what abstains and what is off it.
        targets: By model, the number of each row's target, shape (rows,); on a tree its node.
        placed: By model, where its answers are on the tree; nothing without one.
        remarks: What was not scored, with counts.
    """

    measured: list[MeasuredModels]
    counts: dict[str, tuple[int | None, ...]]
    targets: dict[str, IntArray]
    placed: dict[str, PlacedAnswers]
    remarks: list[str]

    @property
    def units(self) -> int:
        """How many examples or targets the scores are of."""
        return int(self.measured[0].scores.shape[1])


def score_models(
    rows: Rows, measures: Sequence[Measure], settings: RankingSettings, taxonomy: Taxonomy | None, mapper: Mapper | None
) -> Scored:
    """Scores the answers of several models about one data set.

    Args:
        rows: The answers by model; where the unit is the example, those of the same examples in the same order.
        measures: The text measures.
        settings: What answers are compared with, and whether examples or targets are the units.
        taxonomy: The tree of the targets; without one an answer is compared with the texts of its row, and there are
            no metrics.
        mapper: Places answers on that tree.
    """
    placed: dict[str, PlacedAnswers] = {}
    counts: dict[str, tuple[int | None, ...]] = {}
    targets: dict[str, IntArray] = {}
    if mapper is None:
        # Files of the same data set write its classes differently: "Basset Hound", "basset_hound".
        texts = {
            row.references: tuple(fold_words(text) or (text,) for text in row.references)
            for some in rows.values()
            for row in some
        }
        numbers = {text: i for i, text in enumerate(dict.fromkeys(texts.values()))}
        for name, some in rows.items():
            missing = sum(row.answer is None for row in some)
            counts[name] = (len(some) - missing, missing, None, None)
            targets[name] = np.array([numbers[texts[row.references]] for row in some], dtype=np.int64)
    else:
        placed = place_rows(mapper, rows)
        for name, some in rows.items():
            counts[name] = placed[name].counts
            targets[name] = np.array([row.target for row in some], dtype=np.int64)
    measured, remarks = [], []
    for measure in measures:
        scores = text_scores(
            rows, measure, taxonomy, reference=settings.reference, question_column=settings.question_column
        )
        measured.append(MeasuredModels(measure.label, _by_unit(scores, targets, settings.unit)))
        for name, values in scores.items():
            answered, known = counts[name][0] or 0, int((~np.isnan(values)).sum())
            if known < answered:
                remarks.append(f"{measure.label}: {answered - known:,} of {answered:,} answers of {name} are unscored.")
    if taxonomy is not None:
        measured += _metric_scores(placed, targets, taxonomy, settings.unit)
    return Scored(measured, counts, targets, placed, remarks)


def _metric_scores(
    placed: Mapping[str, PlacedAnswers], targets: Mapping[str, IntArray], taxonomy: Taxonomy, unit: str
) -> list[MeasuredModels]:
    by_metric: dict[str, dict[str, FloatArray]] = {metric: {} for metric in ("hP", "hR", "accuracy")}
    for name, answers in placed.items():
        known, target = answers.known, targets[name]
        off = answers.as_child[known]
        found = precision_recall(taxonomy, answers.nodes[known], target[known], off_tree=off)
        exact = (answers.nodes == target)[known] & ~off
        for metric, values in zip(by_metric, (*found, exact), strict=True):
            by_metric[metric][name] = np.full(len(target), np.nan)
            by_metric[metric][name][known] = values
    tables = {metric: _by_unit(scores, targets, unit) for metric, scores in by_metric.items()}
    return [
        MeasuredModels(name, tables["hP"], tables["hR"]) if name == "hF" else MeasuredModels(name, tables[name])
        for name in METRICS
    ]


def _by_unit(scores: Mapping[str, FloatArray], targets: Mapping[str, IntArray], unit: str) -> FloatArray:
    """Returns scores of shape (models, units): those of the examples, or the means over each target's examples."""
    if unit == "example":
        return np.stack(list(scores.values()))
    nodes = np.unique(np.concatenate(list(targets.values())))
    table = np.full((len(scores), len(nodes)), np.nan)
    for row, (name, values) in zip(table, scores.items(), strict=True):
        known = ~np.isnan(values)
        place = np.searchsorted(nodes, targets[name][known])
        counts = np.bincount(place, minlength=len(nodes))
        sums = np.bincount(place, weights=values[known], minlength=len(nodes))
        row[counts > 0] = sums[counts > 0] / counts[counts > 0]
    return table


def group_columns(
    names: Sequence[str], scored: Mapping[str, Scored], groups: Mapping[str, Sequence[str]]
) -> list[tuple[str, MeasuredModels]]:
    """Returns each group with each measure that all of its data sets have.

    The examples are those of all data sets, one data set after the other.

    Args:
        names: The models; one that lacks a data set of a group has no value there.
        scored: The scores by data set.
        groups: The data sets of each group.
    """
    ends = dict(zip(scored, np.cumsum([some.units for some in scored.values()]).tolist(), strict=True))
    parts = {name: slice(end - scored[name].units, end) for name, end in ends.items()}
    shape = (len(names), max(ends.values()))
    columns = []
    for group, members in groups.items():
        by_label = [{one.name: one for one in scored[member].measured} for member in members]
        for label in by_label[0]:
            if not all(label in some for some in by_label):
                continue  # a data set without a tree has no metrics
            scores, other = np.full(shape, np.nan), np.full(shape, np.nan)
            for member, some in zip(members, by_label, strict=True):
                rows = [names.index(name) for name in scored[member].counts]
                scores[rows, parts[member]] = some[label].scores
                second = some[label].other
                if second is not None:
                    other[rows, parts[member]] = second
            both = None if by_label[0][label].other is None else other
            columns.append((group, MeasuredModels(label, scores, both, tuple(parts[member] for member in members))))
    return columns
