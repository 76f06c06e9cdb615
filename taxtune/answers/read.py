"""Files of answers, with targets on a tree, references or neither: reading them, and matching the rows of several."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from taxtune.answers.records import Records, Source, open_table
from taxtune.answers.targets import Target, rows_error, target_finder
from taxtune.data.columns import ANSWERS, LABELS, TRUTHS, find_column, named
from taxtune.data.labels import UNNAMED, leaves_meant
from taxtune.errors import DataError
from taxtune.tables import column_key, lost_to_pandas
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy
from taxtune.thoughts import CUT_THOUGHT, without_thoughts

__all__ = [
    "Aligned",
    "AnswerRow",
    "AnswerSchema",
    "AnswerTable",
    "Excluded",
    "align",
    "excluded_records",
    "read_answers",
    "rows_error",
    "split_by",
]

_NO_ANSWER = "no answer"
#: What other tools write in place of an answer where the call failed.
_FAILED = ("[LMMS_EVAL_REQUEST_FAILED", "Failed to obtain answer via API")
#: Names that other tools give these columns.
_ALSO = {"truth": "target", "placement": "predicted"}
_BOTH = "One column cannot be both what is scored and the truth."


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The columns of a file, and what its rows must have.

    Attributes:
        answer: The answer: text, or a list of guesses, the best first. Where no column has this name, or it is that of
            the truth, it is found by its usual names.
        truth: The right node: label, alias, path "a/b/c", or list of labels. Where no column is called "truth", it is
            found by its usual names and its values.
        placement: The node that the answer was put on, read instead of the answer where the file has it ("predicted"
            where no column has this name); None never looks for one.
        reference: One text or a list (in a table: a JSON list) to compare with, in this column or that of the plural.
        question: The question; need not be there.
        id: What identifies the example, and must not come twice; None, or no column "id", takes the row's number.
        where: Values that rows must have to be read at all, {"domain": "bird200"}; "" is no value.
        by: Columns that tell several models or prompts in one file apart: an id may occur once for each.
        guesses: What a list of guesses means as one answer: its first entry, or all of them joined by ", ".
        missing: Rows without an answer (null, a failed call): refuse the file, keep them as missing, leave them out.
        off_tree: What to do with rows whose target is missing or not on the whole tree.
        taxonomy: The tree that targets are on; None reads none.
        part: What `taxonomy` is a part of; rows whose target is elsewhere on the whole are left out and counted.
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
    format: str = "auto"

    @property
    def answers_alone(self) -> bool:
        """Whether nothing but the answer is needed, so that a line of text is a row."""
        return self.taxonomy is None and self.reference is None


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer.

    `row` is the 1-based line or record; `answer` is None where the call failed or the reply ends within its thought,
    of which it is without, and an empty text says nothing.
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
        return tuple(row.row for row in self.excluded if row.reason.startswith(_NO_ANSWER))


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
    opened = open_table(source, format=schema.format, text=schema.answers_alone)
    columns = {name for _, record in opened.rows for name in record}
    others = {
        name: other for name, other in _ALSO.items() if name not in columns and other in columns
    }
    names = {key: getattr(schema, key) for key in ("truth", "placement", "reference")}
    schema = replace(schema, **{key: others.get(name, name) for key, name in names.items()})
    sides = _find_sides(opened, schema)
    found = [
        f"{name} from the column {column!r}"
        for name, column in sides.items()
        if getattr(schema, name) != column
    ]
    schema = replace(schema, answer=sides["answer"], truth=sides["truth"])
    _check_columns(opened.file, columns, schema)
    selected = [(line, record) for line, record in opened.rows if _fits(record, schema.where)]
    if schema.where and not selected:
        values = ", ".join(f"{name}={value}" for name, value in schema.where.items())
        raise DataError(
            "No row matches the filter.", file=opened.file, value=values, remedy="Check the values."
        )
    reader = _Reader(schema, columns)
    rows = tuple(row for line, record in selected if (row := reader.read(line, record)) is not None)
    if reader.problems:
        remedy = lost_to_pandas(source) + (
            "Correct or remove these rows, or use --missing leave-out (the call failed), --missing abstain (the model "
            "said nothing) or --off-tree leave-out, where the command has it."
        )
        if any("is not on the taxonomy" in problem for _, problem in reader.problems):
            remedy = f"{remedy} {UNNAMED}"
        raise rows_error(reader.problems, opened.file, len(selected), remedy=remedy)
    reasons = Counter(row.reason for row in reader.excluded)
    if not rows and not schema.answers_alone:
        counted = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items())
        remedy = "Check the root, the taxonomy and the columns."
        raise DataError("No usable rows are left.", file=opened.file, value=counted, remedy=remedy)
    excluded = [
        f"{n:,} of {len(selected):,} rows are left out: {reason}" for reason, n in reasons.items()
    ]
    taken = [f"taken: {', '.join(found)}"] if found else []
    notes = [f"{opened.file}: {text}" for text in (*taken, *excluded, *reader.notes(rows))]
    return AnswerTable(
        opened.file,
        rows,
        reader.predicted is not None,
        tuple(reader.excluded),
        (*opened.notes, *notes),
    )


class _Reader:
    """Reads one record after the other, and collects their defects and the excluded rows."""

    def __init__(self, schema: AnswerSchema, columns: set[str]) -> None:
        self.schema = schema
        self.predicted = schema.placement if schema.placement in columns else None
        self.problems: list[tuple[int, str]] = []
        self.excluded: list[Excluded] = []
        self._moved = 0
        self._leaves: set[str] = set()
        self._unnamed: Counter[str] = Counter()
        self._seen: dict[tuple[str, ...], int] = {}
        # A file may have both: "reference" where there is one and "references" where there are several.
        self._references = [
            name for name in (schema.reference, f"{schema.reference}s") if name in columns
        ]
        if schema.taxonomy is not None:
            suggest = 5 if schema.off_tree == "error" else 0
            self._find = target_finder(schema.taxonomy, schema.part, suggest)

    def read(self, line: int, record: Mapping[str, Any]) -> AnswerRow | None:
        """A row; None where it is left out or cannot be used."""
        schema = self.schema
        given = None if schema.id is None else record.get(schema.id)
        name = str(line) if given in (None, "") else str(given)
        first = self._seen.setdefault(
            (name, *(str(record.get(column)) for column in schema.by)), line
        )
        target = Target("") if schema.taxonomy is None else self._find(record.get(schema.truth))
        placed = Target("") if self.predicted is None else self._find(record.get(self.predicted))
        answer, guesses, problem = self._answer(record)
        references, no_reference = self._texts(record)
        part = "" if schema.part is None else schema.part.label
        excluded = ""
        if target.problem and schema.off_tree == "leave-out":
            excluded = "target not on the tree" if target.text else "no target"
        elif target.outside:
            excluded = f"target {target.said}" if target.said else f"target outside {part}"
        problems = (
            f"{schema.id} {name!r} is already in row {first}" if first != line else "",
            target.problem and f"{schema.truth}{target.problem_after}",
            placed.problem and f"{self.predicted}{placed.problem_after}",
            f"{self.predicted}: {placed.text!r} is outside {part!r}" if placed.outside else "",
            problem,
            no_reference,
        )
        found = [] if excluded and first == line else [(line, text) for text in problems if text]
        if not (found or excluded) and answer is None and self.predicted is None:
            excluded = self._why_left_out(record)
        if found:
            self.problems += found
            return None
        if excluded:
            self.excluded.append(Excluded(line, name, excluded))
            return None
        self._moved += target.moved or placed.moved
        self._leaves |= {found.text for found in (target, placed) if found.is_leaf}
        self._unnamed.update([target.said] if target.said else [])
        question = record.get(schema.question)
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
        )

    def _why_left_out(self, record: Mapping[str, Any]) -> str:
        """The reason for which a row without an answer is left out; empty where it is kept."""
        if _given(record.get(self.schema.answer)):  # half a thought does not say nothing
            return "" if self.schema.answers_alone else f"{_NO_ANSWER}: {CUT_THOUGHT}"
        return _NO_ANSWER if self.schema.missing == "leave-out" else ""

    def _answer(self, record: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...], str]:
        """The answer of a row, its guesses, and what is wrong with it; rows with a node need no answer."""
        column = self.schema.answer
        value = record.get(column)
        if self.predicted is not None:
            return None, (), ""
        if value is None:
            return None, (), f"{column} is missing" if self.schema.missing == "error" else ""
        guesses = _given(value)
        if value != [] and not guesses:
            return (
                None,
                (),
                f"{column} is missing: {value!r}" if self.schema.missing == "error" else "",
            )
        texts = [guess for guess in guesses if isinstance(guess, str)]
        if len(texts) < len(guesses):
            return None, (), f"{column} is not text: {value!r}"
        told = [without_thoughts(text) for text in texts]
        whole = tuple(guess for guess in told if guess is not None)
        if len(whole) < len(told):
            return None, (), f"{column}: {CUT_THOUGHT}" if self.schema.missing == "error" else ""
        # A model that was asked and gave no guess said nothing.
        return ", ".join(whole if self.schema.guesses == "join" else whole[:1]), whole, ""

    def _texts(self, record: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
        """The references of a row, a text or a list of them, which a table has as JSON; and what is wrong with them."""
        if not self._references:
            return (), ""
        column = next(
            (name for name in self._references if record.get(name) is not None), self._references[0]
        )
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
        yield from (f"{count:,} of {n} targets: {said}" for said, count in self._unnamed.items())
        if self._leaves:
            yield leaves_meant(self._leaves)
        if several := sum(len(row.references) > 1 for row in rows):
            yield (
                f"{several:,} of {n} answers have several references; the best one counts, except for measures defined "
                "over all of them"
            )


def _given(value: object) -> tuple[object, ...]:
    """Returns the guesses of a cell, which may be a list, or a list of lists, without those of failed calls."""
    guesses: list[object] = []
    for entry in value if isinstance(value, list) else [value]:
        guesses += entry if isinstance(entry, list) else [entry]
    failed = [isinstance(guess, str) and guess.startswith(_FAILED) for guess in guesses]
    return tuple(
        guess for guess, lost in zip(guesses, failed, strict=True) if guess is not None and not lost
    )


def _fits(record: Mapping[str, Any], where: Mapping[str, str]) -> bool:
    """Tells whether a record has certain values: JSON's true and false in their own spelling, no value as ""."""
    values = {name: record.get(name) for name in where}
    texts = {
        k: "" if v is None else json.dumps(v) if isinstance(v, bool) else str(v)
        for k, v in values.items()
    }
    return texts == dict(where)


