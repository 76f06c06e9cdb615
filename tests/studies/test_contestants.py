"""Tests of choosing guesses and of naming who is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from taxtune.errors import DataError
from taxtune.studies.contestants import guess_name, named_paths, read_models, read_prompts, with_guess
from taxtune.studies.prompts import PromptsSettings
from taxtune.studies.ranking import RankingSettings
from taxtune.taxonomy import Taxonomy
from tests.answers.reading import read_file


def read(kind: type[Any], birds: Taxonomy, files: list[str], **more: Any) -> dict[str, Any]:
    """The answers of models, or of models under prompts."""
    settings = kind(taxonomy=birds, files=files, **more)
    return read_models(settings, birds) if kind is RankingSettings else read_prompts(settings, birds)


@pytest.fixture
def guesses(tmp_path: Path) -> Path:
    path = tmp_path / "guesses.jsonl"
    answers = [["thrush", "duck", "mallard"], ["duck"], [], ["robin, duck,thrush"], None]
    path.write_text(
        "".join(
            json.dumps({"id": i, "answer": answer, "target": "mallard", "model": "m", "prompt": "p"}) + "\n"
            for i, answer in enumerate(answers)
        ),
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(
    ("guess", "expected"),
    [
        ("1", ["thrush", "duck", "", "robin", None]),
        ("2", ["duck", None, "", "duck", None]),
        ("top-2", ["thrush, duck", "duck", "", "robin, duck", None]),
        ("all", ["thrush, duck, mallard", "duck", "", "robin, duck, thrush", None]),
    ],
)
def test_guesses_are_chosen(birds: Taxonomy, guesses: Path, guess: str, expected: list[str | None]) -> None:
    chosen = with_guess(read_file(guesses, birds, missing="keep"), guess)
    assert [row.answer for row in chosen.rows] == expected


def test_a_guess_that_is_not_there_is_counted(birds: Taxonomy, guesses: Path) -> None:
    read = read_file(guesses, birds, missing="keep")
    assert with_guess(read, "2").notes[-1].endswith("1 of 5 rows have no guess 2 and count as missing")
    assert with_guess(read, "all").notes == read.notes


@pytest.mark.parametrize("guess", ["0", "top-0", "-1", "first", "top-", "²", ""])
def test_no_such_guess(birds: Taxonomy, guesses: Path, guess: str) -> None:
    with pytest.raises(DataError, match="Unknown guess"):
        with_guess(read_file(guesses, birds, missing="keep"), guess)


def test_guesses_have_names() -> None:
    assert [guess_name(guess) for guess in ("1", "top-3", "all")] == ["guess 1", "top 3", "all guesses"]


def test_files_are_named_by_their_argument_or_by_themselves(tmp_path: Path) -> None:
    odd = tmp_path / "a=b.csv"
    odd.write_text("", "utf-8")
    assert named_paths(["GPT 4=x/y=z.csv", "x/llava.jsonl", str(odd)]) == {
        "GPT 4": "x/y=z.csv",
        "llava": "x/llava.jsonl",
        "a=b": str(odd),
    }
    with pytest.raises(DataError, match="same name"):
        named_paths(["m=a.csv", "m=b.csv"])
    with pytest.raises(DataError, match="not NAME=FILE"):
        named_paths(["=a.csv"])
    with pytest.raises(DataError, match="No file"):
        named_paths([])


def test_models_come_from_files_columns_and_guesses(birds: Taxonomy, guesses: Path) -> None:
    assert list(read(RankingSettings, birds, [f"a={guesses}", f"b={guesses}"])) == ["a", "b"]
    assert list(read(RankingSettings, birds, [str(guesses)], by="model")) == ["m"]
    assert list(read(RankingSettings, birds, [str(guesses)], guess=["1", "all", "1"])) == ["guess 1", "all guesses"]
    both = read(RankingSettings, birds, [f"a={guesses}", f"b={guesses}"], guess=["1", "2"])
    assert list(both) == ["a, guess 1", "a, guess 2", "b, guess 1", "b, guess 2"]
    with pytest.raises(DataError, match="--by splits one file, but 2 were given"):
        read(RankingSettings, birds, [f"a={guesses}", f"b={guesses}"], by="model")


def test_prompts_come_from_names_columns_and_guesses(birds: Taxonomy, guesses: Path) -> None:
    by_name = read(PromptsSettings, birds, [f"m:short={guesses}", f"m:long:er={guesses}", f"n:short={guesses}"])
    assert {model: list(prompts) for model, prompts in by_name.items()} == {"m": ["short", "long:er"], "n": ["short"]}
    by_column = read(PromptsSettings, birds, [str(guesses)], model_column="model", prompt_column="prompt")
    assert {model: list(prompts) for model, prompts in by_column.items()} == {"m": ["p"]}
    by_guess = read(PromptsSettings, birds, [f"x={guesses}"], guess=["1", "all"])
    assert {model: list(prompts) for model, prompts in by_guess.items()} == {"x": ["guess 1", "all guesses"]}


def test_prompts_that_are_not_said_are_refused(birds: Taxonomy, guesses: Path) -> None:
    with pytest.raises(DataError, match="does not say which model and prompt"):
        read(PromptsSettings, birds, [f"m={guesses}"])
    with pytest.raises(DataError, match="needs --prompt-column"):
        read(PromptsSettings, birds, [f"m={guesses}"], model_column="model", prompt_column=None)
    with pytest.raises(DataError, match="exclude each other"):
        read(PromptsSettings, birds, [f"m={guesses}"], model_column=None, prompt_column="prompt", guess=["1"])
