from __future__ import annotations

import json
from pathlib import Path

import pytest

from taxtune.taxonomy import read_taxonomy
from tests.cli.commands import run_command

EDGES = """\
child,parent,label
a,root,animal
b,a,bird
a,b,animal
d,b,"duck ""the"" bird"
d,a,
d,a,
x,x,odd
y,other,elsewhere
e,b,"duck ""the"" bird"
"""


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text(EDGES, encoding="utf-8")
    return path


def test_build_prints_what_was_dropped(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tree.csv"
    assert run_command(monkeypatch, "taxonomy", "build", edges, "--out", out) == 0
    printed = capsys.readouterr()
    assert "graph    8 nodes, 7 edges" in printed.out
    dropped = (
        "1 duplicate edge, 1 self loop, 3 unreachable node, 1 edge of a dropped node, 1 cycle edge, 1 extra parent"
    )
    assert f"dropped  {dropped}" in printed.out
    assert "2 labels with the id added" in printed.out
    assert "result   5 nodes, 4 edges, 2 leaves, height 3; nodes per level: 1, 1, 1, 2" in printed.out
    assert f"wrote the tree to {out}" in printed.err
    tree = read_taxonomy(out)
    assert [tree.ids[i] for i in range(len(tree))] == ["root", "a", "b", "d", "e"]
    assert tree.labels[3] == 'duck "the" bird (d)'
    assert run_command(monkeypatch, "taxonomy", "show", out, "e") == 0
    assert "root / animal / bird / duck" in capsys.readouterr().out


def test_build_takes_options_and_prints_json(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leaves, out = tmp_path / "leaves.txt", tmp_path / "tree.csv"
    leaves.write_text("d\nnowhere\ny\n", encoding="utf-8")
    options = ("--leaves", leaves, "--join-roots", "all", "--parents", "all", "--seed", 4, "--json")
    assert run_command(monkeypatch, "taxonomy", "build", edges, "--out", out, *options) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts["root"] == {"id": "all", "label": "all", "joins": 2}
    assert counts["lost_leaves"] == {"nowhere": "unknown"}
    assert (counts["tree"]["nodes"], counts["tree"]["edges"]) == (7, 7)
    options = ("--leaves", leaves, "--root", "root")
    assert run_command(monkeypatch, "taxonomy", "build", edges, "--out", out, *options) == 0
    assert "2 leaves: nowhere (unknown), y (not below the root)" in capsys.readouterr().out
    assert list(read_taxonomy(out).ids) == ["root", "a", "b", "d"]