def _find_sides(opened: Records, schema: AnswerSchema) -> dict[str, str]:
    """Returns the columns of the answers and of the truths, as far as they can be told; never one for both."""
    columns = list(dict.fromkeys(name for _, record in opened.rows for name in record))
    answer, truth = schema.answer, schema.truth
    if schema.taxonomy is not None and truth not in columns and truth in ("truth", "target"):
        answers = named(columns, ANSWERS)
        others = [name for name in columns if name not in (*answers, schema.placement, schema.id)]
        # A column called answer is the right one where the model's has another name.
        others += [] if named(others, TRUTHS) or len(answers) < 2 else named(answers, ["answer"])
        usual = tuple(dict.fromkeys((*TRUTHS, "answer", *LABELS)))
        fits = _lowest(schema.taxonomy, _nodes_by_column(opened, schema, others))
        if len(fits) == 1 or named(others, usual):
            truth = find_column("truth", None, others, usual, fits, opened.file)
    if answer in ("answer", truth):
        taken = {
            truth,
            schema.reference,
            f"{schema.reference}s",
            schema.placement,
            schema.id,
            schema.question,
        }
        rest = [name for name in columns if name not in taken]
        # A copy of the truths is no answer where there is another.
        copies = [
            name
            for name in rest
            if all(record.get(name) == record.get(truth) for _, record in opened.rows)
        ]
        found = named(rest, ["answer", *ANSWERS[:-1]])
        answer = next(iter([name for name in found if name not in copies] or found), answer)
    scored = schema.placement if schema.placement in columns else answer
    if schema.taxonomy is not None and scored == truth and truth in columns:
        remedy = "Name the other one with --answer-column, --placement-column or --truth-column."
        raise DataError(_BOTH, file=opened.file, value=truth, remedy=remedy)
    return {"answer": answer, "truth": truth}


