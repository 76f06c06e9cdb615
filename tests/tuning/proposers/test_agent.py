"""The agent against a server that plays the chat model, over HTTP."""

from __future__ import annotations

import json

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
from taxtune.tuning.proposers import ProposalFailed, Proposer, make_proposer
from taxtune.tuning.proposers.agent import TOOLS, AgentProposer, AgentTools
from taxtune.tuning.proposers.messages import Messages
from tests.servers import (
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    OpenAIServer,
    calls,
    content_filter,
    model_refusal,
    status,
    text,
)
from tests.tuning import templates
from tests.tuning.proposers.answered import bird_rows
from tests.tuning.proposers.histories import bird_goal, record

KEY = "sk-test-0123456789-secret"
TRUTHS = ("goldfinch", "chaffinch", "blue jay", "snowy owl", "goldfinch", "snowy owl")
BASELINE = "What is this an image of?"
CAREFUL = "Be careful. Which bird?"
GOOD = "Name the group that you are sure of."
SAID = {
    BASELINE: ("a chaffinch", "a goldfinch", "a blue jay", "a finch", "a snowy owl", None),
    CAREFUL: ("a finch", "a finch", "a blue jay", "an owl", "a finch", "an owl"),
    GOOD: ("a goldfinch", "a finch", "a blue jay", "an owl", "a goldfinch", "an owl"),
}


def answered(template, images=6):
    answers = SAID.get(template, SAID[CAREFUL])
    return bird_rows(list(zip(TRUTHS, answers, strict=True))[:images])


class Asked:
    """Asks about drafts, and keeps what it was asked."""

    def __init__(self):
        self.drafts: list[tuple[str, int]] = []

    def __call__(self, template, images):
        self.drafts.append((template, images))
        return answered(template, images)


def goal(ask):
    return bird_goal(question="What is it?", tuning_images=len(TRUTHS), ask=ask)


FIRST = record(0, BASELINE, value=0.7, hp=0.7, rows=answered(BASELINE))
SECOND = record(1, CAREFUL, value=0.9, hp=0.9, rows=answered(CAREFUL))
LOST = record(
    2, None, state="failed", reason="The model slept.", rejected=(("{{ x }}", "Unknown variable."),)
)
HISTORY = (FIRST, SECOND, LOST)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def agent(server, **settings):
    retry = RetryPolicy(settings.pop("max_retries", 1), first_wait=0.001, longest_wait=0.01)
    return AgentProposer(api_base=server.api_base, api_key=KEY, retry=retry, **settings)


def check(source):
    earlier = [trial.template for trial in HISTORY if trial.template]
    templates.check(source, earlier=earlier, forbidden=TRUTHS)


def propose(maker, ask=None):
    known = goal(ask or Asked())
    return maker.propose(HISTORY, known, iteration=len(HISTORY), seed=0, check=check)


def used(*replies, ask=None, **settings):
    """Returns a proposal, what the model was told in answer to its calls, and the server."""
    with OpenAIServer(*replies) as server:
        proposal = propose(agent(server, **settings), ask=ask)
    results = []
    for message in server.chats[-1].messages:
        if message["role"] == "tool":
            results.append(json.loads(message["content"]))
    return proposal, results, server


def failing(
    error,
    match,
    *replies,
    then=None,
    **settings,
):
    """Returns the error that ends the conversation, and the server."""
    with OpenAIServer(*replies, then=then) as server, pytest.raises(error, match=match) as caught:
        propose(agent(server, **settings))
    return caught.value, server


def offered(request):
    """Returns the tools that a request offers, by name."""
    return {tool["function"]["name"]: tool["function"] for tool in request.json["tools"]}


FAILURES = calls(("failures", {"iteration": 0}))


def draft(images, template=GOOD):
    return calls(("try_draft", {"template": template, "images": images}))


def submit(template=GOOD):
    return calls(("submit", {"template": template}))


# -- the tools ---------------------------------------------------------------------------------------------------------


