"""Placing the answers of several models or prompts, and their text measures, each distinct text once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.answers.scores import as_child
from taxtune.errors import DataError
from taxtune.metrics.consensus import Cider
from taxtune.metrics.hierarchical import score
from taxtune.metrics.registry import Measure, name_scores
from taxtune.progress import track
from taxtune.studies.settings import needs_of
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement

__all__ = [
    "COUNTS",
    "PlacedAnswers",
    "check_headings",
    "check_measures",
    "check_questions",
    "measure_notes",
    "missing_note",
    "place_rows",
    "place_texts",
    "target_names",
    "text_scores",
    "trivial_answer",
]

FloatArray = NDArray[np.float64]
Key = TypeVar("Key")

#: The columns that count a model's answers.
COUNTS = ("answers", "missing", "abstained", "off the tree")

# Answers placed between two updates of the progress bar.
_STEP = 256


@dataclass(frozen=True, slots=True)
class PlacedAnswers:
    """One model's answers under one prompt, placed.

    Attributes:
        nodes: The node of each example's answer, shape (n,); -1 where there is no answer.
        as_child: Which answers are scored as a child of the root that is never right, shape (n,).
        abstained: Number of answers that decline or say nothing; they are on the root.
        off_tree: Number of answers that assert something that the tree lacks.
    """

    nodes: NDArray[np.int64]
    as_child: NDArray[np.bool_]
    abstained: int
    off_tree: int

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which examples have an answer, an empty one included."""
        return self.nodes >= 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The values of `COUNTS`."""
        known = int(self.known.sum())
        return known, len(self.nodes) - known, self.abstained, self.off_tree


def place_rows(mapper: Mapper, rows: Mapping[Key, Sequence[AnswerRow]]) -> dict[Key, PlacedAnswers]:
    """Places the answers of several models or prompts, each distinct text once."""
    placements = place_texts(mapper, (row.answer for some in rows.values() for row in some if row.answer is not None))
    placed = {}
    for key, some in rows.items():
        own = [None if row.answer is None else placements[row.answer] for row in some]
        placed[key] = PlacedAnswers(
            np.array([-1 if one is None else one.node for one in own], dtype=np.int64),
            as_child(mapper, own),
            sum(one is not None and one.abstained for one in own),
            sum(one is not None and one.off_tree for one in own),
        )
    return placed


def place_texts(mapper: Mapper, texts: Iterable[str]) -> dict[str, Placement]:
    """Returns the placement of each distinct text.

    Raises:
        MapperError: If the mapper's similarity needs images.
    """
    # Sorted, so that batches, and with them the last digits of an encoder's scores, do not depend on the order.
    distinct = sorted(set(texts))
    placed: dict[str, Placement] = {}
    with track("answers placed", len(distinct)) as task:
        for start in range(0, len(distinct), _STEP):
            batch = distinct[start : start + _STEP]
            placed.update(zip(batch, mapper.place(batch), strict=True))
            task.advance(len(batch))
    return placed


def missing_note(missing: int, scored: str) -> list[str]:
    """Returns a sentence on missing answers and what the scores are over instead; none if all answers are there."""
    count = f"{missing:,} answer{' is' if missing == 1 else 's are'} missing (a failed call, or no such guess)."
    return [f"{count} Missing answers do not count as zero: {scored}."] if missing else []


def trivial_answer(taxonomy: Taxonomy, targets: NDArray[np.int64], name: str | None = None) -> str:
    """Returns a sentence on the scores of always answering the targets' lowest common ancestor.

    That answer is never wrong and needs no picture, so every hP and hF must be compared with it.

    Args:
        taxonomy: The tree.
        targets: The target nodes, shape (n,), n ≥ 1.
        name: The data set of the targets, where there are several.
    """
    node = taxonomy.common_ancestor(np.unique(targets).tolist())
    scores = score(taxonomy, np.full(len(targets), node), targets)
    return (
        f"{'' if name is None else f'{name}: '}Always answering {taxonomy.labels[node]!r}, the lowest node above all "
        f"targets, would have hP {scores.hp:.3f}, hR {scores.hr:.3f}, hF {scores.hf:.3f}."
    )


# -- text measures --------------------------------------------------------------------------------------------------


def check_measures(measures: Sequence[str | Measure], question_column: str | None) -> bool:
    """Checks that files of answers hold the inputs of measures, before a model is loaded.

    Returns:
        Whether one of the measures is a judge, which reads the question.

    Raises:
        DataError: If one needs images, or the question and no column with it was named.
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


def check_headings(measures: Sequence[Measure], reserved: Sequence[str] = ()) -> None:
    """Raises a DataError if two headings of measures, or of one and another column of a table, are the same."""
    headings = [*reserved, *(measure.label for measure in measures)]
    doubled = sorted({heading for heading in headings if headings.count(heading) > 1})
    if doubled:
        raise DataError("Two columns have the same heading.", value=doubled, remedy="Choose one of these measures.")


def check_questions(name: str, rows: Sequence[AnswerRow], column: str | None) -> None:
    """Raises a DataError if an answer of a file lacks its prompt."""
    for row in rows:
        if row.answer is not None and not _question(row, column).strip():
            value = row.fields.get(str(column))
            remedy = "Give the prompt that was asked."
            raise DataError(f"{name}: Row {row.row} has no {column}.", value=value, remedy=remedy)


def measure_notes(measures: Iterable[Measure]) -> list[str]:
    """Returns the notes of measures, each with the heading of its measure in front."""
    return [
        note if note.startswith(measure.label) else f"{measure.label}: {note}"
        for measure in measures
        for note in measure.notes
    ]


def text_scores(
    rows: Mapping[Key, Sequence[AnswerRow]],
    measure: Measure,
    taxonomy: Taxonomy,
    *,
    reference: str,
    question_column: str | None = None,
    read: Callable[[str], str] = str,
) -> dict[Key, FloatArray]:
    """Returns the measure's score of every answer of each model or prompt; NaN is unscored.

    Args:
        rows: The rows by model or prompt.
        measure: The measure. Each distinct comparison is scored once.
        taxonomy: The tree of the targets.
        reference: The names of a target that an answer is compared with, see `target_names`; the best one counts.
        question_column: The column with the prompt, for judges.
        read: The part of an answer that is compared; by default all of it.
    """
    names = {t: target_names(taxonomy, t, reference) for t in {row.target for some in rows.values() for row in some}}
    if isinstance(measure, Cider):
        # One document per target, so that a model's score does not depend on the answers of the others.
        measure.fit([names[t] for t in dict.fromkeys(row.target for some in rows.values() for row in some)])
    compared = {
        name: [
            None if row.answer is None else (read(row.answer), names[row.target], _question(row, question_column))
            for row in some
        ]
        for name, some in rows.items()
    }
    distinct = list(dict.fromkeys(one for some in compared.values() for one in some if one is not None))
    answers, wanted, questions = ([one[i] for one in distinct] for i in range(3))
    given: Any = questions if measure.needs_questions else None
    scores = name_scores(measure, answers, wanted, questions=given).tolist() if distinct else []  # type: ignore[arg-type]
    known = dict(zip(distinct, scores, strict=True))
    return {
        name: np.array([np.nan if one is None else known[one] for one in some], dtype=np.float64)
        for name, some in compared.items()
    }


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
