"""Several files of answers about the same examples, matched by id, and one file in parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from taxtune.answers.schema import AnswerRow, AnswerTable, Excluded
from taxtune.errors import DataError

__all__ = ["Aligned", "align", "excluded_records", "split_by"]


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
    return {value: replace(answers, rows=tuple(rows)) for value, rows in parts.items()}


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
        rows: What to do with examples that some file lacks: refuse, or take the common ones and
            count the others.

    Raises:
        DataError: If examples do not match, or the same id has another target in another file, or
            none is common.
    """
    by_id = {name: {row.id: row for row in table.rows} for name, table in files.items()}
    first = next(iter(by_id.values()))
    ids = tuple(key for key in first if all(key in own for own in by_id.values()))
    common = set(ids)
    surplus: dict[str, list[AnswerRow]] = {}
    for name, own in by_id.items():
        lacking = [row for key, row in own.items() if key not in common]
        if lacking:
            surplus[name] = lacking
    if surplus and rows == "error":
        raise _different_rows(files, surplus, len(ids))
    if not ids:
        raise DataError(
            "The files have no examples in common.", value=list(files), remedy="Check their ids."
        )
    aligned = {name: tuple(own[key] for key in ids) for name, own in by_id.items()}
    _check_targets(files, aligned)
    notes = []
    excluded = []
    for name, lacking in surplus.items():
        notes.append(
            f"{len(lacking):,} of {len(by_id[name]):,} rows of {name} are left out because another "
            "file lacks them"
        )
        for row in lacking:
            left_out = Excluded(row.row, row.id, "missing for another model or prompt")
            excluded.append((files[name].file, left_out))
    return Aligned(ids, aligned, tuple(notes), tuple(excluded))


def _different_rows(
    files: Mapping[str, AnswerTable], surplus: Mapping[str, Sequence[AnswerRow]], common: int
) -> DataError:
    message = f"The files do not have the same rows; {common:,} are in all of them."
    for name, lacking in surplus.items():
        file = files[name].file
        examples = ", ".join(repr(row.id) for row in lacking[:5])
        count = f"{len(lacking):,} rows that another file lacks"
        message += f"\n  {name} ({file}): {count}, such as {examples}"
    return DataError(
        message,
        remedy="\nGive files with the same examples, or use only the common ones with --rows common.",
    )


def _check_targets(
    files: Mapping[str, AnswerTable], aligned: Mapping[str, tuple[AnswerRow, ...]]
) -> None:
    """Raises a `DataError` if an example has another target or references in another file."""
    first = next(iter(aligned))
    for rows in zip(*aligned.values(), strict=True):
        row = rows[0]
        for name, other in zip(aligned, rows, strict=True):
            if row.target != other.target or row.references != other.references:
                raise DataError(
                    f"The example has a different target in {name} ({files[name].file}).",
                    file=files[first].file,
                    row=row.row,
                    value=row.id,
                    remedy="Give files with the same examples.",
                )


def excluded_records(
    files: Iterable[AnswerTable], aligned: Iterable[Aligned] = ()
) -> list[dict[str, Any]]:
    """Returns every row that a study leaves out, with the reason, as `--json` lists them.

    Args:
        files: The files that were read. Of parts of one file each row is named once.
        aligned: How their rows were matched.
    """
    left_out = [(table.file, row) for table in files for row in table.excluded]
    for match in aligned:
        left_out += match.excluded
    return [{"file": file, **row._asdict()} for file, row in dict.fromkeys(left_out)]
