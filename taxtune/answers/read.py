"""Reading files of answers, with targets on a tree, references or neither; one or several models in a file.

What a target may look like says `targets`; how many rows are found by the last name of another tree's path, and how
many are outside the part of a taxonomy that a study is on, is said in the notes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from taxtune.answers.harnesses import HARNESSES
from taxtune.answers.records import Again, Source, open_table
from taxtune.answers.targets import Target, target_finder
from taxtune.errors import DataError
from taxtune.tables import column_key
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "AnswerRow",
    "AnswerSchema",
    "AnswerStream",
    "AnswerTable",
    "Excluded",
    "open_answers",
    "read_answers",
    "rows_error",
    "split_by",
]

_LISTED = 20
_NO_ANSWER = "no answer"
_NAMED = ("answer", "truth", "placement", "reference", "question", "image")
#: Names that other tools give these columns.
_ALSO = {"truth": "target", "placement": "predicted"}


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """Which columns of a file hold what, and what its rows must have.

    Columns that are named otherwise than here are those of the file itself; where none is, the columns of other
    harnesses are known (see `taxtune.answers.harnesses`).

    Attributes:
        answer: The answer: text, or a list of guesses, the best first.
        truth: The node that is right, where there is a taxonomy: a label, an alias, a path "a/b/c", or a list of labels
            from the root or from below it. Where no column has this name, "target" is read.
        placement: The node that the answer was put on, read instead of the answer where the file has it; None never
            looks for one. Where no column has this name, "predicted" is read.
        reference: What an answer is compared with as text: one, or a list of them (in a table: a JSON list), in this
            column or in that of the plural name; None reads none.
        question: What was asked; need not be there.
        image: The image; need not be there. Its folder is `images`.
        id: What identifies the example, and must not come twice. Where there is no column "id" the row's number does;
            a column of another name must be there. None takes the number always.
        where: Columns and the values that rows must have to be read at all, such as {"domain": "bird200"}; "true" and
            "false" are JSON's, and "" is no value.
        by: Columns that tell several models or prompts in one file apart: an id may occur once for each.
        guesses: What a list of guesses means as one answer: its first entry, or all of them joined by ", ".
        missing: What to do with rows without an answer (null, an empty cell, a failed call): refuse the file, keep them
            as missing, or leave them out. None of these scores them.
        off_tree: What to do with rows whose target is not on the tree, or is not there. Where the taxonomy is a part of
            a whole, the tree is the whole.
        taxonomy: The tree that targets are on; None reads none.
        part: What `taxonomy` is a part of; None where it is the whole. Rows whose target is elsewhere on the whole are
            left out and counted.
        images: The folder that image names start from; None for the file's; of records, the current one.
        format: One of `taxtune.answers.FORMATS`.
        missing_option: The option that says what missing answers are, for messages; "" for none.
        off_tree_option: The option that leaves rows out whose target is off the tree; "" for none.
    """

    answer: str = "answer"
    truth: str = "truth"
    placement: str | None = None
    reference: str | None = None
    question: str = "question"
    image: str = "image"
    id: str | None = "id"
    where: Mapping[str, str] = field(default_factory=dict)
    by: Sequence[str] = ()
    guesses: Literal["first", "join"] = "first"
    missing: Literal["error", "keep", "leave-out"] = "error"
    off_tree: Literal["error", "leave-out"] = "error"
    taxonomy: Taxonomy | None = None
    part: Domain | None = None
    images: Path | None = None
    format: str = "auto"
    missing_option: str = "--missing leave-out"
    off_tree_option: str = "--off-tree leave-out"

    @property
    def answers_alone(self) -> bool:
        """Whether nothing but the answer is needed, so that a line of text, or a blank one, is a row."""
        return self.taxonomy is None and self.reference is None

    @property
    def renamed(self) -> bool:
        """Whether a column has another name than taxtune gives it."""
        # A target is a reference where there is no tree.
        usual = AnswerSchema(placement="placement", reference="truth" if self.reference == "truth" else "reference")
        return any(getattr(self, name) not in (None, getattr(usual, name)) for name in _NAMED)


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer.

    Attributes:
        row: The 1-based line of the file; of what has no lines, the number of the record.
        id: What identifies the example.
        answer: What was said; None where the call failed. An empty text is an answer that says nothing.
        guesses: The single guesses where the file holds lists, else the answer alone.
        target: The target node; -1 where none is read.
        target_text: The target as the file has it.
        fields: The whole record.
        predicted: The predicted node, where the file has them in place of answers.
        references: What the answer is compared with; one or more where they are read.
        question: What was asked, or None.
        image: The image file, or None.
    """

    row: int
    id: str
    answer: str | None
    guesses: tuple[str, ...]
    target: int
    target_text: str
    fields: Mapping[str, Any]
    predicted: int | None = None
    references: tuple[str, ...] = ()
    question: str | None = None
    image: Path | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """A row that is left out, and why."""

    row: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerStream:
    """The rows of a file that can be used, read anew whenever somebody goes through them.

    Attributes:
        file: The file.
        rows: Its rows, in file order.
        n: How many there are.
        has_nodes: Whether they hold predicted nodes in place of answers.
        excluded: What was left out, and why.
        notes: The exclusions as sentences with their counts, and what else a reader should know.
    """

    file: str
    rows: Iterable[AnswerRow]
    n: int
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
        return tuple(row.row for row in self.excluded if row.reason == _NO_ANSWER)


