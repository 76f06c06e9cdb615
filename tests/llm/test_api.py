from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from taxtune.errors import ModelError
from taxtune.llm import LLM, LLMSettings, ask_llm, make_llm
from taxtune.llm.api import ApiLLM
from taxtune.llm.ask import reply_store
from taxtune.vlm.api_errors import load_litellm
from taxtune.vlm.base import Answer, Failure
from tests import servers
from tests.servers import OpenAIServer

KEY = "sk-a-secret-of-the-test"


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded() -> None:
    load_litellm()


def make(server: OpenAIServer | str, **settings: Any) -> LLM:
    base = server if isinstance(server, str) else server.api_base
    defaults = {"api_key": KEY, "api_base": base, "first_wait": 0.01, "longest_wait": 0.05, "max_retries": 2}
    return make_llm("openai/gpt-4o-mini", LLMSettings(**{**defaults, **settings}))


def test_what_is_sent_and_what_comes_back() -> None:
    with OpenAIServer(servers.text(" Yes. ", prompt_tokens=30, completion_tokens=2, model="gpt-4o-mini")) as server:
        (reply,) = make(server, max_tokens=17).reply(["Is it?"])
        (request,) = server.chats
    assert isinstance(reply, Answer)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("Yes.", 30, 2)
    assert reply.cost_usd is not None
    assert request.messages == [{"role": "user", "content": "Is it?"}]
    assert request.json["temperature"] == 0
    assert 17 in (request.json.get("max_tokens"), request.json.get("max_completion_tokens"))
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_prompts_are_asked_at_once_and_come_back_in_order() -> None:
    def echo(body: dict[str, Any]) -> servers.Reply:
        prompt = body["messages"][-1]["content"]
        return servers.slow(0.03 * (6 - int(prompt) % 7), servers.text(prompt))

    with OpenAIServer(echo) as server:
        replies = make(server, concurrency=3).reply([str(i) for i in range(9)])
        assert 2 <= server.most_at_once <= 3
    assert [reply.text for reply in replies if isinstance(reply, Answer)] == [str(i) for i in range(9)]


@pytest.mark.parametrize(
    "bad", [servers.status(429), servers.status(503), servers.empty_body(), servers.dropped(), servers.slow(5)]
)
def test_what_may_pass_is_tried_again(bad: servers.Reply) -> None:
    with OpenAIServer(bad, "Yes.") as server:
        (reply,) = make(server, timeout=0.4 if bad.delay else 10).reply(["x"])
        assert len(server.chats) == 2
    assert isinstance(reply, Answer)


@pytest.mark.parametrize(
    ("bad", "reason", "retryable"),
    [
        (servers.status(429), "rate limit.*3 attempts", True),
        (servers.status(500), r"failed \(500\).*3 attempts", True),
        (servers.html(), "web page", True),
        (servers.empty_text(), r"gave an empty reply\.$", False),
        (servers.model_refusal(), "refused", False),
        (servers.content_filter(), "content filter", False),
        (servers.status(400, "No such parameter."), "rejected the request", False),
        (servers.text("", finish_reason="length"), "empty reply within max_tokens", False),
    ],
)
def test_what_does_not_pass_is_a_failure(bad: servers.Reply, reason: str, retryable: bool) -> None:
    import re

    with OpenAIServer(then=bad) as server:
        (reply,) = make(server).reply(["x"])
    assert isinstance(reply, Failure)
    assert re.search(reason, reply.reason), reply.reason
    assert reply.retryable is retryable
    assert KEY not in reply.reason


def test_a_response_without_choices_may_be_asked_for_again() -> None:
    llm = make("http://127.0.0.1:9/v1")
    assert isinstance(llm, ApiLLM)
    assert llm._read(load_litellm(), SimpleNamespace(choices=[]), 0.0) == Failure(
        "The model 'openai/gpt-4o-mini' at http://127.0.0.1:9/v1 gave a response without any reply.", retryable=True
    )


