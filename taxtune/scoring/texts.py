"""Text measures of a table of answers against their references, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers import AnswerTable
from taxtune.errors import DataError
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.scoring.nodes import interval_cells

__all__ = ["check_questions", "mean_interval", "measure_answers", "measured_report"]

FloatArray = NDArray[np.float64]

_COLUMNS = ("measure", "mean", "low", "high", "scored", "unscored")
_NOTE = "low and high: 95 % bootstrap interval of the mean over the scored answers."


def check_questions(name: str, answers: AnswerTable) -> None:
    """Raises a `DataError` if a row lacks the question that a measure needs.

    That is known before the measure's model is loaded.
    """
    for row in answers.rows:
        if row.question is None:
            raise DataError(
                f"{name} needs the question of every answer.",
                file=answers.file,
                row=row.row,
                remedy="Give each row its question, or give the column with --question-column.",
            )


def measure_answers(measure: Measure, answers: AnswerTable) -> FloatArray:
    """Returns the score of each answer, shape (n,). NaN is unscored.

    Raises:
        DataError: If the measure needs questions and the file has none.
    """
    texts = [row.answer or "" for row in answers.rows]
    references = [row.references for row in answers.rows]
    if not measure.needs_questions:
        return measure.scores_many(texts, references)
    check_questions(measure.name, answers)
    questions = [row.question or "" for row in answers.rows]
    return measure.scores_many(texts, references, questions=questions)


def mean_interval(scores: ArrayLike, *, resamples: int = 2000, seed: int = 0) -> Interval | None:
    """Returns the mean of the scores that are not NaN with its 95 % bootstrap interval.

    It is None if all scores are NaN.

    Args:
        scores: The scores, shape (n,).
        resamples: Bootstrap resamples.
        seed: Seed of the resamples.
    """
    values = np.asarray(scores, dtype=np.float64)
    values = np.sort(values[~np.isnan(values)])
    if not values.size:
        return None
    # A draw over few different values is the same as one over answers, and less work.
    few = len(np.unique(values)) * 10 < len(values)
    keys = [values] if few else None
    sample = Sample({"mean": values}, keys=keys)
    intervals = bootstrap(sample, resamples=resamples, seed=seed)
    return intervals["mean"]


def measured_report(
    answers: AnswerTable,
    measures: Sequence[Measure],
    *,
    settings: Mapping[str, Any],
    resamples: int = 2000,
    seed: int = 0,
) -> StudyReport:
    """Returns the mean of each measure over the answers, and the score of every answer.

    A missing answer says nothing.

    Args:
        answers: The answers with their references.
        measures: The measures.
        settings: What the report records of how it was made.
        resamples: Bootstrap resamples.
        seed: Their seed.

    Raises:
        DataError: If a measure needs questions and the answers have none.
    """
    scores: dict[str, FloatArray] = {}
    means: list[tuple[Cell, ...]] = []
    notes = list(answers.notes)
    for measure in measures:
        values = measure_answers(measure, answers)
        scores[measure.name] = values
        notes += [f"{measure.label}: {text}" for text in measure.notes]
        unscored = int(np.isnan(values).sum())
        scored = len(values) - unscored
        interval = mean_interval(values, resamples=resamples, seed=seed)
        means.append((measure.name, *interval_cells(interval), scored, unscored))
    table = Table("measures", "Mean score", _COLUMNS, tuple(means), notes=(_NOTE,))
    rows = []
    for i, answer in enumerate(answers.rows):
        row: dict[str, Any] = {"row": answer.row, "answer": answer.answer or ""}
        row["references"] = list(answer.references)
        row["scores"] = {name: values[i] for name, values in scores.items()}
        rows.append(row)
    identities = [measure.identity() for measure in measures]
    left_out = list(answers.unanswered)
    return StudyReport(
        study="measure",
        title="Text measures of answers",
        settings={**settings, "measures": identities},
        tables=(table,),
        notes=tuple(notes),
        data={"n": len(rows), "left_out": left_out, "rows": rows},
    )
