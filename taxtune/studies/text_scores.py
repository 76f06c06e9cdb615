"""Text measures of the answers of several models or prompts, against the names of their targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.errors import DataError
from taxtune.metrics.base import name_scores
from taxtune.metrics.cider import Cider
from taxtune.metrics.registry import Measure
from taxtune.studies.settings import needs_of
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["check_headings", "check_measures", "check_questions", "measure_notes", "target_names", "text_scores"]

FloatArray = NDArray[np.float64]
Key = TypeVar("Key")


def check_measures(measures: Sequence[str | Measure], question_column: str | None) -> bool:
    """Checks that files of answers hold what measures need, before a model is loaded.

    Returns:
        Whether one of them is a judge, which is shown the question.

    Raises:
        DataError: If one needs images, or the question and there is no column of it.
    """
    judges = False
    for measure in measures:
        needs = needs_of(measure)
        name = (measure if isinstance(measure, str) else measure.name).partition(":")[0]
        if "image" in needs:
            raise DataError(
                f"The measure {name} needs images, which files of answers do not contain.",
                remedy="Remove it here; taxtune score measure can use images.",
            )
        if "question" in needs and question_column is None:
            raise DataError(
                f"The measure {name} needs the prompt that was asked.",
                remedy="Give the column with the prompts with --question-column.",
            )
        judges = judges or "question" in needs
    return judges


def check_headings(measures: Sequence[Measure]) -> None:
    """Checks that a table can tell measures apart.

    Raises:
        DataError: If two have the same heading.
    """
    headings = [measure.label for measure in measures]
    doubled = sorted({heading for heading in headings if headings.count(heading) > 1})
    if doubled:
        raise DataError("Two measures have the same heading.", value=doubled, remedy="Choose one of them.")


def check_questions(name: str, rows: Sequence[AnswerRow], column: str | None) -> None:
    """Checks that every answer has the prompt that was asked.

    Raises:
        DataError: If one has none.
    """
    for row in rows:
        if row.answer is not None and not _question(row, column).strip():
            raise DataError(
                f"{name}: Row {row.row} has no {column}.",
                value=row.fields.get(str(column)),
                remedy="Give the prompt that was asked.",
            )


def measure_notes(measures: Iterable[Measure]) -> list[str]:
    """Returns what measures have to tell, each note with the heading of its measure in front."""
    return [
        note if note.startswith(measure.label) else f"{measure.label}: {note}"
        for measure in measures
        for note in measure.notes
    ]


def text_scores(
    rows: Mapping[Key, Sequence[AnswerRow]],
    measure: Measure,
    taxonomy: Taxonomy | None,
    *,
    reference: str,
    question_column: str | None = None,
    read: Callable[[str], str] = str,
) -> dict[Key, FloatArray]:
    """Returns the measure's score of every answer of each model or prompt; NaN where there is none.

    Args:
        rows: The rows by model or prompt.
        measure: The measure.
        taxonomy: The tree that the targets are on; without one an answer is compared with the references of its row.
        reference: Which of a target's names an answer is compared with, see `target_names`; the one that it fits best.
        question_column: The column with the prompt that was asked, for judges.
        read: What of an answer is compared; all of it where left out.
    """
    references = _references(rows, taxonomy, reference)
    if isinstance(measure, Cider):
        # A document a target: what one model is given must not depend on which answers the others gave.
        documents = {(row.target, references(row)): references(row) for some in rows.values() for row in some}
        measure.fit(list(documents.values()))
    # Each distinct comparison once: models often say the same.
    asked = {
        name: [
            None if row.answer is None else (read(row.answer), references(row), _question(row, question_column))
            for row in some
        ]
        for name, some in rows.items()
    }
    distinct = dict.fromkeys(one for some in asked.values() for one in some if one is not None)
    scores = np.empty(0)
    if distinct:
        answers, compared, questions = zip(*distinct, strict=True)
        given = questions if measure.needs_questions else None
        if taxonomy is None:
            scores = measure.scores_many(answers, compared, questions=given)
        else:
            scores = name_scores(measure, answers, compared, questions=given)
    known = dict(zip(distinct, scores.tolist(), strict=True))
    return {
        name: np.array([math.nan if one is None else known[one] for one in some], dtype=np.float64)
        for name, some in asked.items()
    }


def _references(
    rows: Mapping[Key, Sequence[AnswerRow]], taxonomy: Taxonomy | None, reference: str
) -> Callable[[AnswerRow], tuple[str, ...]]:
    """Returns what gives the names that a row's answer is compared with."""
    if taxonomy is None:
        return lambda row: row.references
    targets = dict.fromkeys(row.target for some in rows.values() for row in some)
    references = {target: target_names(taxonomy, target, reference) for target in targets}
    return lambda row: references[row.target]


def target_names(taxonomy: Taxonomy, target: int, reference: str) -> tuple[str, ...]:
    """Returns the names of a target that answers are compared with.

    Args:
        taxonomy: The tree.
        target: The node.
        reference: "common-name" for the preferred one, "label", or "any-name" for all.
    """
    if reference == "any-name":
        return tuple(taxonomy.names(target))
    return (taxonomy.common_name(target) if reference == "common-name" else taxonomy.labels[target],)


def _question(row: AnswerRow, column: str | None) -> str:
    value = None if column is None else row.fields.get(column)
    return value if isinstance(value, str) else ""
