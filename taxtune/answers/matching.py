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
    first, *others = by_id
    ids = tuple(key for key in by_id[first] if all(key in by_id[other] for other in others))
    common = set(ids)
    surplus = {name: lacking for name, part in by_id.items() if (lacking := [key for key in part if key not in common])}
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
        raise DataError("The files have no examples in common.", value=list(files), remedy="Check their ids.")
    for key in ids:
        row = by_id[first][key]
        for other in others:
            if (row.target, row.references) != (by_id[other][key].target, by_id[other][key].references):
                message = f"The example has a different target in {other} ({files[other].file})."
                remedy = "Give files with the same examples."
                raise DataError(message, file=files[first].file, row=row.row, value=key, remedy=remedy)
    notes = [
        f"{len(lacking):,} of {len(by_id[name]):,} rows of {name} are left out because another file lacks them"
        for name, lacking in surplus.items()
    ]
    excluded = [
        (files[name].file, Excluded(by_id[name][key].row, key, "missing for another model or prompt"))
        for name, lacking in surplus.items()
        for key in lacking
    ]
    aligned = {name: tuple(part[key] for key in ids) for name, part in by_id.items()}
    return Aligned(ids, aligned, tuple(notes), tuple(excluded))


def excluded_records(files: Iterable[AnswerTable], aligned: Iterable[Aligned] = ()) -> list[dict[str, Any]]:
    """Every row that a study leaves out, with the reason, as `--json` lists them.

    Args:
        files: The files that were read; of parts of one file each row is named once.
        aligned: How their rows were matched.
    """
    left_out = [(file.file, row) for file in files for row in file.excluded]
    left_out += [pair for match in aligned for pair in match.excluded]
    return [{"file": file, "row": row.row, "id": row.id, "reason": row.reason} for file, row in dict.fromkeys(left_out)]
