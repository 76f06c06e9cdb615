"""The answers that a run of taxtune recorded: the held-out rows of its templates, and the tuning rows of iterations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from taxtune.errors import DataError
from taxtune.tables import read_iterations

__all__ = ["RunRows", "heldout_rows", "read_run_rows", "split_run"]

_NEEDED = ("example", "truth", "placement", "node", "stage", "answer")
_NO_RUN = "Give a folder written by taxtune tune or taxtune compare, or a file of answers."
_UNFINISHED = "Finish it with taxtune tune --resume, or name an iteration: 0 is its baseline."
_BROKEN = (OSError, ValueError, KeyError, TypeError)


class RunRows(NamedTuple):
    """The answers to a template ("winner", "baseline", an objective, "iteration N") on "held-out" or "tuning" images.

    `rows` has one record per image, see `taxtune.tuning.records.SampleResult`.
    """

    evaluation: str
    split: str
    file: Path
    rows: tuple[Mapping[str, Any], ...]


def split_run(source: str | Path) -> tuple[Path, str | None] | None:
    """The folder and the evaluation that "RUN" or "RUN:EVALUATION" names; None if it names no folder."""
    path = Path(source)
    if path.is_dir():
        return path, None
    folder, colon, evaluation = str(source).rpartition(":")
    return (Path(folder), evaluation) if colon and not path.exists() and Path(folder).is_dir() else None


def read_run_rows(folder: Path, evaluation: str | None = None) -> RunRows:
    """The answers to one template of a run.

    Args:
        folder: The folder of `taxtune tune` or `taxtune compare`.
        evaluation: "winner" or "baseline" on the held-out images, of a comparison an objective; or the number of an
            iteration on the tuning images. None is the winner, of a comparison that of its first objective.

    Raises:
        DataError: If the folder holds no run, or the run no such evaluation, or no image was answered in it.
    """
    result, history = folder / "result.json", folder / "history.jsonl"
    if not result.exists() and not history.exists():
        raise DataError("The folder does not contain a taxtune run.", file=folder, remedy=_NO_RUN)
    if evaluation is not None and evaluation.isdecimal():
        try:
            rows = {number: record["rows"] for number, record in read_iterations(history).items()}
        except FileNotFoundError:
            remedy = "The iterations of a comparison are in the sub-folders of its objectives."
            raise DataError("The folder contains no iterations.", file=folder, remedy=remedy) from None
        except _BROKEN as error:
            raise DataError("This is not a taxtune record.", file=history, value=str(error)) from error
        if not rows.get(number := int(evaluation)):
            remedy = f"It has those of {', '.join(str(key) for key in rows if rows[key])}."
            message = "The run has no answers for this iteration."
            raise DataError(message, file=history, value=evaluation, remedy=remedy)
        return _answered(f"iteration {evaluation}", "tuning", history, rows[number])
    if not result.exists():
        raise DataError("The run is not finished: it has no held-out answers.", file=folder, remedy=_UNFINISHED)
    held = dict(heldout_rows(result))
    name = evaluation or next((name for name in held if name != "baseline"), "winner")
    if name not in held:
        remedy = f"Use {', '.join(held)}, or the number of an iteration."
        raise DataError("The run has no such evaluation.", file=result, value=name, remedy=remedy)
    return _answered(name, "held-out", result, held[name])


def heldout_rows(result: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yields the name and the rows of each template that a `result.json` compares on held-out images.

    Raises:
        DataError: If the file cannot be read or is not a result.
    """
    try:
        held = json.loads(result.read_text("utf-8"))["heldout"]
        yield from [(str(entry["name"]), entry["rows"]) for entry in held]
    except _BROKEN as error:
        raise DataError("This is not a taxtune record.", file=result, value=str(error)) from error


def _answered(evaluation: str, split: str, file: Path, rows: list[Any]) -> RunRows:
    if rows and all(isinstance(row, dict) and row.get("answer", "") is None for row in rows):
        raise DataError(f"No image of the {split} split has an answer.", file=file, remedy="Give another run.")
    if any(not isinstance(row, dict) or not row.keys() >= set(_NEEDED) for row in rows):
        raise DataError("This is not a taxtune record.", file=file, remedy=f"Each row needs {', '.join(_NEEDED)}.")
    return RunRows(evaluation, split, file, tuple(rows))
