"""Reading files of answers, with targets on a tree, references or neither; one or several models in a file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from taxtune.answers.records import HARNESSES, Source, open_table
from taxtune.answers.targets import Target, target_finder
from taxtune.errors import DataError
from taxtune.tables import column_key
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["AnswerRow", "AnswerSchema", "AnswerTable", "Excluded", "read_answers", "rows_error", "split_by"]

_LISTED = 5
_NO_ANSWER = "no answer"
#: Names that other tools give these columns.
_ALSO = {"truth": "target", "placement": "predicted"}


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The columns of a file, and what its rows must have.

    Columns of other harnesses are known where no column is named otherwise than here.

    Attributes:
        answer: The answer: text, or a list of guesses, the best first.
        truth: The right node: label, alias, path "a/b/c", or list of labels; "target" where no column has this name.
        placement: The node that the answer was put on, read instead of the answer where the file has it ("predicted"
            where no column has this name); None never looks for one.
        reference: One text or a list (in a table: a JSON list) to compare with, in this column or that of the plural.
        question: The question; need not be there.
        image: The image, relative to `images`; need not be there.
        id: What identifies the example, and must not come twice; None, or no column "id", takes the row's number.
        where: Values that rows must have to be read at all, {"domain": "bird200"}; "" is no value.
        by: Columns that tell several models or prompts in one file apart: an id may occur once for each.
        guesses: What a list of guesses means as one answer: its first entry, or all of them joined by ", ".
        missing: Rows without an answer (null, a failed call): refuse the file, keep them as missing, leave them out.
        off_tree: What to do with rows whose target is missing or not on the whole tree.
        taxonomy: The tree that targets are on; None reads none.
        part: What `taxonomy` is a part of; rows whose target is elsewhere on the whole are left out and counted.
        images: The folder that image names start from; None for the file's.
        format: One of `taxtune.answers.FORMATS`.
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

    @property
    def answers_alone(self) -> bool:
        """Whether nothing but the answer is needed, so that a line of text is a row."""
        return self.taxonomy is None and self.reference is None

    @property
    def renamed(self) -> bool:
        """Whether a column has another name than taxtune gives it."""
        given = (self.answer, self.truth, self.placement or "placement", self.question, self.image)
        # A target is a reference where there is no tree.
        own = given == ("answer", "truth", "placement", "question", "image")
        return not own or self.reference not in (None, "reference", "truth")


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer.

    `row` is the 1-based line or record; `answer` is None where the call failed, and an empty text says nothing.
    `target` is -1 where none is read, `predicted` the node of files that have them instead of answers.
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
    image: Path | None = None


class Excluded(NamedTuple):
    """A row that is left out, and why."""

    row: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """The usable rows of a file in its order, those that are left out, and notes with their counts.

    `has_nodes` says whether the rows hold predicted nodes instead of answers.
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
        return tuple(row.row for row in self.excluded if row.reason == _NO_ANSWER)


def read_answers(source: Source, schema: AnswerSchema | None = None) -> AnswerTable:
    """Reads answers, and what they are compared with.

    Args:
        source: A file in one of `taxtune.answers.FORMATS`, "-" for standard input, a run of taxtune (RUN, RUN:baseline
            or RUN:N, see the files of answers in the documentation), a DataFrame or a list of records.
        schema: Which columns hold what, and what to do with rows that lack something.

    Raises:
        DataError: If the file cannot be read, lacks a column, has no row that fits `where`, repeats an id, has rows
            that cannot be used (one message counts them and names the first problems), or no row is left.
        MissingExtraError: If the package that reads the format is not installed.
    """
    schema = schema or AnswerSchema()
    opened = open_table(source, format=schema.format, text=schema.answers_alone, harnesses=not schema.renamed)
    columns = {name for _, record in opened.rows for name in record}
    others = {name: other for name, other in _ALSO.items() if name not in columns and other in columns}
    names = {key: getattr(schema, key) for key in ("truth", "placement", "reference")}
    schema = replace(schema, **{key: others.get(name, name) for key, name in names.items()})
    _check_columns(opened.file, columns, schema)
    selected = [(line, record) for line, record in opened.rows if _fits(record, schema.where)]
    if schema.where and not selected:
        values = ", ".join(f"{name}={value}" for name, value in schema.where.items())
        raise DataError("No row matches the filter.", file=opened.file, value=values, remedy="Check the values.")
    reader = _Reader(source, schema, columns)
    rows = tuple(row for line, record in selected if (row := reader.read(line, record)) is not None)
    if reader.problems:
        remedy = (
            "Correct or remove these rows, or use --missing leave-out (the call failed), --missing abstain (the model "
            "said nothing) or --off-tree leave-out, where the command has it."
        )
        raise rows_error(reader.problems, opened.file, len(selected), remedy=remedy)
    reasons = Counter(row.reason for row in reader.excluded)
    if not rows and not schema.answers_alone:
        counted = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items())
        remedy = "Check the root, the taxonomy and the columns."
        raise DataError("No usable rows are left.", file=opened.file, value=counted, remedy=remedy)
    excluded = [f"{n:,} of {len(selected):,} rows are left out: {reason}" for reason, n in reasons.items()]
    notes = [f"{opened.file}: {text}" for text in (*excluded, *reader.notes(rows))]
    return AnswerTable(opened.file, rows, reader.predicted is not None, tuple(reader.excluded), (*opened.notes, *notes))


