"""Answers that people have rated, from a table or JSON lines.

Paper 4 ("Collecting Human Judgments") makes one rating of five binary ones: 1.0 where at least four people call the
answer correct, 0.5 where two or three do, and 0.0 otherwise. A numeric column is taken as it is.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers import read_records
from taxtune.errors import DataError
from taxtune.studies.judge.settings import JudgeSettings

__all__ = ["krippendorff_alpha", "quality", "read_rated_answers"]

_RATERS = 5
_WORDS = {"true": 1.0, "yes": 1.0, "correct": 1.0, "false": 0.0, "no": 0.0, "incorrect": 0.0}


def quality(ratings: Sequence[float]) -> float:
    """Returns paper 4's rating for five binary ones: 1.0, 0.5 or 0.0."""
    right = sum(ratings)
    return 1.0 if right >= 4 else 0.5 if right >= 2 else 0.0


def krippendorff_alpha(ratings: NDArray[np.integer | np.floating]) -> float | None:
    """Returns Krippendorff's alpha of binary ratings without gaps; None where all ratings are the same.

    1 is perfect agreement, 0 the agreement of chance (Krippendorff, 2011, nominal data).

    Args:
        ratings: 0 or 1, shape (answers, people), at least two people.
    """
    people = ratings.shape[1]
    ones = ratings.sum(axis=1)
    total, positive = ratings.size, int(ones.sum())
    if positive in (0, total):
        return None
    # Pairs of people who differ on an answer, and pairs of any two ratings that differ.
    observed = float((ones * (people - ones)).sum()) * 2 / (total * (people - 1))
    expected = 2.0 * positive * (total - positive) / (total * (total - 1))
    return float(1.0 - observed / expected)


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
    path = settings.file
    records = read_records(path, what="rated answers")
    human = [name.strip() for name in settings.human_column.split(",")]
    optional = {"caption": settings.caption_column, "group": settings.by, "category": settings.category}
    needed = [settings.answer_column, settings.references_column, *human, *filter(None, optional.values())]
    columns = sorted({name for _, record in records for name in record})
    for name in needed:
        if name not in columns:
            raise DataError(f"There is no column {name!r}.", file=path, remedy=f"There are: {', '.join(columns)}.")
    rows, binary, left_out = [], [], Counter[str]()
    for line, record in records:
        wrong = partial(DataError, file=path, row=line)
        ratings = _ratings([record.get(name) for name in human], wrong)
        references = _references(record.get(settings.references_column), wrong)
        answer = record.get(settings.answer_column)
        missing = {"no answer": answer is None, "no rating": not ratings, "no reference": not references}
        reason = next((reason for reason, lacking in missing.items() if lacking), None)
        if reason is not None:
            left_out[reason] += 1
            continue
        if len(ratings) > 1:
            binary.append(ratings)
        rows.append(
            {
                "row": line,
                "id": str(record.get(settings.id_column) or line),
                "question": _text(record.get(settings.question_column)),
                "references": references,
                "answer": _text(answer),
                "human": quality(ratings) if len(ratings) > 1 else ratings[0],
                **{key: _text(record.get(name or "")).strip() for key, name in optional.items()},
            }
        )
    if not rows:
        raise DataError("No answers with human ratings are left.", file=path, value=dict(left_out))
    if binary and len(binary) < len(rows):
        raise DataError(
            f"{len(binary):,} answers have five ratings and {len(rows) - len(binary):,} have one number.",
            file=path,
            remedy="Give every answer the same kind of rating.",
        )
    notes = [f"{n:,} {'row' if n == 1 else 'rows'} left out: {reason}." for reason, n in sorted(left_out.items())]
    answers = pd.DataFrame(rows)
    joined = answers[
        answers["references"].map(len).eq(1) & answers["references"].str[0].str.contains(r"\S\s*[|;]\s*\S")
    ]
    if len(joined):
        notes.append(
            f"{len(joined):,} of {len(rows):,} answers have one reference with | or ; in it, which is read as one "
            f"text; the first is in row {joined['row'].iloc[0]}: {joined['references'].iloc[0][0][:80]!r}. "
            'Write several references as a list: ["a", "b"].'
        )
    if binary:
        alpha = krippendorff_alpha(np.array(binary))
        shown = "undefined because all ratings are the same" if alpha is None else f"{alpha:.3f}"
        notes.append(f"Krippendorff's alpha of the five ratings: {shown} (paper 4: 0.620).")
    return answers, notes


def _ratings(cells: Sequence[Any], wrong: Callable[..., DataError]) -> list[float]:
    """Returns one number or five of 0 and 1; none where the answer is not rated."""
    if len(cells) == 1:
        cells = _listed(cells[0], wrong)
    known = [cell for cell in cells if not (cell is None or cell != cell or not str(cell).strip())]
    try:
        ratings = [_WORDS.get(str(cell).strip().lower(), cell) for cell in known]
        ratings = [float(rating) for rating in ratings]
    except (TypeError, ValueError):
        raise wrong("The rating is not a number.", value=cells) from None
    if not ratings or all(map(math.isnan, ratings)):
        return []
    if len(cells) > 1 and not len(ratings) == len(cells) == _RATERS:
        remedy = f"Give all {_RATERS}, none to exclude the answer, or one number."
        raise wrong(f"The answer has {len(ratings)} binary ratings.", value=cells, remedy=remedy)
    if len(cells) > 1 and not set(ratings) <= {0, 1}:
        raise wrong("A binary rating must be 0 or 1.", value=cells)
    if not all(map(math.isfinite, ratings)):
        raise wrong("The rating is infinite.", value=cells)
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
