"""Answers that people have rated, from a table or JSON lines.

Paper 4 ("Collecting Human Judgments") makes one rating of five binary ones: 1.0 where at least four people call the
answer correct, 0.5 where two or three do, and 0.0 otherwise. A numeric column is taken as it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers import read_records
from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.studies.judge import JudgeSettings

__all__ = ["krippendorff_alpha", "quality", "read_rated_answers"]

_RATERS = 5


def quality(ratings: Sequence[float]) -> float:
    """Returns paper 4's rating for five binary ones: 1.0, 0.5 or 0.0."""
    right = sum(ratings)
    return 1.0 if right >= 4 else 0.5 if right >= 2 else 0.0


def krippendorff_alpha(ratings: NDArray[np.integer | np.floating]) -> float:
    """Returns Krippendorff's alpha of binary ratings without gaps, shape (answers, people); NaN where all are the same.

    1 is perfect agreement, 0 the agreement of chance (Krippendorff, 2011, nominal data).
    """
    people, ones, total = ratings.shape[1], ratings.sum(axis=1), ratings.size
    # Pairs of people who differ on an answer, and pairs of any two ratings that differ.
    observed = (ones * (people - ones)).sum() * 2 / (total * (people - 1))
    expected = 2.0 * ones.sum() * (total - ones.sum()) / (total * (total - 1))
    return float(1.0 - observed / expected) if expected else float("nan")


def read_rated_answers(settings: JudgeSettings) -> tuple[pd.DataFrame, list[str]]:
    """Reads a file of rated answers; rows without an answer, a reference or a rating are left out and counted.

    Args:
        settings: The file and its columns.

    Returns:
        The answers (row, id, question, references, answer, human, caption, group, category), and notes.

    Raises:
        DataError: If the file cannot be read, a column is missing, a rating is neither a number nor five binary
            ratings, both kinds occur, or no row is left.
    """
    path, human = settings.file, settings.human_column
    records = read_records(path, what="rated answers")
    optional = {"caption": settings.caption_column, "group": settings.by, "category": settings.category}
    columns = sorted({name for _, record in records for name in record})
    for name in (settings.answer_column, settings.references_column, human, *filter(None, optional.values())):
        if name not in columns:
            raise DataError(f"There is no column {name!r}.", file=path, remedy=f"There are: {', '.join(columns)}.")
    rows, left_out = [], Counter[str]()
    for line, record in records:
        wrong = partial(DataError, file=path, row=line)
        answer, ratings = record.get(settings.answer_column), _ratings(record.get(human), wrong)
        references = _references(record.get(settings.references_column), wrong)
        missing = {"no answer": answer is None, "no rating": not ratings, "no reference": not references}
        if reason := next((reason for reason, lacking in missing.items() if lacking), None):
            left_out[reason] += 1
            continue
        row = {"row": line, "id": str(record.get(settings.id_column) or line), "answer": _text(answer)}
        row |= {"question": _text(record.get(settings.question_column)), "references": references, "ratings": ratings}
        rows.append(row | {key: _text(record.get(name or "")).strip() for key, name in optional.items()})
    if not rows:
        raise DataError("No answers with human ratings are left.", file=path, value=dict(left_out))
    answers = pd.DataFrame(rows)
    given = answers.pop("ratings")
    binary = given.map(len) > 1
    if binary.any() and not binary.all():
        message = f"{int(binary.sum()):,} answers have five ratings and {int((~binary).sum()):,} have one number."
        raise DataError(message, file=path, remedy="Give every answer the same kind of rating.")
    answers["human"] = given.map(quality if binary.all() else lambda one: one[0])
    notes = [f"{n:,} {'row' if n == 1 else 'rows'} left out: {reason}." for reason, n in sorted(left_out.items())]
    if binary.all():
        alpha = krippendorff_alpha(np.array(given.tolist()))
        shown = "undefined because all ratings are the same" if np.isnan(alpha) else f"{alpha:.3f}"
        notes.append(f"Krippendorff's alpha of the five ratings: {shown} (paper 4: 0.620).")
    return answers, notes


def _ratings(cell: Any, wrong: Callable[..., DataError]) -> list[float]:
    """Returns one number or five of 0 and 1; none where the answer is not rated."""
    cells = _listed(cell, wrong)
    if all(str(one).strip().lower() in ("none", "", "nan") for one in cells):
        return []
    try:
        ratings = [float(one) for one in cells]
    except (TypeError, ValueError):
        raise wrong("The rating is not a number.", value=cell) from None
    if not np.isfinite(ratings).all():
        raise wrong("The rating is not a finite number.", value=cell)
    if len(cells) > 1 and not (len(cells) == _RATERS and {*ratings} <= {0, 1}):
        remedy = f"Give {_RATERS} of 0 and 1, none to exclude the answer, or one number."
        raise wrong("A list of ratings must have five binary ones.", value=cell, remedy=remedy)
    return ratings


def _references(cell: Any, wrong: Callable[..., DataError]) -> tuple[str, ...]:
    # VQA's own files hold {"answer": "yes", "answer_confidence": ...} for each reference.
    texts = [item.get("answer") if isinstance(item, Mapping) else item for item in _listed(cell, wrong)]
    return tuple(_text(text) for text in texts if _text(text).strip())


def _listed(cell: Any, wrong: Callable[..., DataError]) -> list[Any]:
    """Returns a list, the JSON list of a text, or anything else as a list of one."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        try:
            cell = json.loads(cell)
        except ValueError:
            raise wrong("The list is not JSON.", value=cell) from None
    return cell if isinstance(cell, list) else [cell]


def _text(value: Any) -> str:
    return "" if value is None else str(value)
