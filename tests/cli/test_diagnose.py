from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Done, run_captured

TREE = """path,rank,aliases
life,,
life/Aves,class,bird
life/Aves/Passeriformes,order,songbird
life/Aves/Passeriformes/Turdidae,family,thrush
life/Aves/Passeriformes/Turdidae/Turdus merula,species,blackbird
life/Aves/Passeriformes/Turdidae/Turdus migratorius,species,american robin
life/Aves/Anseriformes,order,
life/Aves/Anseriformes/Anatidae,family,duck
life/Aves/Anseriformes/Anatidae/Anas platyrhynchos,species,mallard
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree.csv"
    path.write_text(TREE)
    return path


def run(*arguments: str) -> Done:
    """Runs `taxtune score diagnose ARGUMENTS` in this process."""
    return run_captured("score", "diagnose", *arguments)


def diagnosed(file: Path, tree: Path, *options: str) -> dict[str, Any]:
    """What `taxtune score diagnose FILE -t TREE OPTIONS --json` prints; it must end well."""
    done = run(str(file), "-t", str(tree), *options, "--json")
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def rows(*answers: tuple[object, str]) -> str:
    return "".join(
        json.dumps({"id": f"x{i}", "answer": answer, "target": target}) + "\n"
        for i, (answer, target) in enumerate(answers)
    )


def test_types_costs_examples_and_files(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    said = (
        "a blackbird",
        "a bird",
        "mallard",
        "American robin",
        "no idea at all",
        "🦆🦆",
        "a bicycle",
    )
    file.write_text(
        rows(*((answer, "Turdus merula") for answer in said), ("a blackbird", "thrush"))
    )
    result = diagnosed(file, tree, "--least", "1", "--out", str(tmp_path / "out"))
    types = [
        "correct",
        "too general",
        "wrong branch at order",
        "sibling",
        "abstained",
        "abstained",
        "off the tree",
    ]
    assert [record["type"] for record in result["answers"]] == [*types, "too specific"]
    by_type = {record["type"]: record for record in result["tables"]["types"]}
    assert by_type["wrong branch at order"]["cost in hP"] == pytest.approx((1 - 2 / 5) / 8)
    assert by_type["all"]["cost in hP"] == pytest.approx(
        sum(record["cost in hP"] for record in result["tables"]["types"] if record["type"] != "all")
    )
    assert by_type["mapper doubtful"]["hP"] is None
    order = [
        "correct",
        "too general",
        "too specific",
        "sibling",
        "wrong branch at order",
        "off the tree",
        "abstained",
    ]
    assert [record["type"] for record in result["tables"]["examples"]] == order
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {
        "study.json",
        "types.csv",
        "clades.csv",
        "examples.md",
        "diagnosis.png",
        "ranks.csv",
    } <= written
    assert diagnosed(file, tree, "--least", "1") == result
    assert {"format", "off_tree", "missing", "least", "examples", "seed"} <= result[
        "settings"
    ].keys()


def test_error_types_from_measures_stand_beside(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(("a blackbird", "Turdus merula"), ("mallard", "Turdus merula")))
    options = ("--inclusion", "text-inclusion", "--concept", "rouge-1")
    result = diagnosed(file, tree, *options, "--out", str(tmp_path / "out"))
    wrong = "fine-grained discrimination failure"
    assert [record["measured"] for record in result["answers"]] == ["correct", wrong]
    by_type = {record["type"]: record for record in result["tables"]["measured"]}
    assert [
        by_type[kind]["answers"] for kind in ("correct", "granularity error", wrong, "all")
    ] == [1, 0, 1, 2]
    # Of its types too the costs add up: a mallard for a blackbird shares 2 of 5 nodes.
    assert (
        by_type[wrong]["cost in hP"]
        == pytest.approx((1 - 2 / 5) / 2)
        == by_type["all"]["cost in hP"]
    )
    crossed = {record["by placement"]: record for record in result["tables"]["types-crossed"]}
    assert (crossed["wrong branch"][wrong], crossed["wrong branch"]["counterpart"]) == (1, wrong)
    assert (crossed["wrong branch"]["in it, %"], crossed["abstained"]["counterpart"]) == (100, None)
    assert {"measured.png", "types-crossed.csv"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    # Any of the target's names will do, if asked for: the tree's label is the Latin name.
    file.write_text(rows(("Turdus merula", "Turdus merula")))
    found = (
        diagnosed(file, tree, *options),
        diagnosed(file, tree, *options, "--reference", "any-name"),
    )
    assert [result["answers"][0]["measured"] for result in found] == [wrong, "correct"]


def test_tags_say_what_else_an_image_shows(tree: Path, tmp_path: Path) -> None:
    file, tags = tmp_path / "answers.jsonl", tmp_path / "tags.csv"
    file.write_text(
        rows(*((answer, "mallard") for answer in ("a thrush", "a duck", "a thrush", "bird")))
    )
    tags.write_text('id,tags\nx0,"pond; thrush"\nx1,"[""pond""]"\nx3,\nx9,bee\n')
    result = diagnosed(file, tree, "--tags", str(tags))
    assert [(row["tags"], row["named"]) for row in result["answers"]] == [
        (["pond", "thrush"], ["thrush"]),
        (["pond"], []),
        (None, None),
        (None, None),
    ]
    (wrong,) = [row for row in result["tables"]["tags"] if row["type"] == "all wrong"]
    assert [wrong[name] for name in ("answers", "tagged", "unscored", "name a tag", "%")] == [
        4,
        2,
        0,
        1,
        50,
    ]
    for text, said in (
        ("id,tags\nx0,a\nx0,b\n", "tags.csv:3: "),
        ("id,tags\n,a\n", "tags.csv:2: "),
        ("id,tags\nx0,a\nx1,[a\n", "tags.csv:3: The list of tags is not JSON"),
        ("id,labels\nx0,a\n", "no column 'tags'"),
        ("name,tags\nx0,a\n", "no column 'image'"),
        ("id,tags\ny,a\n", "No answer has the id"),
    ):
        tags.write_text(text)
        done = run(str(file), "-t", str(tree), "--tags", str(tags))
        assert done.code == 2
        assert said in " ".join(done.err.split())
