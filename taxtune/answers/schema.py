"""The columns that a file of answers has, and the rows that are read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from taxtune.settings import LabelWords
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["NO_ANSWER", "AnswerRow", "AnswerSchema", "AnswerTable", "Excluded"]

#: Why a row without an answer is left out.
NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The columns of a file, and what its rows must have.

    Attributes:
        answer: The answer: text, or a list of guesses, the best first. Where no column has this
            name, or it is that of the truth, it is found by its usual names.
        truth: The right node: label, alias, path "a/b/c", or list of labels. Where no column is
            called "truth", it is found by its usual names and its values.
        placement: The node that the answer was put on, read instead of the answer where the file
            has it ("predicted" where no column has this name). None never looks for one.
        reference: One text or a list (in a table: a JSON list) to compare with, in this column or
            that of the plural.
        question: The question. It need not be there.
        id: What identifies the example, and must not come twice. None, or no column "id", takes the
            row's number.
        where: Values that rows must have to be read at all, {"domain": "bird200"}. "" is no value.
        by: Columns that tell several models or prompts in one file apart: an id may occur once for
            each.
        guesses: What a list of guesses means as one answer: its first entry, or all of them joined
            by ", ".
        missing: Rows without an answer (null, a failed call): refuse the file, keep them as
            missing, leave them out.
        off_tree: What to do with rows whose target is missing or not on the whole tree.
        taxonomy: The tree that targets are on. None reads none.
        part: What `taxonomy` is a part of. Rows whose target is elsewhere on the whole are left out
            and counted.
        words: What targets say that no tree has; None for the words that are usual.
        format: One of `taxtune.answers.FORMATS`.
    """

    answer: str = "answer"
    truth: str = "truth"
    placement: str | None = None
    reference: str | None = None
    question: str = "question"
    id: str | None = "id"
    where: Mapping[str, str] = field(default_factory=dict)
    by: Sequence[str] = ()
    guesses: Literal["first", "join"] = "first"
    missing: Literal["error", "keep", "leave-out"] = "error"
    off_tree: Literal["error", "leave-out"] = "error"
    taxonomy: Taxonomy | None = None
    part: Domain | None = None
    words: LabelWords | None = None
    format: str = "auto"

    @property
    def answers_alone(self) -> bool:
        """Whether nothing but the answer is needed, so that a line of text is a row."""
        return self.taxonomy is None and self.reference is None


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer.

    Attributes:
        row: The 1-based line or record.
        id: What identifies the example.
        answer: The answer without the model's thought. It is None where the call failed or the
            reply ends within its thought; an empty text says nothing.
        guesses: The guesses of the answer, the best first.
        target: The node of the target, -1 where none is read.
        fields: The whole record.
        predicted: The node of files that have nodes instead of answers.
        references: The texts to compare with.
        question: The question, if the file has it.
    """

    row: int
    id: str
    answer: str | None
    guesses: tuple[str, ...]
    target: int
    fields: Mapping[str, Any]
    predicted: int | None = None
    references: tuple[str, ...] = ()
    question: str | None = None


class Excluded(NamedTuple):
    """A row that is left out, and why."""

    row: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """The usable rows of a file.

    Attributes:
        file: The file, for messages.
        rows: The rows in the file's order.
        has_nodes: Whether the rows hold predicted nodes instead of answers.
        excluded: The rows that are left out.
        notes: What a user should know, with counts.
    """

    file: str
    rows: tuple[AnswerRow, ...]
    has_nodes: bool
    excluded: tuple[Excluded, ...]
    notes: tuple[str, ...]

    @property
    def outside(self) -> tuple[int, ...]:
        """The rows that are left out since their target is outside the part of the taxonomy."""
        return tuple(row.row for row in self.excluded if row.reason.startswith("target outside "))

    @property
    def unanswered(self) -> tuple[int, ...]:
        """The rows that are left out since they have no answer."""
        return tuple(row.row for row in self.excluded if row.reason.startswith(NO_ANSWER))
