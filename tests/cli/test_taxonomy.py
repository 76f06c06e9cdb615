from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from taxtune.cli import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Runs `taxtune ARGUMENTS` in this process and returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["taxtune", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.csv"
    path.write_text(
        "path,rank,aliases\nbird,class,birds\nbird/duck,family,\nbird/duck/mallard,species,wild duck [male]\n"
        "bird/gull,family,\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.csv"
    path.write_text(
        "child,parent,label\na,,life\nb,c,bird\nc,b,duck\nd,,second\ne,a,\nf,a,gull\ng,a,gull\nh,a,gull [sea]\n",
        encoding="utf-8",
    )
    return path


def test_check_prints_size_depth_and_ranks(
    good: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "taxonomy", "check", good) == 0
    out = capsys.readouterr().out
    assert f"{good}: paths, a tree" in out
    assert "nodes    4, of them 2 leaves" in out
    assert "depth    2 edges; nodes a level: 1, 2, 1" in out
    assert "1 class, 2 family, 1 species" in out
    assert "defects  0 that break the tree, 0 notes" in out


def test_check_prints_every_defect_with_its_row_and_exits_with_2(
    bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "taxonomy", "check", bad) == 2
    out = capsys.readouterr().out
    assert "not a tree" in out
    assert f"{bad}:3: error: cycle: 2 nodes are their own ancestors (child → parent): b → c → b; rows 3, 4." in out
    assert f"{bad}:5: error: second root:" in out
    assert f"{bad}:6: error: empty name:" in out
    assert f"{bad}:8: error: duplicate sibling:" in out
    assert out.count(": error: ") == 4


def test_check_as_a_table_on_a_terminal(
    bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    assert run(monkeypatch, "taxonomy", "check", bad) == 2
    out = capsys.readouterr().out
    for kind in ("cycle", "second root", "empty name", "duplicate sibling"):
        assert kind in out
    assert "b → c → b" in out


def test_check_as_json(bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "taxonomy", "check", bad, "--json") == 2
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False
    assert data["nodes"] == 8
    assert [(d["kind"], d["row"]) for d in data["defects"] if d["breaks"]] == [
        ("cycle", 3),
        ("second root", 5),
        ("empty name", 6),
        ("duplicate sibling", 8),
    ]


def test_check_of_what_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "taxonomy", "check", tmp_path / "missing.csv") == 2
    assert run(monkeypatch, "taxonomy", "check", tmp_path, "--format", "nonsense") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "There is no such taxonomy file." in captured.err
    assert "There is no such taxonomy format." in captured.err


def test_show_a_node_and_what_is_below_it(
    good: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "taxonomy", "show", good, "--depth", 2, "--no-names") == 0
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "bird",
        "rank class, depth 0, 3 nodes below",
        "also called birds",
        "  duck",
        "    mallard (wild duck [male])",
        "  gull",
    ]
    assert run(monkeypatch, "taxonomy", "show", good, "DUCK", "--json", "--no-names") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["path"] == ["bird", "duck"]
    assert [child["label"] for child in data["children"]] == ["mallard"]


def test_show_suggests_the_nearest_name(
    good: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "taxonomy", "show", good, "malard") == 2
    assert "Did you mean 'mallard'" in capsys.readouterr().err
