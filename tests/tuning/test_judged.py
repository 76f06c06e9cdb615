"""LAVE as an objective: the toy run with a judge behind a real HTTP server."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from taxtune.errors import ModelError, RecipeError
from taxtune.metrics.statistics import INFORMATION_METRICS, METRICS
from taxtune.models.api_errors import load_litellm
from taxtune.report.html import render_report
from taxtune.tuning.records import ModelUsage
from tests import servers
from tests.servers import OpenAIServer
from tests.tuning.toy import compared, toy, tuned


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded():
    load_litellm()


def asked(body):
    """References, answer and question that a judge is shown."""
    last = body["messages"][-1]["content"].rsplit("Now rate this one", 1)[1]
    found = dict(re.findall(r"^(Question|Reference answers|Candidate answer): (.*)$", last, re.M))
    references = [json.loads(text) for text in found["Reference answers"].split("; ")]
    return references, json.loads(found["Candidate answer"]), json.loads(found["Question"])


def judge(body):
    """A strict judge: only the label itself is right, and what names no colour is ambiguous."""
    references, answer, _ = asked(body)
    said = answer.removeprefix("A: ").rstrip(".")
    rating = 1
    if said in references:
        rating = 3
    elif said == "colour":
        rating = 2
    return f"The candidate names {said}, the 2 references something.\nRating: {rating}"


def judged(folder, server, *overrides, out="run"):
    asking = ("judge.model=openai/gpt-4o-mini", f"judge.api_base={server.api_base}")
    return toy(folder, "objective.kind=lave", *asking, *overrides, out=out)


def expected_rating(row):
    """Returns the rating of the judge."""
    if row.answer == f"A: {row.truth.rsplit('/', 1)[-1]}.":
        return 1.0
    return 0.5 if row.answer == "A: colour." else 0.0


def lave_of(records):
    """Returns the ratings of those templates that have some."""
    return [record.scores.measures["lave"] for record in records if record.scores]


@pytest.mark.heavy
def test_a_run_is_tuned_for_the_judges_rating(tmp_path):
    with OpenAIServer(judge) as server:
        result = tuned(judged(tmp_path, server))
        calls = len(server.chats)
        questions = {asked(request.json)[2] for request in server.chats}
        references = {tuple(asked(request.json)[0]) for request in server.chats}
        resumed = tuned(judged(tmp_path, server), resume=True)
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
            assert row.measures["lave"] == expected_rating(row)
            assert "Rating:" in row.remarks["lave"]
    values = [record.value for record in result.iterations if record.value is not None]
    assert result.iterations[result.winner].value == max(values)
    # "Be careful" backs off to the family: hP rises and the judge's rating falls.
    careful = [r for r in result.iterations if r.template and "careful" in r.template]
    others = [r for r in result.iterations if r.template and r not in careful]
    plain = [record for record in others if "family" not in record.template]
    if careful:
        assert max(lave_of(careful)) <= max(lave_of(plain))
    # The held-out images are judged by hP and hR as well.
    for held in result.heldout:
        mean = held.scores.measures["lave"]
        assert mean == pytest.approx(np.mean([row.measures["lave"] for row in held.rows]))
        assert held.intervals["lave"].low <= mean <= held.intervals["lave"].high
        assert held.scores.hp > 0
    others = {"lave", "abstained", "off_tree", "selective_hp"}
    assert set(result.differences[0].metrics) == {*METRICS, *INFORMATION_METRICS, *others}
    assert resumed.iterations == result.iterations
    assert [held.scores for held in resumed.heldout] == [held.scores for held in result.heldout]
    page = render_report(result)
    assert '<td class="left">LAVE</td>' in page
    assert re.search(r"<small>hP [\d.]+, hR [\d.]+, LAVE [\d.]+, ", page)


@pytest.mark.heavy
def test_what_the_judge_does_not_say_is_missing_and_never_zero(tmp_path):
    def unsure(body):
        references, _, _ = asked(body)
        return "Hard to say." if references == ["crimson"] else judge(body)

    with OpenAIServer(unsure) as server:
        result = tuned(judged(tmp_path, server, "max_missing=0.6"))
        # It may be raised at any time, as the errors of a run that lacks ratings advise.
        more = tuned(judged(tmp_path, server, "max_missing=0.7"), resume=True)
        assert more.iterations == result.iterations
        strict = judged(tmp_path, server, "max_missing=0", out="strict")
        with pytest.raises(ModelError, match=r"no answer or no rating.*holds no rating") as caught:
            tuned(strict)
        assert "--resume" not in str(caught.value), "to ask again would give the same replies"
        before = len(server.chats)
        rated = {(row.answer, row.truth) for row in result.iterations[0].rows}
        baseline = set(server.prompts[-len(rated) :])
        # As the error says, the run goes on from there; what the judge was asked it is not asked again.
        milder = tuned(judged(tmp_path, server, "max_missing=0.6", out="strict"), resume=True)
        assert baseline.isdisjoint(server.prompts[before:])
    assert milder.iterations[0].scores == result.iterations[0].scores
    record = result.iterations[0]
    unrated = [row for row in record.rows if row.unrated is not None]
    assert {row.truth for row in unrated} == {"colour/reddish/crimson"}
    for row in unrated:
        assert row.measures["lave"] is None
        assert row.hp is not None
    assert record.missing == len(unrated) > 0
    assert record.scores is not None
    ratings = [row.measures["lave"] for row in record.rows if row.unrated is None]
    assert record.scores.measures["lave"] == pytest.approx(np.mean(ratings))
    held = result.heldout[0]
    assert held.scores.n == len([row for row in held.rows if "crimson" not in row.truth])


@pytest.mark.heavy
def test_ratings_that_a_finished_run_lacks_are_asked_for_on_resume_and_counted(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("taxtune.models.base.RetryPolicy.wait", lambda *_: 0.0)
    down = [True]

    def judge_but_one(body):
        return servers.status(503) if down[0] and asked(body)[0] == ["crimson"] else judge(body)

    with OpenAIServer(judge_but_one) as server:
        usage = tuned(judged(tmp_path, server, "max_missing=0.6")).usage
        down[0] = False
        before = len(server.chats)
        for _ in range(2):  # the second time there is nothing left to ask
            again = tuned(judged(tmp_path, server, "max_missing=0.6"), resume=True).usage
            asked_again = len(server.chats) - before
            assert asked_again > 0
            assert again.judge.calls == usage.judge.calls + asked_again
            assert again.vlm == usage.vlm


def test_a_recipe_needs_a_judge_for_it(tmp_path):
    with pytest.raises(RecipeError, match="needs a judge"):
        toy(tmp_path, "objective.kind=lave")
    with pytest.raises(RecipeError, match="needs a judge"):
        compared(toy(tmp_path), ("hp", "lave"))
    with pytest.raises(RecipeError, match="judge"):
        toy(tmp_path, "judge.modle=x")


@pytest.mark.heavy
def test_a_comparison_judges_every_winner(tmp_path):
    with OpenAIServer(judge) as server:
        parts = judged(tmp_path, server, "iterations=2", "objective.kind=hp")
        result = compared(parts, ("hp", "lave"))
    hp, lave = result.runs
    for record in hp.iterations:
        assert record.usage.judge == ModelUsage(), "a run for hP asks no judge"
    for record in lave.iterations:
        assert record.usage.judge.from_store + record.usage.judge.calls > 0
    assert [held.name for held in result.heldout] == ["baseline", "hp", "lave"]
    for held in result.heldout:
        assert "lave" in held.scores.measures
    assert "lave" in result.against("lave", "hp").metrics
    assert "LAVE" in render_report(result)
