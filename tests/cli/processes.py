"""Processes of taxtune that start at once: forked from one in which the packages that it needs are imported already.

To import torch, transformers and MLflow takes a process longer than what most tests have it do. What is forked is a
process of its own in all that a test of killing and going on looks at: its memory, its files, its databases, its end.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Done", "Started", "start"]


@dataclass(frozen=True)
class Done:
    """What came of a process: its exit code (minus the signal that ended it) and what it said."""

    returncode: int
    stdout: str
    stderr: str


class Started:
    """A process of `taxtune ARGUMENTS`.

    Args:
        arguments: The command line after "taxtune".
        folder: The working directory.
        environment: All environment variables.
    """

    def __init__(self, arguments: Sequence[object], folder: Path, environment: Mapping[str, str]) -> None:
        self._said = [Path(tempfile.mkstemp(suffix=f".{name}")[1]) for name in ("out", "err")]
        self._process = _context().Process(
            target=_run, args=([str(part) for part in arguments], folder, dict(environment), *self._said)
        )
        self._process.start()

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs."""
        return self._process.exitcode

    def kill(self) -> None:
        """Kills it (SIGKILL)."""
        self._process.kill()

    def wait(self, timeout: float = 300) -> Done:
        """Waits for its end."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
        out, err = (path.read_text(encoding="utf-8") for path in self._said)
        for path in self._said:
            path.unlink()
        assert code is not None, f"it did not end within {timeout} s: {err}"
        return Done(code, out, err)


def start(*arguments: object, folder: Path, environment: Mapping[str, str]) -> Started:
    """Starts `taxtune ARGUMENTS` in a folder."""
    return Started(arguments, folder, environment)


def _context() -> Any:
    if sys.platform != "linux":  # where a process that has loaded such packages may not be forked, or not at all
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.cli.preloaded"])
    with pytest.MonkeyPatch.context() as patch:
        # Of use to the first call alone, which starts the server. Threads would not outlive a fork.
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        forkserver.ensure_running()
    return context


def _run(arguments: list[str], folder: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    """Runs in the process: its streams, folder and environment are those of a command that a user gives."""
    for path, stream in ((out, sys.__stdout__), (err, sys.__stderr__)):
        assert stream is not None
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["taxtune", *arguments]
    from taxtune.cli import main

    main()
