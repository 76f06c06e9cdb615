from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from taxtune.cli import main

TAXONOMY = """path,rank,aliases
life/bird,class,birds
life/bird/duck/mallard,species,wild duck
life/bird/thrush/blackbird,species,Turdus merula
life/bird/thrush/American robin,species,Turdus migratorius
life/insect/robin,species,
life/plant/robin,species,
"""


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Runs `taxtune ARGUMENTS` in this process and returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["taxtune", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def taxonomy(tmp_path: Path) -> Path:
    path = tmp_path / "taxonomy.csv"
    path.write_text(TAXONOMY, encoding="utf-8")
    return path


def write(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_scores_of_predicted_nodes(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path, "predicted,target\nbird,mallard\nlife/bird/thrush,Turdus merula\nmallard,Wild Duck\n")
    assert run(monkeypatch, "score", "--taxonomy", taxonomy, rows) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["hP", "1.000"]
    assert lines[2].split()[:2] == ["hR", "0.750"]  # (2/4 + 3/4 + 4/4) / 3
    assert lines[3].split()[:2] == ["hF", "0.857"]
    assert lines[4].split()[:2] == ["accuracy", "0.333"]
    assert lines[5].split()[:2] == ["depth", "2.00"]
    assert lines[6] == "3 examples"


def test_json_holds_everything(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{"predicted": ["life", "bird"], "target": "mallard"}, {"predicted": "duck", "target": "blackbird"}]
    rows = write(tmp_path, "\n".join(map(json.dumps, lines)), "rows.jsonl")
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--json", "--seed", 3, "--resamples", 50) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["n"], data["scored"], data["seed"], data["resamples"], data["abstained"]) == (
        2,
        "predicted",
        3,
        50,
        None,
    )
    assert data["scores"]["hp"]["estimate"] == pytest.approx((1 + 2 / 3) / 2)
    assert data["scores"]["hr"]["low"] <= data["scores"]["hr"]["high"]
    assert [row["row"] for row in data["rows"]] == [1, 2]
    assert data["rows"][1]["predicted"] == "life/bird/duck"
    assert data["rows"][1]["hp"] == pytest.approx(2 / 3)


def test_answers_are_placed_and_abstentions_counted(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(
        tmp_path,
        'answer,target\nA: a mallard.,mallard\n"It is a thrush,\nI think",blackbird\n'
        "I cannot tell what this is.,mallard\n",
    )
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [row["predicted"] for row in data["rows"]] == ["life/bird/duck/mallard", "life/bird/thrush", "life"]
    assert [row["row"] for row in data["rows"]] == [2, 3, 5]
    assert [row["abstained"] for row in data["rows"]] == [False, False, True]
    assert data["abstained"] == 1
    assert data["mapper"]
    assert run(monkeypatch, "score", "-t", taxonomy, rows) == 0
    assert "3 examples, 1 of them abstentions" in capsys.readouterr().out


def test_every_label_that_is_not_on_the_taxonomy_is_named(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path, "predicted,target\nmalard,duck\nbird,blackbrid\n,duck\nrobin,\nbird,duck\n")
    assert run(monkeypatch, "score", "-t", taxonomy, rows) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "4 of 5 rows cannot be scored" in captured.err
    assert "row 2: predicted: 'malard' is not on the taxonomy. Did you mean 'mallard'" in captured.err
    assert "row 3: target: 'blackbrid' is not on the taxonomy. Did you mean 'blackbird'" in captured.err
    assert "row 4: predicted is empty" in captured.err
    assert "row 5: target is empty" in captured.err
    assert "2 nodes are called 'robin'. Give the path: life/insect/robin, life/plant/robin" in captured.err


def test_a_long_list_of_bad_rows_is_cut_and_counted(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path, "predicted,target\n" + "bird,dodo\n" * 50)
    assert run(monkeypatch, "score", "-t", taxonomy, rows) == 2
    err = capsys.readouterr().err
    assert err.count("'dodo' is not on the taxonomy") == 20
    assert "and 30 more" in err


def test_an_empty_answer_is_never_guessed_at(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path, "answer,target\nmallard,mallard\n,mallard\n")
    assert run(monkeypatch, "score", "-t", taxonomy, rows) == 2
    err = capsys.readouterr().err
    assert "row 3: answer is empty" in err
    assert "--empty abstain" in err
    assert "--empty leave-out" in err
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--empty", "leave-out") == 0
    out = capsys.readouterr().out
    assert "1 example," in out
    assert "1 row without an answer left out: 3" in out
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--empty", "abstain", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["n"], data["abstained"], data["rows"][1]["predicted"]) == (2, 1, "life")
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--empty", "zero") == 2


def test_null_is_a_missing_answer_and_an_empty_text_an_answer(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{"answer": None, "target": "mallard"}, {"answer": "", "target": "mallard"}]
    rows = write(tmp_path, "\n".join(map(json.dumps, lines)), "rows.jsonl")
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--empty", "leave-out", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["n"], data["left_out"], data["abstained"]) == (1, [1], 1)


def test_predicted_wins_over_answer_and_says_so(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path, "answer,predicted,target\nnonsense,mallard,mallard\n")
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["scores"]["accuracy"]["estimate"] == 1
    assert "answer beside it is not used" in captured.err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows.csv", "predicted\nbird\n", "needs the column target"),
        ("rows.csv", "target\nbird\n", "and answer or predicted"),
        ("rows.csv", "predicted,target\n", "a header and no rows"),
        ("rows.csv", "", "predictions file is empty"),
        ("rows.csv", 'predicted,target\n"bird,duck\n', "rows.csv:2: The row cannot be read as CSV"),
        ("rows.csv", "predicted,target\nbird,duck,gull\n", "rows.csv:2: The row has 3 cells, the header 2"),
        (
            "rows.jsonl",
            '{"predicted": "bird", "target": "duck"}\n{"predicted"\n',
            "rows.jsonl:2: The line is not a JSON",
        ),
        ("rows.jsonl", "[1]\n", "rows.jsonl:1: The line is not a JSON object"),
        ("rows.jsonl", '{"predicted": 3, "target": "duck"}\n', "row 1: predicted is no label or path but 3"),
        ("rows.jsonl", '{"answer": 3, "target": "duck"}\n', "row 1: answer is no text but 3"),
        ("rows.jsonl", '{"answer": null, "target": "duck"}\n', "row 1: answer is empty"),
    ],
)
def test_files_that_cannot_be_scored(
    tmp_path: Path,
    taxonomy: Path,
    name: str,
    text: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "score", "-t", taxonomy, write(tmp_path, text, name)) == 2
    assert message in capsys.readouterr().err


def test_a_broken_taxonomy_and_an_unknown_preset_are_errors(
    tmp_path: Path, taxonomy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write(tmp_path, "answer,target\nmallard,mallard\n")
    broken = write(tmp_path, "child,parent\na,b\nb,a\n", "broken.csv")
    assert run(monkeypatch, "score", "-t", broken, rows) == 2
    assert "own ancestors" in capsys.readouterr().err
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--preset", "nonsense") == 2
    assert run(monkeypatch, "score", "-t", taxonomy, rows, "--similarity", "nonsense") == 2