def _nodes_by_column(
    opened: Records, schema: AnswerSchema, columns: Sequence[str]
) -> dict[str, list[int | None]]:
    """Returns the node in each row of the columns whose values all name nodes, or what is outside of the part."""
    assert schema.taxonomy is not None
    find = target_finder(schema.taxonomy, schema.part, suggest=0)
    found = {}
    for column in columns:
        values = [record.get(column) for _, record in opened.rows]
        targets = [None if value is None else find(value) for value in values]
        if any(target and not target.said for target in targets) and not any(
            target.problem for target in targets if target
        ):
            found[column] = [target.node if target else None for target in targets]
    return found


def _lowest(tree: Taxonomy, nodes: Mapping[str, Sequence[int | None]]) -> list[str]:
    """Returns the columns whose nodes are below those of all others in every row; all where there is no such column.

    "category" is vehicle where "answer" is taxi.
    """

    def is_below(column: str, other: str) -> bool:
        pairs = zip(nodes[column], nodes[other], strict=True)
        return all(
            low is None or high is None or tree.is_ancestor(high, low) for low, high in pairs
        )

    lowest = [column for column in nodes if all(is_below(column, other) for other in nodes)]
    return lowest or [*nodes]


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
        remedy = (
            f"Did you mean {near!r}?" if near in columns else "Give the names of existing columns."
        )
        if name == schema.answer and schema.placement is not None:
            remedy = (
                f"It needs {schema.placement} (a node) or {schema.answer} (text). Columns of other names are given "
                "with --placement-column, --answer-column and --truth-column."
            )
        raise DataError(
            f"The file has no column {name!r}.", file=file, value=sorted(columns), remedy=remedy
        )


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


