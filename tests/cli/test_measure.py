from __future__ import annotations

import json

import pytest

from taxtune.metrics.registry import MEASURES
from tests.cli.commands import run_json, run_refused, run_well


@pytest.fixture
def file(tmp_path):
    rows = [
        {"answer": "a gray seal", "reference": "Gray Seals"},
        {"answer": "walrus", "reference": "Gray Seals"},
        {"answer": "أسد البحر 🦭", "reference": "أسد البحر"},
        {"answer": "seal", "reference": "!"},
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_means_with_intervals_and_what_is_unscored(file):
    done = run_well("score", "measure", file, "-m", "rouge-1", "-m", "exact-match")
    (rouge,) = [line for line in done.out.splitlines() if line.strip().startswith("rouge-1 ")]
    _, mean, *_, scored, unscored = rouge.split()
    # Two of three are contained in whole, one not at all; the fourth has no word to compare with.
    assert (mean, scored, unscored) == ("0.667", "3", "1")
    assert "the reference is empty: 1." in done.err


def test_json_has_a_record_for_each_row_and_depends_on_the_seed(file, tmp_path):
    command = ["score", "measure", file, "-m", "rouge-1", "-m", "meteor"]
    out = tmp_path / "out"
    record = run_json(*command, "--out", out)
    assert run_json(*command) == record
    assert [row["scores"]["rouge-1"] for row in record["rows"]] == [1.0, 0.0, 1.0, None]
    assert record["rows"][2]["answer"] == "أسد البحر 🦭"
    assert record["tables"]["measures"][0]["unscored"] == 1
    assert record["settings"]["measures"][1]["measure"] == "meteor"
    assert json.loads((out / "study.json").read_text(encoding="utf-8")) == record
    table = (out / "measures.csv").read_text(encoding="utf-8")
    assert table.startswith("measure,mean,low,high")


def test_the_list_names_every_measure_with_source_model_and_extra():
    listed = run_json("score", "measure", "--list")["tables"]["measures"]
    for kind, row in zip(MEASURES.values(), listed, strict=True):
        assert row["measure"] == kind.kind
        assert kind.source in row["what it is"]
        assert row["model, unless MEASURE:MODEL"] == kind.default_model
        assert "install '.[measures]'" in row["needs"] or kind.extra != "measures"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "No file of answers was given"),
        (["FILE", "-m", "rogue-1"], "Did you mean 'rouge-1'"),
        (["FILE", "--missing", "zero"], "leave-out"),
        (["FILE", "--answer-column", "said"], "no column 'said'"),
        (["missing.csv"], "missing.csv"),
        # Before a model is loaded, of which there is none.
        (["FILE", "-m", "lave:local:no/such"], "--question-column"),
    ],
)
def test_what_is_wrong_is_said(file, options, text):
    arguments = [str(file) if option == "FILE" else option for option in options]
    assert text in run_refused("score", "measure", *arguments)
