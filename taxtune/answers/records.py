"""The records of a file of answers or of a run of taxtune; their columns are read in `read`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from taxtune.errors import DataError
from taxtune.tables import read_iterations, read_table
from taxtune.untrusted import well_formed

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "FORMATS",
    "Record",
    "Records",
    "Source",
    "open_table",
    "read_records",
    "run_evaluations",
    "split_run",
]

Record = dict[str, Any]
#: A file, "-" or a run; or the records themselves.
Source: TypeAlias = "str | Path | pd.DataFrame | Iterable[Mapping[str, Any]]"
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError)
#: The formats of a file; "auto" goes by its name and its content.
FORMATS = ("auto", "text", "csv", "jsonl", "json", "xlsx", "parquet")


class Records(NamedTuple):
    """The records of a file.

    Attributes:
        file: The file, for messages.
        rows: The row of each record, and the record.
        notes: What the user should know.
    """

    file: str
    rows: list[tuple[int, Record]]
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns of all records, in the order of first appearance."""
        return list(dict.fromkeys(name for _, record in self.rows for name in record))


def read_records(source: str | Path, *, what: str = "answers") -> list[tuple[int, Record]]:
    """Returns the row and the record of each line of a file or run that is not blank.

    Args:
        source: The file or run.
        what: What the file holds, for messages.

    Raises:
        DataError: If it cannot be read or a row is no record.
    """
    return open_table(source, what=what).rows


def open_table(
    source: Source, *, format: str = "auto", what: str = "answers", text: bool = False
) -> Records:
    """Reads the records of a source of `read_answers`.

    Args:
        source: The source.
        format: One of `FORMATS`; "auto" goes by the file's name and its content.
        what: What the file holds, for messages.
        text: Whether a file of an unknown ending is text with one answer per line, and not CSV or
            JSON.

    Raises:
        DataError: If it cannot be read or a row is no record.
        MissingExtraError: If it is XLSX and openpyxl is not installed.
    """
    if format not in FORMATS:
        raise DataError("Unknown input format.", value=format, remedy=f"Use {', '.join(FORMATS)}.")
    if not isinstance(source, str | Path):
        opened = Records("<records>", _given_rows(source))
    elif (run := split_run(source)) is not None:
        opened = _run_records(*run)
    else:
        container = {"auto": None, "json": "jsonl"}.get(format, format)
        rows = read_table(source, container, what=what, other="text" if text else "csv")
        opened = Records("<stdin>" if str(source) == "-" else str(source), rows)
    for _, record in opened.rows:
        for name, cell in record.items():
            record[name] = _well_formed(cell)
    return opened


def _well_formed(value: Any) -> Any:
    """Returns a cell whose texts can be printed, stored and tokenized.

    JSON may hold half a surrogate pair.
    """
    if isinstance(value, list):
        return [_well_formed(entry) for entry in value]
    return well_formed(value) if isinstance(value, str) else value


def _given_rows(source: pd.DataFrame | Iterable[Mapping[str, Any]]) -> list[tuple[int, Record]]:
    if hasattr(source, "to_dict"):
        frame = cast("pd.DataFrame", source)
        # NaN is pandas' missing value, and no answer.
        cells = frame.astype(object).where(frame.notna(), None)
        source = cast("list[Record]", cells.to_dict("records"))
    return [(row, dict(record)) for row, record in enumerate(source, start=1)]


def split_run(source: str | Path) -> tuple[Path, str | None] | None:
    """Returns the folder and the evaluation that "RUN" or "RUN:EVALUATION" names.

    It is None if the text names no folder.
    """
    path = Path(source)
    if path.is_dir():
        return path, None
    folder, colon, evaluation = str(source).rpartition(":")
    if colon and not path.exists() and Path(folder).is_dir():
        return Path(folder), evaluation
    return None


def run_evaluations(file: Path) -> dict[str, list[Any]]:
    """Returns the rows of each template on a run's held-out images, or of each iteration.

    Args:
        file: The `result.json` or `history.jsonl` of a run.

    Raises:
        DataError: If it is neither.
    """
    if not file.exists():
        raise DataError(
            "The folder does not contain a taxtune run with such answers.",
            file=file,
            remedy="Give a folder that taxtune tune or taxtune compare finished, or an iteration of "
            "one: RUN:0.",
        )
    try:
        if file.suffix == ".jsonl":
            rows = {str(n): record["rows"] for n, record in read_iterations(file).items()}
            return {number: some for number, some in rows.items() if some}
        heldout = json.loads(file.read_text("utf-8"))["heldout"]
        return {str(entry["name"]): entry["rows"] for entry in heldout}
    except _BROKEN as error:
        raise DataError("This is not a taxtune record.", file=file, value=str(error)) from error


def _run_records(folder: Path, evaluation: str | None) -> Records:
    """Returns the answers that a run recorded to one template.

    Args:
        folder: The run's folder.
        evaluation: One on the held-out images, "winner" or "baseline", of a comparison an
            objective; or the number of an iteration on the tuning images. None is the winner, of a
            comparison that of its first objective.
    """
    is_iteration = evaluation is not None and evaluation.isdecimal()
    file = folder / ("history.jsonl" if is_iteration else "result.json")
    evaluations = run_evaluations(file)
    tuned = [key for key in evaluations if key != "baseline"]
    name = evaluation or ("winner" if "winner" in evaluations or not tuned else tuned[0])
    rows = []
    try:
        for number, recorded in enumerate(evaluations.get(name, ()), start=1):
            facts = {"answer": None, **recorded}
            facts |= facts.pop("placed") or {}
            facts |= facts.pop("scores")
            # Answers are placed again, and node numbers are those of the run's tree.
            facts.pop("placement", None)
            facts.pop("target", None)
            facts["id"] = str(facts["example"])
            facts["reference"] = facts["truth"].rpartition("/")[2]
            rows.append((number, facts))
    except _BROKEN as error:
        raise DataError("This is not a taxtune record.", file=file, value=str(error)) from error
    if not rows:
        remedy = f"Use {', '.join(evaluations)}, or the number of an iteration."
        raise DataError(
            "The run has no answers of this name.", file=file, value=name, remedy=remedy
        )
    split = f"iteration {name} on the tuning" if is_iteration else f"{name} on the held-out"
    return Records(str(file), rows, (f"{folder}: the answers are those of {split} images",))