# -- several files -----------------------------------------------------------------------------------------------------


class Aligned(NamedTuple):
    """Several files' rows of the same examples.

    Attributes:
        ids: The examples.
        rows: By name of the file, the row of each example, in the order of `ids`.
        notes: What was left out, with counts.
        excluded: The rows that are left out since another file lacks them, each with its file.
    """

    ids: tuple[str, ...]
    rows: Mapping[str, tuple[AnswerRow, ...]]
    notes: tuple[str, ...]
    excluded: tuple[tuple[str, Excluded], ...] = ()


def align(files: Mapping[str, AnswerTable], rows: Literal["error", "common"] = "error") -> Aligned:
    """Matches the rows of several files by id.

    Args:
        files: The files by name.
        rows: What to do with examples that some file lacks: refuse, or take the common ones and count the others.

    Raises:
        DataError: If examples do not match, or the same id has another target in another file, or none is common.
    """
    by_id = {name: {row.id: row for row in file.rows} for name, file in files.items()}
    first, *others = by_id
    ids = tuple(key for key in by_id[first] if all(key in by_id[other] for other in others))
    common = set(ids)
    surplus = {
        name: lacking
        for name, part in by_id.items()
        if (lacking := [key for key in part if key not in common])
    }
    if surplus and rows == "error":
        lines = [
            f"\n  {name} ({files[name].file}): {len(lacking):,} rows that another file lacks, such as "
            + ", ".join(map(repr, lacking[:5]))
            for name, lacking in surplus.items()
        ]
        raise DataError(
            f"The files do not have the same rows; {len(ids):,} are in all of them.{''.join(lines)}",
            remedy="\nGive files with the same examples, or use only the common ones with --rows common.",
        )
    if not ids:
        raise DataError(
            "The files have no examples in common.", value=list(files), remedy="Check their ids."
        )
    for key in ids:
        row = by_id[first][key]
        for other in others:
            if (row.target, row.references) != (
                by_id[other][key].target,
                by_id[other][key].references,
            ):
                message = f"The example has a different target in {other} ({files[other].file})."
                remedy = "Give files with the same examples."
                raise DataError(
                    message, file=files[first].file, row=row.row, value=key, remedy=remedy
                )
    notes = [
        f"{len(lacking):,} of {len(by_id[name]):,} rows of {name} are left out because another file lacks them"
        for name, lacking in surplus.items()
    ]
    excluded = [
        (
            files[name].file,
            Excluded(by_id[name][key].row, key, "missing for another model or prompt"),
        )
        for name, lacking in surplus.items()
        for key in lacking
    ]
    aligned = {name: tuple(part[key] for key in ids) for name, part in by_id.items()}
    return Aligned(ids, aligned, tuple(notes), tuple(excluded))


def excluded_records(
    files: Iterable[AnswerTable], aligned: Iterable[Aligned] = ()
) -> list[dict[str, Any]]:
    """Every row that a study leaves out, with the reason, as `--json` lists them.

    Args:
        files: The files that were read; of parts of one file each row is named once.
        aligned: How their rows were matched.
    """
    left_out = [(file.file, row) for file in files for row in file.excluded]
    left_out += [pair for match in aligned for pair in match.excluded]
    return [
        {"file": file, "row": row.row, "id": row.id, "reason": row.reason}
        for file, row in dict.fromkeys(left_out)
    ]