@dataclass(frozen=True, slots=True)
class AnswerTable(AnswerStream):
    """The rows of a file that can be used, all in memory.

    Attributes:
        rows: Its rows, in file order.
    """

    rows: tuple[AnswerRow, ...]


def read_answers(source: Source, schema: AnswerSchema | None = None) -> AnswerTable:
    """Reads answers, and what they are compared with.

    Args:
        source: A file in one of `taxtune.answers.FORMATS`, "-" for standard input, or the folder of a run of taxtune,
            as RUN (the winner on the held-out images), RUN:baseline, or RUN:N for iteration N on the tuning images; or
            a DataFrame or a list of records.
        schema: Which columns hold what, and what is missing.

    Raises:
        DataError: If the file cannot be read, lacks a column, has no row that fits `where`, repeats an id, has rows
            that cannot be used (one message names them all, up to 20), or no row is left.
        MissingExtraError: If what reads the format is not installed.
    """
    rows: list[AnswerRow] = []
    found = _read(source, schema or AnswerSchema(), rows.append, in_memory=True)
    return AnswerTable(found.file, tuple(rows), found.n, found.has_nodes, found.excluded, found.notes)


def open_answers(source: Source, schema: AnswerSchema | None = None) -> AnswerStream:
    """Checks a whole file of answers and returns its rows as a stream.

    Of a file of text, CSV, JSON lines or Parquet nothing is kept but what is left out; it is read again for the rows
    and must stay as it is until then.

    Args:
        source: As for `read_answers`.
        schema: As for `read_answers`. Where it names an `id`, all ids are kept.

    Raises:
        DataError: As `read_answers`.
        MissingExtraError: As `read_answers`.
    """
    return _read(source, schema or AnswerSchema(), lambda row: None, in_memory=False)