def test_a_submission_becomes_the_proposal_with_tokens_cost_and_trace():
    look_first = calls(("failures", {"iteration": 0}), content="Let me see.")
    proposal, _, server = used(look_first, submit())
    assert proposal.template == GOOD
    assert proposal.rejected == ()
    assert proposal.prompt_tokens == 2 * PROMPT_TOKENS
    assert proposal.completion_tokens == 2 * COMPLETION_TOKENS
    assert proposal.cost_usd > 0
    look, done = proposal.trace
    assert look.tool == "failures"
    assert json.loads(look.arguments) == {"iteration": 0}
    assert look.prompt_tokens == PROMPT_TOKENS
    assert "Where the answers stop" in look.result
    assert done.tool == "submit"
    assert json.loads(done.arguments) == {"template": GOOD}
    first, second = server.chats
    assert second.messages[: len(first.messages)] == first.messages
    called, told = second.messages[len(first.messages) :]
    assert called["content"] == "Let me see."
    assert called["tool_calls"][0]["id"] == told["tool_call_id"]


def test_what_the_model_is_told_first():
    _, _, server = used(submit(), trial_images=44, max_turns=7)
    (request,) = server.chats
    system, user = (message["content"] for message in request.messages)
    assert "hP 1.000 and hR 0.500" in system
    assert "# How you work" in system
    assert "44 images in all" in system
    assert "reply 7 times" in system
    assert "Call submit" in system
    assert "in one fenced block, with no word" not in system
    assert BASELINE in user
    assert CAREFUL in user
    tools = offered(request)
    assert set(tools) == {"failures", "try_draft", "submit"}
    for tool in tools.values():
        assert tool["description"]
        for parameter in tool["parameters"]["properties"].values():
            assert parameter["description"]
    assert tools["try_draft"]["parameters"]["required"] == ["template", "images"]


def test_drafts_are_not_offered_where_they_cannot_be_tried():
    with OpenAIServer(submit()) as server:
        agent(server).propose(HISTORY, goal(None), iteration=3, seed=0, check=lambda _: None)
        (request,) = server.chats
    assert set(offered(request)) == {"failures", "submit"}
    assert "may be tried on" not in request.messages[0]["content"]


def test_failures_are_shown_without_names():
    _, (shown,), _ = used(FAILURES, submit())
    assert shown["images"] == 6
    # The two finches are each taken for the other; one owl for a finch, of the other there is no answer.
    assert "Where the answers stop" in shown["answers"]
    assert "sibling: 2 answers" in shown["answers"]
    assert "no answer, the call failed: 1 answer" in shown["answers"]
    for name in ("finch", "jay", "owl", "Corvidae", "Fringillidae", "Passeriformes"):
        assert name not in shown["answers"]


def test_a_draft_is_tried_and_only_further_images_are_asked_about():
    ask = Asked()
    trials = (draft(3), draft(2), draft(6))
    proposal, tried, _ = used(*trials, submit(), ask=ask, trial_images=10)
    assert proposal.template == GOOD
    assert ask.drafts == [(GOOD, 3), (GOOD, 6)]
    assert [trial["images"] for trial in tried] == [3, 2, 6]
    assert [trial["trial_images_left"] for trial in tried] == [7, 7, 4]
    assert "Where the answers stop" in tried[0]["answers"]
    precision = tried[2]["scores"]["hP"]
    assert precision["mean"] == 1.0
    assert precision["standard_error"] > 0
    paired = tried[2]["minus iteration 1"]
    assert paired["images"] == 6
    assert paired["hP"]["difference"] == 0
    recall = paired["hR"]
    assert recall["difference"] > 0
    assert recall["low"] <= recall["difference"] <= recall["high"]
    assert 0 < recall["p_value"] <= 1


def test_trial_images_are_bounded():
    ask = Asked()
    trials = (draft(50), draft(3, "Which {{ domain }}?"))
    proposal, told, server = used(*trials, submit(), ask=ask, trial_images=4)
    assert ask.drafts == [(GOOD, 4)]
    assert told[0]["trial_images_left"] == 0
    assert "No trial images are left" in told[1]["error"]
    assert "try_draft" not in offered(server.chats[1])
    assert proposal.template == GOOD


def test_a_draft_that_is_refused_is_never_asked():
    ask = Asked()
    proposal, (refused,), _ = used(draft(3, "Is it a goldfinch?"), submit(), ask=ask)
    assert "ground-truth label" in refused["error"]
    assert ask.drafts == []
    ((template, reason),) = proposal.rejected
    assert template == "Is it a goldfinch?"
    assert "ground-truth label" in reason


