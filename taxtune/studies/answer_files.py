"""Files of answers with their targets: any columns, one or several models, rows matched between files.

Published answer files name their targets loosely; a target is looked for as it is written, then

- a path without the tree's root, or of another tree, by its last name ("Aves/Suliformes/…/Phalacrocorax auritus" on a
  tree that classes the species otherwise), if one node alone has that name;
- with spaces for underscores ("basset_hound").

How many rows are found by the last name of another path is said in the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from taxtune.errors import DataError, TaxonomyError
from taxtune.metrics.predictions import read_records
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Aligned", "AnswerFile", "AnswerRow", "Columns", "Excluded", "align", "read_answer_file", "split_by"]

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
        notes: The exclusions as sentences with their counts.
    """

    file: str
    rows: tuple[AnswerRow, ...]
    excluded: tuple[Excluded, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Several files' rows of the same examples.

    Attributes:
        ids: The examples.
        rows: By name of the file, the row of each example, in the order of `ids`.
        notes: What was left out, with counts.
    """

    ids: tuple[str, ...]
    rows: Mapping[str, tuple[AnswerRow, ...]]
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
) -> AnswerFile:
    """Reads answers and their targets from a CSV or JSONL file.

    Args:
        path: The file.
        taxonomy: The tree that the targets are on.
        columns: Which columns hold what.
        where: Columns and the values that rows must have to be read at all, such as {"domain": "bird200"}.
        by: Columns that tell several models or prompts in one file apart: an id may occur once for each.
        guesses: What a list of guesses means as one answer: its first entry, or all of them joined by ", ".
        off_tree: What to do with rows whose target is not on the tree, or is not there.
        missing: What to do with rows without an answer (null, or an empty CSV cell): refuse them, keep them as missing,
            or leave them out. None of these scores them.

    Raises:
        DataError: If the file cannot be read, lacks a column, has no row that fits `where`, repeats an id, or has rows
            that cannot be used; one message names them all, up to 20.
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
        if all(str(record.get(name)) == value for name, value in (where or {}).items())
    ]
    if not chosen:
        said = ", ".join(f"{name}={value}" for name, value in (where or {}).items())
        raise DataError("No row fits what was asked for.", file=file, value=said, remedy="Check the values.")
    resolve = _resolver(taxonomy)
    rows: list[AnswerRow] = []
    excluded: list[Excluded] = []
    problems: list[tuple[int, str]] = []
    seen: dict[tuple[str, ...], int] = {}
    elsewhere = 0
    for line, record in chosen:
        name = str(record[columns.id]) if record.get(columns.id) not in (None, "") else str(line)
        key = (name, *(str(record.get(column)) for column in by))
        if key in seen:
            problems.append((line, f"{columns.id} {name!r} is in row {seen[key]} already"))
            continue
        seen[key] = line
        target, text, moved = resolve(record.get(columns.target))
        if isinstance(target, str):
            if off_tree == "leave-out":
                excluded.append(Excluded(line, name, "target not on the tree" if text else "no target"))
            else:
                problems.append((line, f"{columns.target}: {target}"))
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
        elsewhere += moved
        rows.append(AnswerRow(line, name, answer, single, target, text, record))
    if problems:
        raise _listed(problems, file, len(chosen), columns)
    if not rows:
        raise DataError("No row is left to use.", file=file, value=_counted(excluded))
    notes = _notes(file, excluded, len(chosen))
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