def _read(
    source: Source, schema: AnswerSchema, keep: Callable[[AnswerRow], object], *, in_memory: bool
) -> AnswerStream:
    """Reads a file once, and returns what is known of it then, with its rows as a stream."""
    alone = schema.answers_alone
    found = open_table(source, format=schema.format, text=alone, harnesses=not schema.renamed)
    records: Iterable[tuple[int, Mapping[str, Any]]] = [*found.rows] if in_memory else found.rows
    there = {name for _, record in records for name in record}

    def column(name: str | None) -> str | None:
        also = None if name is None or name in there else _ALSO.get(name)
        return also if also in there else name

    columns: dict[str, Any] = {key: column(getattr(schema, key)) for key in ("truth", "placement", "reference")}
    schema = replace(schema, **columns)
    predicted = schema.placement if schema.placement in there else None
    _check_columns(found.file, there, schema, predicted)

    def read(reader: _Rows) -> Iterator[AnswerRow]:
        for line, record in records:
            if (record or alone) and all(_as_text(record.get(name)) == value for name, value in schema.where.items()):
                row = reader.read(line, record)
                if row is not None:
                    yield row

    reader = _Rows(source, schema, predicted, there)
    for row in read(reader):
        keep(row)
    if not reader.total and schema.where:
        said = ", ".join(f"{name}={value}" for name, value in schema.where.items())
        raise DataError("No row matches the filter.", file=found.file, value=said, remedy="Check the values.")
    if reader.problems:
        raise rows_error(reader.problems, found.file, reader.total, remedy=reader.remedy())
    if not reader.n and not alone:
        raise _none_left(found.file, reader.excluded, schema.part)
    notes = (*found.notes, *reader.notes(found.file))
    rows = Again(lambda: read(_Rows(source, schema, predicted, there)))
    return AnswerStream(found.file, rows, reader.n, predicted is not None, tuple(reader.excluded), notes)


