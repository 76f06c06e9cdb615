"""What a folder holds, a run, a comparison or repeated runs, so that one never overwrites the results of another."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from taxtune.errors import ResumeError

__all__ = ["Kind", "check_folder_is_for", "default_folder"]

Kind = Literal["tune", "compare", "repeat"]

_HISTORY = ("history.db", "history.json", "history.jsonl")
_SHOWN = {"tune": "a tuning run", "compare": "a comparison", "repeat": "repeated runs"}


def default_folder(name: str, what: str) -> Path:
    """Returns the folder for what is done with a recipe where nobody says another.

    A tuning run and evaluations of templates share one, since these lie in `evaluated`: "runs/birds"; a comparison and
    repeated runs have one of their own: "runs/birds-compare".
    """
    return Path("runs") / (f"{name}-{what}" if what in ("compare", "repeat") else name)


def check_folder_is_for(kind: Kind, folder: Path, objectives: Sequence[str] = ()) -> None:
    """Checks that a folder holds nothing of another kind, and of a comparison no objectives that are left out now.

    Args:
        kind: What is to be written there.
        folder: The folder, which need not exist.
        objectives: Those of a comparison.

    Raises:
        ResumeError: If it does; its results would be overwritten.
    """
    found, runs = _held(folder)
    if found is None:
        return
    if found != kind:
        raise ResumeError(
            f"The folder {str(folder)!r} already holds {_SHOWN[found]}, whose results would be overwritten.",
            remedy=f"Choose another folder: `--out {folder}-{kind}`, in Python `out=`.",
        )
    others = [name for name in runs if name not in objectives]
    if kind == "compare" and others:
        raise ResumeError(
            f"The folder {str(folder)!r} already holds a comparison of {_listed(runs)}, whose results would be "
            "overwritten.",
            remedy=f"Name {_listed(others)} as well and continue it (`--resume`, in Python `resume=True`), or choose "
            "another folder (`--out`, `out=`).",
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _held(folder: Path) -> tuple[Kind | None, list[str]]:
    """Returns what a folder holds, and the names of the runs in it."""
    with suppress(OSError, ValueError):  # what is wrong with the folder is told when it is written to
        if any((folder / name).exists() for name in _HISTORY):
            return "tune", []
        runs = sorted({file.parent.name for name in _HISTORY for file in folder.glob(f"*/{name}")})
        result = _keys(folder / "result.json")
        # A folder of runs that have nothing to do with each other has no answers of its own.
        if result & {"runs", "repeats"} or (runs and (folder / "answers.db").exists()):
            repeated = "repeats" in result or all(re.fullmatch(r"repeat-\d+", run) for run in runs)
            return ("repeat" if repeated else "compare"), runs
        if result:
            return "tune", []
    return None, []


def _keys(file: Path) -> set[str]:
    with suppress(OSError, ValueError, TypeError):
        return set(json.loads(file.read_text(encoding="utf-8")))
    return set()
