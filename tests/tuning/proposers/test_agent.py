"""The agent against a server that plays the chat model, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import ModelError, ProposerError
from taxtune.models import RetryPolicy
from taxtune.models.api import ToolCall
from taxtune.recipe import load_recipe
from taxtune.tuning import build as build_module
from taxtune.tuning.build import Setup
from taxtune.tuning.plan import make_plan
from taxtune.tuning.proposers import Goal, Proposal, ProposalFailed, Proposer, make_proposer
from taxtune.tuning.proposers.agent import TOOLS, AgentProposer, AgentTools
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.records import IterationRecord, SampleResult
from tests.servers import (
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    OpenAIServer,
    Reply,
    calls,
    content_filter,
    model_refusal,
    status,
    text,
)
from tests.tuning import templates
from tests.tuning.proposers.answered import BIRDS, rows
from tests.tuning.proposers.histories import goal as make_goal
from tests.tuning.proposers.histories import record

KEY = "sk-test-0123456789-secret"
TRUTHS = ("goldfinch", "chaffinch", "blue jay", "snowy owl", "goldfinch", "snowy owl")
BASELINE, CAREFUL, GOOD = (
    "What is this an image of?",
    "Be careful. Which bird?",
    "Name the group that you are sure of.",
)
SAID = {
    BASELINE: ("a chaffinch", "a goldfinch", "a blue jay", "a finch", "a snowy owl", None),
    CAREFUL: ("a finch", "a finch", "a blue jay", "an owl", "a finch", "an owl"),
    GOOD: ("a goldfinch", "a finch", "a blue jay", "an owl", "a goldfinch", "an owl"),
}


def answered(template: str, images: int = len(TRUTHS)) -> tuple[SampleResult, ...]:
    return tuple(
        rows(BIRDS, list(zip(TRUTHS, SAID.get(template, SAID[CAREFUL]), strict=True))[:images])
    )


MESSAGES = Messages()


class Asked:
    """Asks about drafts, and keeps what it was asked."""

    def __init__(self) -> None:
        self.drafts: list[tuple[str, int]] = []

    def __call__(self, template: str, images: int) -> tuple[SampleResult, ...]:
        self.drafts.append((template, images))
        return answered(template, images)


def goal(ask: Callable[[str, int], tuple[SampleResult, ...]] | None, objective: str = "hp") -> Goal:
    about = ("bird", "What is it?", ["order", "family", "species"], len(TRUTHS))
    known = {"taxonomy": BIRDS, "domain_node": BIRDS.resolve("bird"), "ask": ask}
    return make_goal(objective, 0.3, 1.0, 0.5, *about, **known)


FIRST = replace(record(0, BASELINE, value=0.7, hp=0.7), rows=answered(BASELINE))
SECOND = replace(record(1, CAREFUL, value=0.9, hp=0.9), rows=answered(CAREFUL))
LOST = record(
    2, None, state="failed", reason="The model slept.", rejected=(("{{ x }}", "Unknown variable."),)
)
HISTORY = (FIRST, SECOND, LOST)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def agent(server: OpenAIServer, **settings: Any) -> AgentProposer:
    retry = RetryPolicy(settings.pop("max_retries", 1), first_wait=0.001, longest_wait=0.01)
    return AgentProposer(api_base=server.api_base, api_key=KEY, retry=retry, **settings)


def check(source: str) -> None:
    earlier = [trial.template for trial in HISTORY if trial.template]
    templates.check(source, earlier=earlier, forbidden=TRUTHS)


def propose(
    maker: AgentProposer,
    history: Sequence[IterationRecord] = HISTORY,
    ask: Any = None,
    objective: str = "hp",
) -> Proposal:
    return maker.propose(
        history, goal(ask or Asked(), objective), iteration=len(history), seed=0, check=check
    )


def used(*replies: Reply | str, **how: Any) -> tuple[Proposal, list[Any], OpenAIServer]:
    """Returns a proposal, what the model was told in answer to its calls, and the server."""
    settings = {
        key: how.pop(key) for key in ("max_turns", "trial_images", "max_retries") if key in how
    }
    with OpenAIServer(*replies) as server:
        proposal = propose(agent(server, **settings), **how)
        told = [
            message["content"] for message in server.chats[-1].messages if message["role"] == "tool"
        ]
    return proposal, [json.loads(each) for each in told], server


def submit(template: str = GOOD) -> Reply:
    return calls(("submit", {"template": template}))


# -- the tools ---------------------------------------------------------------------------------------------------------


def test_a_submission_becomes_the_proposal_with_tokens_cost_and_trace():
    proposal, _, server = used(
        calls(("failures", {"iteration": 0}), content="Let me see."), submit()
    )
    assert proposal.template == GOOD
    assert proposal.rejected == ()
    assert (proposal.prompt_tokens, proposal.completion_tokens) == (
        2 * PROMPT_TOKENS,
        2 * COMPLETION_TOKENS,
    )
    assert proposal.cost_usd > 0
    look, done = proposal.trace
    assert (look.tool, json.loads(look.arguments), look.prompt_tokens) == (
        "failures",
        {"iteration": 0},
        PROMPT_TOKENS,
    )
    assert "Where the answers stop" in look.result
    assert (done.tool, json.loads(done.arguments)) == ("submit", {"template": GOOD})
    first, second = server.chats
    assert second.messages[: len(first.messages)] == first.messages
    called, told = second.messages[len(first.messages) :]
    assert called["content"] == "Let me see."
    assert called["tool_calls"][0]["id"] == told["tool_call_id"]


def test_what_the_model_is_told_first():
    _, _, server = used(submit(), trial_images=44, max_turns=7)
    (request,) = server.chats
    system, user = (message["content"] for message in request.messages)
    for words in (
        "hP 1.000 and hR 0.500",
        "# How you work",
        "44 images in all",
        "reply 7 times",
        "Call submit",
    ):
        assert words in system
    assert "in one fenced block, with no word" not in system
    assert BASELINE in user
    assert CAREFUL in user
    offered = {tool["function"]["name"]: tool["function"] for tool in request.json["tools"]}
    assert set(offered) == {"failures", "try_draft", "submit"}
    for tool in offered.values():
        assert tool["description"]
        assert all(each["description"] for each in tool["parameters"]["properties"].values())
    assert offered["try_draft"]["parameters"]["required"] == ["template", "images"]


def test_drafts_are_not_offered_where_they_cannot_be_tried():
    with OpenAIServer(submit()) as server:
        known = replace(goal(Asked()), ask=None)
        agent(server).propose(HISTORY, known, iteration=3, seed=0, check=lambda _: None)
        (request,) = server.chats
    assert {tool["function"]["name"] for tool in request.json["tools"]} == {"failures", "submit"}
    assert "may be tried on" not in request.messages[0]["content"]


def test_failures_are_shown_without_names():
    _, (shown,), _ = used(calls(("failures", {"iteration": 0})), submit())
    assert shown["images"] == 6
    # The two finches are each taken for the other; one owl for a finch, of the other there is no answer.
    for words in (
        "Where the answers stop",
        "sibling: 2 answers",
        "no answer, the call failed: 1 answer",
    ):
        assert words in shown["answers"]
    for name in ("finch", "jay", "owl", "Corvidae", "Fringillidae", "Passeriformes"):
        assert name not in shown["answers"]


def test_a_draft_is_tried_and_only_further_images_are_asked_about():
    ask = Asked()
    proposal, (three, again, all_six), _ = used(
        calls(("try_draft", {"template": GOOD, "images": 3})),
        calls(("try_draft", {"template": GOOD, "images": 2})),
        calls(("try_draft", {"template": GOOD, "images": 6})),
        submit(),
        ask=ask,
        trial_images=10,
    )
    assert proposal.template == GOOD
    assert ask.drafts == [(GOOD, 3), (GOOD, 6)]
    assert (three["images"], three["trial_images_left"]) == (3, 7)
    assert "Where the answers stop" in three["answers"]
    assert (again["images"], again["trial_images_left"]) == (2, 7)
    assert (all_six["images"], all_six["trial_images_left"]) == (6, 4)
    assert all_six["scores"]["hP"]["mean"] == 1.0
    assert all_six["scores"]["hP"]["standard_error"] > 0
    paired = all_six["minus iteration 1"]
    assert paired["images"] == 6
    assert paired["hR"]["difference"] > 0 == paired["hP"]["difference"]
    assert paired["hR"]["low"] <= paired["hR"]["difference"] <= paired["hR"]["high"]
    assert 0 < paired["hR"]["p_value"] <= 1


def test_trial_images_are_bounded():
    ask = Asked()
    proposal, told, server = used(
        calls(("try_draft", {"template": GOOD, "images": 50})),
        calls(("try_draft", {"template": "Which {{ domain }}?", "images": 3})),
        submit(),
        ask=ask,
        trial_images=4,
    )
    assert ask.drafts == [(GOOD, 4)]
    assert told[0]["trial_images_left"] == 0
    assert "No trial images are left" in told[1]["error"]
    assert "try_draft" not in {tool["function"]["name"] for tool in server.chats[1].json["tools"]}
    assert proposal.template == GOOD


def test_a_draft_that_is_refused_is_never_asked():
    ask = Asked()
    proposal, (refused,), _ = used(
        calls(("try_draft", {"template": "Is it a goldfinch?", "images": 3})), submit(), ask=ask
    )
    assert "ground-truth label" in refused["error"]
    assert ask.drafts == []
    ((template, reason),) = proposal.rejected
    assert template == "Is it a goldfinch?"
    assert "ground-truth label" in reason


def test_a_model_out_of_reach_ends_the_run_and_not_the_conversation():
    def ask(template: str, images: int) -> tuple[SampleResult, ...]:
        raise ModelError("The model cannot be reached.", remedy="Continue with --resume.")

    with pytest.raises(ModelError, match="cannot be reached"):
        used(calls(("try_draft", {"template": GOOD, "images": 3})), ask=ask)


@given(
    st.sampled_from([*TOOLS, "sing"]),
    st.text()
    | st.dictionaries(
        st.sampled_from(["template", "images", "iteration", "volume"]),
        st.text() | st.integers() | st.lists(st.integers()),
    ).map(json.dumps),
)
def test_no_call_does_more_harm_than_an_error(name: str, arguments: str):
    tools = AgentTools(HISTORY, goal(Asked()), check, messages=MESSAGES, trial_images=3)
    assert isinstance(json.loads(tools.result(ToolCall("1", name, arguments))), dict)


# -- misbehaviour ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (("sing", {}), "There is no tool 'sing'"),
        (("failures", "{broken"), "Invalid JSON"),
        (("failures", "[1]"), "object"),
        (("failures", {"iteration": 9}), "There is no iteration 9. The last is 2."),
        (("failures", {"iteration": 0, "volume": 11}), "volume: Extra inputs"),
        (("failures", {}), "iteration: Field required"),
        (("failures", {"iteration": "the good one"}), "iteration: Input should be a valid integer"),
        (("failures", {"iteration": 2}), "Iteration 2 asked about no image"),
        (("try_draft", {"template": GOOD, "images": 0}), "images: Input should be greater"),
        (("submit", {"template": "{{ answer }}"}), "unknown variable 'answer'"),
        (("submit", {"template": CAREFUL}), "repeats an earlier one"),
    ],
)
def test_a_bad_call_goes_back_with_the_reason(call: tuple[str, Any], reason: str):
    proposal, (told,), server = used(calls(call), submit())
    assert proposal.template == GOOD
    assert reason in told["error"]
    assert reason in proposal.trace[0].result
    # Providers refuse a conversation with arguments that are not an object.
    sent = server.chats[1].messages[2]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (text("I shall look at the failures first."), "calls no tool"),
        (model_refusal(), "refusal"),
        (content_filter(), "content filter"),
        (text("Half a templ", finish_reason="length"), "cut off"),
        (calls(("submit", '{"template": "Half a'), finish_reason="length"), "cut off"),
    ],
)
def test_a_reply_that_does_nothing_goes_back_with_the_reason(bad: Reply, reason: str):
    proposal, _, server = used(bad, submit(), max_retries=0)
    assert proposal.template == GOOD
    assert proposal.trace[0].tool is None
    said, complaint = server.chats[1].messages[2:]
    assert said["role"] == "assistant"
    assert said["content"]
    assert "tool_calls" not in said
    assert complaint["role"] == "user"
    assert reason in complaint["content"]
    assert "submit" in complaint["content"]


def test_a_model_that_thinks_for_too_long_is_told_apart():
    cut = text("<think>Perhaps", finish_reason="length")
    proposal, _, server = used(cut, cut, submit())
    assert proposal.template == GOOD
    assert "used up before the reply began" in proposal.trace[0].result
    assert [chat.messages for chat in server.chats[1:]] == [server.chats[0].messages] * 2
    with (
        OpenAIServer(cut, cut, cut) as server,
        pytest.raises(ProposalFailed, match=r"Raise proposer\.max_tokens") as caught,
    ):
        propose(agent(server))
    assert caught.value.out_of_reach


def test_several_calls_at_once_are_answered_each_and_nothing_follows_a_submission():
    proposal, told, _ = used(
        calls(*[("failures", {"iteration": 0})] * 10),
        calls(("submit", {"template": GOOD}), ("sing", {})),
    )
    assert ["error" in each for each in told] == [False] * 8 + [True] * 2
    assert "at most 8 calls" in told[-1]["error"]
    assert proposal.template == GOOD
    assert "has been submitted" in proposal.trace[-1].result
    assert [turn.prompt_tokens for turn in proposal.trace[:10]] == [PROMPT_TOKENS] + [0] * 9


def test_a_model_that_never_submits_fails_the_iteration_after_its_turns():
    with OpenAIServer(then=calls(("failures", {"iteration": 0}))) as server:
        with pytest.raises(ProposalFailed, match="no acceptable template in 4 replies") as caught:
            propose(agent(server, max_turns=4))
        *before, last = server.chats
        assert len(before) == 3
    assert "last reply" in last.messages[-1]["content"]
    assert [tool["function"]["name"] for tool in last.json["tools"]] == ["submit"]
    assert "last reply" not in before[-1].messages[-1]["content"]
    failed = caught.value
    assert (failed.spent.prompt_tokens, failed.spent.completion_tokens) == (
        4 * PROMPT_TOKENS,
        4 * COMPLETION_TOKENS,
    )
    assert len(failed.spent.trace) == 4
    assert failed.spent.cost_usd is not None
    assert not failed.final


def test_three_idle_replies_in_a_row_fail_the_iteration():
    with OpenAIServer(calls(("failures", {"iteration": 0})), *["Hm."] * 3) as server:
        with pytest.raises(ProposalFailed, match=r"in 4 replies: .*\(3\) The reply calls no tool"):
            propose(agent(server))
        assert len(server.chats) == 4


def test_a_model_that_stops_answering_fails_the_iteration_with_what_it_had_done():
    with OpenAIServer(calls(("failures", {"iteration": 0})), then=status(500)) as server:
        with pytest.raises(ProposalFailed, match=r"failed \(500\).*after 2 attempts") as caught:
            propose(agent(server))
        assert len(server.chats) == 3
    assert caught.value.out_of_reach
    assert [turn.tool for turn in caught.value.spent.trace] == ["failures"]
    assert caught.value.spent.prompt_tokens == PROMPT_TOKENS


def test_a_conversation_that_becomes_too_long_fails_the_iteration():
    too_long = status(400, "This model's maximum context length is 8192 tokens.")
    with (
        OpenAIServer(calls(("failures", {"iteration": 0})), too_long) as server,
        pytest.raises(ProposalFailed, match="too long") as caught,
    ):
        propose(agent(server))
    assert not caught.value.out_of_reach
    assert caught.value.spent.cost_usd is not None
    assert len(caught.value.spent.trace) == 1
    with (
        OpenAIServer(too_long) as server,
        pytest.raises(ProposerError, match="max_history_tokens") as stopped,
    ):
        propose(agent(server))
    assert not isinstance(stopped.value, ProposalFailed)


# -- records -----------------------------------------------------------------------------------------------------------


def test_the_key_is_in_no_record():
    echoed = calls(("failures", {"iteration": f"draft {KEY}"}), content=f"My key is {KEY}.")
    with OpenAIServer(echoed, submit(f"Which one, {KEY}?"), f"Is it {KEY}?", submit()) as server:
        maker = agent(server)
        proposal = propose(maker)
    assert KEY not in f"{proposal}"
    assert KEY not in json.dumps(maker.identity())
    assert "[key]" in proposal.trace[0].arguments
    assert isinstance(maker, Proposer)


# -- settings ----------------------------------------------------------------------------------------------------------


def test_names_and_recipes_make_it(tmp_path, monkeypatch: pytest.MonkeyPatch):
    made = make_proposer("agent:openai/gpt-4o-mini", max_turns=5)
    assert isinstance(made, AgentProposer)
    assert {
        "kind": "agent",
        "model": "openai/gpt-4o-mini",
        "max_turns": 5,
    }.items() <= made.identity().items()
    with pytest.raises(ModelError, match=r"The model's name is empty"):
        make_proposer("agent:")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    given = "{kind: agent, model: openai/o4}"
    parts = Setup(load_recipe("fieldguide", [f"proposer={given}"]), tmp_path)
    known = build_module.make_proposer(parts.recipe).identity()
    assert known == make_proposer("agent:openai/o4").identity()
    assert KEY not in str(known)
    plan = make_plan(parts)
    assert plan.llm_calls == 12 * (plan.rungs[0].templates - 1)
