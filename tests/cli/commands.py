"""Running a command as a user does, but in this process."""

from __future__ import annotations

import sys

import pytest

from taxtune.cli import main

__all__ = ["run_command"]


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Runs `taxtune ARGUMENTS` in this process and returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["taxtune", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0
