from __future__ import annotations

import base64
import io
import itertools
import os
import re
import signal
import threading
from dataclasses import replace

import pytest
from PIL import Image

from taxtune.data import content_hash, load_image
from taxtune.errors import ModelError
from taxtune.models import (
    AnswerStore,
    Failure,
    ModelSettings,
    Request,
    RetryPolicy,
    ask,
    count_faults,
)
from taxtune.models.api import ApiModel
from taxtune.models.calls import as_completed
from tests import servers
from tests.models.replies import KEY, api_model, exchange, texts
from tests.servers import OpenAIServer

pytestmark = pytest.mark.usefixtures("litellm")


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "bird.png"
    Image.linear_gradient("L").resize((64, 48)).save(path)
    return path


@pytest.fixture
def asked(image):
    return Request("What bird is this?", image, content_hash(image))


def failure(reply):
    assert isinstance(reply, Failure), reply
    assert KEY not in reply.reason
    assert "data:image" not in reply.reason
    assert "\n" not in reply.reason
    return reply


def numbered(asked, count):
    return [Request(f"{asked.prompt} {i}", asked.image, asked.image_sha256) for i in range(count)]


# -- a good call -------------------------------------------------------------------------------------------------------


def test_an_answer_with_its_tokens_and_cost(asked):
    reply = servers.text(" A: a robin.\n", prompt_tokens=120, completion_tokens=6)
    [answer], _, _ = exchange([asked], reply)
    assert answer.text == "A: a robin."
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached) == (120, 6, False)
    assert answer.cost_usd == pytest.approx(120 * 2.5e-6 + 6 * 10e-6)  # GPT-4o's price a token
    assert answer.seconds > 0


@pytest.mark.parametrize(
    ("settings", "seed"),
    [
        ({"temperature": 0.5, "seed": 3}, 3),
        ({"temperature": 0.5}, None),
        ({"temperature": 0.0, "seed": 3}, None),
    ],
)
def test_a_seed_is_sent_where_answers_are_sampled_and_tells_stored_ones_apart(
    asked, settings, seed
):
    _, [chat], _ = exchange([asked], "x", **settings)
    assert chat.json.get("seed") == seed
    assert api_model("http://host/v1", **settings).identity.get("seed") == seed


