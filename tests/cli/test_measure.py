from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from taxtune.cli.app import app
from taxtune.errors import DataError
from taxtune.metrics.registry import MEASURES

run = CliRunner()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [
        {"answer": "a gray seal", "reference": "Gray Seals"},
        {"answer": "walrus", "reference": "Gray Seals"},
        {"answer": "أسد البحر 🦭", "reference": "أسد البحر"},
        {"answer": "seal", "reference": "!"},
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_means_with_intervals_and_what_is_unscored(file: Path) -> None:
    done = run.invoke(app, ["score", "measure", str(file), "-m", "rouge-1", "-m", "exact-match"])
    assert done.exit_code == 0, done.output
    (rouge,) = [
        line.split() for line in done.output.splitlines() if line.strip().startswith("rouge-1 ")
    ]
    # Two of three are contained in whole, one not at all; the fourth has no word to compare with.
    assert (rouge[1], rouge[-2:]) == ("0.667", ["3", "1"])
    assert "the reference is empty: 1." in done.output


def test_json_has_a_record_for_each_row_and_depends_on_the_seed(file: Path, tmp_path: Path) -> None:
    command = ["score", "measure", str(file), "-m", "rouge-1", "-m", "meteor", "--json"]
    first, second = (
        run.invoke(app, [*command, *more]).stdout for more in (["--out", str(tmp_path / "out")], [])
    )
    assert first == second
    record = json.loads(first)
    assert [row["scores"]["rouge-1"] for row in record["rows"]] == [1.0, 0.0, 1.0, None]
    assert record["rows"][2]["answer"] == "أسد البحر 🦭"
    assert record["tables"]["measures"][0]["unscored"] == 1
    assert record["settings"]["measures"][1]["measure"] == "meteor"
    assert json.loads((tmp_path / "out" / "study.json").read_text(encoding="utf-8")) == record
    assert (
        (tmp_path / "out" / "measures.csv")
        .read_text(encoding="utf-8")
        .startswith("measure,mean,low,high")
    )


def test_the_list_names_every_measure_with_source_model_and_extra() -> None:
    listed = json.loads(run.invoke(app, ["score", "measure", "--list", "--json"]).stdout)["tables"][
        "measures"
    ]
    for kind, row in zip(MEASURES.values(), listed, strict=True):
        assert row["measure"] == kind.kind
        assert kind.source in row["what it is"]
        assert row["model, unless MEASURE:MODEL"] == kind.default_model
        assert "install '.[measures]'" in row["needs"] or kind.extra != "measures"


def test_the_questions_are_asked_for_before_a_model_is_loaded(file: Path) -> None:
    done = run.invoke(app, ["score", "measure", str(file), "-m", "lave:local:no/such"])
    assert isinstance(done.exception, DataError)  # and no ModelError
    assert "--question-column" in str(done.exception)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "No file of answers was given"),
        (["FILE", "-m", "rogue-1"], "Did you mean 'rouge-1'"),
        (["FILE", "--missing", "zero"], "leave-out"),
        (["FILE", "--answer-column", "said"], "no column 'said'"),
        (["missing.csv"], "missing.csv"),
    ],
)
def test_what_is_wrong_is_said(file: Path, options: list[str], text: str) -> None:
    done = run.invoke(
        app,
        ["score", "measure", *(str(file) if option == "FILE" else option for option in options)],
    )
    assert isinstance(done.exception, DataError)
    assert text in str(done.exception)
