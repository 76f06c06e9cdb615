"""Ranking models by their answers: every model scored under every measure, with bootstrap intervals of the ranks.

Every resample draws the same examples for all models and measures. Two models are compared on the examples that both
have a score for, so that a failed call of one model costs no other model an example and is never a zero. A model's rank
is one more than the number of models that beat it, and a tie counts a half.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.matching import align, excluded_records
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.statistics import percentiles, resample
from taxtune.progress import track
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.contestants import read_models
from taxtune.studies.output import both_trees_table
from taxtune.studies.published import published
from taxtune.studies.ranking.figure import draw_bump
from taxtune.studies.ranking.settings import RankingSettings
from taxtune.studies.scoring import (
    COUNTS,
    PlacedAnswers,
    check_headings,
    check_measures,
    check_questions,
    measure_notes,
    missing_note,
    place_rows,
    text_scores,
    trivial_answer,
)
from taxtune.taxonomy import Taxonomy

__all__ = ["Measured", "RankStatistics", "kendall_taus", "rank_models", "ranking", "ranking_of_table"]

FloatArray = NDArray[np.float64]

TITLE = "Ranking of models under text measures and taxonomy-aware metrics"
# The metrics, after the text measures and in the order of the paper's Tables 4 and 5.
_METRICS = ("accuracy", "hR", "hP", "hF")
_INTERVAL = ("2.5 %", "97.5 %")
# Values that differ by less are tied: sums of the same numbers in another order differ in the last digits.
_TIE = 1e-12


def ranking(settings: RankingSettings) -> StudyReport:
    """Reads and ranks the models and returns the report; see `taxtune.studies.ranking.run`."""
    judges = check_measures(settings.measure, settings.question_column)
    taxonomy, part = settings.read_tree()
    files = read_models(settings, taxonomy, part, settings.by)
    aligned = align(files, settings.rows)
    rows: Mapping[str, Sequence[Any]] = aligned.rows
    # Models are loaded once the files are known to be in order.
    names = list(rows)
    if len(names) < 2:
        remedy = "Give several files as MODEL=FILE, or one with --by COLUMN or several --guess."
        raise DataError("A ranking needs at least two models.", value=names, remedy=remedy)
    if judges:
        for name, some in rows.items():
            check_questions(name, some, settings.question_column)
    if all(row.answer is None for some in rows.values() for row in some):
        remedy = "Check the column with the answers, and whether every call failed."
        raise DataError("No model has answers, so there is nothing to rank.", value=names, remedy=remedy)
    measures = settings.measures(settings.measure)
    check_headings(measures, ("model", *COUNTS, *_METRICS))
    mapper = settings.mapper(taxonomy)
    placed = place_rows(mapper, rows)
    targets = np.array([row.target for row in rows[names[0]]], dtype=np.int64)
    columns = []
    for measure in measures:
        scores = text_scores(
            rows, measure, taxonomy, reference=settings.reference, question_column=settings.question_column
        )
        columns.append(Measured(measure.label, np.stack([scores[name] for name in names])))
    columns += _metrics(taxonomy, placed, targets)
    statistics = rank_models(columns, resamples=settings.resamples, seed=settings.seed)
    headings = [one.label for one in columns]
    remarks = (*_remarks(taxonomy, placed, targets, columns), *measure_notes(measures))
    tables = [
        _scores_table(placed, columns, remarks),
        _ranks_table(names, headings, statistics.ranks),
        _uncertainty_table(names, headings, statistics, settings.resamples),
        _tau_table(headings, statistics),
    ]
    if part is not None:
        both = {name: (own.nodes, targets) for name, own in placed.items()}
        tables.append(both_trees_table(part, both, off_tree={name: own.as_child for name, own in placed.items()}))
    draw = partial(
        draw_bump,
        names,
        headings,
        statistics.ranks,
        low=statistics.low,
        high=statistics.high,
        over=f"{len(targets):,} examples",
    )
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={
            **settings.record(),
            "models": names,
            "examples": len(targets),
            "measures": [measure.identity() for measure in measures],
            "mapper": mapper.identity(),
        },
        tables=tuple(tables),
        figures={"ranks": draw},
        # Parts of one file give the same notes once.
        notes=tuple(dict.fromkeys([*(note for file in files.values() for note in file.notes), *aligned.notes])),
        data={"excluded": excluded_records(files.values(), [aligned])},
    )


def ranking_of_table(name: str) -> StudyReport:
    """Ranks the models of a table that a paper prints, without uncertainty.

    Args:
        name: The table, such as "paper1-table5": a row per model, a column per measure, larger is better; the last
            measure is the one that the others are compared with.
    """
    from scipy.stats import kendalltau

    scores = pd.DataFrame(published(name)).set_index("model").astype(float)
    names, labels = list(map(str, scores.index)), list(scores.columns)
    ranks = np.stack([Measured(label, scores[[label]].to_numpy()).ranks()[0] for label in labels])
    taus: list[tuple[Cell, ...]] = []
    for label, row in zip(labels[:-1], ranks[:-1], strict=True):
        both = ~np.isnan(row + ranks[-1])
        tau = kendalltau(row[both], ranks[-1][both])
        taus.append((label, float(tau.statistic), float(tau.pvalue)))
    notes: list[str] = []
    if {"hP", "hR"} <= {*labels} and (below := int((scores["hP"] < scores["hR"]).sum())):
        notes.append(
            f"hP is below hR in {below} of {len(scores)} rows, which takes predictions deeper than their targets, and "
            "all targets are leaves: most likely hP and hR are exchanged."
        )
    rows = tuple((name, *row) for name, row in zip(names, scores.to_numpy().tolist(), strict=True))
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={"scores": name, "models": names, "seed": None},
        tables=(
            Table("scores", f"Scores in {name}", ("model", *labels), rows, notes=tuple(notes)),
            _ranks_table(names, labels, ranks),
            Table(
                "tau",
                f"Kendall's τ of each ranking with that of {labels[-1]}",
                ("measure", "τ", "p"),
                tuple(taus),
                {"τ": 2, "p": 3},
                ("The p-value is for the null hypothesis of no association between the two rankings of these models.",),
            ),
        ),
        figures={"ranks": partial(draw_bump, names, labels, ranks, notes=notes)},
    )


# -- ranks ------------------------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """One measure of all models on the same examples; larger is better.

    Attributes:
        label: The measure's name.
        scores: Scores of shape (models, examples); NaN is unscored.
        other: A second array of that shape where the value is the harmonic mean of two means (hF of hP and hR, paper 1,
            eq. 3), else None.
    """

    label: str
    scores: FloatArray
    other: FloatArray | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which examples of which model have a score, shape (models, examples)."""
        return ~np.isnan(self.scores if self.other is None else self.scores + self.other)

    def values(self, counts: FloatArray | None = None, beside: int | None = None) -> FloatArray:
        """Returns each model's value in each resample, shape (resamples, models); NaN where it has none.

        Args:
            counts: How often each example is drawn, shape (resamples, examples); None takes each once.
            beside: Another model, to count only the examples that it has a score for as well.
        """
        counts = np.ones((1, self.scores.shape[1])) if counts is None else counts
        known = self.known if beside is None else self.known & self.known[beside]
        arrays = [np.where(known, array, 0.0) for array in (self.scores, self.other) if array is not None]
        with np.errstate(invalid="ignore", divide="ignore"):
            total = counts @ known.T.astype(np.float64)
            first, *second = (counts @ array.T / total for array in arrays)
            if second:
                first = np.where(first + second[0] == 0, 0.0, 2 * first * second[0] / (first + second[0]))
        return np.asarray(first)

    def ranks(self, counts: FloatArray | None = None) -> FloatArray:
        """Returns the ranks of the models in each resample, shape (resamples, models); NaN for one without scores."""
        ranked = ~np.isnan(self.values()[0])
        known = self.known[ranked]
        if (known == known[:1]).all():
            own = self.values(counts)[:, :, np.newaxis]
            gap = np.swapaxes(own, 1, 2) - own
        else:
            # own[b, i, j]: model i on the examples that i and j both have a score for in resample b.
            own = np.stack([self.values(counts, beside=j) for j in range(len(ranked))], axis=2)
            gap = np.swapaxes(own, 1, 2) - own
        # Two models without an example in common cannot be distinguished: they count as tied.
        lost = np.where(np.isnan(gap) | (np.abs(gap) <= _TIE), 0.5, (gap > 0) * 1.0)
        return np.where(ranked, 1 + (lost * (ranked & ~np.eye(len(ranked), dtype=bool))).sum(axis=2), np.nan)


