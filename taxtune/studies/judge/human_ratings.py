"""Answers that people have rated: question, references, answer and rating, from CSV or JSONL.

Paper 4 ("Collecting Human Judgments") makes one rating of five binary ones: 1.0 where at least four people call the
answer correct, 0.5 where two or three do, and 0.0 otherwise. A numeric column is taken as it is.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.records import read_records
from taxtune.errors import DataError
from taxtune.studies.judge import JudgeSettings

__all__ = ["RatedAnswer", "RatedAnswers", "krippendorff_alpha", "quality", "read_rated_answers"]

_RATERS = 5
_RIGHT = {"1", "1.0", "true", "yes", "correct"}
_WRONG = {"0", "0.0", "false", "no", "incorrect"}


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """One answer that people have rated.

    Attributes:
        row: The 1-based line of the file.
        id: What identifies it.
        question: What was asked; "" where the file has no question.
        references: The answers that people gave, duplicates included, one or more.
        answer: The candidate.
        human: The rating, larger is better.
        caption: A description of the image, or None.
        group: Its group, or "".
        category: Its category, or "".
    """

    row: int
    id: str
    question: str
    references: tuple[str, ...]
    answer: str
    human: float
    caption: str | None = None
    group: str = ""
    category: str = ""


@dataclass(frozen=True, slots=True)
class RatedAnswers:
    """The rated answers of a file.

    Attributes:
        file: The file.
        rows: The answers.
        notes: Which rows are left out, counted, and how far the people agree.
        alpha: Krippendorff's alpha of the binary ratings; None where the file holds one number an answer.
    """

    file: str
    rows: tuple[RatedAnswer, ...]
    notes: tuple[str, ...]
    alpha: float | None = None


def quality(ratings: Sequence[int]) -> float:
    """Returns the rating that paper 4 makes of five binary ones: 1.0, 0.5 or 0.0.

    Raises:
        ValueError: If there are not five, or one is not 0 or 1.
    """
    if len(ratings) != _RATERS or any(rating not in (0, 1) for rating in ratings):
        raise ValueError(f"five ratings of 0 or 1 are needed, not {list(ratings)!r}")
    right = sum(ratings)
    return 1.0 if right >= 4 else 0.5 if right >= 2 else 0.0


def krippendorff_alpha(ratings: NDArray[np.int64]) -> float | None:
    """Returns Krippendorff's alpha of binary ratings without gaps; None where all ratings are the same.

    1 is perfect agreement, 0 what chance gives (Krippendorff, 2011, nominal data).

    Args:
        ratings: 0 or 1, shape (answers, people), at least two people.
    """
    people = ratings.shape[1]
    ones = ratings.sum(axis=1)
    total, positive = ratings.size, int(ones.sum())
    if positive in (0, total):
        return None
    # Pairs of people who differ on an answer, and pairs of any two ratings that differ.
    observed: float = float((ones * (people - ones)).sum()) * 2 / (total * (people - 1))
    expected = 2.0 * positive * (total - positive) / (total * (total - 1))
    return float(1.0 - observed / expected)


def read_rated_answers(settings: JudgeSettings) -> RatedAnswers:
    """Reads a CSV or JSONL file of rated answers.

    Rows without an answer (a failed call), a reference or a rating are left out and counted.

    Args:
        settings: The file and its columns.

    Raises:
        DataError: If the file cannot be read, a column is missing, a rating is neither a number nor five binary
            ratings, both kinds occur, or no row is left.
    """
    path = settings.file
    records = read_records(path, what="rated answers")
    human = [name.strip() for name in settings.human_column.split(",")]
    needed = [settings.answer_column, settings.references_column, *human]
    needed += [name for name in (settings.caption_column, settings.by, settings.category) if name is not None]
    there = {name for _, record in records for name in record}
    for name in needed:
        if name not in there:
            raise DataError(
                f"There is no column {name!r}.", file=path, remedy=f"There are: {', '.join(sorted(there))}."
            )
    rows: list[RatedAnswer] = []
    binary: list[list[int]] = []
    left_out: Counter[str] = Counter()
    for line, record in records:
        rating = _rating([record.get(name) for name in human], path, line)
        references = _references(record.get(settings.references_column), path, line)
        answer = record.get(settings.answer_column)
        reason = (
            "no answer"
            if answer is None
            else "no rating"
            if rating is None
            else "no reference"
            if not references
            else ""
        )
        if reason or rating is None:
            left_out[reason] += 1
            continue
        if isinstance(rating, list):
            binary.append(rating)
        rows.append(
            RatedAnswer(
                row=line,
                id=str(record.get(settings.id_column) or line),
                question=_text(record.get(settings.question_column)),
                references=references,
                answer=_text(answer),
                human=quality(rating) if isinstance(rating, list) else rating,
                caption=_optional(record, settings.caption_column),
                group=_optional(record, settings.by) or "",
                category=_optional(record, settings.category) or "",
            )
        )
    if not rows:
        raise DataError("No answers with human ratings are left.", file=path, value=dict(left_out))
    if binary and len(binary) < len(rows):
        raise DataError(
            f"{len(binary):,} answers have five ratings and {len(rows) - len(binary):,} have one number.",
            file=path,
            remedy="Give every answer the same kind of rating.",
        )
    notes = [
        f"{count:,} {'row' if count == 1 else 'rows'} left out: {reason}." for reason, count in sorted(left_out.items())
    ]
    joined = [row for row in rows if len(row.references) == 1 and re.search(r"\S\s*[|;]\s*\S", row.references[0])]
    if joined:
        notes.append(
            f"{len(joined):,} of {len(rows):,} answers have one reference with | or ; in it, which is read as one "
            f"text; the first is in row {joined[0].row}: {joined[0].references[0][:80]!r}. "
            'Write several references as a list: ["a", "b"].'
        )
    alpha = krippendorff_alpha(np.array(binary, dtype=np.int64)) if binary else None
    if binary:
        shown = "undefined because all ratings are the same" if alpha is None else f"{alpha:.3f}"
        notes.append(f"Krippendorff's alpha of the five ratings: {shown} (paper 4: 0.620).")
    return RatedAnswers(str(path), tuple(rows), tuple(notes), alpha)


def _rating(cells: Sequence[Any], path: Path, line: int) -> float | list[int] | None:
    if len(cells) == 1:
        cell = cells[0]
        if isinstance(cell, str) and cell.strip().startswith("["):
            cell = _json_list(cell, path, line)
        if not isinstance(cell, list):
            return _number(cell, path, line)
        cells = cell
    if cells and all(cell is None or not str(cell).strip() for cell in cells):
        return None
    if len(cells) != _RATERS:
        raise DataError(
            f"The answer has {len(cells)} binary ratings.",
            file=path,
            row=line,
            value=cells,
            remedy="Paper 4's rule is for five ratings; combine yours into one number.",
        )
    missing = sum(cell is None or not str(cell).strip() for cell in cells)
    if missing:
        raise DataError(
            f"{missing} of the {_RATERS} binary ratings {'is' if missing == 1 else 'are'} missing.",
            file=path,
            row=line,
            value=cells,
            remedy="Leave all five empty to exclude the answer, or combine those you have into one number.",
        )
    ratings = []
    for cell in cells:
        said = str(cell).strip().lower()
        if said not in _RIGHT | _WRONG:
            raise DataError("A binary rating must be 0 or 1.", file=path, row=line, value=cell)
        ratings.append(int(said in _RIGHT))
    return ratings


def _number(cell: Any, path: Path, line: int) -> float | None:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return None
    try:
        number = float(cell)
    except (TypeError, ValueError):
        raise DataError("The rating is not a number.", file=path, row=line, value=cell) from None
    if math.isinf(number):
        raise DataError("The rating is infinite.", file=path, row=line, value=cell)
    return None if math.isnan(number) else number


def _references(cell: Any, path: Path, line: int) -> tuple[str, ...]:
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = _json_list(cell, path, line)
    if not isinstance(cell, list):
        cell = [cell]
    # VQA's own files hold {"answer": "yes", "answer_confidence": ...} for each reference.
    texts = [item.get("answer") if isinstance(item, Mapping) else item for item in cell]
    return tuple(_text(text) for text in texts if text is not None and _text(text).strip())


def _json_list(cell: str, path: Path, line: int) -> list[Any]:
    try:
        value = json.loads(cell)
    except ValueError:
        raise DataError("The list is not JSON.", file=path, row=line, value=cell) from None
    return value if isinstance(value, list) else [value]


def _optional(record: Mapping[str, Any], name: str | None) -> str | None:
    value = None if name is None else record.get(name)
    return None if value is None or not str(value).strip() else str(value)


def _text(value: Any) -> str:
    # JSON's true and false are what people answer to a yes-no question that was read carelessly.
    return "" if value is None else str(value)
