"""Settings: one declaration, checked in the same way from Python and from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer

from taxtune.errors import DataError, MapperError
from taxtune.studies import run
from taxtune.studies.ranking import RankingSettings
from taxtune.studies.settings import (
    NOT_RECORDED,
    Recorded,
    StudySettings,
    TreeSettings,
    check_inputs,
)
from tests.cli.commands import run_command

Shared = Annotated[str, typer.Option("--how", help="How.")]


class Base(StudySettings):
    n: Annotated[int, typer.Option("-n", "--number", min=1, max=5, help="A number.")] = 2
    device: Annotated[str, typer.Option(), NOT_RECORDED] = "auto"


class Made(Base):
    files: Annotated[tuple[Path, ...], typer.Argument(metavar="FILE...")]
    how: Annotated[Literal["near", "far"], Shared] = "near"
    where: Annotated[Mapping[str, str] | None, typer.Option("--where")] = None
    answer_column: Annotated[str, typer.Option(), Recorded("answers_in")] = "answer"


def test_required_fields_come_first_then_own_ones_and_the_record_leaves_out_devices():
    assert list(Made.ordered_fields()) == ["files", "how", "where", "answer_column", "n", "device"]
    options = [Made.option(name) for name in Made.ordered_fields()]
    assert options == ["FILE...", "--how", "--where", "--answer-column", "--number", "--device"]
    made = Made(files="a.csv", where=["x=1", "y="], n=3)
    assert made.files == (Path("a.csv"),)
    assert made.where == {"x": "1", "y": ""}
    record = {"files": made.files, "how": "near", "where": made.where}
    record |= {"answers_in": "answer", "n": 3}
    assert made.record() == record


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"how": "nearby"}, "--how has no such value.*'nearby'.*near, far"),
        ({"n": 0}, "--number must be at least 1"),
        ({"n": 6}, "--number must be at most 5"),
        ({"n": float("nan")}, "--number must be"),
        ({"where": ["x"]}, "--where takes NAME=VALUE"),
    ],
)
def test_bad_values_are_refused(wrong, message):
    with pytest.raises(DataError, match=message):
        Made(files=(), **wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--labels nonsense", ["--labels", "'nonsense'", "common, canonical"]),
        ("--pairs 1", ["Invalid value for", "--pairs"]),
        ("--draw distances", ["--draw", "'distances'", "nodes, steps"]),
    ],
)
def test_a_command_refuses_what_its_settings_refuse(options, words, monkeypatch, capsys):
    command = f"study correlation -t builtin:fieldguide {options}"
    assert run_command(monkeypatch, *command.split()) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert [word for word in words if word not in streams.err] == []


def test_settings_of_trees_mappers_and_measures(birds):
    tree, part = TreeSettings(taxonomy=birds, root="thrush").read_tree()
    assert (len(tree), len(part.full)) == (3, len(birds))
    assert TreeSettings(taxonomy=birds).read_tree() == (birds, None)
    assert TreeSettings(taxonomy=birds).record()["taxonomy"] is None
    with pytest.raises(MapperError, match="preset must be one of"):
        RankingSettings(taxonomy=birds, preset="mine")
    check_inputs(["rouge-1"], "labels")
    check_inputs(["lave:no/such"], "answers", questions=True)
    with pytest.raises(DataError, match="lave needs questions, which labels"):
        check_inputs(["lave:no/such"], "labels")


def test_run_is_the_command_and_names_what_there_is():
    report = run("correlation", taxonomy="builtin:fieldguide", measure="rouge-1", pairs=50)
    assert report.settings["pairs"] == 50
    assert [row["measure"] for row in report.tables[0].records()] == ["ROUGE"]
    with pytest.raises(DataError, match=r"no such study.*'corelation'.*correlation, encoder"):
        run("corelation")
    with pytest.raises(
        DataError, match=r"no such setting of the study correlation.*'measures'.*taxonomy, "
    ):
        run("correlation", taxonomy="builtin:fieldguide", measures=["rouge-1"])
