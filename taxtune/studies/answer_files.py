"""Files of answers with their targets: any columns, one or several models in a file.

What a target may look like says `targets`; how many rows are found by the last name of another tree's path, and how
many lie outside the part of a taxonomy that a study is on, is said in the notes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from taxtune.errors import DataError
from taxtune.metrics.predictions import read_records
from taxtune.studies.targets import target_finder
from taxtune.tables import column_key
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["AnswerFile", "AnswerRow", "Columns", "Excluded", "read_answer_file", "split_by"]

_LISTED = 20


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a file hold what.

    Attributes:
        answer: The answer: text, or a list of guesses, the best first.
        target: The target node: a label, an alias, a path "a/b/c", or a list of labels from the root or from below it.
        id: What identifies the example. Where there is no column "id" the row's line number does; a column of another
            name must be there.
    """

    answer: str = "answer"
    target: str = "target"
    id: str = "id"


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer.

    Attributes:
        row: The 1-based line of the file.
        id: What identifies the example.
        answer: What was said; None where the call failed. An empty text is an answer that says nothing.
        guesses: The single guesses where the file holds lists, else the answer alone.
        target: The target node.
        target_text: The target as the file has it.
        fields: The whole record.
    """

    row: int
    id: str
    answer: str | None
    guesses: tuple[str, ...]
    target: int
    target_text: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Excluded:
    """A row that is left out, and why."""

    row: int
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """The rows of a file that can be used.

    Attributes:
        file: The file.
        rows: Its rows, in file order.
        excluded: What was left out, and why.
        notes: The exclusions as sentences with their counts, and what else a reader should know.
    """

    file: str
    rows: tuple[AnswerRow, ...]
    excluded: tuple[Excluded, ...]
    notes: tuple[str, ...]


def read_answer_file(
    path: str | Path,
    taxonomy: Taxonomy,
    *,
    columns: Columns | None = None,
    where: Mapping[str, str] | None = None,
    by: Sequence[str] = (),
    guesses: Literal["first", "join"] = "first",
    off_tree: Literal["error", "leave-out"] = "error",
    missing: Literal["error", "keep", "leave-out"] = "error",
    part: Domain | None = None,
) -> AnswerFile:
    """Reads answers and their targets from a CSV or JSONL file.

    Args:
        path: The file.
        taxonomy: The tree that the targets are on.
        columns: Which columns hold what.
        where: Columns and the values that rows must have to be read at all, such as {"domain": "bird200"}; "true" and
            "false" are JSON's, and "" is no value.
        by: Columns that tell several models or prompts in one file apart: an id may occur once for each.
        guesses: What a list of guesses means as one answer: its first entry, or all of them joined by ", ".
        off_tree: What to do with rows whose target is not on the tree, or is not there. Where `taxonomy` is a part of
            a whole, the tree is the whole.
        missing: What to do with rows without an answer (null, or an empty CSV cell): refuse them, keep them as missing,
            or leave them out. None of these scores them.
        part: What `taxonomy` is a part of; None where it is the whole. Rows whose target is elsewhere on the whole are
            left out and counted.

    Raises:
        DataError: If the file cannot be read, lacks a column, has no row that fits `where`, repeats an id, has rows
            that cannot be used (one message names them all, up to 20), or no row is left.
    """
    columns = columns or Columns()
    file = str(path)
    records = read_records(path, what="answers")
    # Files without ids are common; a name that somebody wrote is meant.
    named = () if columns.id == Columns().id else (columns.id,)
    _check_columns(file, records, columns, (*(where or {}), *by, *named))
    chosen = [
        (line, record)
        for line, record in records
        if all(_as_text(record.get(name)) == value for name, value in (where or {}).items())
    ]
    if not chosen:
        said = ", ".join(f"{name}={value}" for name, value in (where or {}).items())
        raise DataError("No row fits what was asked for.", file=file, value=said, remedy="Check the values.")
    find = target_finder(taxonomy, part, suggest=_LISTED if off_tree == "error" else 0)
    rows: list[AnswerRow] = []
    excluded: list[Excluded] = []
    problems: list[tuple[int, str]] = []
    seen: dict[tuple[str, ...], int] = {}
    outside = "" if part is None else f"target outside {part.label}"
    elsewhere = 0
    for line, record in chosen:
        name = str(record[columns.id]) if record.get(columns.id) not in (None, "") else str(line)
        key = (name, *(str(record.get(column)) for column in by))
        if key in seen:
            problems.append((line, f"{columns.id} {name!r} is in row {seen[key]} already"))
            continue
        seen[key] = line
        target = find(record.get(columns.target))
        if target.problem:
            if off_tree == "leave-out":
                excluded.append(Excluded(line, name, "target not on the tree" if target.text else "no target"))
            else:
                problems.append((line, f"{columns.target}: {target.problem}"))
            continue
        if target.node is None:
            excluded.append(Excluded(line, name, outside))
            continue
        answer, single, problem = _answer(record.get(columns.answer), guesses)
        if problem is not None:
            problems.append((line, f"{columns.answer} {problem}"))
            continue
        if answer is None and missing != "keep":
            if missing == "error":
                problems.append((line, f"{columns.answer} is missing"))
            else:
                excluded.append(Excluded(line, name, "no answer"))
            continue
        elsewhere += target.moved
        rows.append(AnswerRow(line, name, answer, single, target.node, target.text, record))
    if problems:
        raise _listed(problems, file, len(chosen), columns)
    if not rows:
        if part is not None and all(row.reason == outside for row in excluded):
            raise DataError(
                f"No target lies below {part.label!r}, so there is nothing to score.",
                file=file,
                remedy="Check the root.",
            )
        somewhere = part is not None and any(row.reason == outside for row in excluded)
        raise DataError(
            "No row is left to use.",
            file=file,
            value=_counted(excluded),
            remedy="Check the root." if somewhere else "Check the taxonomy and the columns.",
        )
    notes = _notes(file, excluded, len(chosen))
    silent = sum(row.answer is not None and not row.answer.strip() for row in rows)
    if silent:
        notes += (f"{file}: {silent:,} of {len(rows):,} answers are empty: they say nothing",)
    if elsewhere:
        notes += (
            f"{file}: {elsewhere:,} of {len(rows):,} targets are paths of another tree, found by their last name",
        )
    return AnswerFile(file, tuple(rows), tuple(excluded), notes)


def split_by(answers: AnswerFile, column: str) -> dict[str, AnswerFile]:
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
    return {value: replace(answers, rows=tuple(rows)) for value, rows in parts.items()}


def _check_columns(
    file: str, records: Sequence[tuple[int, Mapping[str, Any]]], columns: Columns, others: Sequence[str]
) -> None:
    there = {name for _, record in records for name in record}
    for name in (columns.answer, columns.target, *others):
        if name not in there:
            # CSV headers are read in lower case, with underscores for spaces.
            near = column_key(name)
            raise DataError(
                f"The file has no column {name!r}.",
                file=file,
                value=sorted(there),
                remedy=f"Did you mean {near!r}?" if near in there else "Name the columns that it has.",
            )


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
    return None, (), f"is no text but {value!r}"


def _notes(file: str, excluded: Sequence[Excluded], total: int) -> tuple[str, ...]:
    reasons: dict[str, int] = {}
    for row in excluded:
        reasons[row.reason] = reasons.get(row.reason, 0) + 1
    return tuple(f"{file}: {n:,} of {total:,} rows are left out: {reason}" for reason, n in reasons.items())


def _counted(excluded: Iterable[Excluded]) -> str:
    reasons: dict[str, int] = {}
    for row in excluded:
        reasons[row.reason] = reasons.get(row.reason, 0) + 1
    return ", ".join(f"{n:,} {reason}" for reason, n in reasons.items())


def _listed(problems: Sequence[tuple[int, str]], file: str, total: int, columns: Columns) -> DataError:
    # One line for all rows that have the same problem: a species that the tree lacks has many photos.
    rows: dict[str, list[int]] = {}
    for line, what in problems:
        rows.setdefault(what, []).append(line)
    lines = [f"\n  {_numbered(some)}: {what[:300]}" for what, some in list(rows.items())[:_LISTED]]
    if len(rows) > _LISTED:
        more = sum(len(some) for some in list(rows.values())[_LISTED:])
        lines.append(f"\n  and {more:,} more rows")
    options = {
        "--off-tree leave-out": any(what.startswith(f"{columns.target}:") for what in rows),
        "--missing leave-out": f"{columns.answer} is missing" in rows,
    }
    offered = " or ".join(option for option, helps in options.items() if helps)
    return DataError(
        f"{len({line for line, _ in problems}):,} of {total:,} rows cannot be used:{''.join(lines)}",
        file=file,
        remedy="\nCorrect these rows" + (f", or leave them out with {offered}." if offered else " or remove them."),
    )


def _numbered(rows: Sequence[int]) -> str:
    if len(rows) == 1:
        return f"row {rows[0]}"
    more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
    return f"rows {', '.join(map(str, rows[:5]))}{more}"
