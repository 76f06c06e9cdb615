"""Tests of reading answer files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taxtune.answers.matching import split_by
from taxtune.errors import DataError
from taxtune.taxonomy import Taxonomy, restrict
from tests.answers.reading import read_file

Write = Callable[..., Path]


@pytest.fixture
def jsonl(tmp_path: Path) -> Write:
    def write(*records: dict[str, Any], name: str = "answers.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    return write


def test_targets_are_labels_aliases_and_paths_with_or_without_the_root(
    birds: Taxonomy, jsonl: Write
) -> None:
    targets = [
        "Turdus merula",
        "blackbird",
        "life/Aves/Passeriformes/Turdidae/Turdus merula",
        ["Aves", "Passeriformes", "Turdidae", "Turdus merula"],
        "turdus_merula",
    ]
    read = read_file(jsonl(*({"answer": "x", "target": target} for target in targets)), birds)
    assert [row.target for row in read.rows] == [4] * 5
    assert [row.id for row in read.rows] == ["1", "2", "3", "4", "5"]
    assert read.notes == ()


def test_a_path_of_another_tree_is_found_by_its_last_name_and_said(
    birds: Taxonomy, jsonl: Write
) -> None:
    file = jsonl(
        {"answer": "x", "target": ["Aves", "Turdi", "Turdus merula"]},
        {"answer": "x", "target": "Turdus merula"},
    )
    read = read_file(file, birds)
    assert [row.target for row in read.rows] == [4, 4]
    assert read.notes == (
        f"{file}: 1 of 2 rows have paths of another tree, found by their last name",
    )


def test_rows_off_the_tree_are_named_or_left_out_and_counted(birds: Taxonomy, jsonl: Write) -> None:
    file = jsonl(
        {"answer": "x", "target": "Turdus merula"},
        {"answer": "x", "target": "Turdus merulo"},
        {"answer": "x", "target": None},
    )
    with pytest.raises(DataError) as error:
        read_file(file, birds)
    assert "2 of 3 rows cannot be used" in str(error.value)
    assert (
        "row 2: target: 'Turdus merulo' is not on the taxonomy. Did you mean 'Turdus merula'"
        in str(error.value)
    )
    read = read_file(file, birds, off_tree="leave-out")
    assert [(row.row, row.reason) for row in read.excluded] == [
        (2, "target not on the tree"),
        (3, "no target"),
    ]
    assert [note.split(": ", 1)[1] for note in read.notes] == [
        "1 of 3 rows are left out: target not on the tree",
        "1 of 3 rows are left out: no target",
    ]


def test_rows_with_the_same_problem_are_one_line(birds: Taxonomy, jsonl: Write) -> None:
    rows = [{"answer": "x", "target": "dragon"}] * 7 + [{"answer": None, "target": "mallard"}] * 2
    with pytest.raises(DataError) as error:
        read_file(jsonl(*rows), birds)
    lines = str(error.value).splitlines()
    assert lines[0].endswith("9 of 9 rows cannot be used:")
    assert (
        lines[1]
        == "  rows 1, 2, 3, 4, 5 and 2 more: target: 'dragon' is not on the taxonomy. No similar name is on "
        "the taxonomy."
    )
    assert lines[2] == "  rows 8, 9: answer is missing "
    assert lines[3].startswith("Correct or remove these rows")
    with pytest.raises(DataError, match=r"dragon 4' is not on the taxonomy.*\n  and 20 more rows"):
        read_file(jsonl(*({"answer": "x", "target": f"dragon {i}"} for i in range(25))), birds)


def test_a_target_outside_the_part_is_left_out_and_one_off_the_whole_tree_is_an_error(
    birds: Taxonomy, jsonl: Write
) -> None:
    part = restrict(birds, "Passeriformes")
    rows = [
        {"answer": "x", "target": "blackbird"},
        {"answer": "x", "target": "mallard"},
        {"answer": None, "target": ["Aves", "Anseriformes", "Anatidae"]},
        {"answer": "x", "target": "bird"},  # above the part's root
        {"answer": "x", "target": "life/Aves/Passeriformes/Turdidae"},
        {"answer": "x", "target": "Turdidae/Turdus migratorius"},
    ]
    read = read_file(jsonl(*rows), part.tree, part=part)
    assert [(row.row, part.tree.labels[row.target]) for row in read.rows] == [
        (1, "Turdus merula"), (5, "Turdidae"), (6, "Turdus migratorius"),
    ]  # fmt: skip
    assert [(row.row, row.reason) for row in read.excluded] == [
        (n, "target outside Passeriformes") for n in (2, 3, 4)
    ]
    assert read.notes == (f"{read.file}: 3 of 6 rows are left out: target outside Passeriformes",)

    off = [*rows, {"answer": "x", "target": "dragon"}, {"answer": "x", "target": "malard"}]
    with pytest.raises(DataError) as error:
        read_file(jsonl(*off), part.tree, part=part)
    assert "2 of 8 rows cannot be used" in str(error.value)
    # What is spelt alike is looked for on the whole tree.
    assert "row 8: target: 'malard' is not on the taxonomy. Did you mean 'mallard'" in str(
        error.value
    )
    left = read_file(jsonl(*off), part.tree, part=part, off_tree="leave-out")
    assert [row.reason for row in left.excluded] == ["target outside Passeriformes"] * 3 + [
        "target not on the tree"
    ] * 2


def test_a_missing_answer_is_not_an_empty_one(birds: Taxonomy, jsonl: Write) -> None:
    file = jsonl(
        {"answer": None, "target": "blackbird"},
        {"answer": "", "target": "blackbird"},
        {"answer": [], "target": "blackbird"},
    )
    with pytest.raises(DataError, match="row 1: answer is missing"):
        read_file(file, birds)
    assert [row.answer for row in read_file(file, birds, missing="keep").rows] == [None, "", ""]
    left = read_file(file, birds, missing="leave-out")
    assert [row.row for row in left.rows] == [2, 3]
    assert left.excluded[0].reason == "no answer"


@pytest.mark.parametrize(
    "reply", ["<think>A robin? Or", ["[THINK]", "robin"], "<|channel|>analysis<|message|>It"]
)
def test_a_cut_thought_is_no_answer_whatever_is_missing(
    birds: Taxonomy, jsonl: Write, reply: Any
) -> None:
    file = jsonl(
        {"answer": reply, "target": "blackbird"},
        {"answer": "A robin?\n</think>blackbird", "target": "blackbird"},
    )
    with pytest.raises(DataError, match="row 1: answer: the reply ends within the model's thought"):
        read_file(file, birds)
    for missing in ("keep", "leave-out"):
        left = read_file(file, birds, missing=missing)
        assert [row.answer for row in left.rows] == ["blackbird"]
        assert left.unanswered == (1,)
        assert any(
            "1 of 2 rows are left out: no answer: the reply ends within" in note
            for note in left.notes
        )


def test_half_a_surrogate_pair_becomes_a_mark_that_can_be_printed(
    birds: Taxonomy, jsonl: Write
) -> None:
    read = read_file(
        jsonl({"answer": ["a \ud83d duck", "\udc00"], "id": "\ud800", "target": "mallard"}), birds
    )
    assert (read.rows[0].answer, read.rows[0].guesses, read.rows[0].id) == (
        "a ? duck",
        ("a ? duck", "?"),
        "?",
    )


def test_lists_of_guesses_are_the_first_or_joined(birds: Taxonomy, jsonl: Write) -> None:
    file = jsonl({"answer": ["thrush", "mallard"], "target": "blackbird"})
    assert read_file(file, birds).rows[0].answer == "thrush"
    joined = read_file(file, birds, guesses="join").rows[0]
    assert joined.answer == "thrush, mallard"
    assert joined.guesses == ("thrush", "mallard")


def test_other_columns_and_only_some_rows(birds: Taxonomy, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text(
        "key,said,gold,domain\na,duck,mallard,birds\nb,fish,cod,fish\nc,,mallard,birds\n", "utf-8"
    )
    columns = {"answer": "said", "truth": "gold", "id": "key"}
    read = read_file(file, birds, **columns, where={"domain": "birds"}, missing="keep")
    assert [(row.id, row.answer, row.target) for row in read.rows] == [
        ("a", "duck", 8),
        ("c", None, 8),
    ]
    with pytest.raises(DataError, match="No row matches"):
        read_file(file, birds, **columns, where={"domain": "trees"})
    with pytest.raises(DataError, match="no column 'answer'"):
        read_file(file, birds)


def test_an_id_may_come_once_for_each_model_in_the_file(birds: Taxonomy, jsonl: Write) -> None:
    rows = [
        {"id": "x", "answer": "duck", "target": "mallard", "model": model} for model in ("m", "n")
    ]
    with pytest.raises(DataError, match="id 'x' is already in row 1"):
        read_file(jsonl(*rows), birds)
    parts = split_by(read_file(jsonl(*rows), birds, by=["model"]), "model")
    assert {name: [row.row for row in part.rows] for name, part in parts.items()} == {
        "m": [1],
        "n": [2],
    }
    with pytest.raises(DataError, match="id 'x' is already in row 2"):
        read_file(jsonl(*rows, rows[1]), birds, by=["model"])


def test_published_answers_can_be_read(shared_data: Path, inat21: Taxonomy) -> None:
    file = shared_data / "answers" / "open_vocabulary.jsonl"
    read = read_file(
        file, inat21, truth="gold_path", where={"domain": "bird200"}, off_tree="leave-out"
    )
    with (shared_data / "inat21" / "inat2021-categories.csv").open(
        encoding="utf-8", newline=""
    ) as table:
        names = {row[rank] for row in csv.DictReader(table) for rank in ("name", "genus")}
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    paths = [record["gold_path"] for record in records if record["domain"] == "bird200"]
    off = sum(path is not None and path[-1] not in names for path in paths)
    assert off > 0
    assert sorted(row.reason for row in read.excluded) == (
        ["no target"] * paths.count(None) + ["target not on the tree"] * off
    )
    assert len(read.rows) == len(paths) - len(read.excluded)
