from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from taxtune.cli.app import app
from taxtune.models.api_errors import load_litellm
from tests import servers
from tests.servers import OpenAIServer

HUMAN = {"cat": [1, 1, 1, 1, 1], "kitty": [1, 1, 1, 1, 0], "a mammal": [1, 1, 0, 0, 0], "dog": [0, 0, 0, 0, 1]}
RATED = {"cat": 3, "kitty": 3, "a mammal": 2, "dog": 1}


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded() -> None:
    load_litellm()


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    path = tmp_path / "rated.jsonl"
    records = [
        {
            "id": i,
            "question": "What is it?",
            "references": ["cat"] * 9 + ["lion"],
            "answer": answer,
            "human": HUMAN[answer],
            "model": "AB"[i % 2],
            "caption": "An animal.",
        }
        for i, answer in enumerate([*HUMAN] * 6)
    ]
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def study(*arguments: object, fails: bool = False) -> Any:
    result = CliRunner().invoke(app, ["study", "judge", *map(str, arguments)], catch_exceptions=fails)
    assert (result.exit_code != 0) == fails, result.output
    return result


def judged(body: dict[str, Any]) -> str:
    """A judge that says what people say, with figures in its rationale."""
    answer = json.loads(body["messages"][-1]["content"].rsplit("Candidate answer: ", 1)[1].split("\n")[0])
    return f"Of 10 references 9 say cat and 1 says lion; the candidate says {answer}.\nRating: {RATED[answer]}"


def test_lave_over_http_against_the_baselines(rated: Path, tmp_path: Path) -> None:
    how = ("--judge", "openai/gpt-4o-mini", "--resamples", 100, "--cache-dir", tmp_path / "cache")
    arguments = (rated, *how, "--json")
    with OpenAIServer(judged) as server:
        first = study(*arguments, "--api-base", server.api_base)
        assert len(server.chats) == 4, "an answer that comes again is not asked about again"
        second = study(*arguments, "--api-base", server.api_base)
        assert len(server.chats) == 4
        assert first.stdout == second.stdout
        changed = study(*arguments, "--api-base", server.api_base, "--seed", 9)
        assert changed.stdout != first.stdout
    report = json.loads(first.stdout)
    assert report["settings"]["seed"] == 0
    found = {record["measure"]: record for record in report["tables"]["correlations"]}
    assert found["LAVE (gpt-4o-mini)"]["Spearman ρ"] == pytest.approx(1.0)
    assert found["VQA accuracy"]["Spearman ρ"] < 0.8
    missed = {record["category"]: record for record in report["tables"]["missed"]}
    assert missed["all"]["answers"] == 6, "kitty, which VQA accuracy misses"
    assert missed["all"]["LAVE (gpt-4o-mini)"] == 1.0
    assert report["answers"][1]["rationales"]["LAVE (gpt-4o-mini)"].endswith("Rating: 3")


def test_what_the_judge_does_not_say_is_counted(rated: Path, tmp_path: Path) -> None:
    def half(body: dict[str, Any]) -> servers.Reply | str:
        said = judged(body)
        return servers.status(400, "no") if "kitty" in said else "No idea." if "mammal" in said else said

    with OpenAIServer(half) as server:
        result = study(
            rated, "--judge", "openai/x", "--resamples", 50, "--json", "--api-base", server.api_base,
            "--cache-dir", tmp_path,
        )  # fmt: skip
    report = json.loads(result.stdout)
    lave = report["tables"]["correlations"][-1]
    assert (lave["answers"], lave["unscored"]) == (12, 12)
    assert any("12 of 24 answers are left out" in note for note in report["notes"])
    assert any("LAVE (x): 6 of 24 unscored: the judge's reply gives no rating" in note for note in report["notes"])
    assert any("LAVE (x): 6 of 24 unscored: the call failed" in note for note in report["notes"])
    assert report["answers"][1]["scores"]["LAVE (x)"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ablations"], "--judge"),
        (["--judge", "nonsense"], "has no provider"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], words: str, rated: Path) -> None:
    result = study(rated, "--resamples", 5, *arguments, fails=True)
    assert isinstance(result.exception, Exception)
    assert words in str(result.exception)
