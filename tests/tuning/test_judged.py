"""LAVE as an objective: the toy run with a judge behind a real HTTP server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taxtune.errors import ModelError, RecipeError
from taxtune.metrics.statistics import INFORMATION_METRICS, METRICS
from taxtune.models.api_errors import load_litellm
from taxtune.report.html import render_report
from taxtune.tuning.build import Setup
from taxtune.tuning.records import ModelUsage
from tests import servers
from tests.servers import OpenAIServer
from tests.tuning.toy import ToyVLM, compared, make_parts, tuned


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded() -> None:
    load_litellm()


def asked(body: dict[str, Any]) -> tuple[list[str], str, str]:
    """References, answer and question that a judge is shown."""
    last = body["messages"][-1]["content"].rsplit("Now rate this one", 1)[1]
    found = dict(re.findall(r"^(Question|Reference answers|Candidate answer): (.*)$", last, re.M))
    references = [json.loads(text) for text in found["Reference answers"].split("; ")]
    return references, json.loads(found["Candidate answer"]), json.loads(found["Question"])


def judge(body: dict[str, Any]) -> str:
    """A strict judge: only the label itself is right, and what names no colour is ambiguous."""
    references, answer, _ = asked(body)
    said = answer.removeprefix("A: ").rstrip(".")
    rating = 3 if said in references else 2 if said == "colour" else 1
    return f"The candidate names {said}, the 2 references something.\nRating: {rating}"


def session(
    folder: Path, out: Path, server: OpenAIServer | str, *more: str, vlm: ToyVLM | None = None
) -> Setup:
    base = server if isinstance(server, str) else server.api_base
    given = ("judge.model=openai/gpt-4o-mini", f"judge.api_base={base}")
    return make_parts(folder, out, vlm, ("objective.kind=lave", *given, *more))


@pytest.mark.heavy
def test_a_run_is_tuned_for_the_judges_rating(tmp_path: Path) -> None:
    with OpenAIServer(judge) as server:
        run = session(tmp_path / "in", tmp_path / "out", server)
        result = tuned(run, tmp_path / "out")
        calls = len(server.chats)
        questions = {asked(request.json)[2] for request in server.chats}
        references = {tuple(asked(request.json)[0]) for request in server.chats}
        again = session(tmp_path / "in", tmp_path / "out", server)
        resumed = tuned(again, tmp_path / "out", resume=True)
        assert len(server.chats) == calls, "a finished run asks its judge nothing"
    # The recipe's question, whatever the template; the names of the label as references.
    assert questions == {"What is it?"}
    assert references <= {("scarlet",), ("crimson",), ("navy",), ("azure",)}
    # 4 labels and few answers: the same answer to the same label is judged once.
    assert calls <= 4 * 7
    for record in result.iterations:
        assert record.scores is not None
        rows = [row.measures["lave"] for row in record.rows]
        assert record.scores.measures["lave"] == pytest.approx(np.mean(rows))
        assert record.value == record.scores.measures["lave"]
        for row in record.rows:
            exact = row.answer == f"A: {row.truth.rsplit('/', 1)[-1]}."
            assert row.measures["lave"] == (
                1.0 if exact else 0.5 if row.answer == "A: colour." else 0.0
            )
            assert "lave" in row.remarks
            assert "Rating:" in row.remarks["lave"]
    winner = result.iterations[result.winner]
    assert winner.value == max(
        record.value for record in result.iterations if record.value is not None
    )
    # "Be careful" backs off to the family: hP rises and the judge's rating falls.
    careful = [r for r in result.iterations if r.template and "careful" in r.template]
    plain = [
        r
        for r in result.iterations
        if r.template and "careful" not in r.template and "family" not in r.template
    ]
    if careful:
        assert max(r.scores.measures.get("lave", 0) for r in careful if r.scores) <= max(
            r.scores.measures.get("lave", 0) for r in plain if r.scores
        )
    # The held-out images are judged by hP and hR as well.
    for held in result.heldout:
        values = [row.measures["lave"] for row in held.rows]
        assert held.scores.measures["lave"] == pytest.approx(np.mean(values))
        assert (
            held.intervals["lave"].low
            <= held.scores.measures["lave"]
            <= held.intervals["lave"].high
        )
        assert held.scores.hp > 0
    assert set(result.differences[0].metrics) == {
        *METRICS,
        *INFORMATION_METRICS,
        "lave",
        "abstained",
        "off_tree",
        "selective_hp",
    }
    assert resumed.iterations == result.iterations
    assert [held.scores for held in resumed.heldout] == [held.scores for held in result.heldout]
    page = render_report(result)
    assert '<td class="left">LAVE</td>' in page
    assert re.search(r"<small>hP [\d.]+, hR [\d.]+, LAVE [\d.]+, ", page)


@pytest.mark.heavy
def test_what_the_judge_does_not_say_is_missing_and_never_zero(tmp_path: Path) -> None:
    def unsure(body: dict[str, Any]) -> servers.Reply | str:
        references, _, _ = asked(body)
        return "Hard to say." if references == ["crimson"] else judge(body)

    with OpenAIServer(unsure) as server:
        run = session(tmp_path / "in", tmp_path / "out", server, "max_missing=0.6")
        result = tuned(run, tmp_path / "out")
        # It may be raised at any time, as the errors of a run that lacks ratings advise.
        more = session(tmp_path / "in", tmp_path / "out", server, "max_missing=0.7")
        assert tuned(more, tmp_path / "out", resume=True).iterations == result.iterations
        strict = session(tmp_path / "in", tmp_path / "strict", server, "max_missing=0")
        with pytest.raises(ModelError, match=r"no answer or no rating.*holds no rating") as caught:
            tuned(strict, tmp_path / "strict")
        assert "--resume" not in str(caught.value), "to ask again would give the same replies"
        before = len(server.chats)
        baseline = set(
            server.prompts[-len({(row.answer, row.truth) for row in result.iterations[0].rows}) :]
        )
        # As the error says, the run goes on from there; what the judge was asked it is not asked again.
        raised = session(tmp_path / "in", tmp_path / "strict", server, "max_missing=0.6")
        milder = tuned(raised, tmp_path / "strict", resume=True)
        assert baseline.isdisjoint(server.prompts[before:])
    assert milder.iterations[0].scores == result.iterations[0].scores
    record = result.iterations[0]
    unrated = [row for row in record.rows if row.unrated is not None]
    assert {row.truth for row in unrated} == {"colour/reddish/crimson"}
    assert all(row.measures["lave"] is None and row.hp is not None for row in unrated)
    assert record.missing == len(unrated) > 0
    assert record.scores is not None
    assert record.scores.measures["lave"] == pytest.approx(
        np.mean([row.measures["lave"] for row in record.rows if row.measures["lave"] is not None])
    )
    assert result.heldout[0].scores.n == sum(
        "crimson" not in row.truth for row in result.heldout[0].rows
    )


@pytest.mark.heavy
def test_ratings_that_a_finished_run_lacks_are_asked_for_on_resume_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taxtune.models.base.RetryPolicy.wait", lambda *_: 0.0)
    down = [True]

    def judge_but_one(body: dict[str, Any]) -> servers.Reply | str:
        return servers.status(503) if down[0] and asked(body)[0] == ["crimson"] else judge(body)

    with OpenAIServer(judge_but_one) as server:
        result = tuned(
            session(tmp_path / "in", tmp_path / "out", server, "max_missing=0.6"), tmp_path / "out"
        )
        down[0], before = False, len(server.chats)
        for _ in range(2):  # the second time there is nothing left to ask
            again = session(tmp_path / "in", tmp_path / "out", server, "max_missing=0.6")
            usage = tuned(again, tmp_path / "out", resume=True).usage
            assert (
                usage.judge.calls
                == result.usage.judge.calls + len(server.chats) - before
                > result.usage.judge.calls
            )
            assert usage.vlm == result.usage.vlm


def test_a_recipe_needs_a_judge_for_it(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="needs a judge"):
        make_parts(tmp_path / "in", tmp_path / "out", None, ("objective.kind=lave",))
    with pytest.raises(RecipeError, match="needs a judge"):
        compared(make_parts(tmp_path / "in", tmp_path / "out"), ("hp", "lave"))
    with pytest.raises(RecipeError, match="judge"):
        make_parts(tmp_path / "in", tmp_path / "out", None, ("judge.modle=x",))


@pytest.mark.heavy
def test_a_comparison_judges_every_winner(tmp_path: Path) -> None:
    with OpenAIServer(judge) as server:
        run = session(
            tmp_path / "in", tmp_path / "out", server, "iterations=2", "objective.kind=hp"
        )
        result = compared(run, ("hp", "lave"))
    hp, lave = result.runs
    assert all(record.usage.judge == ModelUsage() for record in hp.iterations), (
        "a run for hP asks no judge"
    )
    assert all(
        record.usage.judge.from_store + record.usage.judge.calls > 0 for record in lave.iterations
    )
    assert [held.name for held in result.heldout] == ["baseline", "hp", "lave"]
    assert all("lave" in held.scores.measures for held in result.heldout)
    assert "lave" in result.against("lave", "hp").metrics
    assert "LAVE" in render_report(result)