class _Reader:
    """Reads one record after the other, and collects their defects and the excluded rows."""

    def __init__(self, source: Source, schema: AnswerSchema, columns: set[str]) -> None:
        self.schema = schema
        self.predicted = schema.placement if schema.placement in columns else None
        self.problems: list[tuple[int, str]] = []
        self.excluded: list[Excluded] = []
        self._moved = 0
        self._seen: dict[tuple[str, ...], int] = {}
        self._images = schema.images or (Path(source).parent if isinstance(source, str | Path) else Path())
        # A file may have both: "reference" where there is one and "references" where there are several.
        self._references = [name for name in (schema.reference, f"{schema.reference}s") if name in columns]
        if schema.taxonomy is not None:
            suggest = _LISTED if schema.off_tree == "error" else 0
            self._find = target_finder(schema.taxonomy, schema.part, suggest)

    def read(self, line: int, record: Mapping[str, Any]) -> AnswerRow | None:
        """A row; None where it is left out or cannot be used."""
        schema = self.schema
        given = None if schema.id is None else record.get(schema.id)
        name = str(line) if given in (None, "") else str(given)
        first = self._seen.setdefault((name, *(str(record.get(column)) for column in schema.by)), line)
        target = Target("") if schema.taxonomy is None else self._find(record.get(schema.truth))
        placed = Target("") if self.predicted is None else self._find(record.get(self.predicted))
        answer, guesses, problem = self._answer(record)
        references, no_reference = self._texts(record)
        part = "" if schema.part is None else schema.part.label
        excluded = ""
        if target.problem and schema.off_tree == "leave-out":
            excluded = "target not on the tree" if target.text else "no target"
        elif target.outside and schema.part is not None:
            excluded = f"target outside {part}"
        problems = (
            f"{schema.id} {name!r} is already in row {first}" if first != line else "",
            target.problem and f"{schema.truth}{target.problem_after}",
            placed.problem and f"{self.predicted}{placed.problem_after}",
            f"{self.predicted}: {placed.text!r} is outside {part!r}" if placed.outside else "",
            problem,
            no_reference,
        )
        found = [] if excluded and first == line else [(line, text) for text in problems if text]
        if not (found or excluded) and answer is None and self.predicted is None and schema.missing == "leave-out":
            excluded = _NO_ANSWER
        if found:
            self.problems += found
            return None
        if excluded:
            self.excluded.append(Excluded(line, name, excluded))
            return None
        self._moved += target.moved or placed.moved
        question, image = record.get(schema.question), record.get(schema.image)
        return AnswerRow(
            line,
            name,
            answer,
            guesses,
            -1 if target.node is None else target.node,
            record,
            placed.node,
            references,
            None if question in (None, "") else str(question),
            None if image in (None, "") else self._images / str(image),
        )

    def _answer(self, record: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...], str]:
        """The answer of a row, its guesses, and what is wrong with it; rows with a node need no answer."""
        column = self.schema.answer
        value = record.get(column)
        if self.predicted is not None:
            return None, (), ""
        if value is None:
            return None, (), f"{column} is missing" if self.schema.missing == "error" else ""
        guesses = tuple(value) if isinstance(value, list) else (value,)
        if not all(isinstance(guess, str) for guess in guesses):
            return None, (), f"{column} is not text: {value!r}"
        # A model that was asked and gave no guess said nothing.
        return ", ".join(guesses if self.schema.guesses == "join" else guesses[:1]), guesses, ""

    def _texts(self, record: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
        """The references of a row, a text or a list of them, which a table has as JSON; and what is wrong with them."""
        if not self._references:
            return (), ""
        column = next((name for name in self._references if record.get(name) is not None), self._references[0])
        value = record.get(column)
        if isinstance(value, str) and value.lstrip().startswith("["):
            with suppress(ValueError, RecursionError):  # a text that begins with a bracket
                value = json.loads(value)
        texts = value if isinstance(value, list) else [value]
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            return (), f"{column} is not a text or a list of texts: {record.get(column)!r}"
        return tuple(texts), ""

    def notes(self, rows: Sequence[AnswerRow]) -> Iterator[str]:
        """Yields notes on the rows for the user."""
        n = f"{len(rows):,}"
        if self.predicted is not None and any(self.schema.answer in row.fields for row in rows):
            yield f"the column {self.predicted} is scored; the column {self.schema.answer} is ignored"
        silent = sum(row.answer is not None and not row.answer.strip() for row in rows)
        if silent and not self.schema.answers_alone:
            yield f"{silent:,} of {n} answers are empty"
        if self._moved:
            yield f"{self._moved:,} of {n} rows have paths of another tree, found by their last name"
        if several := sum(len(row.references) > 1 for row in rows):
            yield (
                f"{several:,} of {n} answers have several references; the best one counts, except for measures defined "
                "over all of them"
            )


def _fits(record: Mapping[str, Any], where: Mapping[str, str]) -> bool:
    """Tells whether a record has certain values: JSON's true and false in their own spelling, no value as ""."""
    values = {name: record.get(name) for name in where}
    texts = {k: "" if v is None else json.dumps(v) if isinstance(v, bool) else str(v) for k, v in values.items()}
    return texts == dict(where)


def _check_columns(file: str, columns: set[str], schema: AnswerSchema) -> None:
    """Raises a DataError where a column is missing that rows need or that a user named."""
    has_nodes = schema.placement in columns or schema.placement not in (None, "placement")
    needed = [schema.placement if has_nodes else schema.answer]
    if schema.taxonomy is not None:
        needed.append(schema.truth)
    if f"{schema.reference}s" not in columns:
        needed.append(schema.reference)
    named = () if schema.id == "id" else (schema.id,)  # files without ids are common
    for name in (*needed, *schema.where, *schema.by, *named) if columns else ():
        if name is None or name in columns:
            continue
        # CSV headers are read in lower case, with underscores for spaces.
        near = column_key(name)
        remedy = f"Did you mean {near!r}?" if near in columns else "Give the names of existing columns."
        if name == schema.answer and schema.placement is not None:
            remedy = (
                f"It needs {schema.placement} (a node) or {schema.answer} (text). Columns of other names are given "
                "with --placement-column, --answer-column and --truth-column."
            )
        elif name in needed and not schema.renamed:
            known = "; ".join(f"{harness}: {', '.join(columns)}" for harness, (columns, _) in HARNESSES.items())
            remedy += f" It does not have the columns of another harness either ({known})."
        raise DataError(f"The file has no column {name!r}.", file=file, value=sorted(columns), remedy=remedy)


def split_by(answers: AnswerTable, column: str) -> dict[str, AnswerTable]:
    """The rows by the value of a column, in the order of first appearance.

    Raises:
        DataError: If a row has no such value.
    """
    parts: dict[str, list[AnswerRow]] = {}
    for row in answers.rows:
        value = row.fields.get(column)
        if value in (None, ""):
            raise DataError(f"The row has no {column}.", file=answers.file, row=row.row)
        parts.setdefault(str(value), []).append(row)
    return {value: replace(answers, rows=tuple(rows)) for value, rows in parts.items()}


def rows_error(problems: Sequence[tuple[int, str]], file: str, total: int, *, remedy: str) -> DataError:
    """One error for the bad rows of a file, each with its problem: their number of `total` and the first problems."""
    # One line for all rows that have the same problem: a species that the tree lacks has many photos.
    rows: dict[str, list[str]] = {}
    for line, problem in problems:
        rows.setdefault(problem[:300], []).append(str(line))
    lines = []
    for problem, numbers in list(rows.items())[:_LISTED]:
        more = f" and {len(numbers) - _LISTED:,} more" if len(numbers) > _LISTED else ""
        lines.append(f"\n  row{'s' if len(numbers) > 1 else ''} {', '.join(numbers[:_LISTED])}{more}: {problem}")
    if len(rows) > _LISTED:
        lines.append(f"\n  and {sum(map(len, list(rows.values())[_LISTED:])):,} more rows")
    bad = len({line for line, _ in problems})
    return DataError(f"{bad:,} of {total:,} rows cannot be used:{''.join(lines)}", file=file, remedy=f"\n{remedy}")
