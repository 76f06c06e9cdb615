"""Tests of reading answer files."""

from __future__ import annotations

import csv
import json

import pytest

from taxtune.taxonomy import restrict
from tests.answers.reading import about, column, read_file, refusal


def excluded(table):
    return [(row.row, row.reason) for row in table.excluded]


def test_targets_are_labels_aliases_and_paths_with_or_without_the_root(birds):
    path = ["Aves", "Passeriformes", "Turdidae", "Turdus merula"]
    names = ["Turdus merula", "blackbird", "/".join(["life", *path]), path, "turdus_merula"]
    table = read_file(about(*names), birds)
    assert column(table.rows, "target") == [4] * 5
    assert column(table.rows, "id") == ["1", "2", "3", "4", "5"]
    assert table.notes == ()


def test_a_path_of_another_tree_is_found_by_its_last_name_and_said(birds):
    table = read_file(about(["Aves", "Turdi", "Turdus merula"], "Turdus merula"), birds)
    assert column(table.rows, "target") == [4, 4]
    (note,) = table.notes
    assert note.endswith("1 of 2 rows have paths of another tree, found by their last name")


def test_rows_off_the_tree_are_named_or_left_out_and_counted(birds):
    records = about("Turdus merula", "Turdus merulo", None)
    error = refusal(records, birds)
    assert "2 of 3 rows cannot be used" in error
    problem = "row 2: target: 'Turdus merulo' is not on the taxonomy. Did you mean 'Turdus merula'"
    assert problem in error
    table = read_file(records, birds, off_tree="leave-out")
    assert excluded(table) == [(2, "target not on the tree"), (3, "no target")]
    off_tree, without = table.notes
    assert off_tree.endswith("1 of 3 rows are left out: target not on the tree")
    assert without.endswith("1 of 3 rows are left out: no target")


def test_rows_with_the_same_problem_are_one_line(birds):
    records = about(*["dragon"] * 7, *["mallard"] * 2)
    for record in records[7:]:
        record["answer"] = None
    first, second, third, remedy = refusal(records, birds).splitlines()
    assert first.endswith("9 of 9 rows cannot be used:")
    unlike = "'dragon' is not on the taxonomy. No similar name is on the taxonomy."
    assert second == f"  rows 1, 2, 3, 4, 5 and 2 more: target: {unlike}"
    assert third == "  rows 8, 9: answer is missing "
    assert remedy.startswith("Correct or remove these rows")
    error = refusal(about(*(f"dragon {i}" for i in range(25))), birds)
    assert "dragon 4' is not on the taxonomy" in error
    assert "\n  and 20 more rows" in error


def test_a_target_outside_the_part_is_left_out_and_one_off_the_whole_tree_is_an_error(
    birds,
):
    part = restrict(birds, "Passeriformes")
    records = about(
        "blackbird",
        "mallard",
        ["Aves", "Anseriformes", "Anatidae"],
        "bird",  # above the part's root
        "life/Aves/Passeriformes/Turdidae",
        "Turdidae/Turdus migratorius",
    )
    records[2]["answer"] = None
    table = read_file(records, part.tree, part=part)
    labels = [part.tree.labels[target] for target in column(table.rows, "target")]
    assert labels == ["Turdus merula", "Turdidae", "Turdus migratorius"]
    outside = [(n, "target outside Passeriformes") for n in (2, 3, 4)]
    assert excluded(table) == outside
    (note,) = table.notes
    assert note.endswith("3 of 6 rows are left out: target outside Passeriformes")

    records += about("dragon", "malard")
    error = refusal(records, part.tree, part=part)
    assert "2 of 8 rows cannot be used" in error
    # What is spelt alike is looked for on the whole tree.
    assert "row 8: target: 'malard' is not on the taxonomy. Did you mean 'mallard'" in error
    table = read_file(records, part.tree, part=part, off_tree="leave-out")
    off_tree = [(n, "target not on the tree") for n in (7, 8)]
    assert excluded(table) == outside + off_tree


