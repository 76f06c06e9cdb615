"""Running a command as a user does, but in this process."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taxtune.cli import main

__all__ = [
    "Done",
    "run_captured",
    "run_command",
    "run_json",
    "run_refused",
    "run_well",
    "without_duration",
]


@dataclass(frozen=True)
class Done:
    """The result of a command: its exit code (of a process, minus the signal that ended it) and what it said."""

    code: int
    out: str
    err: str


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Runs `taxtune ARGUMENTS` in this process and returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["taxtune", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def run_captured(*arguments: object, folder: Path | None = None, stdin: bytes = b"") -> Done:
    """Runs `taxtune ARGUMENTS` in this process, for fixtures and tests that need what it said without `capsys`.

    Args:
        arguments: The command line after "taxtune".
        folder: The working directory; the current one where left out.
        stdin: What is on standard input.
    """
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        if folder is not None:
            patch.chdir(folder)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run_command(patch, *arguments)
    return Done(code, out.getvalue(), err.getvalue())


def run_well(*arguments: object, folder: Path | None = None, stdin: bytes = b"") -> Done:
    """Runs `taxtune ARGUMENTS` as `run_captured` does; it must end well."""
    done = run_captured(*arguments, folder=folder, stdin=stdin)
    assert done.code == 0, done.err + done.out
    return done


def run_refused(*arguments: object, folder: Path | None = None) -> str:
    """Returns the error of `taxtune ARGUMENTS`, which must be refused, in one line."""
    done = run_captured(*arguments, folder=folder)
    assert done.code == 2, done.err + done.out
    return " ".join(done.err.split())


def run_json(*arguments: object, folder: Path | None = None) -> Any:
    """Returns the JSON that `taxtune ARGUMENTS` prints; it must end well."""
    return json.loads(run_well(*arguments, "--json", folder=folder).out)


def without_duration(text: str) -> str:
    """Returns the text of a result with a star for how long the run took."""
    return re.sub(
        r"^(\d[\d,]* calls?, .*), [\d.]+ (?:s|min|h)$", r"\1, *", text, flags=re.MULTILINE
    )
