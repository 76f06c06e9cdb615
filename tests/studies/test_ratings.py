"""Reading answers that people have rated."""

from __future__ import annotations

import csv
import itertools
import json

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.studies.judge_settings import JudgeStudySettings
from taxtune.studies.ratings import krippendorff_alpha, quality, read_rated_answers

GOOD = {"id": "a", "question": "Q?", "references": ["cat", "cats"], "answer": "cat", "human": 0.5}


def read(file, **columns):
    return read_rated_answers(JudgeStudySettings(file=file, **columns))


def jsonl(folder, *changes):
    path = folder / "rated.jsonl"
    lines = [json.dumps(GOOD | change) for change in changes]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def columns(answers, *names):
    return [answers[name].tolist() for name in names]


def test_five_ratings_become_one():
    # Paper 4: at least four 1.0, two or three 0.5, else 0.0.
    expected = [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    for ratings in itertools.product((0, 1), repeat=5):
        assert quality(ratings) == expected[sum(ratings)]


def test_jsonl_with_references_in_several_forms(tmp_path):
    vqa = [{"answer": "yes", "answer_confidence": "maybe"}, {"answer": "no"}, None, " "]
    dog = {"id": 2, "references": "dog", "human": "1"}
    answers, notes = read(jsonl(tmp_path, {}, dog, {"references": vqa, "human": [0.25]}))
    references, ids, human = columns(answers, "references", "id", "human")
    assert references == [("cat", "cats"), ("dog",), ("yes", "no")]
    assert ids == ["a", "2", "a"]
    assert human == [0.5, 1.0, 0.25]
    assert notes == []


def test_csv_with_lists_of_ratings_and_references(tmp_path):
    path = tmp_path / "rated.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["answer", "references", "human", "model", "what"])
        writer.writerow(["قطة 🐱", '["cat", 2]', "[1, 1, 1, 1, 0]", "B", "Synonym"])
        writer.writerow(["dog", "cat", "[0, 0, 0, 0, 0]", "A", ""])
    answers, notes = read(path, by="model", category="what")
    assert answers["answer"][0] == "قطة 🐱"
    references, human = columns(answers, "references", "human")
    assert references == [("cat", "2"), ("cat",)]
    assert human == [1.0, 0.0]
    group, category, ids, questions = columns(answers, "group", "category", "id", "question")
    assert group == ["B", "A"]
    assert category == ["Synonym", ""]
    assert ids == ["2", "3"]
    assert questions == ["", ""]
    assert "alpha" in notes[-1]


def test_none_is_a_reference_and_blanks_are_no_names(tmp_path):
    none = {"references": "none", "id": "", "model": " A "}
    path = jsonl(tmp_path, {"references": ["None", "nan"]}, none, {"model": " "})
    answers, notes = read(path, by="model")
    references, ids, group = columns(answers, "references", "id", "group")
    assert references == [("None", "nan"), ("none",), ("cat", "cats")]
    assert ids == ["a", "2", "a"]
    assert group == ["", "A", ""]
    assert notes == []


def test_what_is_left_out_is_counted(tmp_path):
    left_out = ({"answer": None}, {"human": None}, {"human": "nan"}, {"references": []})
    answers, notes = read(jsonl(tmp_path, {}, *left_out, {"answer": ""}))
    assert answers["answer"].tolist() == ["cat", ""], "an empty answer is an answer"
    assert notes == [
        "1 row left out: no answer.",
        "2 rows left out: no rating.",
        "1 row left out: no reference.",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"human": "good"}, "human: Input should be a valid number"),
        ({"human": float("inf")}, "human: Input should be a finite number"),
        ({"human": [1, 1, 0]}, "5 ratings of 0 and 1"),
        ({"human": [1, 1, 0, 2, 1]}, "5 ratings of 0 and 1"),
        ({"human": [1, "", 0, None, 1]}, "human: Input should be a valid number"),
        ({"human": "[1, 1"}, "human: "),
    ],
)
def test_bad_cells_are_named(change, message, tmp_path):
    path = jsonl(tmp_path, {}, change)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert f"{path}:2" in str(caught.value)


def test_bad_files(tmp_path):
    with pytest.raises(DataError, match="1 answers have five ratings and 1 have one number"):
        read(jsonl(tmp_path, {}, {"human": [1, 0, 1, 0, 1]}))
    with pytest.raises(DataError, match=r"no column 'rating'.*answer, human"):
        read(jsonl(tmp_path, {}), human_column="rating")
    with pytest.raises(DataError, match="No answers with human ratings are left"):
        read(jsonl(tmp_path, {"human": None}))


def test_alpha_against_its_definition():
    ratings = np.random.default_rng(0).integers(0, 2, size=(12, 5))
    ratings[:4] = 1
    # Krippendorff: observed and expected disagreement, counted pair by pair.
    observed = np.mean([a != b for row in ratings for a, b in itertools.permutations(row, 2)])
    expected = np.mean([a != b for a, b in itertools.permutations(ratings.ravel(), 2)])
    assert krippendorff_alpha(ratings) == pytest.approx(1 - observed / expected)
    assert np.isnan(krippendorff_alpha(np.ones((3, 5), dtype=np.int64)))
