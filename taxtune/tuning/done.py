"""A run that is finished, and is still the run that is asked for, is read from its files: nothing is loaded for it.

The last thing that a run writes is `finished.json`: of what it is the result, and how large its files are. Where both
still hold, going on with the run has nothing to do. Where anything else is found, the run goes on as any other does,
and writes what is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import taxtune
from taxtune.atomic import write_json
from taxtune.tuning.callbacks import Callbacks
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.files import places, read_result
from taxtune.tuning.records import ComparisonResult, TuneResult

__all__ = ["is_finished", "mark_finished", "read_finished"]

_FILE = "finished.json"
_SHOWN = (".html", ".j2", ".jsonl", ".png", ".svg", ".txt")


def mark_finished(folder: Path, experiments: Sequence[Experiment], callbacks: Callbacks) -> None:
    """Notes that the results in a folder are those of some experiments, of a comparison only if all its runs are noted.

    Args:
        folder: The folder of a run, or of a comparison.
        experiments: What was tuned; of a comparison in their order.
        callbacks: Who recorded it.
    """
    runs = [folder / experiment.objective.name for experiment in experiments if len(experiments) > 1]
    if all(is_finished(run) for run in runs):
        write_json(folder / _FILE, _mark(folder, experiments, callbacks))


def is_finished(folder: Path) -> bool:
    """Tells whether the run in a folder was finished, whatever became of it since."""
    return (folder / _FILE).exists()


def read_finished(
    folder: Path, experiments: Sequence[Experiment], callbacks: Callbacks
) -> TuneResult | ComparisonResult | None:
    """Returns the result in a folder if it is that of these experiments and whole; arguments as `mark_finished`."""
    try:
        known = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if known != _mark(folder, experiments, callbacks):
        return None
    result = read_result(folder)
    assert isinstance(result, TuneResult | ComparisonResult)
    return replace(result, where=places(folder) | callbacks.where())


def _mark(folder: Path, experiments: Sequence[Experiment], callbacks: Callbacks) -> dict[str, Any]:
    of = [taxtune.__version__, callbacks.addresses(), [experiment.fingerprint() for experiment in experiments]]
    folders = [folder, *(folder / experiment.objective.name for experiment in experiments)]
    return {
        "of": hashlib.sha256(json.dumps(of).encode()).hexdigest(),
        "files": {
            str(file.relative_to(folder)): _size(file)
            for file in sorted(file for each in folders if each.is_dir() for file in each.iterdir())
            if file.suffix in (*_SHOWN, ".db") or file.name in ("result.json", "provenance.json")
        },
    }


def _size(file: Path) -> int | None:
    """A file's size; None of databases, which have more writers than the run."""
    return None if file.suffix == ".db" else file.stat().st_size
