"""The formats that answers are read from: tables, JSON, text and runs."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest

from taxtune.answers import AnswerSchema, read_answers
from taxtune.answers.records import open_table
from taxtune.errors import DataError
from tests.answers.reading import column, read_file
from tests.cli.commands import run_command

ODD = ["001", "NA", "null", "1.0", "TRUE", "1e5", "nan", " spaced "]
IDS = [f"0{i}" for i in range(len(ODD))]


def check_odd(table, first_row):
    """Checks that the answers are the odd texts, in their rows."""
    assert column(table.rows, "answer") == ODD
    assert column(table.rows, "id") == IDS
    assert column(table.rows, "row") == list(range(first_row, first_row + len(ODD)))


@pytest.fixture
def odd():
    return pd.DataFrame({"answer": ODD, "reference": "x", "id": IDS})


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.xlsx", "a.csv.gz", "unnamed"])
def test_answers_under_a_header_stay_the_text_that_they_are(tmp_path, odd, name):
    file = tmp_path / name
    odd = odd.rename(columns={"answer": "Answer"})
    if file.suffix == ".xlsx":
        odd.to_excel(file, index=False)
    else:
        odd.to_csv(file, sep="\t" if file.suffix == ".tsv" else ",", index=False)
    check_odd(read_file(file, reference="reference"), first_row=2)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "json"])
def test_answers_in_records_stay_the_text_that_they_are(tmp_path, odd, suffix):
    file = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        odd.to_parquet(file)
    else:
        odd.to_json(file, orient="records", lines=suffix == "jsonl")
    check_odd(read_file(file, reference="reference"), first_row=1)


@pytest.fixture
def sheet(tmp_path):
    """Writes rows into a sheet."""

    def write(*rows):
        file = tmp_path / "answers.xlsx"
        pd.DataFrame(rows).to_excel(file, index=False, header=False)
        return file

    return write


def test_an_error_in_a_cell_of_a_sheet_is_no_answer(sheet):
    file = sheet(["answer", "id"], ["#N/A", "a"], ["duck", "b"])
    rows = read_file(file, missing="keep").rows
    assert column(rows, "id") == ["a", "b"]
    assert column(rows, "answer") == [None, "duck"]


def test_a_cell_of_a_sheet_beyond_the_header_is_refused(sheet):
    file = sheet(["answer", "id"], ["duck", "a", "more"])
    with pytest.raises(DataError, match=r"answers\.xlsx:2: The row has 3 cells, the header 2"):
        read_file(file)


@pytest.mark.parametrize(("source", "nothing"), [(list, None), (pd.DataFrame, math.nan)])
def test_records_and_data_frames_are_read_as_files_are(birds, source, nothing):
    rows = [
        {"answer": "a mallard", "target": "mallard"},
        {"answer": nothing, "target": "blackbird"},
        {"answer": ["thrush", "duck"], "target": ["Aves", "blackbird"]},
    ]
    read = read_file(source(rows), birds, missing="leave-out")
    assert column(read.rows, "row") == [1, 3]
    assert column(read.rows, "answer") == ["a mallard", "thrush"]
    assert read.notes[0] == "<records>: 1 of 3 rows are left out: no answer"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", b"PK\x03\x04 broken", "The sheet cannot be read"),
        ("a.parquet", b"PAR1 broken", "The Parquet file cannot be read"),
        ("a.json", b'[{"answer": "x"}, 3]', r"Entry 2 of the list is not a JSON object.*got 3"),
        ("a.json", b"[1", "a.json:1: The line is not a JSON object"),
        ("a.csv", b"index,prediction\n1,x,y\n", "a.csv:2: The row has 3 cells, the header 2"),
        ("a.csv", b"id,text\n1,x\n", r"no column 'answer'.*Give the names of existing columns"),
    ],
)
def test_what_is_no_file_of_answers_is_said(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_answers(file)


def test_a_file_that_does_not_exist_is_said(tmp_path):
    with pytest.raises(DataError, match="The answers file does not exist"):
        read_answers(tmp_path / "missing.csv")


def test_a_format_that_is_not_known(tmp_path):
    with pytest.raises(DataError, match=r"Unknown input format.*parquet"):
        open_table(tmp_path / "a.xml", format="xml")


# -- runs -------------------------------------------------------------------------------------------------------------


def result_row(example, truth, answer):
    row = {"example": example, "image": f"{example}.png", "target": 3, "truth": truth, "scores": {}}
    if answer is None:
        return row | {"placed": None}
    placed = {"answer": answer, "placement": "life", "node": 0, "stage": "abstained"}
    return row | {"placed": placed}


MALLARD = "life/bird/duck/mallard"
THRUSH = "life/bird/thrush"


@pytest.fixture
def run(tmp_path):
    """The folder of a run with two iterations, whose winner gives one of two images no answer."""
    folder = tmp_path / "run"
    folder.mkdir()
    heldout = []
    for name, answer in (("baseline", "a bird"), ("winner", "a mallard")):
        rows = [result_row("a", MALLARD, answer), result_row("b", THRUSH, None)]
        heldout.append({"name": name, "rows": rows})
    (folder / "result.json").write_text(json.dumps({"heldout": heldout}))
    with (folder / "history.jsonl").open("w") as history:
        for i in range(2):
            rows = [result_row("t", MALLARD, f"said {i}")]
            history.write(json.dumps({"iteration": i, "rows": rows}) + "\n")
    return folder


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text(f"path\n{MALLARD}\n{THRUSH}\n")
    return path


@pytest.mark.parametrize(
    ("which", "ids", "answers", "note"),
    [
        ("", ["a", "b"], ["a mallard", None], "winner on the held-out"),
        (":winner", ["a", "b"], ["a mallard", None], "winner on the held-out"),
        (":baseline", ["a", "b"], ["a bird", None], "baseline on the held-out"),
        (":1", ["t"], ["said 1"], "iteration 1 on the tuning"),
    ],
)
def test_the_answers_of_a_run(run, which, ids, answers, note):
    read = read_answers(f"{run}{which}", AnswerSchema(missing="keep", reference="reference"))
    assert column(read.rows, "answer") == answers
    assert note in read.notes[0]
    assert column(read.rows, "id") == ids
    first = read.rows[0]
    assert first.references == ("mallard",)
    assert first.row == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("run:best", r"no answers of this name.*'best'.*Use baseline, winner, or the number"),
        ("run:7", r"no answers of this name.*'7'.*Use 0, 1"),
        ("", "does not contain a taxtune run"),
        ("runx:winner", "The answers file does not exist"),
    ],
)
def test_a_run_that_is_not_there_is_said(run, source, message):
    with pytest.raises(DataError, match=message):
        read_answers(str(run.parent / source))


@pytest.mark.parametrize(
    "command",
    [
        "score RUN -t TREE --missing leave-out --resamples 5 --json",
        "score RUN:baseline -t TREE --missing abstain --resamples 5 --json",
        "score diagnose RUN:baseline -t TREE --missing leave-out --resamples 5 --json",
        "score measure RUN -m exact-match --missing leave-out --resamples 5 --json",
        "place -t TREE RUN:1 --json",
    ],
)
def test_commands_take_runs(
    monkeypatch,
    capsys,
    run,
    tree,
    command,
):
    command = command.replace("RUN", str(run)).replace("TREE", str(tree))
    assert run_command(monkeypatch, *command.split()) == 0
    assert json.loads(capsys.readouterr().out)
