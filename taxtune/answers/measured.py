"""Measuring answers against their references: the best of several references, means with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.read import AnswerTable
from taxtune.errors import DataError
from taxtune.metrics.base import Measure
from taxtune.metrics.registry import split_spec
from taxtune.metrics.statistics import Interval, Sample, bootstrap

__all__ = [
    "check_needs",
    "mean_interval",
    "measure_answers",
]

FloatArray = NDArray[np.float64]

# Images held in memory at a time, and random numbers drawn at a time.
_IMAGES = 256


def check_needs(spec: str, answers: AnswerTable) -> None:
    """Checks that a file has what a measure needs, before its model is loaded.

    Args:
        spec: The measure's specification.
        answers: The answers.

    Raises:
        DataError: If there is no such measure, or it needs questions or images and the file has none.
    """
    kind, _ = split_spec(spec)
    _check(spec, answers, questions="question" in kind.needs, images="image" in kind.needs)


def _check(name: str, answers: AnswerTable, *, questions: bool, images: bool) -> None:
    lacking = next((row.row for row in answers.rows if row.question is None), None)
    if questions and lacking is not None:
        raise DataError(
            f"{name} needs the question of every answer.",
            file=answers.file,
            row=lacking,
            remedy="Give each row its question, or give the column with --question-column.",
        )
    if images and all(row.image is None for row in answers.rows):
        raise DataError(
            f"{name} needs images, but no row has one.",
            file=answers.file,
            remedy="Give each row its image, or give the column with --image-column.",
        )


def measure_answers(measure: Measure, answers: AnswerTable) -> FloatArray:
    """Returns the score of each answer, shape (n,); NaN is unscored.

    Args:
        measure: The measure. One that needs images leaves rows without an image unscored.
        answers: The answers.

    Raises:
        DataError: If the measure needs questions or images and the file has none.
        ImageError: If an image cannot be read.
    """
    rows = answers.rows
    _check(measure.name, answers, questions=measure.needs_questions, images=measure.needs_images)
    if measure.needs_images:
        return _with_images(measure, answers)
    extra: dict[str, Any] = {"questions": [row.question for row in rows]} if measure.needs_questions else {}
    return measure.scores_many([row.answer or "" for row in rows], [row.references for row in rows], **extra)


def _with_images(measure: Measure, answers: AnswerTable) -> FloatArray:
    from taxtune.data.images import load_image

    by_image: dict[Path, list[int]] = {}
    for i, row in enumerate(answers.rows):
        if row.image is not None:
            by_image.setdefault(row.image, []).append(i)
    scores = np.full(len(answers.rows), np.nan)
    files = list(by_image)
    for start in range(0, len(files), _IMAGES):
        block = [
            (i, image)
            for file in files[start : start + _IMAGES]
            for image in (load_image(file),)
            for i in by_image[file]
        ]
        rows = [answers.rows[i] for i, _ in block]
        scores[[i for i, _ in block]] = measure.scores_many(
            [row.answer or "" for row in rows], [row.references for row in rows], [image for _, image in block]
        )
    return scores


def mean_interval(
    scores: ArrayLike, *, resamples: int = 2000, confidence: float = 0.95, seed: int = 0
) -> Interval | None:
    """Returns the mean of the scores that are not NaN with a percentile bootstrap interval; None if all are.

    Args:
        scores: Scores, shape (n,).
        resamples: Bootstrap resamples, at least 1.
        confidence: Coverage of the interval, between 0 and 1.
        seed: Seed of the resampling.
    """
    values = np.asarray(scores, dtype=np.float64)
    values = np.sort(values[~np.isnan(values)])
    if not values.size:
        return None
    # A draw over few different values is the same as one over answers, and less work.
    few = len(np.unique(values)) * 10 < len(values)
    sample = Sample({"mean": values}, keys=(values,) if few else None)
    return bootstrap(sample, resamples=resamples, confidence=confidence, seed=seed)["mean"]
