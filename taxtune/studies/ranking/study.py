"""How the ranking of models changes with the measure (paper 1, §7.1, Figure 5, Tables 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.errors import DataError
from taxtune.metrics.cider import Cider
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import Measure, MeasureKind
from taxtune.studies.both_trees import both_trees_table
from taxtune.studies.output import StudyReport, Table
from taxtune.studies.placing import as_child, place_texts, said, trivial_answer
from taxtune.studies.progress import progress
from taxtune.studies.ranking.bootstrap import MeasuredModels, rank_models
from taxtune.studies.ranking.tables import (
    TITLE,
    bump_figure,
    ranks_table,
    scores_table,
    tau_table,
    uncertainty_table,
)
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = ["METRIC_COLUMNS", "REFERENCES", "RankingSettings", "check_kinds", "check_questions", "ranking_study"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: What a text measure compares an answer with: the target's preferred common name where it has one (paper 1, §11), its
#: label, or whichever of its names fits best.
REFERENCES = ("common-name", "label", "any-name")
#: The metrics, after the text measures and in the order of the paper's Tables 4 and 5, hF last.
METRIC_COLUMNS = ("accuracy", "hR", "hP", "hF")

_UNPAIRED = (
    "Values are means over targets, each the mean over its own examples. Where the models were shown different images, "
    "a difference may be one of the images."
)


@dataclass(frozen=True, slots=True)
class RankingSettings:
    """How to rank.

    Attributes:
        reference: One of `REFERENCES`.
        unit: What is compared and resampled: "example", the same in all files; or "target", the mean of a class over
            its own examples, for models that were shown different images of the same classes.
        question_column: Column with the prompt that was asked, for measures that are judges; None where none needs it.
        resamples: Number of bootstrap resamples, at least 1.
        seed: Seed of the bootstrap.
    """

    reference: Literal["common-name", "label", "any-name"] = "common-name"
    unit: Literal["example", "target"] = "example"
    question_column: str | None = None
    resamples: int = 2000
    seed: int = 0


def ranking_study(
    models: Mapping[str, Sequence[AnswerRow]],
    taxonomy: Taxonomy,
    mapper: Mapper,
    measures: Sequence[Measure],
    *,
    settings: RankingSettings | None = None,
    notes: Sequence[str] = (),
    record: Mapping[str, Any] | None = None,
    part: Domain | None = None,
) -> StudyReport:
    """Scores every model under every measure and ranks them, with bootstrap intervals of the ranks.

    Args:
        models: The rows of each model, at least two models; row i of every model is the same example unless the unit is
            the target.
        taxonomy: The tree.
        mapper: Places answers on it.
        measures: The text measures, in the order of the columns.
        settings: How to rank.
        notes: What reading the files left out, for the report.
        record: What else is needed to run the study again: the files, the columns.
        part: What `taxonomy` is a part of, for scores on the whole of it too; None where it is the whole.

    Raises:
        DataError: If there are fewer than two models, a measure needs what is not there, or no model has an answer.
    """
    settings = settings or RankingSettings()
    _check(models, measures, settings)
    names = list(models)
    rows = [list(models[name]) for name in names]
    targets = [np.array([row.target for row in part], dtype=np.int64) for part in rows]
    texts = {row.answer for part in rows for row in part if row.answer is not None}
    if not texts:
        raise DataError(
            "No model has an answer, so there is nothing to rank.",
            value=names,
            remedy="Check the column of answers, and whether every call failed.",
        )
    with progress(len(texts), "answers placed") as advance:
        placed = place_texts(mapper, texts, advance)
    measured: list[MeasuredModels] = []
    unscored: list[str] = []
    for measure in measures:
        with progress(1, measure.label) as advance:
            scores = _text_scores(rows, measure, taxonomy, settings)
            measured.append(MeasuredModels(measure.label, _by_unit(scores, targets, settings.unit)))
            advance()
        unscored += _unscored(measure.label, names, rows, scores)
    found = [[None if row.answer is None else placed[row.answer] for row in some] for some in rows]
    nodes = [np.array([-1 if p is None else p.node for p in some], dtype=np.int64) for some in found]
    off = [as_child(mapper, some) for some in found]
    measured += _metric_scores(nodes, off, targets, taxonomy, settings.unit)
    with progress(settings.resamples, "resamples") as advance:
        statistics = rank_models(measured, resamples=settings.resamples, seed=settings.seed, advance=advance)
    labels = tuple(m.name for m in measured)
    over = f"{measured[0].scores.shape[1]:,} {settings.unit}s"
    values = np.stack([m.values() for m in measured])
    counts = {
        name: (
            len(said(some)),
            len(some) - len(said(some)),
            sum(p is not None and p.abstained for p in here),
            sum(p is not None and p.off_tree for p in here),
        )
        for name, some, here in zip(names, rows, found, strict=True)
    }
    missing = sum(n for _, n, *_ in counts.values())
    scores_notes = ["Text measures and accuracy are in percent, hR, hP and hF between 0 and 1, as in the paper."]
    if missing:
        scores_notes.append(
            f"{missing:,} answers are missing (failed calls, or no such guess). They are no zeros: a value is over the "
            "model's own answers, a rank compares each two models on the examples that both answered."
        )
    if settings.unit == "target":
        scores_notes.append(_UNPAIRED)
    scores_notes.append(trivial_answer(taxonomy, np.concatenate(targets)))
    scores_notes += unscored
    for measure in measures:
        scores_notes += [
            note if note.startswith(measure.label) else f"{measure.label}: {note}" for note in measure.notes
        ]
    tables: tuple[Table, ...] = (
        scores_table(names, labels, values, counts, scores_notes),
        ranks_table(names, labels, statistics.ranks),
        uncertainty_table(names, labels, statistics, f"{settings.resamples:,} resamples of the {settings.unit}s"),
        tau_table(labels, statistics),
    )
    if part is not None:
        both = dict(zip(names, zip(nodes, targets, strict=True), strict=True))
        tables = (*tables, both_trees_table(part, both, off_tree=dict(zip(names, off, strict=True))))
    return StudyReport(
        study="ranking",
        title=TITLE,
        settings={
            **(record or {}),
            "models": names,
            "unit": settings.unit,
            f"{settings.unit}s": measured[0].scores.shape[1],
            "measures": [measure.identity() for measure in measures],
            "mapper": mapper.identity(),
            "reference": settings.reference,
            "question_column": settings.question_column,
            "resamples": settings.resamples,
            "seed": settings.seed,
        },
        tables=tables,
        figures={"ranks": lambda: bump_figure(names, labels, statistics.ranks, statistics, over)},
        notes=tuple(notes),
    )


def _check(models: Mapping[str, Sequence[AnswerRow]], measures: Sequence[Measure], settings: RankingSettings) -> None:
    if len(models) < 2:
        raise DataError(
            "A ranking needs two models or more.",
            value=list(models),
            remedy="Give several files as MODEL=FILE, or one with --by COLUMN or several --guess.",
        )
    if settings.reference not in REFERENCES:
        raise DataError("There is no such reference.", value=settings.reference, remedy=f"Use {', '.join(REFERENCES)}.")
    doubled = sorted({m.label for m in measures if [n.label for n in measures].count(m.label) > 1})
    if doubled:
        raise DataError("Two measures have the same heading.", value=doubled, remedy="Ask for one of them.")
    for measure in measures:
        _check_needs(measure.name, measure.needs_images, measure.needs_questions, settings.question_column)


def check_kinds(kinds: Sequence[MeasureKind], question_column: str | None) -> bool:
    """Checks that files of answers hold what measures need, before their models are loaded.

    Returns:
        Whether one of them is a judge, which is shown the question.

    Raises:
        DataError: If one needs images, or the question and there is no column of it.
    """
    for kind in kinds:
        _check_needs(kind.kind, "image" in kind.needs, "question" in kind.needs, question_column)
    return any("question" in kind.needs for kind in kinds)


def check_questions(name: str, rows: Sequence[AnswerRow], column: str | None) -> None:
    """Checks that the question of every answer of a model is known.

    Raises:
        DataError: If a row has none.
    """
    for row in rows:
        if row.answer is not None:
            try:
                _question(row, column)
            except DataError as error:
                raise DataError(f"{name}: {error.message}", value=error.value, remedy=error.remedy) from None


def _check_needs(name: str, images: bool, questions: bool, question_column: str | None) -> None:
    if images:
        raise DataError(
            f"The measure {name} needs images, which files of answers do not hold.",
            remedy="Leave it out here; taxtune measure takes images.",
        )
    if questions and question_column is None:
        raise DataError(
            f"The measure {name} needs the prompt that was asked.",
            remedy="Name the column that holds it with --question-column.",
        )


def _text_scores(
    rows: Sequence[Sequence[AnswerRow]], measure: Measure, taxonomy: Taxonomy, settings: RankingSettings
) -> list[FloatArray]:
    """Returns the measure's score of every answer, an array a model; NaN where there is none."""
    references: dict[int, tuple[str, ...]] = {}
    for row in (row for part in rows for row in part):
        if row.target not in references:
            references[row.target] = (
                taxonomy.names(row.target)
                if settings.reference == "any-name"
                else (taxonomy.labels[row.target],)
                if settings.reference == "label"
                else (taxonomy.common_name(row.target),)
            )
    if isinstance(measure, Cider):
        # A document a target: what one model is given must not depend on which answers the others gave.
        measure.fit(list(references.values()))
    # Each distinct comparison once: models often say the same.
    pairs: dict[tuple[str, str, str], int] = {}
    wanted: list[list[list[int]]] = []
    for part in rows:
        wanted.append([])
        for row in part:
            question = _question(row, settings.question_column)
            found = [] if row.answer is None else [(row.answer, name, question) for name in references[row.target]]
            wanted[-1].append([pairs.setdefault(pair, len(pairs)) for pair in found])
    answers, names, questions = zip(*pairs, strict=True) if pairs else ((), (), ())
    scores = measure.scores(answers, names, questions=questions if measure.needs_questions else None)
    table = [np.full(len(part), np.nan) for part in rows]
    for i, part_wanted in enumerate(wanted):
        for j, numbers in enumerate(part_wanted):
            known = scores[numbers][~np.isnan(scores[numbers])]
            if known.size:
                table[i][j] = known.max()
    return table


