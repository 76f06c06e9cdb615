"""Choosing guesses and naming the models and prompts that are compared."""

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
    if kind is RankingSettings:
        return read_models(settings, birds, by=more.get("by"))
    return read_prompts(settings, birds)


@pytest.fixture
def guesses(tmp_path: Path) -> Path:
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
def test_guesses_are_chosen_and_missing_ones_counted(
    birds: Taxonomy, guesses: Path, guess: str, name: str, expected: list[str | None]
) -> None:
    answers = read_file(guesses, birds, missing="keep")
    chosen = with_guess(answers, guess)
    assert [row.answer for row in chosen.rows] == expected
    assert guess_name(guess) == name
    missing = any("1 of 5 rows have no guess 2 and count as missing" in note for note in chosen.notes)
    assert missing == (guess == "2")
    for wrong in ("0", "top-0", "-1", "first", "top-", "²", ""):
        with pytest.raises(DataError, match="Unknown guess"):
            with_guess(answers, wrong)


def test_files_are_named_by_their_argument_or_by_themselves(tmp_path: Path) -> None:
    odd = tmp_path / "a=b.csv"
    odd.write_text("", "utf-8")
    assert named_paths(["GPT 4=x/y=z.csv", "x/llava.jsonl", str(odd)]) == {
        "GPT 4": "x/y=z.csv",
        "llava": "x/llava.jsonl",
        "a=b": str(odd),
    }
    for wrong, message in ((["m=a", "m=b"], "same name"), (["=a.csv"], "not NAME=FILE"), ([], "No file")):
        with pytest.raises(DataError, match=message):
            named_paths(wrong)


def test_models_and_prompts_come_from_files_columns_and_guesses(birds: Taxonomy, guesses: Path) -> None:
    two = [f"a={guesses}", f"b={guesses}"]
    assert list(read(RankingSettings, birds, two)) == ["a", "b"]
    assert list(read(RankingSettings, birds, [str(guesses)], by="model")) == ["m"]
    assert list(read(RankingSettings, birds, [str(guesses)], guess=["1", "all", "1"])) == ["guess 1", "all guesses"]
    both = read(RankingSettings, birds, two, guess=["1", "2"])
    assert list(both) == ["a, guess 1", "a, guess 2", "b, guess 1", "b, guess 2"]
    with pytest.raises(DataError, match="--by splits one file, but 2 were given"):
        read(RankingSettings, birds, two, by="model")
    by_name = read(PromptsSettings, birds, [f"m:short={guesses}", f"m:long:er={guesses}", f"n:short={guesses}"])
    assert {model: list(prompts) for model, prompts in by_name.items()} == {"m": ["short", "long:er"], "n": ["short"]}
    by_column = read(PromptsSettings, birds, [str(guesses)], model_column="model", prompt_column="prompt")
    assert {model: list(prompts) for model, prompts in by_column.items()} == {"m": ["p"]}
    by_guess = read(PromptsSettings, birds, [f"x={guesses}"], guess=["1", "all"])
    assert {model: list(prompts) for model, prompts in by_guess.items()} == {"x": ["guess 1", "all guesses"]}
    for wrong, message in (
        ({"files": [f"m={guesses}"]}, "does not say which model and prompt"),
        ({"files": [f"m={guesses}"], "model_column": "model"}, "needs --prompt-column"),
        ({"files": [str(guesses)], "prompt_column": "prompt", "guess": ["1"]}, "exclude each other"),
    ):
        with pytest.raises(DataError, match=message):
            read(PromptsSettings, birds, **wrong)
