"""Choosing guesses and naming the models and prompts that are compared."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from taxtune.errors import DataError
from taxtune.metrics.base import FunctionMeasure
from taxtune.studies.contestants import (
    guess_name,
    named_paths,
    read_tables,
    text_scores,
    with_guess,
)
from taxtune.studies.ranking import RankingSettings
from tests.answers.reading import read_file


def read(birds, files, **more):
    """What tells the tables of files apart."""
    return list(read_tables(named_paths(files), RankingSettings(taxonomy=birds, **more), birds))


@pytest.fixture
def guesses(tmp_path):
    answers = [["thrush", "duck", "mallard"], ["duck"], [], ["robin, duck,thrush"], None]
    shared = {"target": "mallard", "model": "m", "prompt": "p"}
    lines = [json.dumps({"id": i, "answer": answer, **shared}) for i, answer in enumerate(answers)]
    (tmp_path / "guesses.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "guesses.jsonl"


@pytest.mark.parametrize(
    ("guess", "name", "expected"),
    [
        ("1", "guess 1", ["thrush", "duck", "", "robin", None]),
        ("2", "guess 2", ["duck", None, "", "duck", None]),
        ("top-2", "top 2", ["thrush, duck", "duck", "", "robin, duck", None]),
        ("all", "all guesses", ["thrush, duck, mallard", "duck", "", "robin, duck, thrush", None]),
    ],
)
def test_guesses_are_chosen_and_missing_ones_counted(birds, guesses, guess, name, expected):
    answers = read_file(guesses, birds, missing="keep")
    chosen = with_guess(answers, guess)
    assert [row.answer for row in chosen.rows] == expected
    assert guess_name(guess) == name
    note = "1 of 5 rows have no guess 2 and count as missing"
    assert any(note in text for text in chosen.notes) == (guess == "2")


@pytest.mark.parametrize("guess", ["0", "top-0", "-1", "first", "top-", "²", ""])
def test_there_is_no_such_guess(birds, guesses, guess):
    with pytest.raises(DataError, match="Unknown guess"):
        with_guess(read_file(guesses, birds, missing="keep"), guess)


def test_files_are_named_by_their_argument_or_by_themselves(tmp_path):
    odd = tmp_path / "a=b.csv"
    odd.write_text("", "utf-8")
    paths = named_paths(["GPT 4=x/y=z.csv", "x/llava.jsonl", str(odd)])
    assert paths == {"GPT 4": "x/y=z.csv", "llava": "x/llava.jsonl", "a=b": str(odd)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["m=a", "m=b"], "same name"), (["=a.csv"], "not NAME=FILE"), ([], "No file")],
)
def test_arguments_that_name_no_file(arguments, message):
    with pytest.raises(DataError, match=message):
        named_paths(arguments)


def test_files_are_split_by_a_column_or_by_guesses(birds, guesses):
    two = [f"a={guesses}", f"b={guesses}"]
    assert read(birds, two) == [("a", ""), ("b", "")]
    assert read(birds, two, by="model") == [("a", "m"), ("b", "m")]
    both = [(name, guess) for name in "ab" for guess in ("guess 1", "all guesses")]
    assert read(birds, two, guess=["1", "all", "1"]) == both
    with pytest.raises(DataError, match="exclude each other"):
        read(birds, two, by="model", guess=["1"])


def test_text_scores_are_those_of_each_answer_and_missing_ones_have_none(birds):
    answers = pd.DataFrame({"target": [8, 8, 8, 4, 8], "question": ""})
    answers["answer"] = ["mallard", "a duck", None, "mallard", "mallard"]
    answers.index = [7, 5, 3, 1, 0]
    compared = []

    def same(answer, name):
        compared.append((answer, name))
        return float(answer == name)

    scores = text_scores(answers, FunctionMeasure("same", "same", same), birds, "common-name")
    assert scores.index.equals(answers.index)
    assert scores.fillna(-1).tolist() == [1, 0, -1, 0, 1]
    assert len(compared) == 3