class _Rows:
    """Reads one row after the other, and keeps what is wrong with them.

    Attributes:
        total: How many were read.
        n: How many of these can be used.
        excluded: Those that are left out.
        problems: What is wrong, with the row.
    """

    def __init__(self, source: Source, schema: AnswerSchema, predicted: str | None, there: set[str]) -> None:
        self.total = self.n = 0
        self.excluded: list[Excluded] = []
        self.problems: list[tuple[int, str]] = []
        self._schema = schema
        self._predicted = predicted
        self._missing = self._off_tree = False
        self._moved: Counter[str] = Counter()
        self._ignored = False
        self._silent = self._several = 0
        self._seen: dict[tuple[str, ...], int] = {}
        self._images = schema.images or (Path(source).parent if isinstance(source, str | Path) else Path())
        reference = schema.reference
        # A file may have both: "reference" where there is one and "references" where there are several.
        self._references = [name for name in (reference, f"{reference}s") if reference is not None and name in there]
        if schema.taxonomy is not None:
            suggest = _LISTED if schema.off_tree == "error" else 0
            self._find = target_finder(schema.taxonomy, schema.part, suggest)

    def read(self, line: int, record: Mapping[str, Any]) -> AnswerRow | None:
        """Returns a row; None where it is left out or cannot be used."""
        schema = self._schema
        self.total += 1
        given = None if schema.id is None else record.get(schema.id)
        name = str(line) if given in (None, "") else str(given)
        if schema.id is not None:
            key = (name, *(str(record.get(column)) for column in schema.by))
            if key in self._seen:
                self.problems.append((line, f"{schema.id} {name!r} is already in row {self._seen[key]}"))
                return None
            self._seen[key] = line
        sound = len(self.problems)
        target = None if schema.taxonomy is None else self._target(line, name, record)
        if target is None and schema.taxonomy is not None:
            return None
        predicted = Target("")
        answer: str | None = None
        single: tuple[str, ...] = ()
        if self._predicted is not None:
            predicted = self._node(line, record, self._predicted)
        else:
            answer, single, problem = _answer(record.get(schema.answer), schema.guesses)
            if problem:
                self.problems.append((line, f"{schema.answer} {problem}"))
            elif answer is None and schema.missing == "leave-out":
                if len(self.problems) == sound:
                    self.excluded.append(Excluded(line, name, _NO_ANSWER))
                return None
            elif answer is None and schema.missing == "error":
                self._missing = True
                self.problems.append((line, f"{schema.answer} is missing"))
        references = self._of_texts(line, record)
        if len(self.problems) > sound:
            return None
        question, image = record.get(schema.question), record.get(schema.image)
        target = target or Target("")
        self._moved.update(what for what, node in (("targets", target), ("predictions", predicted)) if node.moved)
        self.n += 1
        self._ignored = self._ignored or (self._predicted is not None and schema.answer in record)
        self._silent += answer is not None and not answer.strip()
        self._several += len(references) > 1
        return AnswerRow(
            line,
            name,
            answer,
            single,
            -1 if target.node is None else target.node,
            target.text,
            record,
            predicted.node,
            references,
            None if question in (None, "") else str(question),
            None if image in (None, "") else self._images / str(image),
        )

    def _target(self, line: int, name: str, record: Mapping[str, Any]) -> Target | None:
        """Returns the target, with its problem kept; None if the row is left out."""
        schema = self._schema
        target = self._find(record.get(schema.truth))
        if target.problem and schema.off_tree == "leave-out":
            self.excluded.append(Excluded(line, name, "target not on the tree" if target.text else "no target"))
            return None
        if target.problem:
            self._off_tree = True
            self.problems.append((line, f"{schema.truth}{target.problem_after}"))
        elif target.node is None and schema.part is not None:
            self.excluded.append(Excluded(line, name, f"target outside {schema.part.label}"))
            return None
        return target

    def _node(self, line: int, record: Mapping[str, Any], column: str) -> Target:
        node = self._find(record.get(column))
        if node.problem:
            self.problems.append((line, f"{column}{node.problem_after}"))
        elif node.outside and self._schema.part is not None:
            self.problems.append((line, f"{column}: {node.text!r} is outside {self._schema.part.label!r}"))
        return node

    def _of_texts(self, line: int, record: Mapping[str, Any]) -> tuple[str, ...]:
        if not self._references:
            return ()
        column = next((name for name in self._references if record.get(name) is not None), self._references[0])
        texts = _texts(record.get(column))
        if not texts:
            self.problems.append((line, f"{column} is not a text or a list of texts: {record.get(column)!r}"))
        return texts

    def remedy(self) -> str:
        """Returns what to do about the problems."""
        options = ((self._schema.off_tree_option, self._off_tree), (self._schema.missing_option, self._missing))
        offered = " or ".join(option for option, helps in options if option and helps)
        return "Correct or remove these rows" + (f", or use {offered}." if offered else ".")

    def notes(self, file: str) -> list[str]:
        """Returns what the user should know of the rows."""
        reasons = _reasons(self.excluded)
        notes = [f"{file}: {n:,} of {self.total:,} rows are left out: {reason}" for reason, n in reasons]
        if self._ignored:
            notes.append(f"The column {self._predicted} is scored; the column {self._schema.answer} is ignored.")
        if self._silent and not self._schema.answers_alone:
            notes.append(f"{file}: {self._silent:,} of {self.n:,} answers are empty")
        for what, n in self._moved.items():
            notes.append(
                f"{file}: {n:,} of {self.n:,} {what} are paths of another tree; they were found by their last name"
            )
        if self._several:
            notes.append(
                f"{self._several:,} of {self.n:,} answers have several references; an answer gets the score of its "
                "best-matching reference, except for measures defined over all references at once."
            )
        return notes


def split_by(answers: AnswerTable, column: str) -> dict[str, AnswerTable]:
    """Returns the rows by the value of a column, in the order of first appearance.

    Raises:
        DataError: If a row has no such value.
    """
    parts: dict[str, list[AnswerRow]] = {}
    for row in answers.rows:
        value = row.fields.get(column)
        if value in (None, ""):
            raise DataError(f"The row has no {column}.", file=answers.file, row=row.row)
        parts.setdefault(str(value), []).append(row)
    return {value: replace(answers, rows=tuple(rows), n=len(rows)) for value, rows in parts.items()}


