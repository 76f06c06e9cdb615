"""The option that writes the golden files anew, and the fixture that runs commands and compares with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.golden.golden import Golden

HERE = Path(__file__).parent


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files of tests/golden anew"
    )


@pytest.fixture
def golden(
    request,
    tmp_path,
    monkeypatch,
    capsys,
):
    """Runs commands in a copy of the inputs, and compares what they print and write with the golden files."""
    folder = tmp_path / "work"
    shutil.copytree(HERE / "inputs", folder)
    monkeypatch.chdir(folder)
    # As wide as tables get, so no terminal's width folds them.
    monkeypatch.setenv("COLUMNS", "400")
    update = request.config.getoption("--update-golden", default=False)
    return Golden(HERE / "expected", folder, monkeypatch, capsys, update=bool(update))
