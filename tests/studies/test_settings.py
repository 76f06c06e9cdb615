"""Settings: one declaration, checked in the same way from Python and from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from taxtune.errors import DataError, MapperError
from taxtune.studies import run
from taxtune.studies.ranking import RankingSettings
from taxtune.studies.settings import NOT_RECORDED, Recorded, Settings, TreeSettings, declarations, needs_of
from taxtune.taxonomy import Taxonomy

Shared = Annotated[str, typer.Option("--how", help="How.")]


@dataclass(frozen=True, kw_only=True)
class Base(Settings):
    n: Annotated[int, typer.Option("-n", "--number", min=1, max=5, help="A number.")] = 2
    device: Annotated[str, typer.Option(), NOT_RECORDED] = "auto"


@dataclass(frozen=True, kw_only=True)
class Made(Base):
    files: Annotated[tuple[Path, ...], typer.Argument(metavar="FILE...")]
    how: Annotated[Literal["near", "far"], Shared] = "near"
    where: Annotated[Mapping[str, str] | None, typer.Option("--where")] = None
    answer_column: Annotated[str, typer.Option(), Recorded("columns.answer")] = "answer"
    id_column: Annotated[str, typer.Option(), Recorded("columns.id")] = "id"


def test_what_is_needed_comes_first_then_the_studys_own() -> None:
    assert list(declarations(Made)) == ["files", "how", "where", "answer_column", "id_column", "n", "device"]
    options = [one.option for one in declarations(Made).values()]
    assert options == ["FILE...", "--how", "--where", "--answer-column", "--id-column", "--number", "--device"]


def test_values_become_what_the_fields_hold() -> None:
    made = Made(files="a.csv", where=["x=1", "y="])  # type: ignore[arg-type]
    assert made.files == ("a.csv",)
    assert made.where == {"x": "1", "y": ""}
    assert Made(files=[Path("a"), Path("b")], where={"x": "1"}).files == (Path("a"), Path("b"))  # type: ignore[arg-type]


def test_the_record_leaves_out_what_changes_no_result() -> None:
    assert Made(files=(Path("a.csv"),), n=3).record() == {
        "files": (Path("a.csv"),), "how": "near", "where": None, "columns": {"answer": "answer", "id": "id"}, "n": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"how": "nearby"}, "--how has no such value.*'nearby'.*near, far"),
        ({"n": 0}, "--number must be at least 1"),
        ({"n": 6}, "--number must be at most 5"),
        ({"n": float("nan")}, "--number must be"),
        ({"where": ["x"]}, "--where takes NAME=VALUE"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        Made(files=(), **wrong)


def test_a_part_of_a_tree_in_memory(birds: Taxonomy) -> None:
    tree, part = TreeSettings(taxonomy=birds, root="thrush").read_tree()
    assert part is not None
    assert (len(tree), len(part.full)) == (3, len(birds))
    assert TreeSettings(taxonomy=birds).read_tree() == (birds, None)
    assert TreeSettings(taxonomy=birds).record()["taxonomy"] is None


def test_the_mappers_settings_are_checked_at_once(birds: Taxonomy) -> None:
    with pytest.raises(MapperError, match="no such preset"):
        RankingSettings(taxonomy=birds, preset="mine")
    with pytest.raises(DataError, match="--scores ranks only the models of a table"):
        RankingSettings(taxonomy=birds, scores="paper1-table4")


def test_what_a_measure_needs_is_known_before_it_is_made() -> None:
    assert needs_of("rouge-1") == ()
    assert needs_of("lave:no/such") == ("question",)
    assert needs_of("clip-i2t:no/such") == ("image",)


def test_run_names_what_there_is() -> None:
    with pytest.raises(DataError, match=r"no such study.*'corelation'.*'correlation'"):
        run("corelation")
    with pytest.raises(DataError, match=r"no such setting of the study correlation.*Did you mean 'measure'"):
        run("correlation", taxonomy="builtin:fieldguide", measures=["rouge-1"])


def test_run_is_the_command() -> None:
    report = run("correlation", taxonomy="builtin:fieldguide", measure="rouge-1", pairs=50)
    assert report.settings["pairs"] == 50
    assert [row["measure"] for row in report.tables[0].records()] == ["ROUGE"]