def _question(row: AnswerRow, column: str | None) -> str:
    if column is None:
        return ""
    value = row.fields.get(column)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"Row {row.row} has no {column}.", value=value, remedy="Give the prompt that was asked.")
    return value


def _metric_scores(
    nodes: Sequence[IntArray],
    off_tree: Sequence[NDArray[np.bool_]],
    targets: Sequence[IntArray],
    taxonomy: Taxonomy,
    unit: str,
) -> list[MeasuredModels]:
    hp, hr, exact = ([np.full(len(some), np.nan) for some in nodes] for _ in range(3))
    for i, (some, off, target) in enumerate(zip(nodes, off_tree, targets, strict=True)):
        known = some >= 0
        hp[i][known], hr[i][known] = precision_recall(taxonomy, some[known], target[known], off_tree=off[known])
        exact[i][known] = (some == target)[known] & ~off[known]
    tables = {name: _by_unit(scores, targets, unit) for name, scores in (("hP", hp), ("hR", hr), ("accuracy", exact))}
    return [
        MeasuredModels(name, tables["hP"], tables["hR"]) if name == "hF" else MeasuredModels(name, tables[name])
        for name in METRIC_COLUMNS
    ]


def _by_unit(scores: Sequence[FloatArray], targets: Sequence[IntArray], unit: str) -> FloatArray:
    """Returns scores of shape (models, units): those of the examples, or the means over each target's examples."""
    if unit == "example":
        return np.stack(scores)
    nodes = np.unique(np.concatenate(targets))
    table = np.full((len(scores), len(nodes)), np.nan)
    for i, (values, target) in enumerate(zip(scores, targets, strict=True)):
        known = ~np.isnan(values)
        place = np.searchsorted(nodes, target[known])
        counts = np.bincount(place, minlength=len(nodes))
        sums = np.bincount(place, weights=values[known], minlength=len(nodes))
        table[i, counts > 0] = sums[counts > 0] / counts[counts > 0]
    return table


def _unscored(
    label: str, names: Sequence[str], rows: Sequence[Sequence[AnswerRow]], scores: Sequence[FloatArray]
) -> list[str]:
    notes = []
    for name, part, values in zip(names, rows, scores, strict=True):
        answered, known = len(said(part)), int((~np.isnan(values)).sum())
        if known < answered:
            notes.append(f"{label}: {answered - known:,} of {answered:,} answers of {name} are unscored.")
    return notes
