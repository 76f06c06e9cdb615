from __future__ import annotations

import io
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
"""


@pytest.fixture
def taxonomy(tmp_path: Path) -> Path:
    path = tmp_path / "taxonomy.csv"
    path.write_text(TAXONOMY, encoding="utf-8")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object, stdin: bytes = b"") -> int:
    monkeypatch.setattr(sys, "argv", ["taxtune", "place", *map(str, arguments)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


Capture = pytest.CaptureFixture[str]


def records(capsys: Capture) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_text_one_line_each_blank_ones_too(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, taxonomy: Path, tmp_path: Path
) -> None:
    file = write(tmp_path, "answers.txt", "A: Mallards.\n\n  \r\na blackbird or a robin\u2028\nsomething else\n")
    assert run(monkeypatch, "--taxonomy", taxonomy, file, "--json") == 0
    found = records(capsys)
    assert [r["label"] for r in found] == ["mallard", "life", "life", "thrush", "life"]
    assert [r["abstained"] for r in found] == [False, True, True, False, True]
    assert found[0] == {
        "answer": "A: Mallards.",
        "path": ["life", "bird", "duck", "mallard"],
        "label": "mallard",
        "stage": "verbatim",
        "evidence": found[0]["evidence"],
        "confidence": None,
        "abstained": False,
        "off_tree": False,
    }


def test_csv_and_jsonl(monkeypatch: pytest.MonkeyPatch, capsys: Capture, taxonomy: Path, tmp_path: Path) -> None:
    table = write(tmp_path, "a.csv", '\ufeffid,answer\n1,"robin, American"\n2,\n\n4,"a\nduck"\n')
    assert run(monkeypatch, "-t", taxonomy, table, "--json") == 0
    found = records(capsys)
    assert [r["answer"] for r in found] == ["robin, American", "", "a\nduck"]
    assert [r["label"] for r in found] == ["thrush", "life", "duck"]
    lines = write(tmp_path, "a.jsonl", '{"answer": "Turdus merula", "id": 1}\n\n{"answer": null}\n')
    assert run(monkeypatch, "-t", taxonomy, lines, "--json") == 0
    assert [r["label"] for r in records(capsys)] == ["blackbird", "life"]


def test_stdin_and_the_readable_form(monkeypatch: pytest.MonkeyPatch, capsys: Capture, taxonomy: Path) -> None:
    assert run(monkeypatch, "-t", taxonomy, stdin=b"wild\tduck\nfoo\n") == 0
    captured = capsys.readouterr()
    first, second = captured.out.splitlines()
    assert first.split("\t")[0::3] == ["mallard", "wild duck"]
    assert first.split("\t")[2] == "life / bird / duck / mallard"
    assert second.split("\t")[:2] == ["life", "off_tree"]
    assert "1 off the tree" in captured.err
    assert run(monkeypatch, "-t", taxonomy, "-", "--input", "jsonl", stdin=b'{"answer": "duck"}') == 0
    assert run(monkeypatch, "-t", taxonomy, stdin=b"") == 0


def test_a_file_is_written_whole_as_standard_output_is(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, taxonomy: Path, tmp_path: Path
) -> None:
    lines = ['{"answer": "a duck \\udce9"}', '{"answer": "ünïcödé\\u2028"}', *['{"answer": "wild duck"}'] * 3_000]
    file, out = write(tmp_path, "a.jsonl", "\n".join(lines)), tmp_path / "deep" / "placed.tsv"
    assert run(monkeypatch, "-t", taxonomy, file) == 0
    expected = capsys.readouterr().out
    assert run(monkeypatch, "-t", taxonomy, file, "--out", out) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "3,002 answers placed" in captured.err
    assert out.read_bytes() == expected.encode("utf-8", "surrogatepass").replace(b"\xed\xb3\xa9", b"\\udce9")


def test_a_root_restricts_where_answers_are_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tmp_path / "tree.csv"
    tree.write_text("path\nlife/bird/duck\nlife/plant/fern\n", encoding="utf-8")
    answers = tmp_path / "answers.txt"
    answers.write_text("a duck\na fern\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["taxtune", "place", str(answers), "-t", str(tree), "--root", "bird", "--json"])
    with pytest.raises(SystemExit, match="0"):
        main()
    placed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(p["path"], p["off_tree"]) for p in placed] == [(["bird", "duck"], False), (["bird"], True)]
