from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import run_command


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
    assert run_command(monkeypatch, "taxonomy", "check", good) == 0
    out = capsys.readouterr().out
    assert f"{good}: paths, a tree" in out
    assert "nodes    4, of them 2 leaves" in out
    assert "depth    2 edges; nodes per level: 1, 2, 1" in out
    assert "1 class, 2 family, 1 species" in out
    assert "defects  0 that break the tree, 0 notes" in out


def test_check_prints_every_defect_with_its_row_and_exits_with_2(
    bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, "taxonomy", "check", bad) == 2
    out = capsys.readouterr().out
    assert "not a tree" in out
    assert f"{bad}:3: error: cycle: 2 nodes are their own ancestors (child → parent): b → c → b; rows 3, 4." in out
    assert f"{bad}:5: error: second root:" in out
    assert f"{bad}:6: error: empty name:" in out
    assert f"{bad}:8: error: duplicate sibling:" in out
    assert out.count(": error: ") == 4


def test_check_as_json(bad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(monkeypatch, "taxonomy", "check", bad, "--json") == 2
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False
    assert data["nodes"] == 8
    assert [(d["kind"], d["row"]) for d in data["defects"] if d["breaks"]] == [
        ("cycle", 3),
        ("second root", 5),
        ("empty name", 6),
        ("duplicate sibling", 8),
    ]


def test_show_a_node_and_what_is_below_it(
    good: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, "taxonomy", "show", good, "--depth", 2, "--no-names") == 0
    out = capsys.readouterr().out
    assert out.splitlines() == [
        "bird",
        "rank class, depth 0, 3 nodes below",
        "also called birds",
        "  duck",
        "    mallard (wild duck [male])",
        "  gull",
    ]
    assert run_command(monkeypatch, "taxonomy", "show", good, "DUCK", "--no-names") == 0
    assert capsys.readouterr().out.splitlines()[::2] == ["bird / duck", "  mallard (wild duck [male])"]


def test_convert_writes_another_format_and_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, out = tmp_path / "edges.csv", tmp_path / "tree.json"
    tree.write_text("child,parent\nbird,animal\nduck,bird\nfish,animal\n")
    assert run_command(monkeypatch, "taxonomy", "convert", tree, out) == 0
    assert "wrote 4 nodes to" in capsys.readouterr().err
    written = out.read_text()
    assert run_command(monkeypatch, "taxonomy", "convert", out, tmp_path / "tree.csv") == 0
    assert (tmp_path / "tree.csv").read_text().startswith("path,id\nanimal,animal\nanimal/bird,bird\n")
    capsys.readouterr()
    for arguments, message in (
        ([tree, out], "already exists; nothing was written. Add --force."),
        ([tree, tmp_path / "tree.xml"], "No format that can be written has this suffix. (got '.xml')"),
        ([out, out, "--force"], "is also an input file"),
    ):
        assert run_command(monkeypatch, "taxonomy", "convert", *arguments) == 2
        assert message in capsys.readouterr().err
    assert out.read_text() == written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "tree.csv", "tree.json"]
    assert run_command(monkeypatch, "taxonomy", "convert", tree, out, "--force") == 0
