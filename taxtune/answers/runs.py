"""The answers that a run of taxtune recorded: the held-out rows of its templates, and the tuning rows of iterations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.errors import DataError
from taxtune.record_lines import read_lines

__all__ = ["RunRows", "heldout_rows", "read_run_rows", "split_run"]

_NEEDED = ("example", "truth", "placement", "node", "stage")
_FINISH = "Finish it with taxtune tune --resume, or name an iteration: 0 is its baseline."


@dataclass(frozen=True, slots=True)
class RunRows:
    """What was answered to one template of a run.

    Attributes:
        evaluation: Which template: "winner", "baseline", the objective that it won, or "iteration N".
        split: "held-out" or "tuning".
        file: Where it is recorded.
        rows: One record an image, see `taxtune.tuning.records.SampleResult`.
    """

    evaluation: str
    split: str
    file: Path
    rows: tuple[Mapping[str, Any], ...]


def split_run(source: str | Path) -> tuple[Path, str | None] | None:
    """Returns the folder and the evaluation that "RUN" or "RUN:EVALUATION" names; None if it names no folder."""
    path = Path(source)
    if path.is_dir():
        return path, None
    folder, colon, evaluation = str(source).rpartition(":")
    return (Path(folder), evaluation) if colon and not path.exists() and Path(folder).is_dir() else None


def read_run_rows(folder: Path, evaluation: str | None = None) -> RunRows:
    """Returns the answers to one template of a run.

    Args:
        folder: The folder of `taxtune tune` or `taxtune compare`.
        evaluation: "winner" or "baseline" on the held-out images, of a comparison an objective; or the number of an
            iteration on the tuning images. None is the winner, of a comparison that of its first objective.

    Raises:
        DataError: If the folder holds no run, or the run no such evaluation, or no image was answered in it.
    """
    result, history = folder / "result.json", folder / "history.jsonl"
    if not result.exists() and not history.exists():
        raise DataError(
            "The folder does not contain a taxtune run.",
            file=folder,
            remedy="Give a folder written by taxtune tune or taxtune compare, or a file of answers.",
        )
    if evaluation is not None and evaluation.isdecimal():
        return _iteration(history, int(evaluation))
    if not result.exists():
        raise DataError("The run is not finished: it has no held-out answers.", file=folder, remedy=_FINISH)
    held = dict(heldout_rows(result))
    name = evaluation or next((name for name in held if name != "baseline"), "winner")
    if name not in held:
        raise DataError(
            "The run has no such evaluation.",
            file=result,
            value=name,
            remedy=f"Use {', '.join(held)}, or the number of an iteration.",
        )
    return _answered(name, "held-out", result, held[name])


def heldout_rows(result: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yields the name and the rows of each template that a `result.json` compares on held-out images.

    Raises:
        DataError: If the file cannot be read or is not a result.
    """
    try:
        held = json.loads(result.read_text("utf-8"))["heldout"]
        yield from [(str(entry["name"]), entry["rows"]) for entry in held]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_record(result, error) from error


def _iteration(history: Path, number: int) -> RunRows:
    try:
        found = {number: record["rows"] for number, record in read_lines(history).items()}
    except FileNotFoundError:
        raise DataError(
            "The folder contains no iterations.",
            file=history.parent,
            remedy="The iterations of a comparison are in the sub-folders of its objectives.",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _no_record(history, error) from error
    rows = found.get(number)
    if not rows:
        have = ", ".join(str(key) for key, rows in found.items() if rows)
        raise DataError(
            "The run has no answers for this iteration.",
            file=history,
            value=str(number),
            remedy=f"It has those of {have}.",
        )
    return _answered(f"iteration {number}", "tuning", history, rows)


def _answered(evaluation: str, split: str, file: Path, rows: list[Any]) -> RunRows:
    try:
        if all(row["answer"] is None for row in rows):
            raise DataError(f"No image of the {split} split has an answer.", file=file, remedy="Give another run.")
        lacking = [name for row in rows for name in _NEEDED if name not in row]
        if lacking:
            raise KeyError(lacking[0])
    except (KeyError, TypeError) as error:
        raise _no_record(file, error) from error
    return RunRows(evaluation, split, file, tuple(rows))


def _no_record(file: Path, error: Exception) -> DataError:
    return DataError("This is not a taxtune record.", file=file, value=str(error))
