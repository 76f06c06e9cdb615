"""Measuring a file of answers and references: reading it, the best of several references, means with intervals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import DataError
from taxtune.metrics.base import ManyReferencesMeasure, Measure
from taxtune.metrics.predictions import EMPTY, read_records
from taxtune.metrics.registry import split_spec
from taxtune.metrics.statistics import Interval, Sample, bootstrap

__all__ = [
    "MeasuredAnswer",
    "MeasuredAnswers",
    "PairColumns",
    "check_needs",
    "mean_interval",
    "measure_answers",
    "read_answers",
]

FloatArray = NDArray[np.float64]

_LISTED = 20
# Images held in memory at a time, and random numbers drawn at a time.
_IMAGES = 256


@dataclass(frozen=True, slots=True)
class PairColumns:
    """Which columns of a file hold what; question and image need not be there unless a measure asks for them."""

    answer: str = "answer"
    reference: str = "reference"
    question: str = "question"
    image: str = "image"


@dataclass(frozen=True, slots=True)
class MeasuredAnswer:
    """An answer with what it is measured against.

    Attributes:
        row: The 1-based line of the file.
        answer: The answer; "" says nothing.
        references: One reference or more.
        question: What was asked, or None.
        image: The image file, or None.
    """

    row: int
    answer: str
    references: tuple[str, ...]
    question: str | None
    image: Path | None


@dataclass(frozen=True, slots=True)
class MeasuredAnswers:
    """The rows of a file that can be measured.

    Attributes:
        file: The file.
        rows: The rows, in order.
        left_out: The lines of rows without an answer that are left out.
        notes: What the user should know.
    """

    file: str
    rows: tuple[MeasuredAnswer, ...]
    left_out: tuple[int, ...]
    notes: tuple[str, ...]


def read_answers(
    path: str | Path, *, columns: PairColumns | None = None, empty: str = "error", images: Path | None = None
) -> MeasuredAnswers:
    """Reads answers and references from a CSV or JSONL file.

    The reference column holds a text or a list of texts (in CSV: a JSON list). Where the file or a row has none, the
    column of the plural name ("references") is taken.

    Args:
        path: The file.
        columns: Its columns.
        empty: One of `taxtune.metrics.predictions.EMPTY`: what an answer means that is null, or an empty cell of a CSV:
            refuse the file, take it for an answer that says nothing, or leave the row out.
        images: The folder that image names start from; by default the file's.

    Raises:
        DataError: If the file cannot be read, lacks a column, or has rows that cannot be used; one message names up to
            20 of them.
    """
    columns = columns or PairColumns()
    if empty not in EMPTY:
        raise DataError("There is no such meaning of an empty answer.", value=empty, remedy=f"Use {', '.join(EMPTY)}.")
    file = str(path)
    records = read_records(path, what="answers")
    there = {name for _, record in records for name in record}
    # A file may have both: "reference" where there is one and "references" where there are several.
    named = [name for name in (columns.reference, f"{columns.reference}s") if name in there] or [columns.reference]
    for name in (columns.answer, named[0]):
        if name not in there:
            raise DataError(
                f"The file has no column {name!r}.", file=file, value=sorted(there), remedy="Name those that it has."
            )
    rows: list[MeasuredAnswer] = []
    problems: list[tuple[int, str]] = []
    left_out: list[int] = []
    folder = Path(path).parent if images is None else images
    for line, record in records:
        answer = record.get(columns.answer)
        if answer is None and empty == "leave-out":
            left_out.append(line)
            continue
        if answer is None and empty == "abstain":
            answer = ""
        if answer is None:
            problems.append((line, f"{columns.answer} is empty"))
            continue
        reference = next((name for name in named if record.get(name) is not None), named[0])
        references = _references(record.get(reference))
        question, image = record.get(columns.question), record.get(columns.image)
        if not isinstance(answer, str):
            problems.append((line, f"{columns.answer} is no text but {answer!r}"))
        elif not references:
            problems.append((line, f"{reference} is no text or list of texts but {record.get(reference)!r}"))
        else:
            rows.append(
                MeasuredAnswer(
                    line,
                    answer,
                    references,
                    None if question in (None, "") else str(question),
                    None if image in (None, "") else folder / str(image),
                )
            )
    if problems:
        raise _listed(problems, file, len(records))
    if not rows:
        raise DataError("No row has an answer, so there is nothing to measure.", file=file)
    many = sum(len(row.references) > 1 for row in rows)
    notes = []
    if left_out:
        notes.append(f"{file}: {len(left_out):,} of {len(records):,} rows are left out: no answer")
    if many:
        notes.append(
            f"{many:,} of {len(rows):,} answers have several references; an answer's score is that of the reference it "
            "fits best, except for measures that are defined for all references together."
        )
    return MeasuredAnswers(file, tuple(rows), tuple(left_out), tuple(notes))


def _references(value: object) -> tuple[str, ...]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            listed = json.loads(value)
        except (json.JSONDecodeError, RecursionError):
            listed = None  # a text that begins with a bracket
        if isinstance(listed, list):
            value = listed
    if isinstance(value, str):
        return (value,) if value.strip() else ()
    if isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value):
        return tuple(value)
    return ()


def _listed(problems: Sequence[tuple[int, str]], file: str, total: int) -> DataError:
    lines = [f"\n  row {line}: {what[:200]}" for line, what in problems[:_LISTED]]
    if len(problems) > _LISTED:
        lines.append(f"\n  and {len(problems) - _LISTED:,} more")
    remedy = "\nCorrect these rows or remove them."
    if any(what.endswith("is empty") for _, what in problems):
        remedy += (
            " For empty answers say what they mean: --empty abstain (the model said nothing) or --empty leave-out "
            "(the call failed)."
        )
    return DataError(f"{len(problems):,} of {total:,} rows cannot be measured:{''.join(lines)}{remedy}", file=file)


def check_needs(spec: str, answers: MeasuredAnswers) -> None:
    """Checks that a file has what a measure needs, before its model is loaded.

    Args:
        spec: The measure's specification.
        answers: The answers.

    Raises:
        DataError: If there is no such measure, or it needs questions or images and the file has none.
    """
    kind, _ = split_spec(spec)
    _check(spec, answers, questions="question" in kind.needs, images="image" in kind.needs)


def _check(name: str, answers: MeasuredAnswers, *, questions: bool, images: bool) -> None:
    lacking = next((row.row for row in answers.rows if row.question is None), None)
    if questions and lacking is not None:
        raise DataError(
            f"{name} needs the question of every answer.",
            file=answers.file,
            row=lacking,
            remedy="Give each row its question, or name the column with --question-column.",
        )
    if images and all(row.image is None for row in answers.rows):
        raise DataError(
            f"{name} needs images, and no row names one.",
            file=answers.file,
            remedy="Give rows their image, or name the column with --image-column.",
        )


def measure_answers(measure: Measure, answers: MeasuredAnswers) -> FloatArray:
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
    if isinstance(measure, ManyReferencesMeasure):
        return measure.scores_many([row.answer for row in rows], [row.references for row in rows], **extra)
    owner = [i for i, row in enumerate(rows) for _ in row.references]
    if extra:
        extra = {"questions": [rows[i].question for i in owner]}
    scores = measure.scores(
        [rows[i].answer for i in owner], [reference for row in rows for reference in row.references], **extra
    )
    return _best(scores, owner, len(rows))


def _best(scores: FloatArray, owner: Sequence[int], n: int) -> FloatArray:
    best = np.full(n, np.nan)
    # fmax takes the number where the other is NaN.
    np.fmax.at(best, np.array(owner, dtype=np.int64), scores)
    return best


def _with_images(measure: Measure, answers: MeasuredAnswers) -> FloatArray:
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
        scores[[i for i, _ in block]] = measure.scores(
            [row.answer for row in rows], [row.references[0] for row in rows], [image for _, image in block]
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
