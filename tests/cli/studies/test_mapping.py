from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.commands import run_command
from tests.cli.studies.study import Study

STUDY = "mapping"

TAXONOMY = """path,rank,aliases
life/bird,class,birds
life/bird/duck/mallard,species,wild duck
life/bird/thrush/blackbird,species,Turdus merula
"""
PLACED = """answer,node,also,style
a mallard,mallard,,bare
some bird,bird,,coarse
a wild thrush,thrush,bird,coarse
no idea,,,off-tree
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(TAXONOMY, encoding="utf-8")
    (tmp_path / "placed.csv").write_text(PLACED, encoding="utf-8")
    return tmp_path


def test_tables_and_files(folder: Path, study: Study) -> None:
    out = folder / "out"
    printed, err = study.said(
        folder / "placed.csv", "-t", folder / "tree.csv", "-m", "lexical", "-m", "rouge-1",
        "--resamples", 20, "--out", out,
    )  # fmt: skip
    for name in ("lexical", "lexical + Alg. 1", "ROUGE", "ROUGE + Alg. 1", "default mapper, lexical", "Not comparable"):
        assert name in printed
    assert "1 of 4 answers name no node, so their target is the root" in err
    with (out / "mapping.csv").open(encoding="utf-8") as file:
        rows = {row["mapper"]: row for row in csv.DictReader(file)}
    assert float(rows["default mapper, lexical"]["accuracy"]) == 1
    files = {path.name for path in out.iterdir()}
    assert {"study.json", "mapping.md", "mapping-agreement.csv", "mapping-agreement.png", "mapping-scores.svg"} <= files


def test_json_is_the_same_for_a_seed(folder: Path, study: Study) -> None:
    arguments = (
        folder / "placed.csv", "-t", folder / "tree.csv", "-m", "mine=lexical", "--ties", "random", "--no-default",
        "--resamples", 30, "--seed", 4, "--json",
    )  # fmt: skip
    first, _ = study.said(*arguments)
    assert study.said(*arguments)[0] == first
    data = json.loads(first)
    assert data["settings"]["seed"] == 4
    assert [record["mapper"] for record in data["tables"]["mapping"]] == ["mine", "mine + Alg. 1"]
    assert data["scores"]["mine"]["hf"]["low"] <= data["scores"]["mine"]["hf"]["estimate"]
    assert data["answers"][0] == {
        "row": 2,
        "answer": "a mallard",
        "truth": "life/bird/duck/mallard",
        "placed": {"mine": "life/bird/duck/mallard", "mine + Alg. 1": "life/bird/duck/mallard"},
    }
    assert {record["style"] for record in data["styles"]} == {"bare", "coarse", "off-tree"}


# Below bird; the oak's row is not, and neither is a node that the last row's answer may also be placed on.
BELOW = """path,aliases
life/bird/duck/mallard,
life/bird/thrush/blackbird,
life/plant/oak,oak tree
"""
ANNOTATED = """answer,node,also,style
a blackbird,mallard,,wrong
some bird,mallard,,coarse
an oak tree,oak,,bare
no idea,,,off-tree
a mallard,mallard,oak|duck,bare
"""


@pytest.fixture
def below(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(BELOW, encoding="utf-8")
    (tmp_path / "placed.csv").write_text(ANNOTATED, encoding="utf-8")
    return tmp_path


def test_a_root_changes_the_metrics_and_both_are_shown(below: Path, study: Study) -> None:
    arguments = (
        below / "placed.csv", "-t", below / "tree.csv", "-m", "lexical", "--no-alone", "--no-algorithm",
        "--resamples", 10,
    )  # fmt: skip
    found = study.json(*arguments, "--root", "bird")
    (row,), (both,) = found["tables"]["mapping"], found["tables"]["both-trees"]
    # A blackbird and a mallard share bird of 3 nodes from bird down, life and bird of 4 from life; "bird" is 1 of the
    # mallard's 3 nodes, or 2 of 4; "no idea" is on the root of the part, where it belongs, and the mallard is right.
    hp, hr = (1 / 3 + 1 + 1 + 1) / 4, (1 / 3 + 1 / 3 + 1 + 1) / 4
    whole_hp, whole_hr = (2 / 4 + 1 + 1 + 1) / 4, (2 / 4 + 2 / 4 + 1 + 1) / 4
    assert (row["n"], row["hP"], row["hR"]) == (4, pytest.approx(hp), pytest.approx(hr))
    assert row["acceptable"] == 2 / 4
    expected = {
        "answers": 4, "hP on bird": hp, "hR on bird": hr, "hF on bird": 2 * hp * hr / (hp + hr),
        "hP on life": whole_hp, "hR on life": whole_hr, "hF on life": 2 * whole_hp * whole_hr / (whole_hp + whole_hr),
    }  # fmt: skip
    assert {name: both[name] for name in expected} == pytest.approx(expected)
    assert found["settings"]["root"] == "life/bird"
    assert found["excluded"] == [{"file": str(below / "placed.csv"), "row": 4, "reason": "node outside bird"}]
    assert found["notes"][:3] == [
        "1 of 4 answers name no node, so their target is the root, bird",
        "1 of 5 rows are left out: node outside bird",
        "1 of 4 answers have acceptable nodes outside bird, which are ignored",
    ]
    assert [record["truth"] for record in found["answers"]] == ["bird/duck/mallard"] * 2 + [
        "bird",
        "bird/duck/mallard",
    ]
    # Without a root all rows count, and there is one tree.
    found = study.json(*arguments)
    assert (found["tables"]["mapping"][0]["n"], found["settings"]["root"], found["excluded"]) == (5, None, [])
    assert "both-trees" not in found["tables"]


def test_images_of_nodes_outside_the_root_are_left_out(below: Path, study: Study) -> None:
    for name, colour in (("mallard", "green"), ("oak", "brown")):
        Image.new("RGB", (8, 8), colour).save(below / f"{name}.png")
    (below / "images.csv").write_text("image,label\nmallard.png,mallard\noak.png,oak\n", encoding="utf-8")
    arguments = (below / "placed.csv", "-t", below / "tree.csv", "-m", "lexical", "--images", below / "images.csv")
    _, err = study.said(*arguments, "--root", "bird", "--resamples", 5)
    assert "1 of 2 images are outside 'bird'" in err


@pytest.mark.parametrize("root", ["birdy", "oak", "life/birds"])
def test_a_bad_root_is_told_as_score_tells_it(
    below: Path, root: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (below / "p.csv").write_text("predicted,target\nmallard,mallard\n", encoding="utf-8")
    tree = ("-t", below / "tree.csv", "--root", root)
    said = []
    for command in (
        ("score", below / "p.csv"),
        ("study", "mapping", below / "placed.csv"),
        ("study", "encoder", "--answers", below / "placed.csv"),
        ("study", "correlation"),
    ):
        assert run_command(monkeypatch, *command, *tree) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        said.append(captured.err)
    assert len(set(said)) == 1, said
    assert "error" in said[0]


def test_no_row_below_the_root(below: Path, study: Study) -> None:
    (below / "placed.csv").write_text("answer,node\nan oak,oak\n,oak\n", encoding="utf-8")
    said = study.refused(below / "placed.csv", "-t", below / "tree.csv", "--root", "bird")
    assert "No usable rows are left: node outside bird in 2. Check the root." in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "rogue-1"], "Did you mean 'rouge-1'"),
        (["--node-column", "where"], "no column 'where'"),
        (["--no-node", "error"], "placed.csv: 1 of 4 rows cannot be used: row 5: node is missing"),
        (["--ties", "first"], "deepest, ancestor, random"),
        (["--names", "latin"], "all, common"),
        (["--no-alone", "--no-algorithm", "--no-default"], "Nothing is left to compare"),
        (["-m", "sentence:"], "model is empty"),
        (["-m", "clip-i2t"], "Give images of the nodes with --images"),
        (["--images", "i.csv", "--image-column", "photo"], "--images and --image-column exclude each other"),
        (["--images", "i.csv"], "i.csv"),
    ],
)
def test_errors(
    folder: Path,
    arguments: list[str],
    said: str,
    study: Study,
) -> None:
    assert said in study.refused(folder / "placed.csv", "-t", folder / "tree.csv", *arguments)
