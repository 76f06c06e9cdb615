"""Commands in messages work in the shell that taxtune was called from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import taxtune
from taxtune import shell
from taxtune.errors import MissingExtraError


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A virtual environment of files that do nothing, in the current folder and not on the PATH."""
    scripts = tmp_path / "my env" / "bin"
    scripts.mkdir(parents=True)
    for name in ("taxtune", "mlflow", "pip", "python", "hf"):
        (scripts / name).write_text("#!/bin/sh\n")
        (scripts / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(scripts / "python"))
    monkeypatch.setattr(shell.sysconfig, "get_path", lambda name: str(scripts))
    return scripts


@pytest.mark.parametrize(
    ("started", "said"),
    [
        ("taxtune", "taxtune"),
        ("my env/bin/taxtune", "'my env/bin/taxtune'"),
        ("{scripts}/taxtune", "'my env/bin/taxtune'"),
        ("/opt/env/bin/taxtune", "/opt/env/bin/taxtune"),
        ("{package}/__main__.py", "'my env/bin/python' -m taxtune"),
        ("/usr/lib/python3/ipykernel_launcher.py", "taxtune"),
        ("", "taxtune"),
    ],
)
def test_a_command_starts_as_the_users_own_did(environment, monkeypatch, started, said):
    package = Path(taxtune.__file__).parent
    monkeypatch.setattr(sys, "argv", [started.format(scripts=environment, package=package)])
    assert shell.command("tune", Path("my birds.yaml"), "--dry-run") == f"{said} tune 'my birds.yaml' --dry-run"


def test_in_an_activated_environment_names_are_enough(environment, monkeypatch):
    monkeypatch.setenv("PATH", str(environment))
    monkeypatch.setattr(sys, "argv", [str(environment / "taxtune")])
    assert shell.command("init") == "taxtune init"
    assert (shell.program("mlflow"), shell.python()) == ("mlflow", "python")


def test_programs_beside_this_python_are_called_by_path_where_it_takes_one(environment):
    assert shell.program("mlflow") == "'my env/bin/mlflow'"
    assert shell.program("dvc") == "dvc", "it is not installed: its name is all that is known"
    assert "'my env/bin/pip' install '.[measures]'" in str(MissingExtraError("spacy", "measures", "This"))