def align(files: Mapping[str, AnswerFile], rows: Literal["error", "common"] = "error") -> Aligned:
    """Matches the rows of several files by id.

    Args:
        files: The files by name.
        rows: What to do with examples that some file lacks: refuse, or take the common ones and count the others.

    Raises:
        DataError: If examples do not match, or the same id has another target in another file, or none is common.
    """
    by_id = {name: {row.id: row for row in file.rows} for name, file in files.items()}
    everywhere = [row.id for row in next(iter(files.values())).rows if all(row.id in part for part in by_id.values())]
    lacking = {
        name: [row.id for row in files[name].rows if any(row.id not in part for part in by_id.values())]
        for name in files
    }
    surplus = {name: ids for name, ids in lacking.items() if ids}
    if surplus and rows == "error":
        lines = [
            f"\n  {name} ({files[name].file}): {len(ids):,} rows that another lacks, such as "
            + ", ".join(map(repr, ids[:5]))
            for name, ids in surplus.items()
        ]
        raise DataError(
            f"The files' rows do not match; {len(everywhere):,} are in all of them.{''.join(lines)}",
            remedy="\nGive files of the same examples, or take the common ones with --rows common.",
        )
    if not everywhere:
        raise DataError("The files have no example in common.", value=list(files), remedy="Check their ids.")
    for name, part in by_id.items():
        for other, theirs in by_id.items():
            wrong = [key for key in everywhere if part[key].target != theirs[key].target]
            if wrong:
                raise DataError(
                    f"{len(wrong):,} examples have another target in {other} ({files[other].file}).",
                    file=files[name].file,
                    row=part[wrong[0]].row,
                    value=wrong[0],
                    remedy="Give files of the same examples.",
                )
    notes = [
        f"{len(ids):,} of {len(files[name].rows):,} rows of {name} are left out, since another file lacks them"
        for name, ids in surplus.items()
    ]
    return Aligned(
        tuple(everywhere), {name: tuple(part[key] for key in everywhere) for name, part in by_id.items()}, tuple(notes)
    )


def _check_columns(
    file: str, records: Sequence[tuple[int, Mapping[str, Any]]], columns: Columns, others: Sequence[str]
) -> None:
    there = {name for _, record in records for name in record}
    for name in (columns.answer, columns.target, *others):
        if name not in there:
            raise DataError(
                f"The file has no column {name!r}.",
                file=file,
                value=sorted(there),
                remedy="Name the columns that it has.",
            )


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


def _resolver(taxonomy: Taxonomy) -> Callable[[object], tuple[int | str, str, bool]]:
    """Returns a function from a target to its node (or what is wrong with it), its text, and whether it has moved."""
    known: dict[object, tuple[int | str, str, bool]] = {}

    def resolve(value: object) -> tuple[int | str, str, bool]:
        if isinstance(value, list) and value and all(isinstance(label, str) and label for label in value):
            value = tuple(value)
        if not isinstance(value, str | tuple) or not value or (isinstance(value, str) and not value.strip()):
            return f"is no label or path but {value!r}", "", False
        if value not in known:
            node, moved = _node(taxonomy, value)
            known[value] = (node, value if isinstance(value, str) else "/".join(value), moved)
        return known[value]

    return resolve


def _node(taxonomy: Taxonomy, value: str | tuple[str, ...]) -> tuple[int | str, bool]:
    """Returns the node that a target means, or what is wrong with it, and whether its path is one of another tree."""
    last = value if isinstance(value, str) else value[-1]
    candidates: list[tuple[str | tuple[str, ...], bool]] = [(value, False)]
    if isinstance(value, tuple):
        candidates.append((last, len(value) > 1))
    if "_" in last:
        candidates.append((last.replace("_", " "), isinstance(value, tuple) and len(value) > 1))
    problem = ""
    for candidate, moved in candidates:
        try:
            return taxonomy.resolve(candidate), moved
        except TaxonomyError as error:
            problem = problem or f"{error.message} {error.remedy or ''}".strip()
    return problem, False


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
    lines = [f"\n  row {line}: {what[:300]}" for line, what in problems[:_LISTED]]
    if len(problems) > _LISTED:
        lines.append(f"\n  and {len(problems) - _LISTED:,} more")
    options = {
        "--off-tree leave-out": any(what.startswith(f"{columns.target}:") for _, what in problems),
        "--missing leave-out": any(what == f"{columns.answer} is missing" for _, what in problems),
    }
    offered = " or ".join(option for option, helps in options.items() if helps)
    return DataError(
        f"{len({line for line, _ in problems}):,} of {total:,} rows cannot be used:{''.join(lines)}",
        file=file,
        remedy="\nCorrect these rows" + (f", or leave them out with {offered}." if offered else " or remove them."),
    )
