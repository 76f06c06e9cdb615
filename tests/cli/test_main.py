from __future__ import annotations

import warnings

import pytest

import taxtune
from taxtune import cli


def test_own_warnings_are_notes_and_others_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(prog_name: str) -> None:
        warnings.simplefilter("always")
        warnings.warn_explicit("3 names left out", UserWarning, taxtune.__file__, 1)
        warnings.warn_explicit("something old", UserWarning, "elsewhere.py", 7)
        warnings.warn_explicit("divided", RuntimeWarning, taxtune.__file__, 1)

    monkeypatch.setattr(cli, "app", command)
    cli.main()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "taxtune: note: 3 names left out"
    assert lines[1] == "elsewhere.py:7: UserWarning: something old"
    assert any("RuntimeWarning: divided" in line for line in lines[2:])
