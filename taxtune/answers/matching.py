"""Matching the rows of several files of answers by the example that they are of, and listing the excluded rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from taxtune.answers.read import AnswerRow, AnswerTable, Excluded
from taxtune.errors import DataError

__all__ = ["Aligned", "align", "excluded_records"]


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
    common = set.intersection(*map(set, by_id.values()))
    everywhere = [row.id for row in next(iter(files.values())).rows if row.id in common]
    surplus = {name: ids for name, part in by_id.items() if (ids := [key for key in part if key not in common])}
    if surplus and rows == "error":
        lines = [
            f"\n  {name} ({files[name].file}): {len(ids):,} rows that another file lacks, such as "
            + ", ".join(map(repr, ids[:5]))
            for name, ids in surplus.items()
        ]
        raise DataError(
            f"The files do not have the same rows; {len(everywhere):,} are in all of them.{''.join(lines)}",
            remedy="\nGive files with the same examples, or use only the common ones with --rows common.",
        )
    if not everywhere:
        raise DataError("The files have no examples in common.", value=list(files), remedy="Check their ids.")
    first = next(iter(files))
    for other, part in by_id.items():
        wrong = [key for key in everywhere if _target(by_id[first][key]) != _target(part[key])]
        if wrong:
            raise DataError(
                f"{len(wrong):,} examples have a different target in {other} ({files[other].file}).",
                file=files[first].file,
                row=by_id[first][wrong[0]].row,
                value=wrong[0],
                remedy="Give files with the same examples.",
            )
    reason = "missing for another model or prompt"
    return Aligned(
        tuple(everywhere),
        {name: tuple(part[key] for key in everywhere) for name, part in by_id.items()},
        tuple(
            f"{len(ids):,} of {len(by_id[name]):,} rows of {name} are left out because another file lacks them"
            for name, ids in surplus.items()
        ),
        tuple(
            (files[name].file, Excluded(by_id[name][key].row, key, reason))
            for name, ids in surplus.items()
            for key in ids
        ),
    )


def _target(row: AnswerRow) -> object:
    return row.target, row.references


def excluded_records(files: Iterable[AnswerTable], aligned: Iterable[Aligned] = ()) -> list[dict[str, Any]]:
    """Every row that a study leaves out, with the reason, as `--json` lists them.

    Args:
        files: The files that were read; of parts of one file each row is named once.
        aligned: How their rows were matched.
    """
    left_out = [(file.file, row) for file in files for row in file.excluded]
    left_out += [pair for match in aligned for pair in match.excluded]
    return [{"file": file, "row": row.row, "id": row.id, "reason": row.reason} for file, row in dict.fromkeys(left_out)]
