"""The chat-model proposer against a server that misbehaves, over HTTP."""

from __future__ import annotations

import json
from functools import partial

import pytest

from taxtune.errors import ModelError, ProposerError
from taxtune.models import RetryPolicy
from taxtune.tuning.proposers import ProposalFailed, Proposer
from taxtune.tuning.proposers.llm import LLMProposer
from taxtune.tuning.records import Turn
from tests.servers import (
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    OpenAIServer,
    closed_api_base,
    content_filter,
    every_fault,
    model_refusal,
    refusal_text,
    status,
    text,
)
from tests.tuning import templates
from tests.tuning.proposers.histories import goal, record

GOAL = goal()
KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_ADMIN_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "ANTHROPIC_API_KEY",
)
KEY = "sk-test-0123456789-secret"
BASELINE = record(0, "What is this an image of?", hp=0.8, hr=0.7, hf=0.75, accuracy=0.3, value=0.8)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def proposer(api_base, **settings):
    timeout = settings.pop("timeout", 10.0)
    retry = RetryPolicy(2, first_wait=0.001, longest_wait=0.01, timeout=timeout)
    return LLMProposer(**{"api_base": api_base, "api_key": KEY, "retry": retry, **settings})


def propose(maker, history=(BASELINE,), goal=GOAL):
    earlier = [trial.template for trial in history if trial.template]
    check = partial(templates.check, earlier=earlier, forbidden=["mallard"])
    return maker.propose(history, goal, iteration=len(history), seed=0, check=check)


def failing(server, error, match="", **settings):
    """Returns the error that a proposal ends with."""
    with pytest.raises(error, match=match) as caught:
        propose(proposer(server.api_base, **settings))
    return caught.value


def fenced(template):
    return f"```\n{template}\n```"


def test_a_good_reply_becomes_the_template_with_tokens_and_cost():
    with OpenAIServer(text("```jinja2\nWhich {{ domain }}?\n```")) as server:
        proposal = propose(proposer(server.api_base))
    assert proposal.template == "Which {{ domain }}?"
    assert proposal.prompt_tokens == PROMPT_TOKENS
    assert proposal.completion_tokens == COMPLETION_TOKENS
    assert proposal.cost_usd > 0
    assert proposal.rejected == ()
    said = "```jinja2\nWhich {{ domain }}?\n```"
    assert proposal.trace == (Turn(None, said, "accepted", PROMPT_TOKENS, COMPLETION_TOKENS),)


def test_the_seed_that_is_sent_depends_on_the_iteration():
    with OpenAIServer(then=fenced("Which {{ domain }}?")) as server:
        maker = proposer(server.api_base)
        for history in ((BASELINE,), (BASELINE,), (BASELINE, record(1, None, state="failed"))):
            propose(maker, history)
        first, again, later = (request.json["seed"] for request in server.chats)
    assert first == again != later


def test_the_history_keeps_to_its_budget():
    wings = "look closely at the wings " * 20
    history = tuple(record(i, f"Ask number {i}: {wings}", value=i / 100) for i in range(40))
    with OpenAIServer(fenced("Which {{ domain }}?")) as server:
        maker = proposer(server.api_base, max_history_tokens=500)
        propose(maker, history)
        user = server.chats[0].messages[1]["content"]
    assert maker._chat.count_tokens(user) < 600
    assert "Ask number 39" in user
    assert "more were tried" in user


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (refusal_text(), "no template in a fence"),
        (text("Half a templ", finish_reason="length"), "cut off"),
        (text("```\na b\n```\n```\nc d\n```"), "2 different blocks"),
        (text(fenced("{{ answer }}")), "unknown variable 'answer'"),
        (text(fenced("What is  this an image of?\n")), "repeats"),
        (text(fenced("{{ question }}")), "same prompt"),
        (text(fenced("Is it a Mallard or what?")), "ground-truth label"),
    ],
)
def test_a_bad_reply_goes_back_with_the_reason(bad, reason):
    with OpenAIServer(bad, fenced("Which {{ domain }} is it?")) as server:
        proposal = propose(proposer(server.api_base))
        first, second = server.chats
    assert proposal.template == "Which {{ domain }} is it?"
    ((_, why),) = proposal.rejected
    assert reason in why
    assert proposal.prompt_tokens == 2 * PROMPT_TOKENS
    assert second.messages[:2] == first.messages
    answer, complaint = second.messages[2:]
    assert answer["role"] == "assistant"
    assert answer["content"]
    assert complaint["role"] == "user"
    assert why in complaint["content"]


