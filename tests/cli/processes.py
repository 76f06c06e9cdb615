"""Processes of taxtune, as a user starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cli.commands import Done

__all__ = ["Started"]


class Started:
    """A process of `taxtune ARGUMENTS`.

    Args:
        arguments: The command line after "taxtune".
        folder: The working directory.
    """

    def __init__(self, *arguments: object, folder: Path) -> None:
        # Files and not pipes: nobody empties a pipe while a test waits for the moment to kill.
        self._said = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "taxtune", *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=self._said[0],
            stderr=self._said[1],
        )

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Kills it (SIGKILL)."""
        self._process.kill()

    def interrupt(self) -> None:
        """Presses Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def wait(self, timeout: float = 300) -> Done:
        """Waits for its end.

        Raises:
            subprocess.TimeoutExpired: If it does not end in time; it is killed then.
        """
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        said = []
        for file in self._said:
            with file:
                file.seek(0)
                said.append(file.read())
        return Done(code, *said)
