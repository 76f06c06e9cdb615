from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.studies.judge import JudgeSettings
from taxtune.studies.judge.human_ratings import RatedAnswers, krippendorff_alpha, quality, read_rated_answers

GOOD = {"id": "a", "question": "Q?", "references": ["cat", "cats"], "answer": "cat", "human": 0.5}


def rated(file: Path, **columns: str) -> RatedAnswers:
    return read_rated_answers(JudgeSettings(file=file, **columns))


def jsonl(folder: Path, *records: dict[str, Any]) -> Path:
    path = folder / "rated.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def test_five_ratings_become_one() -> None:
    # Paper 4: at least four 1.0, two or three 0.5, else 0.0.
    for ratings in itertools.product((0, 1), repeat=5):
        assert quality(ratings) == {0: 0.0, 1: 0.0, 2: 0.5, 3: 0.5, 4: 1.0, 5: 1.0}[sum(ratings)]
    with pytest.raises(ValueError, match="five"):
        quality([1, 1, 1])


def test_a_jsonl_file(tmp_path: Path) -> None:
    answers = rated(jsonl(tmp_path, GOOD, {**GOOD, "id": 2, "references": "dog", "human": "1"}))
    first, second = answers.rows
    assert (first.id, first.question, first.references, first.answer, first.human) == (
        "a",
        "Q?",
        ("cat", "cats"),
        "cat",
        0.5,
    )
    assert (second.id, second.references, second.human) == ("2", ("dog",), 1.0)
    assert answers.alpha is None


def test_a_csv_file_with_five_columns_and_a_list_of_references(tmp_path: Path) -> None:
    path = tmp_path / "rated.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["answer", "references", "h1", "h2", "h3", "h4", "h5", "model", "what"])
        writer.writerow(["قطة 🐱", '["cat", 2]', "1", "true", "Correct", "yes", "0", "B", "Synonym"])
        writer.writerow(["dog", "cat", "0", "0", "0", "0", "0", "A", ""])
    answers = rated(path, human_column="h1, h2,h3,h4,h5", by="model", category="what")
    first, second = answers.rows
    assert (first.answer, first.references, first.human, first.group, first.category) == (
        "قطة 🐱",
        ("cat", "2"),
        1.0,
        "B",
        "Synonym",
    )
    assert (second.human, second.id, second.row, second.question) == (0.0, "3", 3, "")
    assert "alpha" in answers.notes[-1]


def test_references_as_vqa_writes_them(tmp_path: Path) -> None:
    row = {**GOOD, "references": [{"answer": "yes", "answer_confidence": "maybe"}, {"answer": "no"}, None, " "]}
    assert rated(jsonl(tmp_path, row)).rows[0].references == ("yes", "no")


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path,
        GOOD,
        {**GOOD, "answer": None},
        {**GOOD, "human": None},
        {**GOOD, "human": "nan"},
        {**GOOD, "references": []},
        {**GOOD, "answer": ""},
    )
    answers = rated(path)
    assert [row.answer for row in answers.rows] == ["cat", ""], "an empty answer is an answer"
    assert answers.notes == (
        "1 row left out: no answer.",
        "2 rows left out: no rating.",
        "1 row left out: no reference.",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"human": "good"}, "not a number"),
        ({"human": float("inf")}, "infinite"),
        ({"human": [1, 1, 0]}, "3 binary ratings"),
        ({"human": [1, 1, 0, 2, 1]}, "must be 0 or 1"),
        ({"human": [1, 1, 0, None, 1]}, "1 of the 5 binary ratings is missing"),
        ({"human": [1, "", 0, None, 1]}, "2 of the 5 binary ratings are missing"),
        ({"human": "[1, 1"}, "not JSON"),
        ({"references": "[1, 1"}, "not JSON"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = jsonl(tmp_path, GOOD, {**GOOD, **change})
    with pytest.raises(DataError, match=words) as caught:
        rated(path)
    assert f"{path}:2" in str(caught.value)


def test_references_that_are_joined_are_told(tmp_path: Path) -> None:
    """One text is one reference, whatever it holds; who meant several learns that they are not distinguished."""
    answers = rated(jsonl(tmp_path, GOOD, *[{**GOOD, "references": "cat|kitty; lion"}] * 2))
    assert [len(row.references) for row in answers.rows[1:]] == [1, 1]
    (note,) = answers.notes
    assert "2 of 3 answers have one reference with | or ; in it" in note
    assert "row 2: 'cat|kitty; lion'" in note


def test_one_kind_of_rating(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="1 answers have five ratings and 1 have one number"):
        rated(jsonl(tmp_path, GOOD, {**GOOD, "human": [1, 0, 1, 0, 1]}))


def test_no_column_no_row_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no column 'rating'.*answer, human"):
        rated(jsonl(tmp_path, GOOD), human_column="rating")
    with pytest.raises(DataError, match="No answers with human ratings are left"):
        rated(jsonl(tmp_path, {**GOOD, "human": None}))
    with pytest.raises(DataError):
        rated(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError):
        rated(tmp_path / "empty.jsonl")


def test_alpha_against_its_definition() -> None:
    ratings = np.random.default_rng(0).integers(0, 2, size=(12, 5))
    ratings[:4] = 1
    # Krippendorff: observed and expected disagreement, counted pair by pair.
    observed = np.mean([a != b for row in ratings for a, b in itertools.permutations(row, 2)])
    expected = np.mean([a != b for a, b in itertools.permutations(ratings.ravel(), 2)])
    assert krippendorff_alpha(ratings) == pytest.approx(1 - observed / expected)
    assert krippendorff_alpha(np.ones((3, 5), dtype=np.int64)) is None
    assert krippendorff_alpha(np.array([[1, 1], [0, 0]])) == pytest.approx(1.0)