class TestReasoningModels:
    THOUGHTS = "Perhaps this:\n```\nWhich {{ domain }} did I think of?\n```"

    @pytest.mark.parametrize(
        "cut",
        [
            text("", finish_reason="length"),
            text(None, finish_reason="length", reasoning=THOUGHTS),
            text(f"<think>{THOUGHTS}", finish_reason="length"),
            text(f"<think>{THOUGHTS}</think>", finish_reason="length"),
        ],
    )
    def test_a_reply_that_was_cut_off_before_it_began_is_asked_for_again(self, cut):
        with OpenAIServer(cut, cut, fenced("Which {{ domain }} is it?")) as server:
            proposal = propose(proposer(server.api_base))
            first, *later = server.chats
        assert proposal.template == "Which {{ domain }} is it?"
        # Nothing was said that could be shorter.
        assert [request.messages for request in later] == [first.messages] * 2
        assert len({first.json["seed"], *(request.json["seed"] for request in later)}) == 3
        assert [reason for _, reason in proposal.rejected] == [
            f"All {COMPLETION_TOKENS} tokens were used up before the reply began, as reasoning models do. "
            "Raise proposer.max_tokens, or choose a model that reasons less."
        ] * 2
        assert proposal.completion_tokens == 3 * COMPLETION_TOKENS

    def test_one_that_never_begins_fails_the_iteration_like_a_model_that_does_not_answer(self):
        with OpenAIServer(then=text("", finish_reason="length", reasoning=self.THOUGHTS)) as server:
            words = r"used up before the reply .*Raise proposer.max_tokens"
            failed = failing(server, ProposalFailed, words, max_tokens=500)
            assert len(server.chats) == 3
        # The loop stops a run where that goes on.
        assert failed.out_of_reach
        assert failed.spent.completion_tokens == 3 * COMPLETION_TOKENS


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (model_refusal(), "The reply is a refusal"),
        (content_filter(), "The provider's content filter"),
        (
            status(400, "Filtered, as the prompt triggers our content management policy."),
            "The provider's content filter",
        ),
    ],
)
def test_a_refusal_goes_back_when_it_comes_twice(bad, reason):
    with OpenAIServer(bad, fenced("Which {{ domain }}?")) as server:
        assert propose(proposer(server.api_base)).rejected == ()
    with OpenAIServer(bad, bad, fenced("Which {{ domain }}?")) as server:
        proposal = propose(proposer(server.api_base))
        assert len(server.chats) == 3
    ((_, why),) = proposal.rejected
    assert why.startswith(reason)


def test_three_bad_replies_fail_the_iteration_and_count_their_cost():
    with OpenAIServer("<!DOCTYPE html>", refusal_text(), fenced("{{ answer }}")) as server:
        failed = failing(server, ProposalFailed)
        assert len(server.chats) == 3
    assert "3 replies" in failed.reason
    assert "(1) The reply holds no template" in failed.reason
    assert "(2) The reply holds no template" in failed.reason
    assert "(3) Line 1: unknown variable" in failed.reason
    assert [turn.result for turn in failed.spent.trace] == [
        reason for _, reason in failed.spent.rejected
    ]
    assert len(failed.spent.rejected) == 3
    assert failed.spent.prompt_tokens == 3 * PROMPT_TOKENS
    assert failed.spent.completion_tokens == 3 * COMPLETION_TOKENS
    assert failed.spent.cost_usd is not None
    assert not failed.final
    assert not failed.out_of_reach


FAULTS = every_fault(5, KEY)


@pytest.mark.parametrize(
    ("trouble", "calls", "words"),
    [
        (status(401), 1, ["rejected the key", "401", "OPENAI_API_KEY"]),
        (status(404), 1, ["not found", "model's name"]),
        (
            status(400, "This model's maximum context length is 8192 tokens."),
            1,
            ["too long", "max_history_tokens"],
        ),
        (status(429, "You exceeded your current quota"), 1, ["no credit", "quota", "--resume"]),
    ],
)
def test_what_does_not_pass_stops_the_run(trouble, calls, words):
    with OpenAIServer(then=trouble) as server:
        stopped = failing(server, ProposerError)
        assert len(server.chats) == calls
        where = server.api_base
    assert not isinstance(stopped, ProposalFailed)
    message = str(stopped)
    for word in (*words, where, "openai/gpt-4o"):
        assert word in message
    assert "litellm" not in message
    assert len(message) < 700


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (FAULTS["server_error"][0], r"failed \(500\)"),
        (FAULTS["timeout"][0], "did not answer in time"),
        (FAULTS["lost_connection"][0], "cannot be reached"),
    ],
)
def test_a_model_that_does_not_answer_fails_the_iteration(trouble, reason):
    with OpenAIServer(fenced("{{ answer }}"), then=trouble) as server:
        timeout = 0.3 if trouble.delay else 10
        words = rf"{reason}.*, after 3 attempts"
        failed = failing(server, ProposalFailed, words, timeout=timeout)
        assert len(server.chats) == 4
        assert server.api_base in failed.reason
    assert failed.out_of_reach
    assert len(failed.spent.rejected) == 1, "what came before is kept"
    assert failed.spent.prompt_tokens >= PROMPT_TOKENS
    assert KEY not in failed.reason


class TestKeys:
    def test_check_tells_before_anything_is_asked(self, monkeypatch):
        with pytest.raises(ProposerError, match="OPENAI_API_KEY is not set"):
            proposer(None, api_key=None).check()
        with pytest.raises(ModelError, match="has no provider"):
            proposer(None, model="nonsense").check()
        proposer(None).check()
        proposer(closed_api_base(), api_key=None).check()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
        proposer(None, api_key=None).check()

    def test_the_key_is_in_no_message_and_no_record(self, capfd):
        with OpenAIServer(then=status(401, f"Incorrect API key provided: {KEY}")) as server:
            maker = proposer(server.api_base)
            with pytest.raises(ProposerError) as caught:
                propose(maker)
        out, err = capfd.readouterr()
        assert "[key]" in str(caught.value)
        for shown in (str(caught.value), repr(maker._chat), json.dumps(maker.identity()), out, err):
            assert KEY not in shown
        assert out == ""


def test_identity_tells_what_can_change_a_proposal_and_no_password():
    maker = proposer("http://me:pass@127.0.0.1:1/v1")
    identity = maker.identity()
    assert identity["api_base"] == "http://127.0.0.1:1/v1"
    assert identity["model"] == "openai/gpt-4o"
    assert identity != proposer("http://127.0.0.1:1/v1", temperature=0.1).identity()
    assert isinstance(maker, Proposer)
    assert "pass" not in repr(maker._chat)
