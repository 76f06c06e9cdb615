"""Running a study's command in this process, and reading what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.commands import run_command

__all__ = ["Study"]


class Study:
    """`taxtune study NAME`.

    Args:
        name: The study.
        monkeypatch: What sets the command line.
        capsys: What reads the streams.
    """

    def __init__(
        self, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._name, self._monkeypatch, self._capsys = name, monkeypatch, capsys

    def said(self, *arguments: object) -> tuple[str, str]:
        """Runs the command, which must end well; returns standard output and standard error."""
        code, out, err = self._run(*arguments)
        assert code == 0, err
        return out, err

    def json(self, *arguments: object) -> dict[str, Any]:
        """Runs the command with --json; returns what it prints."""
        return dict(json.loads(self.said(*arguments, "--json")[0]))

    def refused(self, *arguments: object) -> str:
        """Runs the command, which must refuse in one message and print nothing; returns the message in one line."""
        code, out, err = self._run(*arguments)
        assert (code, out) == (2, ""), err
        assert "Traceback" not in err
        return " ".join(err.split())

    def _run(self, *arguments: object) -> tuple[int, str, str]:
        code = run_command(self._monkeypatch, "study", self._name, *arguments)
        said = self._capsys.readouterr()
        return code, said.out, said.err
