"""Tests of matching the rows of answer files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.answers.matching import align, excluded_records, split_by
from taxtune.errors import DataError
from taxtune.taxonomy import restrict
from tests.answers.reading import about, column, read_file, refusal


def with_ids(ids, records):
    return [record | {"id": id} for id, record in zip(ids, records, strict=True)]


def table(name, ids, taxonomy, *targets, **schema):
    """Returns the answers of a file, all with the target mallard unless others are given."""
    records = with_ids(ids, about(*(targets or ["mallard"] * len(ids))))
    return replace(read_file(records, taxonomy, **schema), file=f"{name}.jsonl")


def test_files_whose_rows_do_not_match(birds):
    one = table("one", "abc", birds)
    two = table("two", "cbd", birds)
    files = {"one": one, "two": two}
    with pytest.raises(DataError) as error:
        align(files)
    message = str(error.value)
    for part in ("2 are in all of them", "one.jsonl", "'a'", "two.jsonl", "'d'", "--rows common"):
        assert part in message
    aligned = align(files, "common")
    assert aligned.ids == ("b", "c")
    assert column(aligned.rows["two"], "id") == ["b", "c"]
    for name, note in zip(files, aligned.notes, strict=True):
        assert note == f"1 of 3 rows of {name} are left out because another file lacks them"


def test_the_same_id_with_another_target_is_refused(birds):
    one = table("one", "a", birds)
    with pytest.raises(DataError, match="a different target in two"):
        align({"one": one, "two": table("two", "a", birds, "blackbird")})
    with pytest.raises(DataError, match="no examples in common"):
        align({"one": one, "other": table("three", "b", birds)}, "common")


def test_of_several_other_targets_that_of_the_first_example_is_named(birds):
    files = {
        "one": table("one", "ab", birds),
        "two": table("two", "ab", birds, "mallard", "blackbird"),
        "three": table("three", "ab", birds, "blackbird", "mallard"),
    }
    with pytest.raises(DataError, match=r"one\.jsonl:1: .* in three .*got 'a'"):
        align(files)


def test_rows_are_matched_after_those_outside_a_part_are_left_out(birds):
    part = restrict(birds, "Passeriformes")
    one = table("one", "ab", part.tree, "blackbird", "mallard", part=part)
    two = table("two", "a", part.tree, "blackbird", part=part)
    aligned = align({"one": one, "two": two})
    assert aligned.ids == ("a",)
    outside = {"file": one.file, "row": 2, "id": "b", "reason": "target outside Passeriformes"}
    assert excluded_records([one, two, one], [aligned]) == [outside]


def test_what_is_left_out_of_one_file_alone_is_said_and_listed(birds):
    one = table("one", "abc", birds)
    records = with_ids("abc", about("mallard", "mallard", "dragon"))
    records[1]["answer"] = None
    two = read_file(records, birds, off_tree="leave-out", missing="leave-out")
    files = {"one": one, "two": two}
    with pytest.raises(DataError) as error:
        align(files)
    assert f"one ({one.file}): 2 rows that another file lacks, such as 'b', 'c'" in str(error.value)
    excluded = excluded_records(files.values(), [align(files, "common")])
    listed = [(record["row"], record["reason"]) for record in excluded]
    assert listed[:2] == [(2, "no answer"), (3, "target not on the tree")]
    lacking = "missing for another model or prompt"
    assert listed[2:] == [(2, lacking), (3, lacking)]
    assert [record["file"] for record in excluded] == [two.file, two.file, one.file, one.file]


def test_an_id_may_come_once_for_each_model_in_the_file(birds):
    (record,) = about("mallard", id="x")
    m = record | {"model": "m"}
    n = record | {"model": "n"}
    assert "id 'x' is already in row 1" in refusal([m, n], birds)
    both = read_file([m, n], birds, by=["model"])
    parts = split_by(both, "model")
    assert column(parts["m"].rows, "row") == [1]
    assert column(parts["n"].rows, "row") == [2]
    assert "id 'x' is already in row 2" in refusal([m, n, n], birds, by=["model"])