def test_a_placement_that_is_not_known_is_a_problem(birds):
    records = [{"truth": "mallard", "placement": name} for name in ("mallard", "unknown")]
    error = refusal(records, birds, placement="placement")
    assert "row 2: placement: 'unknown' is outside" in error


def test_a_missing_answer_is_not_an_empty_one(birds):
    records = about("blackbird", "blackbird", "blackbird")
    records[0]["answer"] = None
    records[1]["answer"] = ""
    records[2]["answer"] = []
    assert "row 1: answer is missing" in refusal(records, birds)
    kept = read_file(records, birds, missing="keep")
    assert column(kept.rows, "answer") == [None, "", ""]
    left = read_file(records, birds, missing="leave-out")
    assert column(left.rows, "row") == [2, 3]
    assert excluded(left) == [(1, "no answer")]


@pytest.mark.parametrize(
    "reply", ["<think>A robin? Or", ["[THINK]", "robin"], "<|channel|>analysis<|message|>It"]
)
def test_a_cut_thought_is_no_answer_whatever_is_missing(birds, reply):
    cut, whole = about("blackbird", "blackbird")
    cut["answer"] = reply
    whole["answer"] = "A robin?\n</think>blackbird"
    problem = "the reply ends within the model's thought"
    assert f"row 1: answer: {problem}" in refusal([cut, whole], birds)
    for missing in ("keep", "leave-out"):
        table = read_file([cut, whole], birds, missing=missing)
        assert column(table.rows, "answer") == ["blackbird"]
        assert table.unanswered == (1,)
        assert f"1 of 2 rows are left out: no answer: {problem}" in "\n".join(table.notes)


def test_half_a_surrogate_pair_becomes_a_mark_that_can_be_printed(birds):
    record = {"answer": ["a \ud83d duck", "\udc00"], "id": "\ud800", "target": "mallard"}
    (row,) = read_file([record], birds).rows
    assert row.answer == "a ? duck"
    assert row.guesses == ("a ? duck", "?")
    assert row.id == "?"


def test_lists_of_guesses_are_the_first_or_joined(birds):
    records = [{"answer": ["thrush", "mallard"], "target": "blackbird"}]
    (first,) = read_file(records, birds).rows
    assert first.answer == "thrush"
    (joined,) = read_file(records, birds, guesses="join").rows
    assert joined.answer == "thrush, mallard"
    assert joined.guesses == ("thrush", "mallard")


def test_other_columns_and_only_some_rows(birds, tmp_path):
    file = tmp_path / "answers.csv"
    lines = "a,duck,mallard,birds", "b,fish,cod,fish", "c,,mallard,birds"
    file.write_text("\n".join(["key,said,gold,domain", *lines]), "utf-8")
    columns = {"answer": "said", "truth": "gold", "id": "key"}
    table = read_file(file, birds, **columns, where={"domain": "birds"}, missing="keep")
    rows = [(row.id, row.answer, row.target) for row in table.rows]
    assert rows == [("a", "duck", 8), ("c", None, 8)]
    assert "No row matches" in refusal(file, birds, **columns, where={"domain": "trees"})
    assert "no column 'answer'" in refusal(file, birds)


def test_published_answers_can_be_read(shared_data, inat21):
    file = shared_data / "answers" / "open_vocabulary.jsonl"
    where = {"domain": "bird200"}
    table = read_file(file, inat21, truth="gold_path", where=where, off_tree="leave-out")
    categories = shared_data / "inat21" / "inat2021-categories.csv"
    names = set()
    for row in csv.DictReader(categories.read_text("utf-8").splitlines()):
        names |= {row["name"], row["genus"]}
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    paths = [record["gold_path"] for record in records if record["domain"] == "bird200"]
    off = sum(path is not None and path[-1] not in names for path in paths)
    assert off > 0
    reasons = ["no target"] * paths.count(None) + ["target not on the tree"] * off
    assert sorted(reason for _, reason in excluded(table)) == reasons
    assert len(table.rows) == len(paths) - len(table.excluded)
