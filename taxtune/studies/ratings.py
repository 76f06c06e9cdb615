"""Answers that people have rated, from a table or JSON lines.

Paper 4 ("Collecting Human Judgments") makes one rating of five binary ones: 1.0 where at least four people call the
answer correct, 0.5 where two or three do, and 0.0 otherwise. A numeric column is taken as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FiniteFloat,
    StringConstraints,
    ValidationError,
)

from taxtune.answers import read_records
from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.studies.judge_settings import JudgeStudySettings

__all__ = ["krippendorff_alpha", "quality", "read_rated_answers"]

_RATERS = 5


def quality(ratings: Sequence[float]) -> float:
    """Returns paper 4's rating for five binary ones: 1.0, 0.5 or 0.0."""
    right = sum(ratings)
    if right >= 4:
        return 1.0
    return 0.5 if right >= 2 else 0.0


def krippendorff_alpha(ratings: NDArray[np.integer | np.floating]) -> float:
    """Returns Krippendorff's alpha of binary ratings without gaps, shape (answers, people); NaN where all are the same.

    1 is perfect agreement, 0 the agreement of chance (Krippendorff, 2011, nominal data).
    """
    people, ones, total = ratings.shape[1], ratings.sum(axis=1), ratings.size
    # Pairs of people who differ on an answer, and pairs of any two ratings that differ.
    observed = (ones * (people - ones)).sum() * 2 / (total * (people - 1))
    expected = 2.0 * ones.sum() * (total - ones.sum()) / (total * (total - 1))
    return float(1.0 - observed / expected) if expected else float("nan")


def _listed(cell: Any) -> list[Any]:
    """A list, the JSON list of a text, or anything else as a list of one."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = json.loads(cell)
    items = cell if isinstance(cell, list) else [cell]
    # VQA's own files hold {"answer": "yes", "answer_confidence": ...} for each reference.
    return [item.get("answer") if isinstance(item, dict) else item for item in items]


def _references(cell: Any) -> list[Any]:
    """The references that are not blank; "none" is an answer that people give."""
    return [item for item in _listed(cell) if item is not None and str(item).strip()]


def _ratings(cell: Any) -> list[Any]:
    """The ratings; none where all are blank."""
    ratings = _listed(cell)
    texts = {str(item).strip().lower() for item in ratings}
    return [] if texts <= {"none", "", "nan"} else ratings


def _one_or_five(ratings: list[float]) -> list[float]:
    if len(ratings) > 1 and not (len(ratings) == _RATERS and {*ratings} <= {0, 1}):
        raise ValueError(f"give one number, or {_RATERS} ratings of 0 and 1")
    return ratings


_Text = Annotated[str, StringConstraints(strip_whitespace=True)]


class _RatedAnswer(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: str | None = None
    answer: str | None = None
    question: _Text = ""
    references: Annotated[tuple[str, ...], BeforeValidator(_references)] = ()
    human: Annotated[
        list[FiniteFloat], BeforeValidator(_ratings), AfterValidator(_one_or_five)
    ] = []
    caption: _Text = ""
    group: _Text = ""
    category: _Text = ""


def read_rated_answers(settings: JudgeStudySettings) -> tuple[pd.DataFrame, list[str]]:
    """Reads a file of rated answers; rows without an answer, a reference or a rating are left out and counted.

    Returns:
        The answers (row, id, question, references, answer, human, caption, group, category), and notes.

    Raises:
        DataError: If the file cannot be read, a column is missing, a rating is neither a number nor five binary
            ratings, both kinds occur, or no row is left.
    """
    records = read_records(settings.file, what="rated answers")
    columns = _columns(settings, {name for _, record in records for name in record})
    rows = []
    for line, record in records:
        cells = {name: record.get(str(column)) for name, column in columns.items()}
        given = {name: cell for name, cell in cells.items() if cell is not None}
        try:
            rated = _RatedAnswer.model_validate(given)
        except ValidationError as error:
            problem = error.errors()[0]
            message = f"{columns[str(problem['loc'][0])]}: {problem['msg']}."
            raise DataError(message, file=settings.file, row=line, value=problem["input"]) from None
        rows.append({"row": line, **rated.model_dump(), "id": rated.id or str(line)})
    answers = pd.DataFrame(rows)
    lacking = {
        "no answer": answers["answer"].isna(),
        "no rating": ~answers["human"].map(bool),
        "no reference": ~answers["references"].map(bool),
    }
    reasons = pd.Series(np.select(list(lacking.values()), list(lacking), ""))
    notes = []
    for reason, count in reasons[reasons != ""].value_counts().sort_index().items():
        notes.append(f"{count:,} {'row' if count == 1 else 'rows'} left out: {reason}.")
    answers = answers[reasons == ""].reset_index(drop=True)
    if answers.empty:
        raise DataError("No answers with human ratings are left.", file=settings.file, value=notes)
    ratings = answers["human"]
    is_binary = ratings.map(len) > 1
    if not is_binary.any():
        answers["human"] = ratings.map(itemgetter(0))
        return answers, notes
    if not is_binary.all():
        five, single = int(is_binary.sum()), int((~is_binary).sum())
        message = f"{five:,} answers have five ratings and {single:,} have one number."
        remedy = "Give every answer the same kind of rating."
        raise DataError(message, file=settings.file, remedy=remedy)
    answers["human"] = ratings.map(quality)
    alpha = krippendorff_alpha(np.array(ratings.tolist()))
    shown = "undefined because all ratings are the same" if np.isnan(alpha) else f"{alpha:.3f}"
    notes.append(f"Krippendorff's alpha of the five ratings: {shown} (paper 4: 0.620).")
    return answers, notes


def _columns(settings: JudgeStudySettings, there: set[str]) -> dict[str, str | None]:
    """Returns the column of each field of a rated answer; raises a DataError if a needed one is not there."""
    needed = {
        "answer": settings.answer_column,
        "references": settings.references_column,
        "human": settings.human_column,
        "caption": settings.caption_column,
        "group": settings.by,
        "category": settings.category,
    }
    for column in needed.values():
        if column is not None and column not in there:
            remedy = f"There are: {', '.join(sorted(there))}."
            message = f"There is no column {column!r}."
            raise DataError(message, file=settings.file, remedy=remedy)
    return needed | {"id": settings.id_column, "question": settings.question_column}
