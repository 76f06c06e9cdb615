from __future__ import annotations

import json

import pytest

from tests.cli.commands import run_json, run_refused

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
def tree(tmp_path):
    path = tmp_path / "tree.csv"
    path.write_text(TREE)
    return path


def diagnosed(file, tree, *options):
    """What `taxtune score diagnose FILE -t TREE OPTIONS --json` prints; it must end well."""
    return run_json("score", "diagnose", file, "-t", tree, *options)


def rows(**answers):
    """A file of answers by their target, whose underscores are spaces."""
    lines = []
    for target, texts in answers.items():
        for text in texts:
            row = {"id": f"x{len(lines)}", "answer": text, "target": target.replace("_", " ")}
            lines.append(json.dumps(row))
    return "\n".join(lines)


def test_types_costs_examples_and_files(tree, tmp_path):
    file = tmp_path / "answers.jsonl"
    said = [
        "a blackbird",
        "a bird",
        "mallard",
        "American robin",
        "no idea at all",
        "🦆🦆",
        "a bicycle",
    ]
    file.write_text(rows(Turdus_merula=said, thrush=["a blackbird"]))
    result = diagnosed(file, tree, "--least", 1, "--out", tmp_path / "out")
    assert [record["type"] for record in result["answers"]] == [
        "correct",
        "too general",
        "wrong branch at order",
        "sibling",
        "abstained",
        "abstained",
        "off the tree",
        "too specific",
    ]
    by_type = {record["type"]: record for record in result["tables"]["types"]}
    assert by_type["wrong branch at order"]["cost in hP"] == pytest.approx((1 - 2 / 5) / 8)
    whole = by_type.pop("all")["cost in hP"]
    assert whole == pytest.approx(sum(record["cost in hP"] for record in by_type.values()))
    assert by_type["mapper doubtful"]["hP"] is None
    assert [record["type"] for record in result["tables"]["examples"]] == [
        "correct",
        "too general",
        "too specific",
        "sibling",
        "wrong branch at order",
        "off the tree",
        "abstained",
    ]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written > {"study.json", "types.csv", "clades.csv", "examples.md", "diagnosis.png"}
    assert "ranks.csv" in written
    assert diagnosed(file, tree, "--least", 1) == result
    keys = [*result]
    start = keys.index("scores")
    assert keys[start:] == ["scores", "information", "costs", "answers", "excluded"]
    settings = {"format", "off_tree", "missing", "least", "examples", "seed"}
    assert settings <= result["settings"].keys()


def test_error_types_from_measures_stand_beside(tree, tmp_path):
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(Turdus_merula=["a blackbird", "mallard"]))
    options = ("--inclusion", "text-inclusion", "--concept", "rouge-1")
    result = diagnosed(file, tree, *options, "--out", tmp_path / "out")
    wrong = "fine-grained discrimination failure"
    assert [record["measured"] for record in result["answers"]] == ["correct", wrong]
    by_type = {record["type"]: record for record in result["tables"]["measured"]}
    counts = {"correct": 1, "granularity error": 0, wrong: 1, "all": 2}
    assert {kind: by_type[kind]["answers"] for kind in counts} == counts
    # Of its types too the costs add up: a mallard for a blackbird shares 2 of 5 nodes.
    assert by_type[wrong]["cost in hP"] == pytest.approx((1 - 2 / 5) / 2)
    assert by_type["all"]["cost in hP"] == pytest.approx((1 - 2 / 5) / 2)
    crossed = {record["by placement"]: record for record in result["tables"]["types-crossed"]}
    assert (crossed["wrong branch"][wrong], crossed["wrong branch"]["counterpart"]) == (1, wrong)
    assert (crossed["wrong branch"]["in it, %"], crossed["abstained"]["counterpart"]) == (100, None)
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"measured.png", "types-crossed.csv"} <= written
    # Any of the target's names will do, if asked for: the tree's label is the Latin name.
    file.write_text(rows(Turdus_merula=["Turdus merula"]))
    (found,) = diagnosed(file, tree, *options)["answers"]
    assert found["measured"] == wrong
    (found,) = diagnosed(file, tree, *options, "--reference", "any-name")["answers"]
    assert found["measured"] == "correct"


@pytest.fixture
def ducks(tmp_path):
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(mallard=["a thrush", "a duck", "a thrush", "bird"]))
    return file


def test_tags_say_what_else_an_image_shows(tree, ducks, tmp_path):
    tags = tmp_path / "tags.csv"
    tags.write_text('id,tags\nx0,"pond; thrush"\nx1,"[""pond""]"\nx3,\nx9,bee\n')
    result = diagnosed(ducks, tree, "--tags", tags)
    assert [row["tags"] for row in result["answers"]] == [["pond", "thrush"], ["pond"], None, None]
    assert [row["named"] for row in result["answers"]] == [["thrush"], [], None, None]
    (wrong,) = [row for row in result["tables"]["tags"] if row["type"] == "all wrong"]
    expected = {"answers": 4, "tagged": 2, "unscored": 0, "name a tag": 1, "%": 50}
    assert {name: wrong[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,tags\nx0,a\nx0,b\n", "tags.csv:3: "),
        ("id,tags\n,a\n", "tags.csv:2: "),
        ("id,tags\nx0,a\nx1,[a\n", "tags.csv:3: The list of tags is not JSON"),
        ("id,labels\nx0,a\n", "no column 'tags'"),
        ("name,tags\nx0,a\n", "no column 'image'"),
        ("id,tags\ny,a\n", "No answer has the id"),
    ],
)
def test_tags_that_cannot_be_used(tree, ducks, tmp_path, text, said):
    tags = tmp_path / "tags.csv"
    tags.write_text(text)
    assert said in run_refused("score", "diagnose", ducks, "-t", tree, "--tags", tags)
