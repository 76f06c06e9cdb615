"""Options that are wrong, of every study, as its settings declare them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import MISSING
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from typer.models import ArgumentInfo

from taxtune.studies import STUDIES
from taxtune.studies.settings import Declared, declarations
from tests.cli.commands import run_command


def declared(study: str) -> dict[str, Declared]:
    run = importlib.import_module(f"taxtune.studies.{study}").run
    return declarations(get_type_hints(run)["settings"])


def needed(study: str) -> list[str]:
    """What must be given, and a file that is not there."""
    given: list[str] = []
    for one in declared(study).values():
        if one.default is MISSING:
            given += ["nowhere.csv"] if isinstance(one.info, ArgumentInfo) else [one.option, "nowhere.csv"]
    return given


def wrong() -> Iterator[tuple[str, list[str], list[str]]]:
    """Every option of few values with another one, and every number just out of its range."""
    for study in STUDIES:
        for one in declared(study).values():
            if get_origin(one.type) is Literal:
                values = [str(value) for value in get_args(one.type)]
                yield study, [one.option, "nonsense"], [one.option, "'nonsense'", ", ".join(values)]
            low, high = one.info.min, one.info.max
            if low is not None:
                yield study, [one.option, str(low - 1)], ["Invalid value for", one.option]
            if high is not None:
                yield study, [one.option, str(high + 1)], ["Invalid value for", one.option]


@pytest.mark.parametrize(("study", "option", "words"), list(wrong()), ids=lambda value: str(value))
def test_a_value_that_there_is_not_is_refused(
    study: str,
    option: list[str],
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert run_command(monkeypatch, "study", study, *needed(study), *option) == 2
    said = capsys.readouterr()
    assert said.out == ""
    message = " ".join(said.err.replace("│", " ").split())
    assert [word for word in words if word not in message] == []
