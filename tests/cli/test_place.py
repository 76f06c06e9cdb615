"""`taxtune place`: a line for each answer, from every kind of file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import run_well

TAXONOMY = """path,rank,aliases
life/bird,class,birds
life/bird/duck/mallard,species,wild duck
life/bird/thrush/blackbird,species,Turdus merula
life/bird/thrush/American robin,species,Turdus migratorius
life/plant/fern,species,
"""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tree.csv").write_text(TAXONOMY, encoding="utf-8")


def placed(content, name="-", *more, stdin=b""):
    """The records that --json prints for a file of this content, or for standard input."""
    if content is not None:
        Path(name).write_text(content, encoding="utf-8", newline="")
    done = run_well("place", "-t", "tree.csv", name, "--json", *more, stdin=stdin)
    return [json.loads(line) for line in done.out.splitlines()]


def labels(records):
    return [record["label"] for record in records]


def test_text_one_line_each_blank_ones_too():
    text = "A: Mallards.\n\n  \r\na blackbird or a robin\u2028\nsomething else\n"
    found = placed(text, "answers.txt")
    assert labels(found) == ["mallard", "life", "life", "thrush", "life"]
    assert [row["abstained"] for row in found] == [False, True, True, False, True]
    assert found[0] == {
        "answer": "A: Mallards.",
        "path": ["life", "bird", "duck", "mallard"],
        "label": "mallard",
        "stage": "name",
        "evidence": found[0]["evidence"],
        "confidence": found[0]["confidence"],
        "abstained": False,
        "off_tree": False,
    }


def test_csv_jsonl_and_stdin():
    found = placed('\ufeffid,answer\n1,"robin, American"\n2,\n\n4,"a\nduck"\n', "a.csv")
    assert [row["answer"] for row in found] == ["robin, American", "", "a\nduck"]
    assert labels(found) == ["thrush", "life", "duck"]
    found = placed('{"answer": "Turdus merula", "id": 1}\n\n{"answer": null}\n', "a.jsonl")
    assert labels(found) == ["blackbird", "life"]
    found = placed(None, "-", "--input", "jsonl", stdin=b'{"answer": "duck"}')
    assert labels(found) == ["duck"]
    assert placed(None) == []


def test_the_readable_form():
    done = run_well("place", "-t", "tree.csv", stdin=b"wild\tduck\nfoo\n")
    first, second = (line.split("\t") for line in done.out.splitlines())
    assert first == ["mallard", first[1], "life / bird / duck / mallard", "wild duck"]
    assert second[:2] == ["life", "off_tree"]
    assert "1 off the tree" in done.err


def test_a_root_restricts_where_answers_are_placed():
    found = placed("a duck\na fern\n", "answers.txt", "--root", "bird")
    assert [row["path"] for row in found] == [["bird", "duck"], ["bird"]]
    assert [row["off_tree"] for row in found] == [False, True]


def test_a_reply_that_ends_within_its_thought_is_missing():
    replies = ("A duck?</think>A robin, American.", "[THINK]A duck? Its bill", "duck")
    lines = "".join(json.dumps({"answer": reply}) + "\n" for reply in replies)
    found = placed(lines, "a.jsonl")
    assert labels(found) == ["thrush", None, "duck"]
    assert found[1]["stage"] == "missing"
    assert found[1]["abstained"] is None
    done = run_well("place", "-t", "tree.csv", "a.jsonl")
    assert done.out.splitlines()[1] == "\tmissing\t\t[THINK]A duck? Its bill"
    assert "1 of 3 answers are missing: the reply ends within the model's thought" in done.err
    assert "2 answers placed, 0 of them abstentions" in done.err
