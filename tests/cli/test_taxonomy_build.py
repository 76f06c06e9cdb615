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


def test_build_prints_what_became_of_everything(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, report = tmp_path / "tree.csv", tmp_path / "report.jsonl"
    assert run_command(monkeypatch, "taxonomy", "build", edges, "--out", out, "--report", report) == 0
    said = capsys.readouterr()
    assert "root     root: the node that reaches the most nodes; it reaches 5 nodes" in said.out
    assert "cycles   1 strongly connected component with cycles, broken by dropping 1 edge" in said.out
    assert "proven minimal for 1 of them" in said.out
    assert "edges: 1 duplicate edge, 1 self loop, 1 unreachable edge, 1 cycle edge, 1 extra parent" in said.out
    assert "nodes: 3 unreachable node" in said.out
    assert "2 labels with the id added" in said.out
    assert "tree     5 nodes, 2 leaves, height 3" in said.out
    assert f"wrote the tree to {out}" in said.err
    rows = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    assert f"{len(rows)} records" in said.err
    assert [row["cycle"] for row in rows if "cycle" in row] == [["a", "b", "a"]]
    tree = read_taxonomy(out)
    assert [tree.ids[i] for i in range(len(tree))] == ["root", "a", "b", "d", "e"]
    assert tree.labels[3] == 'duck "the" bird (d)'
    assert run_command(monkeypatch, "taxonomy", "show", out, "e") == 0
    assert "root / animal / bird / duck" in capsys.readouterr().out


def test_build_prints_json_and_the_same_seed_gives_the_same_bytes(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for name in ("one.csv", "two.csv"):
        arguments = ("taxonomy", "build", edges, "--out", tmp_path / name, "--seed", 4, "--join-roots", "all", "--json")
        assert run_command(monkeypatch, *arguments) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    facts = json.loads(said[0])
    assert facts["settings"]["seed"] == 4
    assert facts["root"]["label"] == "all"
    assert facts["added_edges"] == {"lifted": 0, "to the new root": 3}
    assert facts["tree"]["levels"] == [1, 3, 2, 1, 2]


def test_build_takes_leaves_and_classes_to_leave_out(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leaves, out = tmp_path / "leaves.txt", tmp_path / "tree.csv"
    leaves.write_text("d\nnowhere\ny\n", encoding="utf-8")
    options = ("--leaves", leaves, "--leave-out", "bird", "--lift", "--root", "root")
    assert run_command(monkeypatch, "taxonomy", "build", edges, "--out", out, *options) == 0
    said = capsys.readouterr().out
    assert "leaves   3 wanted, 1 not in the graph, 1 in it and not on the tree" in said
    assert list(read_taxonomy(out).ids) == ["root", "a", "d"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cycles", "some"], "--cycles takes lose-no-node or fewest-edges. (got 'some')"),
        (["--direction", "up"], "--direction takes child-parent or parent-child. (got 'up')"),
        (["--report", "r.txt"], "r.txt: The report must be a .jsonl or .csv file."),
        (["--root", "birb"], "--root is neither an id nor a label of the graph. (got 'birb') Did you mean 'bird'?"),
        (["--format", "gml"], "Unknown graph format. (got 'gml')"),
        (["--names", "nowhere.csv"], "nowhere.csv: The file does not exist."),
    ],
)
def test_build_says_what_is_wrong_and_writes_nothing(
    edges: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "tree.csv"
    assert run_command(monkeypatch, "taxonomy", "build", edges, "--out", out, *arguments) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert not out.exists()


@pytest.mark.parametrize("arguments", [("--out", "edges.csv"), ("--out", "t.csv", "--report", "t.csv")])
def test_build_overwrites_nothing_that_it_reads_or_has_written(
    edges: Path,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(edges.parent)
    assert run_command(monkeypatch, "taxonomy", "build", edges, *arguments) == 2
    assert f"{arguments[-1]}: The output file is also an input file." in capsys.readouterr().err
    assert edges.read_text(encoding="utf-8") == EDGES
    assert not Path("t.csv").exists()


def test_link_says_which_entities_are_on_the_tree_and_writes_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, oven, out = tmp_path / "tree.csv", tmp_path / "oven.jsonl", tmp_path / "targets.jsonl"
    tree.write_text("child,parent,label\nQ1,,entity\nQ2,Q1,bird\nQ3,Q2,duck\n", encoding="utf-8")
    rows = [("Q3", "duck"), ("Q2", "bird"), ("Q9", "castle")]
    oven.write_text(
        "".join(
            json.dumps(
                {"data_id": f"o{i}", "image_id": f"i{i}", "question": "?", "entity_id": key, "entity_text": text}
            )
            + "\n"
            for i, (key, text) in enumerate(rows)
        ),
        encoding="utf-8",
    )
    assert run_command(monkeypatch, "taxonomy", "link", tree, "--oven", oven, "--out", out) == 0
    said = capsys.readouterr()
    assert "examples  3: 2 on the tree, 1 not, 0 without an entity" in said.out
    assert "entities  2 on the tree (1 inner nodes), 1 not" in said.out
    assert "Q9 castle: 1 examples" in said.out
    written = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [(row["id"], row["target"]) for row in written] == [
        ("o0", ["entity", "bird", "duck"]),
        ("o1", ["entity", "bird"]),
    ]
    assert run_command(monkeypatch, "taxonomy", "link", tree, "--oven", oven, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["entities"]["off_the_tree"] == [{"id": "Q9", "text": "castle", "examples": 1}]


def test_targets_of_link_are_targets_of_answer_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from taxtune.answers import AnswerSchema, read_answers

    tree, oven, out = tmp_path / "tree.csv", tmp_path / "oven.jsonl", tmp_path / "targets.jsonl"
    tree.write_text("child,parent,label\nQ1,,entity\nQ2,Q1,a/b\n", encoding="utf-8")
    oven.write_text('{"data_id": "o", "entity_id": "Q2", "entity_text": "a"}\n', encoding="utf-8")
    assert run_command(monkeypatch, "taxonomy", "link", tree, "--oven", oven, "--out", out) == 0
    row = json.loads(out.read_text("utf-8"))
    out.write_text(json.dumps(row | {"answer": "a thing"}) + "\n", encoding="utf-8")
    (answer,) = read_answers(out, AnswerSchema(taxonomy=read_taxonomy(tree))).rows
    assert (answer.id, answer.target, answer.answer) == ("o", 1, "a thing")


def test_build_draws_what_became_of_the_graph(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figure = tmp_path / "tree.csv", tmp_path / "levels"
    assert run_command(monkeypatch, "taxonomy", "build", edges, "--out", out, "--figure", figure) == 0
    assert f"the figure is in {figure}.png and {figure}.svg" in capsys.readouterr().err
    assert figure.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_build_says_when_a_tree_is_too_deep_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import taxtune.taxonomy.tree

    chain, out = tmp_path / "chain.csv", tmp_path / "tree.csv"
    chain.write_text("child,parent\n" + "".join(f"n{i},n{i - 1}\n" for i in range(1, 50)), encoding="utf-8")
    monkeypatch.setattr(taxtune.taxonomy.tree, "MAX_LINEAGE", 2000)
    assert run_command(monkeypatch, "taxonomy", "build", chain, "--out", out) == 0
    assert "50 nodes of height 49 are too deep for their number" in capsys.readouterr().err
