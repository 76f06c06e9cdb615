"""The formats that answers are read from: tables, JSON, text and runs."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from taxtune.answers import AnswerSchema, read_answers
from taxtune.answers.records import open_table
from taxtune.errors import DataError
from tests.answers.reading import read_file
from tests.cli.commands import run_command

ODD = ["001", "NA", "null", "1.0", "TRUE", "1e5", "nan", " spaced "]


@pytest.mark.parametrize(
    "form", ["csv", "tsv", "xlsx", "parquet", "jsonl", "json", "csv.gz", "unnamed"]
)
def test_answers_stay_the_text_that_they_are(tmp_path, form):
    file = tmp_path / ("answers" if form == "unnamed" else f"answers.{form}")
    frame = pd.DataFrame(
        {"Answer": ODD, "reference": "x", "id": [f"0{i}" for i in range(len(ODD))]}
    )
    if form == "xlsx":
        frame.to_excel(file, index=False)
    elif form in ("csv", "tsv", "csv.gz", "unnamed"):
        frame.to_csv(file, sep="\t" if form == "tsv" else ",", index=False)
    else:
        frame = frame.rename(columns={"Answer": "answer"})
        if form == "parquet":
            frame.to_parquet(file)
        else:
            frame.to_json(file, orient="records", lines=form == "jsonl")
    read = read_file(file, reference="reference")
    assert [(row.answer, row.id) for row in read.rows] == [
        (text, f"0{i}") for i, text in enumerate(ODD)
    ]
    numbered = 1 if form in ("jsonl", "json", "parquet") else 2  # a header is a row
    assert [row.row for row in read.rows] == list(range(numbered, numbered + len(ODD)))


def test_a_cell_of_a_sheet_is_an_error_or_beyond_the_header(tmp_path):
    file = tmp_path / "answers.xlsx"
    pd.DataFrame([["answer", "id"], ["#N/A", "a"], ["duck", "b"]]).to_excel(
        file, index=False, header=False
    )
    assert [(row.id, row.answer) for row in read_file(file, missing="keep").rows] == [
        ("a", None),
        ("b", "duck"),
    ]
    pd.DataFrame([["answer", "id"], ["duck", "a", "more"]]).to_excel(
        file, index=False, header=False
    )
    with pytest.raises(DataError, match=r"answers\.xlsx:2: The row has 3 cells, the header 2"):
        read_file(file)


@pytest.mark.parametrize("as_frame", [False, True])
def test_records_and_data_frames_are_read_as_files_are(birds, as_frame):
    rows = [
        {"answer": "a mallard", "target": "mallard"},
        {"answer": float("nan") if as_frame else None, "target": "blackbird"},
        {"answer": ["thrush", "duck"], "target": ["Aves", "blackbird"]},
    ]
    read = read_file(pd.DataFrame(rows) if as_frame else rows, birds, missing="leave-out")
    assert [(row.row, row.answer) for row in read.rows] == [(1, "a mallard"), (3, "thrush")]
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
        ("missing.csv", None, "The answers file does not exist"),
    ],
)
def test_what_is_no_file_of_answers_is_said(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_answers(tmp_path / name)


def test_a_format_that_is_not_known(tmp_path):
    with pytest.raises(DataError, match=r"Unknown input format.*parquet"):
        open_table(tmp_path / "a.xml", format="xml")


# -- runs -------------------------------------------------------------------------------------------------------------


def _row(example, truth, answer):
    placed = {"answer": answer, "placement": "life", "node": 0, "stage": "abstained"}
    return {
        "example": example,
        "image": f"{example}.png",
        "target": 3,
        "truth": truth,
        "placed": None if answer is None else placed,
        "scores": {},
    }


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    truths = ("life/bird/duck/mallard", "life/bird/thrush")
    held = [
        {"name": name, "rows": [_row("a", truths[0], answer), _row("b", truths[1], None)]}
        for name, answer in (("baseline", "a bird"), ("winner", "a mallard"))
    ]
    (folder / "result.json").write_text(json.dumps({"heldout": held}))
    history = [{"iteration": i, "rows": [_row("t", truths[0], f"said {i}")]} for i in range(2)]
    (folder / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in history))
    return folder


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text("path\nlife/bird/duck/mallard\nlife/bird/thrush\n")
    return path


@pytest.mark.parametrize(
    ("which", "answers", "said"),
    [
        ("", ["a mallard", None], "winner on the held-out"),
        (":winner", ["a mallard", None], "winner on the held-out"),
        (":baseline", ["a bird", None], "baseline on the held-out"),
        (":1", ["said 1"], "iteration 1 on the tuning"),
    ],
)
def test_the_answers_of_a_run(run, which, answers, said):
    read = read_answers(f"{run}{which}", AnswerSchema(missing="keep", reference="reference"))
    assert [row.answer for row in read.rows] == answers
    assert said in read.notes[0]
    assert (read.rows[0].references, read.rows[0].row) == (("mallard",), 1)
    assert [row.id for row in read.rows] == (["t"] if which == ":1" else ["a", "b"])


def test_a_run_that_is_not_there_is_said(run, tmp_path):
    for source, message in (
        (f"{run}:best", r"no answers of this name.*'best'.*Use baseline, winner, or the number"),
        (f"{run}:7", r"no answers of this name.*'7'.*Use 0, 1"),
        (str(tmp_path), "does not contain a taxtune run"),
        (f"{run}x:winner", "The answers file does not exist"),
    ):
        with pytest.raises(DataError, match=message):
            read_answers(source)


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
    arguments = [
        word.replace("RUN", str(run)).replace("TREE", str(tree)) for word in command.split()
    ]
    assert run_command(monkeypatch, *arguments) == 0
    assert json.loads(capsys.readouterr().out)