def test_a_request_holds_prompt_image_and_decoding(asked):
    _, [request], _ = exchange([asked], "x", max_tokens=17, temperature=0.5)
    [user] = request.messages
    picture, text = user["content"]
    assert text == {"type": "text", "text": "What bird is this?"}
    head, _, data = picture["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    sent = Image.open(io.BytesIO(base64.b64decode(data)))
    assert sent.tobytes() == load_image(asked.image).tobytes()
    assert request.json["temperature"] == 0.5
    assert 17 in (request.json.get("max_tokens"), request.json.get("max_completion_tokens"))
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_replies_are_streamed_and_a_slow_one_holds_up_no_other(asked):
    def script(body):
        prompt = body["messages"][-1]["content"][1]["text"]
        return servers.slow(60) if prompt.endswith(" 0") else prompt

    with OpenAIServer(script) as server:
        stream = api_model(server, concurrency=2, timeout=90).stream(numbered(asked, 30))
        assert [next(stream)[0] for _ in range(29)] == list(range(1, 30))
        stream.close()


# -- what may pass is tried again --------------------------------------------------------------------------------------


SECRET = KEY + "-in-the-reply"
FAULTS = [("server_error", servers.status(502)), ("server_error", servers.html(code=502))]
FAULTS += [("malformed_response", servers.no_choices(choices=choices)) for choices in ([], [{}])]
for kind, replies in servers.every_fault(5, SECRET).items():
    FAULTS += [(kind, reply) for reply in replies]
IDS = [f"{kind}-{i}" for i, (kind, _) in enumerate(FAULTS)]
ONCE_MORE = ("refusal", "content_filter")
REASONS = {
    "rate_limit": "over its rate limit",
    "server_error": r"failed \(50\d\)",
    "timeout": "did not answer in time",
    "lost_connection": "cannot be reached",
    "malformed_response": "not a chat completion|a web page instead of an answer; check `api_base`|without choices",
    "empty_text": "returned an empty answer",
    "refusal": "refused: I can't assist",
    "content_filter": "content filter",
}


@pytest.mark.parametrize(("kind", "bad"), list(dict(FAULTS).items()), ids=dict(FAULTS))
def test_what_passes_is_tried_again_and_counted(kind, bad, asked):
    times = 1 if kind in ONCE_MORE else 2
    script = [*[bad] * times, "A: a robin."]
    replies, chats, faults = exchange([asked], *script, timeout=0.5 if bad.delay else 10)
    assert len(chats) == times + 1
    assert texts(replies) == ["A: a robin."]
    assert faults == {kind: times}


@pytest.mark.parametrize(("kind", "bad"), FAULTS, ids=IDS)
def test_what_does_not_pass_is_a_failure_after_the_last_attempt(kind, bad, asked, notes):
    times = 2 if kind in ONCE_MORE else 3
    with OpenAIServer(then=bad) as server, count_faults() as faults:
        [reply] = api_model(server, timeout=0.3 if bad.delay else 10).answer([asked])
    assert len(server.chats) == times, "one layer of retries, not two"
    reason = failure(reply).reason
    assert reason.startswith(f"The model 'openai/gpt-4o' at {server.api_base} ")
    assert re.search(REASONS[kind], reason)
    assert f"({times} attempts)" in reason
    # What a template may bring about is the template's, and must not stop a run.
    assert reply.retryable is (kind not in ("empty_text", *ONCE_MORE))
    assert faults == {kind: times}
    assert KEY not in "".join(notes)


def test_an_answer_counts_what_all_attempts_consumed(asked):
    script = [servers.empty_text(), servers.model_refusal(), servers.status(500), "A: a robin."]
    [answer], _, _ = exchange([asked], *script, max_retries=3)
    assert answer.prompt_tokens == 3 * servers.PROMPT_TOKENS
    assert answer.completion_tokens == 2 * servers.COMPLETION_TOKENS
    assert answer.cost_usd == pytest.approx(33 * 2.5e-6 + 14 * 10e-6)


def test_a_server_that_is_not_there_is_a_failure(asked):
    [reply] = api_model(servers.closed_api_base()).answer([asked])
    assert "cannot be reached: Connection refused" in failure(reply).reason
    assert failure(reply).retryable


def test_a_reply_that_trickles_is_given_up_when_its_time_is_up(asked):
    trickling = replace(servers.text("A: a mallard."), trickle=0.05)
    [reply], _, faults = exchange([asked], then=trickling, timeout=1.0, max_retries=0)
    assert failure(reply).retryable
    assert "did not answer in time" in reply.reason
    assert faults == {"timeout": 1}


@pytest.mark.parametrize("given", [True, False])
def test_a_key_that_a_server_echoes_is_in_no_answer(given, asked, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    replies, _, _ = exchange([asked], f"A: a mallard, {KEY}.", api_key=KEY if given else None)
    assert texts(replies) == ["A: a mallard, [key]."]


def test_retry_after_is_respected(asked, monkeypatch):
    waits = []
    wait = RetryPolicy.wait

    def written_down(*given):
        waits.append(wait(*given))
        return 0.0

    monkeypatch.setattr(RetryPolicy, "wait", written_down)
    exchange([asked], servers.status(429, retry_after=0.4), "x", first_wait=0.001)
    assert waits == [0.4]


def test_a_server_that_will_refuse_for_long_is_not_waited_for(asked):
    [reply], chats, _ = exchange([asked], then=servers.status(429, retry_after=3000))
    assert len(chats) == 1
    assert "over its rate limit (it asks to wait 3000 s)" in failure(reply).reason
    assert "attempts" not in failure(reply).reason
    assert failure(reply).retryable


def test_trying_again_is_told_once_for_all_calls_that_fail_together(asked, notes):
    with OpenAIServer(then=servers.status(500, f"broken {KEY}")) as server:
        api_model(server, concurrency=4).answer(numbered(asked, 4))
        base = server.api_base
    [note] = notes
    problem = f"The model 'openai/gpt-4o' at {base} failed (500): broken [key]"
    assert note == f"{problem}; trying again in 1 s (attempt 2 of 3)."


def test_what_was_answered_before_an_error_is_given_first():
    failing = threading.Event()

    def work(item, stop):
        if item == 2:
            failing.set()
            raise ModelError("No more.")
        return item

    stream = as_completed(range(20), work, 1)
    given = [next(stream)]
    assert failing.wait(60)
    with pytest.raises(ModelError, match="No more"):
        given += stream
    assert given == [(0, 0), (1, 1)], "and no other call is begun"


# A signal that reaches another thread, or comes just before the wait begins, does not wake the wait.
INTERRUPTS = {
    "to the process": lambda: os.kill(os.getpid(), signal.SIGINT),
    "to another thread": lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT),
}


@pytest.mark.parametrize("press", INTERRUPTS.values(), ids=INTERRUPTS)
def test_ctrl_c_does_not_wait_for_a_server_that_hangs(press, asked):
    # At the last request, when nothing is left to do but to wait.
    arrived = itertools.count(1)

    def script(body):
        if next(arrived) == 8:
            press()
        return servers.slow(3600)

    # If it waited, the test would run into its time limit.
    with OpenAIServer(script) as server, pytest.raises(KeyboardInterrupt):
        api_model(server, timeout=3600).answer(numbered(asked, 8))


# -- what does not pass is not ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_ends_the_run_at_once(code, asked):
    with OpenAIServer(then=servers.status(code)) as server:
        message = rf"rejected the key.*\({code}\).*Check OPENAI_API_KEY"
        with pytest.raises(ModelError, match=message) as caught:
            api_model(server, concurrency=1).answer(numbered(asked, 20))
        assert len(server.chats) == 1
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (servers.status(404), "was not found.*Check the model's name and `api_base`"),
        (servers.status(429, "You exceeded your current quota."), "no credit left.*Top up"),
    ],
)
def test_what_no_question_survives_ends_the_run(reply, message, asked):
    with OpenAIServer(then=reply) as server:
        with pytest.raises(ModelError, match=message):
            api_model(server).answer([asked])
        assert len(server.chats) == 1