def rows_error(problems: Sequence[tuple[int, str]], file: str, total: int, *, remedy: str) -> DataError:
    """Returns one error that names what is wrong with the rows of a file, up to 20 problems.

    Args:
        problems: Each bad row, and what is wrong with it.
        file: The file.
        total: How many rows it has.
        remedy: What to do.
    """
    # One line for all rows that have the same problem: a species that the tree lacks has many photos.
    rows: dict[str, list[int]] = {}
    for line, what in problems:
        rows.setdefault(what, []).append(line)
    lines = [f"\n  {_numbered(some)}: {what[:300]}" for what, some in list(rows.items())[:_LISTED]]
    if len(rows) > _LISTED:
        lines.append(f"\n  and {sum(len(some) for some in list(rows.values())[_LISTED:]):,} more rows")
    bad = len({line for line, _ in problems})
    return DataError(f"{bad:,} of {total:,} rows cannot be used:{''.join(lines)}", file=file, remedy=f"\n{remedy}")


def _numbered(rows: Sequence[int]) -> str:
    if len(rows) == 1:
        return f"row {rows[0]}"
    more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
    return f"rows {', '.join(map(str, rows[:5]))}{more}"


def _check_columns(file: str, there: set[str], schema: AnswerSchema, predicted: str | None) -> None:
    needed = [] if predicted is not None else [schema.answer]
    if schema.placement not in (None, "placement"):  # a name that somebody wrote is meant
        needed = [schema.placement]
    if schema.taxonomy is not None:
        needed.append(schema.truth)
    if schema.reference is not None and f"{schema.reference}s" not in there:
        needed.append(schema.reference)
    # Files without ids are common; a name that somebody wrote is meant.
    named = () if schema.id in (None, AnswerSchema().id) else (schema.id,)
    for name in (*needed, *schema.where, *schema.by, *named) if there else ():
        if name in there:
            continue
        # CSV headers are read in lower case, with underscores for spaces.
        near = column_key(name)
        remedy = f"Did you mean {near!r}?" if near in there else "Give the names of existing columns."
        if name == schema.answer and schema.placement is not None:
            remedy = (
                f"It needs {schema.placement} (a node) or {schema.answer} (text). Columns of other names are given "
                "with --placement-column, --answer-column and --truth-column."
            )
        elif name in needed and not schema.renamed:
            known = "; ".join(f"{harness}: {', '.join(columns)}" for harness, columns in HARNESSES.items())
            remedy += f" It does not have the columns of another harness either ({known})."
        raise DataError(f"The file has no column {name!r}.", file=file, value=sorted(there), remedy=remedy)


def _as_text(value: object) -> str:
    """Returns a value as `where` gives it: JSON's true and false in their own spelling, no value as an empty text."""
    return "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)


def _answer(value: object, guesses: str) -> tuple[str | None, tuple[str, ...], str | None]:
    """Returns the answer, its single guesses, and what is wrong with it."""
    if value is None:
        return None, (), None
    if isinstance(value, str):
        return value, (value,), None
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        single = tuple(value)
        if not single:
            return "", (), None  # the model was asked and gave no guess: it said nothing
        return (single[0] if guesses == "first" else ", ".join(single)), single, None
    return None, (), f"is not text: {value!r}"


def _texts(value: object) -> tuple[str, ...]:
    """Returns the texts of a cell: one, or a list of them, which a table has as JSON; none where it is neither."""
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


def _reasons(excluded: Iterable[Excluded]) -> list[tuple[str, int]]:
    return list(Counter(row.reason for row in excluded).items())


def _none_left(file: str, excluded: Sequence[Excluded], part: Domain | None) -> DataError:
    outside = None if part is None else f"target outside {part.label}"
    reasons = dict(_reasons(excluded))
    if part is not None and list(reasons) == [outside]:
        return DataError(
            f"No target lies below {part.label!r}, so there is nothing to score.", file=file, remedy="Check the root."
        )
    counted = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items())
    remedy = "Check the root." if outside in reasons else "Check the taxonomy and the columns."
    return DataError("No usable rows are left.", file=file, value=counted, remedy=remedy)
