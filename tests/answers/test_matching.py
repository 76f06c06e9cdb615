"""Tests of matching the rows of answer files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taxtune.answers.matching import align, excluded_records
from taxtune.errors import DataError
from taxtune.taxonomy import Taxonomy, restrict
from tests.answers.reading import read_file

Write = Callable[..., Path]


@pytest.fixture
def jsonl(tmp_path: Path) -> Write:
    def write(*records: dict[str, Any], name: str) -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    return write


def test_files_whose_rows_do_not_match(birds: Taxonomy, jsonl: Write) -> None:
    one = read_file(
        jsonl(*({"id": i, "answer": "x", "target": "mallard"} for i in "abc"), name="one.jsonl"),
        birds,
    )
    two = read_file(
        jsonl(*({"id": i, "answer": "y", "target": "mallard"} for i in "cbd"), name="two.jsonl"),
        birds,
    )
    with pytest.raises(DataError) as error:
        align({"one": one, "two": two})
    for part in ("2 are in all of them", "one.jsonl", "'a'", "two.jsonl", "'d'", "--rows common"):
        assert part in str(error.value)
    aligned = align({"one": one, "two": two}, "common")
    assert aligned.ids == ("b", "c")
    assert [row.id for row in aligned.rows["two"]] == ["b", "c"]
    assert [note.split(",")[0] for note in aligned.notes] == [
        "1 of 3 rows of one are left out because another file lacks them",
        "1 of 3 rows of two are left out because another file lacks them",
    ]


def test_the_same_id_with_another_target_is_refused(birds: Taxonomy, jsonl: Write) -> None:
    one = read_file(jsonl({"id": "a", "answer": "x", "target": "mallard"}, name="one.jsonl"), birds)
    two = read_file(
        jsonl({"id": "a", "answer": "x", "target": "blackbird"}, name="two.jsonl"), birds
    )
    with pytest.raises(DataError, match="a different target in two"):
        align({"one": one, "two": two})
    other = read_file(
        jsonl({"id": "b", "answer": "x", "target": "mallard"}, name="three.jsonl"), birds
    )
    with pytest.raises(DataError, match="no examples in common"):
        align({"one": one, "other": other}, "common")


def test_rows_are_matched_after_those_outside_a_part_are_left_out(
    birds: Taxonomy, jsonl: Write
) -> None:
    part = restrict(birds, "Passeriformes")
    inside = {"id": "a", "answer": "x", "target": "blackbird"}
    outside = {"id": "b", "answer": "x", "target": "mallard"}
    one = read_file(jsonl(inside, outside, name="one.jsonl"), part.tree, part=part)
    two = read_file(jsonl(inside, name="two.jsonl"), part.tree, part=part)
    aligned = align({"one": one, "two": two})
    assert aligned.ids == ("a",)
    assert excluded_records([one, two, one], [aligned]) == [
        {"file": one.file, "row": 2, "id": "b", "reason": "target outside Passeriformes"}
    ]


def test_what_is_left_out_of_one_file_alone_is_said_and_listed(
    birds: Taxonomy, jsonl: Write
) -> None:
    rows = [{"id": i, "answer": "x", "target": "mallard"} for i in "abc"]
    one = read_file(jsonl(*rows, name="one.jsonl"), birds)
    two = read_file(
        jsonl(
            rows[0], rows[1] | {"answer": None}, rows[2] | {"target": "dragon"}, name="two.jsonl"
        ),
        birds,
        off_tree="leave-out",
        missing="leave-out",
    )
    with pytest.raises(DataError) as error:
        align({"one": one, "two": two})
    assert f"one ({one.file}): 2 rows that another file lacks, such as 'b', 'c'" in str(error.value)
    records = excluded_records([one, two], [align({"one": one, "two": two}, "common")])
    assert [(record["file"], record["row"], record["reason"]) for record in records] == [
        (two.file, 2, "no answer"),
        (two.file, 3, "target not on the tree"),
        (one.file, 2, "missing for another model or prompt"),
        (one.file, 3, "missing for another model or prompt"),
    ]