class RankStatistics(NamedTuple):
    """Ranks of the models under each measure, best first from 1.

    Attributes:
        ranks: Ranks on the examples themselves, shape (measures, models); NaN for a model without any score.
        low: 2.5 % quantile of the rank over the resamples, same shape.
        high: 97.5 % quantile, same shape.
        first: Share of the resamples in which the model is first, same shape; k models tied for it get 1/k each.
        taus: Kendall's τ-b of each measure's ranks with those of the last, with the 2.5 % and 97.5 % quantiles over the
            resamples in which it exists, shape (measures, 3); NaN where one of the two ties all models.
    """

    ranks: FloatArray
    low: FloatArray
    high: FloatArray
    first: FloatArray
    taus: FloatArray


def rank_models(measures: Sequence[Measured], *, resamples: int = 2000, seed: int = 0) -> RankStatistics:
    """Ranks models under each measure, with percentile bootstrap intervals of the ranks.

    Args:
        measures: One or more measures of the same models and examples; τ compares each with the last one.
        resamples: Number of bootstrap resamples of the examples, at least 1.
        seed: Seed of the resampling.
    """
    ranks = np.stack([measure.ranks()[0] for measure in measures])

    def statistic(counts: FloatArray) -> FloatArray:
        task.advance(len(counts))
        return np.stack([measure.ranks(counts) for measure in measures], axis=1)

    with track("resamples", resamples) as task:
        drawn = resample(statistic, measures[0].scores.shape[1], resamples=resamples, seed=seed)
    # A quantile of ranks must be a rank that occurred, not a point between two.
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="inverted_cdf")
    best = drawn == np.nanmin(np.where(np.isnan(drawn), np.inf, drawn), axis=2, keepdims=True)
    first = (best / np.maximum(best.sum(axis=2, keepdims=True), 1)).mean(axis=0)
    taus = kendall_taus(drawn, drawn[:, -1:])
    quantiles = [percentiles(column) for column in taus.T]
    low, high, first = (np.where(np.isnan(ranks), np.nan, array) for array in (low, high, first))
    return RankStatistics(ranks, low, high, first, np.column_stack([kendall_taus(ranks, ranks[-1]), quantiles]))


