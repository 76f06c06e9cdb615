"""A whole run with the agent as its proposer: the chat model is a server, the vision-language model a toy."""

from __future__ import annotations

import json

import pytest

from taxtune.report.html import save_report
from tests.servers import OpenAIServer, calls
from tests.tuning.toy import ToyVLM, toy, tuned

KEY = "sk-a-secret-of-the-run"
CAREFUL = "Be careful. Which {{ domain }} is this?"
FAMILY = "Give only the family."


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def run(server, folder, vlm, *more, resume=False):
    proposer = f"{{kind: agent, model: openai/gpt-4o, api_base: '{server.api_base}'}}"
    given = (f"proposer={proposer}", "iterations=2", "seed=1", *more)
    return tuned(toy(folder, *given, vlm=vlm), resume=resume)


def first_iteration():
    careful = ("try_draft", {"template": CAREFUL, "images": 4})
    family = ("try_draft", {"template": FAMILY, "images": 2})
    look = calls(("failures", {"iteration": 0}))
    return [look, calls(careful, family), calls(("submit", {"template": CAREFUL}))]


def test_a_run_tunes_with_an_agent(tmp_path):
    vlm = ToyVLM(log=tmp_path / "asked")
    with OpenAIServer(*first_iteration(), *["I would rather not."] * 3) as server:
        result = run(server, tmp_path, vlm)
        assert KEY in server.chats[0].headers["authorization"]
    baseline, careful, lost = result.iterations
    assert careful.template == CAREFUL
    assert careful.state == "complete"
    assert careful.feasible
    assert careful.scores.hp > baseline.scores.hp
    assert [turn.tool for turn in careful.trace] == ["failures", "try_draft", "try_draft", "submit"]
    assert all(turn.tool is None for turn in lost.trace)
    assert lost.state == "failed"
    assert len(lost.trace) == 3
    assert "calls no tool" in lost.reason
    assert result.winner == 1
    # The draft's answers are in the store by the time that it is asked about all images.
    assert sum(row.from_store for row in careful.rows) >= 4
    # The other draft's two images are on the iteration's account.
    assert careful.usage.vlm.calls == 8 + 2
    assert careful.usage.tried == 2
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == len(set(asked))
    assert sum(line.startswith("Give only the family.") for line in asked) == 2

    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()
    trial = json.loads(lines[1])["trace"][1]
    assert json.loads(trial["result"])["minus iteration 0"]["hP"]["difference"] > 0
    save_report(result)
    for file in (tmp_path / "run").rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file


def test_an_iteration_that_was_interrupted_begins_anew_and_asks_nothing_twice(tmp_path):
    class Interrupted(ToyVLM):
        def reply(self, question):
            if "family" in question.prompt:
                raise KeyboardInterrupt
            return super().reply(question)

    log = tmp_path / "asked"
    with OpenAIServer(*first_iteration()[:2]) as server:
        with pytest.raises(KeyboardInterrupt):
            run(server, tmp_path, Interrupted(log=log))
        assert sum("careful" in line for line in log.read_text().splitlines()) == 4
        server.enqueue(*first_iteration(), *["I would rather not."] * 3)
        result = run(server, tmp_path, ToyVLM(log=log), resume=True)
    asked = log.read_text().splitlines()
    assert len(asked) == len(set(asked))
    assert [record.state for record in result.iterations] == ["complete", "complete", "failed"]
    assert result.iterations[1].template == CAREFUL


def test_drafts_are_part_of_a_budget_of_calls(tmp_path):
    replies = []
    for i in range(2):
        replies.append(calls(("try_draft", {"template": f"Try {i}: {FAMILY}", "images": 8})))
        replies.append(calls(("submit", {"template": f"Which one? {i}"})))
    with OpenAIServer(*replies) as server:
        result = run(server, tmp_path, ToyVLM(), "iterations=9", "budget.vlm_calls=40")
    # Five templates on eight images: two drafts take the place of two of them.
    assert [record.usage.tried for record in result.iterations] == [0, 8, 8]