def test_a_key_that_the_server_repeats_is_not_passed_on() -> None:
    with OpenAIServer(servers.status(400, f"The key {KEY} may not."), servers.status(401, f"Wrong: {KEY}")) as server:
        (reply,) = make(server).reply(["x"])
        assert isinstance(reply, Failure)
        assert "The key [key] may not" in reply.reason
        with pytest.raises(ModelError, match=r"Wrong: \[key\]"):
            make(server).reply(["x"])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (servers.status(401), "OPENAI_API_KEY"),
        (servers.status(404), "model's name"),
        (servers.status(429, "You exceeded your current quota"), "replies that came are kept"),
    ],
)
def test_what_every_call_would_meet_ends_the_work(bad: servers.Reply, words: str) -> None:
    with OpenAIServer(then=bad) as server, pytest.raises(ModelError, match=words) as caught:
        make(server).reply(["x"])
    assert KEY not in str(caught.value)


def test_a_server_that_hangs_is_a_failure_in_time() -> None:
    with OpenAIServer(then=servers.slow(60)) as server:
        started = time.monotonic()
        (reply,) = make(server, timeout=0.2, max_retries=1).reply(["x"])
        assert time.monotonic() - started < 20
    assert isinstance(reply, Failure)


def test_no_key_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        make_llm("openai/gpt-4o-mini").check()
    with pytest.raises(ModelError, match="no provider"):
        make_llm("nonsense").check()
    assert make("http://127.0.0.1:9/v1").check() == []


def test_the_key_is_part_of_no_record() -> None:
    llm = make("http://me:secret@127.0.0.1:9/v1")
    assert "secret" not in f"{llm.identity}{llm!r}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", 0),
        ("max_tokens", 0),
        ("timeout", 0),
        ("max_retries", -1),
        ("temperature", 11),
        ("temperature", -1),
    ],
)
def test_settings_out_of_range(name: str, value: int) -> None:
    with pytest.raises(ModelError, match=f"^{name} must"):
        make_llm("openai/x", LLMSettings(**{name: value}))  # type: ignore[arg-type]


class TestReplies:
    """Replies on disk."""

    def test_a_reply_is_asked_for_once(self, tmp_path: Path) -> None:
        with OpenAIServer(lambda body: body["messages"][-1]["content"].upper()) as server:
            for _ in range(2):
                with reply_store(tmp_path) as store:
                    replies = ask_llm(make(server), ["a", "b", "a"], store)
                assert [r.text for r in replies if isinstance(r, Answer)] == ["A", "B", "A"]
            assert sorted(server.prompts) == ["a", "b"]

    def test_another_setting_is_another_reply(self, tmp_path: Path) -> None:
        with OpenAIServer(then="x") as server:
            for settings in ({}, {"max_tokens": 9}, {"temperature": 0.5}):
                with reply_store(tmp_path) as store:
                    ask_llm(make(server, **settings), ["a"], store)
            assert len(server.chats) == 3

    def test_failures_and_refusals_are_not_kept(self, tmp_path: Path) -> None:
        bad = [servers.empty_text(), servers.model_refusal(), servers.content_filter(), servers.status(400, "no")]
        with OpenAIServer(*bad, "Yes.") as server:
            for expected in (Failure, Failure, Failure, Failure, Answer, Answer):
                with reply_store(tmp_path) as store:
                    (reply,) = ask_llm(make(server, max_retries=0), ["a"], store)
                assert isinstance(reply, expected)
            assert len(server.chats) == 5

    def test_a_server_that_is_down_is_not_asked_on_and_on(self, tmp_path: Path) -> None:
        with OpenAIServer(then=servers.status(500)) as server, reply_store(tmp_path) as store:
            replies = ask_llm(make(server, concurrency=2, max_retries=0), [str(i) for i in range(50)], store)
            assert len(server.chats) <= 4
        assert all(isinstance(reply, Failure) and reply.retryable for reply in replies)
