"""Text measures of answers against their references: the score of each answer, and means with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.read import AnswerTable
from taxtune.errors import DataError
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.report.output import StudyReport, Table

__all__ = ["check_needs", "mean_interval", "measure_answers", "measured_report"]

_IMAGES = 256  # held in memory at a time


def check_needs(name: str, needs: Sequence[str], answers: AnswerTable) -> None:
    """Checks that a file has what a measure needs ("question", "image"), before its model is loaded.

    Raises:
        DataError: If a row has no question, or no row has an image.
    """
    lacking = next((row.row for row in answers.rows if row.question is None), None)
    if "question" in needs and lacking is not None:
        remedy = "Give each row its question, or give the column with --question-column."
        raise DataError(f"{name} needs the question of every answer.", file=answers.file, row=lacking, remedy=remedy)
    if "image" in needs and all(row.image is None for row in answers.rows):
        remedy = "Give each row its image, or give the column with --image-column."
        raise DataError(f"{name} needs images, but no row has one.", file=answers.file, remedy=remedy)


def measure_answers(measure: Measure, answers: AnswerTable) -> NDArray[np.float64]:
    """The score of each answer, shape (n,); NaN is unscored, as are rows without an image where the measure needs one.

    Raises:
        DataError: If the measure needs questions or images and the file has none.
        ImageError: If an image cannot be read.
    """
    rows = answers.rows
    needs = {"question": measure.needs_questions, "image": measure.needs_images}
    check_needs(measure.name, [what for what, needed in needs.items() if needed], answers)
    texts, references = [row.answer or "" for row in rows], [row.references for row in rows]
    if not measure.needs_images:
        extra: dict[str, Any] = {"questions": [row.question for row in rows]} if measure.needs_questions else {}
        return measure.scores_many(texts, references, **extra)
    from taxtune.data.images import load_image

    scores = np.full(len(rows), np.nan)
    shown = sorted((row.image, i) for i, row in enumerate(rows) if row.image is not None)
    for start in range(0, len(shown), _IMAGES):
        files, block = map(list, zip(*shown[start : start + _IMAGES], strict=True))
        images = {file: load_image(file) for file in set(files)}
        scores[block] = measure.scores_many(
            [texts[i] for i in block], [references[i] for i in block], [images[file] for file in files]
        )
    return scores


def mean_interval(
    scores: ArrayLike, *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> Interval | None:
    """The mean of the scores (n,) that are not NaN with a percentile bootstrap interval; None if all are."""
    values = np.asarray(scores, dtype=np.float64)
    values = np.sort(values[~np.isnan(values)])
    if not values.size:
        return None
    # A draw over few different values is the same as one over answers, and less work.
    few = len(np.unique(values)) * 10 < len(values)
    sample = Sample({"mean": values}, keys=(values,) if few else None)
    return bootstrap(sample, resamples=resamples, confidence=confidence, seed=seed)["mean"]


def measured_report(
    answers: AnswerTable,
    measures: Sequence[Measure],
    *,
    settings: Mapping[str, Any],
    resamples: int = 2000,
    seed: int = 0,
) -> StudyReport:
    """The mean of each measure over the answers, and the score of every answer; a missing answer says nothing.

    `settings` are recorded in the report.

    Raises:
        DataError: If a measure needs questions or images and the answers have none.
        ImageError: If an image cannot be read.
    """
    scores = {measure.name: measure_answers(measure, answers) for measure in measures}
    rows = []
    for name, values in scores.items():
        unscored = int(np.isnan(values).sum())
        mean = mean_interval(values, resamples=resamples, seed=seed)
        cells = (None, None, None) if mean is None else (mean.estimate, mean.low, mean.high)
        rows.append((name, *cells, len(values) - unscored, unscored))
    columns = ("measure", "mean", "low", "high", "scored", "unscored")
    note = "low and high: 95 % bootstrap interval of the mean over the scored answers."
    notes = [f"{measure.label}: {text}" for measure in measures for text in measure.notes]
    return StudyReport(
        study="measure",
        title="Text measures of answers",
        settings={**settings, "measures": [measure.identity() for measure in measures]},
        tables=(Table("measures", "Mean score", columns, tuple(rows), notes=(note,)),),
        notes=(*answers.notes, *notes),
        data={
            "n": len(answers.rows),
            "left_out": list(answers.unanswered),
            "rows": [
                {
                    "row": row.row,
                    "answer": row.answer or "",
                    "references": list(row.references),
                    "scores": {name: values[i] for name, values in scores.items()},
                }
                for i, row in enumerate(answers.rows)
            ],
        },
    )