def test_a_model_out_of_reach_ends_the_run_and_not_the_conversation():
    def ask(template, images):
        raise ModelError("The model cannot be reached.", remedy="Continue with --resume.")

    with pytest.raises(ModelError, match="cannot be reached"):
        used(draft(3), ask=ask)


VALUES = st.text() | st.integers() | st.lists(st.integers())
ARGUMENTS = st.dictionaries(st.sampled_from(["template", "images", "iteration", "volume"]), VALUES)


@given(st.sampled_from([*TOOLS, "sing"]), st.text() | ARGUMENTS.map(json.dumps))
def test_no_call_does_more_harm_than_an_error(name, arguments):
    tools = AgentTools(HISTORY, goal(Asked()), check, messages=Messages(), trial_images=3)
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
def test_a_bad_call_goes_back_with_the_reason(call, reason):
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
def test_a_reply_that_does_nothing_goes_back_with_the_reason(bad, reason):
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
    failed, _ = failing(ProposalFailed, r"Raise proposer\.max_tokens", cut, cut, cut)
    assert failed.out_of_reach


def test_several_calls_at_once_are_answered_each_and_nothing_follows_a_submission():
    ten = calls(*[("failures", {"iteration": 0})] * 10)
    proposal, told, _ = used(ten, calls(("submit", {"template": GOOD}), ("sing", {})))
    assert ["error" in each for each in told] == [False] * 8 + [True] * 2
    assert "at most 8 calls" in told[-1]["error"]
    assert proposal.template == GOOD
    assert "has been submitted" in proposal.trace[-1].result
    assert [turn.prompt_tokens for turn in proposal.trace[:10]] == [PROMPT_TOKENS] + [0] * 9


def test_a_model_that_never_submits_fails_the_iteration_after_its_turns():
    failed, server = failing(
        ProposalFailed, "no acceptable template in 4 replies", then=FAILURES, max_turns=4
    )
    *before, last = server.chats
    assert len(before) == 3
    assert "last reply" in last.messages[-1]["content"]
    assert list(offered(last)) == ["submit"]
    assert "last reply" not in before[-1].messages[-1]["content"]
    assert failed.spent.prompt_tokens == 4 * PROMPT_TOKENS
    assert failed.spent.completion_tokens == 4 * COMPLETION_TOKENS
    assert len(failed.spent.trace) == 4
    assert failed.spent.cost_usd is not None
    assert not failed.final


def test_three_idle_replies_in_a_row_fail_the_iteration():
    words = r"in 4 replies: .*\(3\) The reply calls no tool"
    _, server = failing(ProposalFailed, words, FAILURES, "Hm.", "Hm.", "Hm.")
    assert len(server.chats) == 4


def test_a_model_that_stops_answering_fails_the_iteration_with_what_it_had_done():
    words = r"failed \(500\).*after 2 attempts"
    failed, server = failing(ProposalFailed, words, FAILURES, then=status(500))
    assert len(server.chats) == 3
    assert failed.out_of_reach
    assert [turn.tool for turn in failed.spent.trace] == ["failures"]
    assert failed.spent.prompt_tokens == PROMPT_TOKENS


def test_a_conversation_that_becomes_too_long_fails_the_iteration():
    too_long = status(400, "This model's maximum context length is 8192 tokens.")
    failed, _ = failing(ProposalFailed, "too long", FAILURES, too_long)
    assert not failed.out_of_reach
    assert failed.spent.cost_usd is not None
    assert len(failed.spent.trace) == 1
    stopped, _ = failing(ProposerError, "max_history_tokens", too_long)
    assert not isinstance(stopped, ProposalFailed)


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


def test_names_and_recipes_make_it(tmp_path, monkeypatch):
    made = make_proposer("agent:openai/gpt-4o-mini", max_turns=5)
    assert isinstance(made, AgentProposer)
    identity = made.identity()
    assert identity["kind"] == "agent"
    assert identity["model"] == "openai/gpt-4o-mini"
    assert identity["max_turns"] == 5
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