@pytest.mark.parametrize(
    ("reply", "reason", "kind"),
    [
        (
            servers.status(400, "This image is not supported."),
            "This image is not",
            "rejected_request",
        ),
        (servers.html(code=413), "rejected the request as too large", "rejected_request"),
        (
            servers.text("", finish_reason="length"),
            "empty answer within max_tokens = 64",
            "cut_off",
        ),
    ],
    ids=["400", "413", "length"],
)
def test_what_is_no_answer_is_a_failure_of_its_question_alone(reply, reason, kind, asked, tmp_path):
    store = AnswerStore(tmp_path / "answers.db")
    with OpenAIServer(reply, "A: a robin.") as server, count_faults() as faults:
        first, second = ask(api_model(server, concurrency=1), numbered(asked, 2), store)
        assert len(server.chats) == 2, "no attempt is wasted on it"
    assert len(store) == 1, "failures are not kept"
    assert reason in failure(first).reason
    assert not first.retryable
    assert texts([second]) == ["A: a robin."]
    assert faults == {kind: 1}


def test_a_rate_limit_without_end_does_not_hold_up_the_run(asked, tmp_path):
    store = AnswerStore(tmp_path / "answers.db")
    with OpenAIServer(then=servers.status(429)) as server:
        asking = api_model(server, concurrency=4, max_retries=1)
        replies = ask(asking, numbered(asked, 50), store)
        assert 4 < len(server.chats) <= 8 * 2, "few of them, each question twice at most"
    assert len(store) == 0
    assert all(failure(reply).retryable for reply in replies)


# -- keys and identity -------------------------------------------------------------------------------------------------


def test_a_missing_key_is_found_before_any_call(monkeypatch, asked):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match=r"OPENAI_API_KEY is not set.*export OPENAI_API_KEY"):
        ApiModel("openai/gpt-4o").check()
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        ApiModel("openai/gpt-4o").answer([asked])


def test_the_key_of_the_environment_is_used(monkeypatch, asked):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    with OpenAIServer(servers.status(401, "Wrong key sk-from-the-environment given.")) as server:
        with pytest.raises(ModelError, match=r"Wrong key \[key\] given"):
            ApiModel("openai/gpt-4o", ModelSettings(api_base=server.api_base)).answer([asked])
        assert server.chats[0].headers["authorization"] == "Bearer sk-from-the-environment"


def test_an_unknown_provider_is_refused():
    with pytest.raises(ModelError, match="not know the provider of the model 'nothing/known'"):
        ApiModel("nothing/known").check()


def test_the_identity_holds_what_changes_answers_and_no_secret():
    base = api_model("http://user:password@host/v1?token=abc").identity
    assert base["api_base"] == "http://host/v1"
    assert not any(secret in str(base) for secret in (KEY, "password", "abc"))
    other = api_model("http://host/v1/", concurrency=2, timeout=1, max_retries=0, api_key="other")
    assert other.identity == base
    for settings in ({"max_tokens": 5}, {"temperature": 0.7}):
        assert api_model("http://host/v1", **settings).identity != base


# -- text alone --------------------------------------------------------------------------------------------------------


def test_a_prompt_alone_is_sent_as_text():
    said = servers.text(" Yes. ", prompt_tokens=30, completion_tokens=2, model="gpt-4o-mini")
    settings = {"name": "openai/gpt-4o-mini", "task": "text-generation", "max_tokens": 17}
    [reply], [sent], _ = exchange([Request("Is it \ud83d?")], said, **settings)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("Yes.", 30, 2)
    assert reply.cost_usd is not None
    assert sent.messages == [{"role": "user", "content": "Is it ??"}]
    assert sent.json["temperature"] == 0
    assert 17 in (sent.json.get("max_tokens"), sent.json.get("max_completion_tokens"))


# -- a conversation with tools -----------------------------------------------------------------------------------------


def test_tools_are_offered_and_calls_of_them_come_back():
    function = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    tool = {"type": "function", "function": function}
    talk = [{"role": "user", "content": "What is there?"}]
    calls = servers.calls(("look", {"at": 1}), ("peer", "{not JSON"))
    with OpenAIServer(calls, "Nothing.") as server:
        model = api_model(server)
        called = model.converse(talk, seed=0, tools=[tool])
        plain = model.converse(talk, seed=0)
        with_tools, without = (chat.json for chat in server.chats)
    assert (called.text, called.finish_reason) == ("", "tool_calls")
    assert [(call.name, call.arguments) for call in called.tool_calls] == [
        ("look", '{"at": 1}'),
        ("peer", "{not JSON"),
    ]
    assert len({call.id for call in called.tool_calls}) == 2
    assert with_tools["tools"] == [tool]
    assert (plain.text, plain.tool_calls) == ("Nothing.", ())
    assert "tools" not in without
