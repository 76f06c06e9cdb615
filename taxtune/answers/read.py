"""Files of answers, with targets on a tree, references or neither."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from taxtune.answers.records import Source, open_table
from taxtune.answers.schema import NO_ANSWER, AnswerRow, AnswerSchema, AnswerTable, Excluded
from taxtune.answers.sides import schema_of
from taxtune.answers.targets import Target, rows_error, target_finder
from taxtune.data.labels import UNNAMED, leaves_meant
from taxtune.errors import DataError
from taxtune.tables import lost_to_pandas
from taxtune.thoughts import CUT_THOUGHT, without_thoughts

__all__ = ["read_answers"]

#: What other tools write in place of an answer where the call failed.
_FAILED = ("[LMMS_EVAL_REQUEST_FAILED", "Failed to obtain answer via API")
_REMEDY = (
    "Correct or remove these rows, or use --missing leave-out (the call failed), --missing abstain "
    "(the model said nothing) or --off-tree leave-out, where the command has it."
)


def read_answers(source: Source, schema: AnswerSchema | None = None) -> AnswerTable:
    """Reads answers, and what they are compared with.

    Args:
        source: A file in one of `taxtune.answers.FORMATS`, "-" for standard input, a run of taxtune
            (RUN, RUN:baseline or RUN:N, see the files of answers in the documentation), a DataFrame
            or a list of records.
        schema: Which columns hold what, and what to do with rows that lack something.

    Raises:
        DataError: If the file cannot be read, lacks a column, has no row that fits `where`, repeats
            an id, has rows that cannot be used (one message counts them and names the first
            problems), or no row is left.
        MissingExtraError: If the package that reads the format is not installed.
    """
    schema = schema or AnswerSchema()
    opened = open_table(source, format=schema.format, text=schema.answers_alone)
    file = opened.file
    schema, found = schema_of(opened, schema)
    selected = [(line, record) for line, record in opened.rows if _fits(record, schema.where)]
    if schema.where and not selected:
        values = ", ".join(f"{name}={value}" for name, value in schema.where.items())
        raise DataError(
            "No row matches the filter.", file=file, value=values, remedy="Check the values."
        )
    reader = _Reader(schema, opened.columns)
    for line, record in selected:
        reader.read(line, record)
    if reader.problems:
        remedy = f"{lost_to_pandas(source)}{_REMEDY}"
        if any("is not on the taxonomy" in problem for _, problem in reader.problems):
            remedy = f"{remedy} {UNNAMED}"
        raise rows_error(reader.problems, file, len(selected), remedy=remedy)
    reasons = Counter(row.reason for row in reader.excluded)
    if not reader.rows and not schema.answers_alone:
        counted = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items())
        remedy = "Check the root, the taxonomy and the columns."
        raise DataError("No usable rows are left.", file=file, value=counted, remedy=remedy)
    notes = [f"taken: {', '.join(found)}"] if found else []
    for reason, n in reasons.items():
        notes.append(f"{n:,} of {len(selected):,} rows are left out: {reason}")
    notes += reader.notes()
    return AnswerTable(
        file=file,
        rows=tuple(reader.rows),
        has_nodes=reader.predicted is not None,
        excluded=tuple(reader.excluded),
        notes=(*opened.notes, *(f"{file}: {text}" for text in notes)),
    )


def _fits(record: Mapping[str, Any], where: Mapping[str, str]) -> bool:
    """Returns whether a record has certain values.

    JSON's true and false stand in their own spelling, and no value is "".
    """
    for name, wanted in where.items():
        value = record.get(name)
        text = "" if value is None else str(value)
        if isinstance(value, bool):
            text = json.dumps(value)
        if text != wanted:
            return False
    return True


class _Reader:
    """Reads one record after the other.

    Attributes:
        predicted: The column of the nodes. None for a file of answers.
        rows: The usable rows.
        problems: The line and the defect of each row that cannot be used.
        excluded: The rows that are left out.
    """

    def __init__(self, schema: AnswerSchema, columns: Sequence[str]) -> None:
        self.schema = schema
        self.predicted = schema.placement if schema.placement in columns else None
        self.rows: list[AnswerRow] = []
        self.problems: list[tuple[int, str]] = []
        self.excluded: list[Excluded] = []
        self._moved = 0
        self._leaves: set[str] = set()
        self._unnamed: Counter[str] = Counter()
        self._first: dict[tuple[str, ...], int] = {}
        # A file may have both: "reference" where there is one and "references" where there are
        # several.
        references = (str(schema.reference), f"{schema.reference}s")
        self._references = [name for name in references if name in columns]
        if schema.taxonomy is not None:
            suggest = 5 if schema.off_tree == "error" else 0
            self._find = target_finder(schema.taxonomy, schema.part, suggest, schema.words)

    def read(self, line: int, record: Mapping[str, Any]) -> None:
        """Reads a record as a row, a row that is left out, or its problems."""
        schema = self.schema
        id = str(line)
        if schema.id is not None and record.get(schema.id) not in (None, ""):
            id = str(record[schema.id])
        key = (id, *(str(record.get(column)) for column in schema.by))
        first = self._first.setdefault(key, line)
        target = placed = Target("")
        if schema.taxonomy is not None:
            target = self._find(record.get(schema.truth))
        if self.predicted is not None:
            placed = self._find(record.get(self.predicted))

        problems = [*self._misplaced(target, placed)]
        answer, guesses = self._answer(record, problems)
        references = self._texts(record, problems)
        reason = self._why_excluded(target)
        if first != line:
            problems.insert(0, f"{schema.id} {id!r} is already in row {first}")
        elif reason:  # a row that is left out may lack anything
            problems.clear()
        if problems:
            self.problems += [(line, problem) for problem in problems]
            return
        if not reason and answer is None and self.predicted is None:
            reason = self._why_unanswered(record)
        if reason:
            self.excluded.append(Excluded(line, id, reason))
            return
        self._moved += target.moved or placed.moved
        self._leaves |= {found.text for found in (target, placed) if found.is_leaf}
        if target.phrase:
            self._unnamed[target.phrase] += 1
        question = record.get(schema.question)
        row = AnswerRow(
            row=line,
            id=id,
            answer=answer,
            guesses=guesses,
            target=-1 if target.node is None else target.node,
            fields=record,
            predicted=placed.node,
            references=references,
            question=None if question in (None, "") else str(question),
        )
        self.rows.append(row)

    def _why_excluded(self, target: Target) -> str:
        """Returns the reason for which a row is left out for its target, "" where it is kept."""
        if target.problem and self.schema.off_tree == "leave-out":
            return "target not on the tree" if target.text else "no target"
        if not target.outside:
            return ""
        if target.phrase or self.schema.part is None:
            return f"target {target.phrase}"
        return f"target outside {self.schema.part.label}"

    def _misplaced(self, target: Target, placed: Target) -> Iterator[str]:
        """Yields the problems of the truth and of the node that an answer was put on."""
        if target.problem:
            yield f"{self.schema.truth}{target.problem_after}"
        if placed.problem:
            yield f"{self.predicted}{placed.problem_after}"
        if placed.outside:  # or not known at all ("unknown"), of a whole tree
            part = "" if self.schema.part is None else self.schema.part.label
            yield f"{self.predicted}: {placed.text!r} is outside {part!r}"

    def _why_unanswered(self, record: Mapping[str, Any]) -> str:
        """Returns the reason for which a row without an answer is left out, "" where it is kept."""
        if _guesses(record.get(self.schema.answer)):  # half a thought does not say nothing
            return "" if self.schema.answers_alone else f"{NO_ANSWER}: {CUT_THOUGHT}"
        return NO_ANSWER if self.schema.missing == "leave-out" else ""

    def _answer(
        self, record: Mapping[str, Any], problems: list[str]
    ) -> tuple[str | None, tuple[str, ...]]:
        """Returns the answer of a row and its guesses, and adds to the problems.

        A row with a node needs no answer.
        """
        column = self.schema.answer
        value = record.get(column)
        if self.predicted is not None:
            return None, ()
        guesses = _guesses(value)
        texts = [guess for guess in guesses if isinstance(guess, str)]
        if len(texts) < len(guesses):
            problems.append(f"{column} is not text: {value!r}")
            return None, ()
        told = [without_thoughts(text) for text in texts]
        whole = tuple(text for text in told if text is not None)
        problem = ""
        if value != [] and not guesses:
            problem = f"{column} is missing" if value is None else f"{column} is missing: {value!r}"
        elif len(whole) < len(told):
            problem = f"{column}: {CUT_THOUGHT}"
        if problem:
            if self.schema.missing == "error":
                problems.append(problem)
            return None, ()
        # A model that was asked and gave no guess said nothing.
        return ", ".join(whole if self.schema.guesses == "join" else whole[:1]), whole

    def _texts(self, record: Mapping[str, Any], problems: list[str]) -> tuple[str, ...]:
        """Returns the references of a row, and adds to the problems.

        They are a text, or a list of texts, which a table has as JSON.
        """
        if not self._references:
            return ()
        given = [name for name in self._references if record.get(name) is not None]
        column = [*given, *self._references][0]
        value = record.get(column)
        if isinstance(value, str) and value.lstrip().startswith("["):
            with suppress(ValueError, RecursionError):  # a text that begins with a bracket
                value = json.loads(value)
        texts = value if isinstance(value, list) else [value]
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            problems.append(f"{column} is not a text or a list of texts: {record.get(column)!r}")
            return ()
        return tuple(texts)

    def notes(self) -> Iterator[str]:
        """Yields notes on the rows for the user."""
        rows = self.rows
        schema = self.schema
        n = f"{len(rows):,}"
        if self.predicted is not None and any(schema.answer in row.fields for row in rows):
            yield f"the column {self.predicted} is scored; the column {schema.answer} is ignored"
        silent = sum(row.answer is not None and not row.answer.strip() for row in rows)
        if silent and not schema.answers_alone:
            yield f"{silent:,} of {n} answers are empty"
        if self._moved:
            yield f"{self._moved:,} of {n} rows have paths of another tree, found by their last name"
        for said, count in self._unnamed.items():
            yield f"{count:,} of {n} targets: {said}"
        if self._leaves:
            yield leaves_meant(self._leaves)
        several = sum(len(row.references) > 1 for row in rows)
        if several:
            yield (
                f"{several:,} of {n} answers have several references; the best one counts, except "
                "for measures defined over all of them"
            )


def _guesses(value: object) -> list[object]:
    """Returns the guesses of a cell without those of failed calls.

    The cell may be one guess, a list of guesses, or a list of such lists.
    """
    entries = value if isinstance(value, list) else [value]
    guesses: list[object] = []
    for entry in entries:
        guesses += entry if isinstance(entry, list) else [entry]
    given = [guess for guess in guesses if guess is not None]
    return [guess for guess in given if not (isinstance(guess, str) and guess.startswith(_FAILED))]