def kendall_taus(a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Returns Kendall's τ-b of rankings along the last axis, over the models that both rank; NaN where one ties all."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    i, j = np.triu_indices(a.shape[-1], 1)
    left, right = np.broadcast_arrays(np.sign(a[..., i] - a[..., j]), np.sign(b[..., i] - b[..., j]))
    both = ~np.isnan(left + right)
    left, right = np.where(both, left, 0.0), np.where(both, right, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((left * right).sum(-1) / np.sqrt((left**2).sum(-1) * (right**2).sum(-1)))


# -- scores and tables ------------------------------------------------------------------------------------------------


def _metrics(taxonomy: Taxonomy, placed: Mapping[str, PlacedAnswers], targets: NDArray[np.int64]) -> list[Measured]:
    accuracy, hr, hp = np.full((3, len(placed), len(targets)), np.nan)
    for i, own in enumerate(placed.values()):
        known, nodes, off = own.known, own.nodes[own.known], own.as_child[own.known]
        accuracy[i, known] = (nodes == targets[known]) & ~off
        hp[i, known], hr[i, known] = precision_recall(taxonomy, nodes, targets[known], off_tree=off)
    return [Measured("accuracy", accuracy), Measured("hR", hr), Measured("hP", hp), Measured("hF", hp, hr)]


def _remarks(
    taxonomy: Taxonomy, placed: Mapping[str, PlacedAnswers], targets: NDArray[np.int64], columns: Sequence[Measured]
) -> Iterator[str]:
    yield "Text measures and accuracy are in percent, hR, hP and hF between 0 and 1, as in the paper."
    yield from missing_note(
        sum(own.counts[1] for own in placed.values()),
        "a value is over the model's own answers; a rank compares each pair of models on the examples that both "
        "answered",
    )
    yield trivial_answer(taxonomy, targets)
    for one in columns[: -len(_METRICS)]:
        for i, (model, own) in enumerate(placed.items()):
            if lacking := int((own.known & ~one.known[i]).sum()):
                yield f"{one.label}: {lacking:,} of {int(own.known.sum()):,} answers of {model} are unscored."


def _scores_table(placed: Mapping[str, PlacedAnswers], columns: Sequence[Measured], notes: tuple[str, ...]) -> Table:
    """Returns the values of the models as paper 1 prints them (Tables 4 and 5): all but hR, hP and hF in percent."""
    values = [one.values()[0] * (1 if one.label in _METRICS[1:] else 100) for one in columns]
    rows: list[tuple[Cell, ...]] = [
        (name, *own.counts, *(float(of[i]) for of in values)) for i, (name, own) in enumerate(placed.items())
    ]
    digits = {one.label: 3 if one.label in _METRICS[1:] else 1 for one in columns}
    return Table("scores", TITLE, ("model", *COUNTS, *digits), tuple(rows), digits, notes)


def _ranks_table(names: Sequence[str], headings: Sequence[str], ranks: FloatArray) -> Table:
    return Table(
        "ranks",
        "Rank of each model under each measure",
        ("model", *headings),
        tuple((name, *map(_rank, ranks[:, j])) for j, name in enumerate(names)),
        dict.fromkeys(headings, 1),
        ("1 is the best. Tied models share the average of their ranks.",),
    )


def _rank(value: float) -> Cell:
    return None if np.isnan(value) else int(value) if float(value).is_integer() else float(value)


def _uncertainty_table(names: Sequence[str], headings: Sequence[str], found: RankStatistics, resamples: int) -> Table:
    shown = (found.ranks, found.low, found.high)
    return Table(
        "uncertainty",
        "How certain the ranks are",
        ("measure", "model", "rank", *_INTERVAL, "P(first)"),
        tuple(
            (heading, name, *(_rank(values[i, j]) for values in shown), float(found.first[i, j]))
            for i, heading in enumerate(headings)
            for j, name in enumerate(names)
        ),
        {**dict.fromkeys(("rank", *_INTERVAL), 1), "P(first)": 2},
        (
            f"Percentiles of the rank, and share of first places, over {resamples:,} resamples of the examples, the "
            "same for all models and measures; k models tied for first place get 1/k each.",
        ),
    )


def _tau_table(headings: Sequence[str], found: RankStatistics) -> Table:
    return Table(
        "tau",
        f"Kendall's τ of each measure's ranking with that of {headings[-1]}",
        ("measure", "τ", *_INTERVAL),
        tuple((heading, *row) for heading, row in zip(headings[:-1], found.taus.tolist(), strict=False)),
        dict.fromkeys(("τ", *_INTERVAL), 2),
        ("τ-b; the interval is over the resamples in which neither ranking ties all models.",),
    )
