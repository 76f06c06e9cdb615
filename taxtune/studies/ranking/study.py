"""Ranking models by their answers: every model scored under every measure, with bootstrap intervals of the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.answers.matching import align, excluded_records
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.both_trees import both_trees_table
from taxtune.studies.contestants import read_models
from taxtune.studies.placing import COUNTS, PlacedAnswers, missing_note, place_rows, trivial_answer
from taxtune.studies.ranking import RankingSettings
from taxtune.studies.ranking.bootstrap import MeasuredModels, RankStatistics, rank_models
from taxtune.studies.ranking.figure import draw_bump
from taxtune.studies.text_scores import check_measures, check_questions, text_scores
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["METRICS", "TITLE", "rank", "ranking", "ranks_table"]

FloatArray = NDArray[np.float64]
Rows = Mapping[str, Sequence[AnswerRow]]

TITLE = "Ranking of models under text measures and taxonomy-aware metrics"
#: The metrics, after the text measures and in the order of the paper's Tables 4 and 5, hF last.
METRICS = ("accuracy", "hR", "hP", "hF")
_INTERVAL = ("2.5 %", "97.5 %")
_UNPAIRED = (
    "Values are means over targets, each the mean over its own examples. If the models were shown different images, "
    "differences may come from the images."
)


def ranking(settings: RankingSettings) -> StudyReport:
    """Reads and ranks the models and returns the report; see `taxtune.studies.ranking.run`."""
    judges = check_measures(settings.measure, settings.question_column)
    taxonomy, part = settings.read_tree()
    files = read_models(settings, taxonomy, part)
    notes = [note for file in files.values() for note in file.notes]
    rows: Rows
    if settings.unit == "example":
        aligned = align(files, settings.rows)
        notes += aligned.notes
        rows, excluded = aligned.rows, excluded_records(files.values(), [aligned])
    else:
        rows, excluded = {name: file.rows for name, file in files.items()}, excluded_records(files.values())
    # Models are loaded once the files are known to be in order.
    if len(rows) < 2:
        raise DataError(
            "A ranking needs at least two models.",
            value=list(rows),
            remedy="Give several files as MODEL=FILE, or one with --by COLUMN or several --guess.",
        )
    if judges:
        for name, some in rows.items():
            check_questions(name, some, settings.question_column)
    if all(row.answer is None for some in rows.values() for row in some):
        raise DataError(
            "No model has answers, so there is nothing to rank.",
            value=list(rows),
            remedy="Check the column with the answers, and whether every call failed.",
        )
    measures = settings.measures(settings.measure)
    headings = [measure.label for measure in measures]
    doubled = sorted({heading for heading in headings if headings.count(heading) > 1})
    if doubled:
        raise DataError("Two measures have the same heading.", value=doubled, remedy="Choose one of them.")
    mapper = settings.mapper(taxonomy)
    placed = place_rows(mapper, rows)
    targets = {name: np.array([row.target for row in some], dtype=np.int64) for name, some in rows.items()}
    measured, remarks = [], []
    for measure in measures:
        scores = text_scores(
            rows, measure, taxonomy, reference=settings.reference, question_column=settings.question_column
        )
        measured.append(MeasuredModels(measure.label, _by_unit(scores, targets, settings.unit)))
        for name, values in scores.items():
            answered, known = int(placed[name].known.sum()), int((~np.isnan(values)).sum())
            if known < answered:
                remarks.append(f"{measure.label}: {answered - known:,} of {answered:,} answers of {name} are unscored.")
    measured += _metric_scores(placed, targets, taxonomy, settings.unit)
    statistics = rank_models(measured, resamples=settings.resamples, seed=settings.seed)
    names, labels = list(rows), [one.name for one in measured]
    count = measured[0].scores.shape[1]
    remarks = [
        "Text measures and accuracy are in percent, hR, hP and hF between 0 and 1, as in the paper.",
        *missing_note(
            placed.values(),
            "a value is over the model's own answers; a rank compares each pair of models on the examples that "
            "both answered",
        ),
        *([_UNPAIRED] if settings.unit == "target" else []),
        trivial_answer(taxonomy, np.concatenate(list(targets.values()))),
        *remarks,
        *(n if n.startswith(m.label) else f"{m.label}: {n}" for m in measures for n in m.notes),
    ]
    tables = [
        _scores_table(placed, measured, remarks),
        ranks_table(names, labels, statistics.ranks),
        _uncertainty_table(names, labels, statistics, f"{settings.resamples:,} resamples of the {settings.unit}s"),
        _tau_table(labels, statistics),
    ]
    if part is not None:
        both = {name: (some.nodes, targets[name]) for name, some in placed.items()}
        tables.append(both_trees_table(part, both, off_tree={name: some.as_child for name, some in placed.items()}))
    over = f"{count:,} {settings.unit}s"
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={
            **settings.record(),
            "models": names,
            f"{settings.unit}s": count,
            "measures": [measure.identity() for measure in measures],
            "mapper": mapper.identity(),
        },
        tables=tuple(tables),
        figures={
            "ranks": partial(
                draw_bump, names, labels, statistics.ranks, low=statistics.low, high=statistics.high, over=over
            )
        },
        notes=tuple(dict.fromkeys(notes)),  # parts of one file say the same about it once
        data={"excluded": excluded},
    )


def _metric_scores(
    placed: Mapping[str, PlacedAnswers], targets: Mapping[str, NDArray[np.int64]], taxonomy: Taxonomy, unit: str
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


def _by_unit(scores: Mapping[str, FloatArray], targets: Mapping[str, NDArray[np.int64]], unit: str) -> FloatArray:
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


def _scores_table(
    placed: Mapping[str, PlacedAnswers], measured: Sequence[MeasuredModels], notes: Sequence[str]
) -> Table:
    """Returns the values of the models as paper 1 prints them (Tables 4 and 5)."""
    percent = {one.name: one.name not in ("hR", "hP", "hF") for one in measured}
    values = [one.values() * (100.0 if percent[one.name] else 1.0) for one in measured]
    rows: list[tuple[Cell, ...]] = [
        (name, *some.counts, *(float(of[j]) for of in values)) for j, (name, some) in enumerate(placed.items())
    ]
    digits = {name: 1 if in_percent else 3 for name, in_percent in percent.items()}
    return Table("scores", TITLE, ("model", *COUNTS, *percent), tuple(rows), digits, tuple(notes))


def ranks_table(names: Sequence[str], labels: Sequence[str], ranks: FloatArray) -> Table:
    """Returns ranks of shape (measures, models) with a row a model."""
    return Table(
        "ranks",
        "Rank of each model under each measure",
        ("model", *labels),
        tuple((name, *map(rank, ranks[:, j])) for j, name in enumerate(names)),
        dict.fromkeys(labels, 1),
        ("1 is the best. Tied models share the average of their ranks.",),
    )


def rank(value: float) -> Cell:
    """Returns a rank as a table shows it: 2, 2.5, or nothing for NaN."""
    return None if np.isnan(value) else int(value) if float(value).is_integer() else float(value)


def _uncertainty_table(names: Sequence[str], labels: Sequence[str], statistics: RankStatistics, drawn: str) -> Table:
    """Returns rank, interval and probability of being first of each model under each measure, over what was `drawn`."""
    shown = (statistics.ranks, statistics.low, statistics.high)
    return Table(
        "uncertainty",
        "How certain the ranks are",
        ("measure", "model", "rank", *_INTERVAL, "P(first)"),
        tuple(
            (label, name, *(rank(values[i, j]) for values in shown), float(statistics.first[i, j]))
            for i, label in enumerate(labels)
            for j, name in enumerate(names)
        ),
        {**dict.fromkeys(("rank", *_INTERVAL), 1), "P(first)": 2},
        (
            f"Percentiles of the rank, and share of first places, over {drawn}, the same for all models and "
            "measures; k models tied for first place get 1/k each.",
        ),
    )


def _tau_table(labels: Sequence[str], statistics: RankStatistics) -> Table:
    """Returns Kendall's τ of each measure's ranking with the last one's, with intervals."""
    taus = zip(statistics.tau.tolist(), statistics.tau_low.tolist(), statistics.tau_high.tolist(), strict=True)
    return Table(
        "tau",
        f"Kendall's τ of each measure's ranking with that of {labels[-1]}",
        ("measure", "τ", *_INTERVAL),
        tuple((label, *row) for label, row in zip(labels[:-1], taus, strict=False)),
        dict.fromkeys(("τ", *_INTERVAL), 2),
        ("τ-b; the interval is over the resamples in which neither ranking ties all models.",),
    )
