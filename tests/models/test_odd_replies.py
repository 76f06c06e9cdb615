"""What providers reply and refuse besides the plain form, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from taxtune.errors import ModelError
from taxtune.models import Answer, AnswerStore, Failure, Request, ask, count_faults
from taxtune.models.api import ApiModel
from taxtune.models.api_errors import classify, load_litellm
from taxtune.models.refusals import refused
from taxtune.settings import ApiVLMSettings
from tests import servers
from tests.servers import OpenAIServer, Reply, error_in_200, refusing, status, text


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded() -> None:
    load_litellm()


def model(server: OpenAIServer, name: str = "openai/a-deployment", **settings: Any) -> ApiModel:
    return ApiModel(name, servers.model_settings(server, concurrency=1, **settings))


def answers(replies: Any) -> list[str]:
    assert all(isinstance(reply, Answer) for reply in replies), replies
    return [reply.text for reply in replies]


ASKED = [Request(f"Which bird is {i}?") for i in range(3)]


# -- whether an answer ended -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "cut"),
    [("stop", False), ("length", True), ("eos_token", False), ("max_output_tokens", True)],
)
def test_an_answer_knows_whether_it_was_cut_off_also_out_of_the_store(
    tmp_path: Path, reason: str, cut: bool
) -> None:
    with (
        OpenAIServer(text("A great eg", finish_reason=reason)) as server,
        AnswerStore(tmp_path / "a.db") as store,
    ):
        [new] = ask(model(server), ASKED[:1], store)
        [stored] = ask(model(server), ASKED[:1], store)
    assert isinstance(new, Answer)
    assert isinstance(stored, Answer)
    assert (new.cut, stored.cut, stored.cached) == (cut, cut, True)


def test_a_reply_that_was_cut_off_before_its_text_was_paid_for() -> None:
    cut = text("", finish_reason="length", reasoning="A mallard, or", completion_tokens=64)
    with OpenAIServer(then=cut) as server:
        [reply] = ask(model(server), ASKED[:1], None)
    assert isinstance(reply, Failure)
    assert reply.cut
    assert reply.unfinished is not None
    assert reply.unfinished.completion_tokens == 64
    assert "within max_tokens = 64" in reply.reason


def test_thoughts_are_no_answer_and_stay_in_the_store(tmp_path: Path) -> None:
    said = ("A mallard?</think>Great egret.", "[THINK]A mallard? Or", "A <b>great</b> egret.")
    with OpenAIServer(*said) as server, AnswerStore(tmp_path / "a.db") as store:
        first = ask(model(server), ASKED, store)
        again = ask(model(server), ASKED, store)
        kept = store.get(model(server).identity, ASKED)
    assert [one.text for one in kept if one is not None] == list(said)
    for replies in (first, again):
        assert [getattr(reply, "text", None) for reply in replies] == [
            "Great egret.",
            None,
            "A <b>great</b> egret.",
        ]
        assert isinstance(replies[1], Failure)
        assert "within the model's thought" in replies[1].reason
        assert not replies[1].retryable


# -- content and errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
            {"type": "text", "text": "Egret."},
        ],
        [{"type": "text", "text": "Eg"}, {"type": "output_text", "text": "ret."}],
        [{"type": "reasoning", "text": "A mallard?"}, "Egret."],
        [{"text": "Egret."}],
        [None, {"type": "text", "text": {"value": "Egret.", "annotations": []}}],
        {"type": "text", "text": "Egret."},
    ],
)
def test_the_text_parts_of_content_are_the_answer(content: list[Any]) -> None:
    with OpenAIServer(text(content)) as server:
        assert answers(model(server).answer(ASKED[:1])) == ["Egret."]


@pytest.mark.parametrize(
    ("error", "fault", "calls"),
    [
        (error_in_200("The engine is overloaded", code=502), "server_error", 3),
        (error_in_200("The engine is overloaded", code="429"), "rate_limit", 3),
        (error_in_200("The engine is overloaded", type="overloaded_error"), "server_error", 3),
        (error_in_200("The engine is overloaded", code=400), "rejected_request", 1),
        (
            error_in_200("The engine is overloaded", type="invalid_request_error"),
            "rejected_request",
            1,
        ),
        (servers.no_choices(error="The engine is overloaded"), "malformed_response", 3),
        (
            servers.no_choices(
                choices=[
                    {
                        "index": 0,
                        "message": {"content": ""},
                        "error": {"code": 503, "message": "is overloaded"},
                    }
                ]
            ),
            "server_error",
            3,
        ),
    ],
)
def test_an_error_within_a_200_keeps_its_words_and_is_retried_by_its_code(
    error: Reply, fault: str, calls: int
) -> None:
    with OpenAIServer(then=error) as server, count_faults() as faults:
        [reply] = model(server).answer(ASKED[:1])
        assert len(server.chats) == calls
    assert isinstance(reply, Failure)
    assert "is overloaded" in reply.reason
    assert faults == {fault: calls}


@pytest.mark.parametrize(
    ("code", "words"),
    [(401, "rejected the key"), (402, "no credit left"), ("insufficient_quota", "no credit left")],
)
def test_a_fatal_error_within_a_200_ends_the_work(code: int | str, words: str) -> None:
    with (
        OpenAIServer(then=error_in_200("Not for you", code=code)) as server,
        pytest.raises(ModelError, match=words),
    ):
        model(server).answer(ASKED[:1])


@pytest.mark.parametrize("kind", ["refusal", "image_url"])
def test_parts_without_text_are_no_answer(kind: str) -> None:
    with (
        OpenAIServer(then=text([{"type": kind, kind: "I cannot tell."}])) as server,
        count_faults() as faults,
    ):
        [reply] = model(server).answer(ASKED[:1])
    assert isinstance(reply, Failure)
    assert set(faults) == {"refusal" if kind == "refusal" else "empty_text"}


@pytest.mark.parametrize(
    "more", [{"finish_reason": "error"}, {"error": {"code": 502, "message": "The engine stopped"}}]
)
def test_half_an_answer_with_an_error_is_none(more: dict[str, Any]) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "A great eg"}, **more}
    with OpenAIServer(then=servers.no_choices(choices=[choice])) as server:
        [reply] = model(server).answer(ASKED[:1])
    assert isinstance(reply, Failure)
    assert reply.retryable


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"error": {"message": "is overloaded", "code": "too_many_requests"}}, "rate_limit"),
        ({"error": {"message": "is overloaded", "status": "UNAVAILABLE"}}, "server_error"),
        ({"error": {"message": "is overloaded", "code": "HTTP 504"}}, "timeout"),
        (
            {"error": {"message": "is overloaded", "code": "context_length_exceeded"}},
            "rejected_request",
        ),
        ({"object": "error", "message": "is overloaded", "code": 503}, "server_error"),
        ({"detail": "is overloaded"}, "malformed_response"),
        ([{"error": {"message": "is overloaded", "code": 503}}], "server_error"),
    ],
)
def test_errors_within_a_200_have_codes_of_many_kinds(body: Any, fault: str) -> None:
    with (
        OpenAIServer(then=Reply(body=json.dumps(body).encode())) as server,
        count_faults() as faults,
    ):
        [reply] = model(server, max_retries=0).answer(ASKED[:1])
    assert isinstance(reply, Failure)
    assert fault == "timeout" or "is overloaded" in reply.reason
    assert set(faults) == {fault}


def test_errors_in_a_list_keep_their_words() -> None:
    body = [
        {
            "error": {
                "code": 400,
                "message": "The picture is upside down",
                "status": "INVALID_ARGUMENT",
            }
        }
    ]
    with OpenAIServer(Reply(code=400, body=json.dumps(body).encode())) as server:
        [reply] = model(server).answer(ASKED[:1])
    assert isinstance(reply, Failure)
    assert "upside down" in reply.reason


def test_an_answer_beside_an_empty_error_counts() -> None:
    whole = text("Egret.")
    with OpenAIServer(Reply(body=whole.body.replace(b'"id"', b'"error": null, "id"', 1))) as server:
        assert answers(model(server).answer(ASKED[:1])) == ["Egret."]


# -- waits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "words", "seconds"),
    [
        ({"retry-after": "12"}, "", 12),
        (
            {
                "retry-after": "Fri, 01 Jan 2027 10:00:09 GMT",
                "date": "Fri, 01 Jan 2027 10:00:00 GMT",
            },
            "",
            9,
        ),
        (
            {
                "retry-after": "Fri, 01 Jan 2027 09:00:00 GMT",
                "date": "Fri, 01 Jan 2027 10:00:00 GMT",
            },
            "",
            0,
        ),
        (
            {"retry-after": "Fri Jan  1 10:00:09 2027", "date": "Fri, 01 Jan 2027 10:00:00 GMT"},
            "",
            9,
        ),
        (
            {
                "retry-after": "Friday, 01-Jan-27 10:00:09 GMT",
                "date": "Fri, 01 Jan 2027 10:00:00 GMT",
            },
            "",
            9,
        ),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "now"}, "", 0),
        ({"retry-after": " 7.5s "}, "", 7.5),
        ({"retry-after": "soon"}, "Please retry in 7.5s.", 7.5),
        ({}, "Rate limit reached. Please try again in 1m12.5s.", 72.5),
        ({}, "Try again in 20 seconds", 20),
        ({}, "please try again after 350ms", 0.35),
        ({}, '{"retryDelay": "7s"}', 7),
        ({}, "Limit 3 requests per 20 s", 0),
    ],
)
@pytest.mark.parametrize("status_code", [429, 503])
def test_what_a_server_asks_to_wait(
    headers: dict[str, str], words: str, seconds: float, status_code: int
) -> None:
    class ServerError(Exception):
        pass

    error = ServerError(words or "Too many requests")
    error.status_code = status_code  # type: ignore[attr-defined]
    error.response = SimpleNamespace(headers=headers)  # type: ignore[attr-defined]
    assert classify(error).asked == pytest.approx(seconds)


# -- refused parameters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "Unsupported parameter: '{}' is not supported with this model.",
        "`{}` is deprecated for this model.",
        "Unrecognized request argument supplied: {}",
        "property '{}' is unsupported",
        "{}: Extra inputs are not permitted",
        "[{{'type': 'extra_forbidden', 'loc': ('body', '{}'), 'msg': 'Extra inputs are not permitted'}}]",
        "Unsupported value: '{}' does not support 0.0 with this model. Only the default (1) value is supported.",
    ],
)
def test_a_model_is_asked_again_without_what_it_refuses(words: str, notes: list[str]) -> None:
    script = refusing("temperature", "seed", then="Egret.", words=words)
    with OpenAIServer(script) as server, count_faults() as faults:
        asked = model(server, seed=3, temperature=0.7)
        before = asked.identity
        assert answers(asked.answer(ASKED)) == ["Egret."] * 3
        assert len(server.chats) == 5, "found out once for each parameter"
        assert {"temperature", "seed"}.isdisjoint(server.chats[-1].json)
        assert server.chats[-1].json["max_tokens"] == 64
    assert faults == {"refused_temperature": 1, "refused_seed": 1}
    assert asked.identity == {**before, "without": "temperature, seed"}
    assert [note for note in notes if "takes no temperature and is asked without it" in note]


def test_names_of_parameters_may_begin_a_sentence() -> None:
    arguments = {"temperature": 0.0, "max_tokens": 64}
    assert refused("Temperature is not supported", arguments) == "temperature"
    assert refused("The room temperatures are not supported", arguments) is None


def test_max_tokens_goes_under_its_new_name(notes: list[str]) -> None:
    words = "Unsupported parameter: '{}'. Use 'max_completion_tokens' instead, the maximum of all tokens."
    with OpenAIServer(refusing("max_tokens", then="Egret.", words=words)) as server:
        assert answers(model(server).answer(ASKED)) == ["Egret."] * 3
        assert [request.json.get("max_completion_tokens") for request in server.chats] == [
            None,
            64,
            64,
            64,
        ]
    assert [
        note
        for note in notes
        if "takes no max_tokens and is asked with max_completion_tokens" in note
    ]


def test_a_value_out_of_range_is_no_refusal() -> None:
    words = "{} is too large: this model supports at most 16."
    with OpenAIServer(refusing("max_tokens", then="Egret.", words=words)) as server:
        [reply] = model(server).answer(ASKED[:1])
        assert len(server.chats) == 1
    assert isinstance(reply, Failure)
    assert "too large" in reply.reason


def test_what_is_refused_without_it_as_well_was_not_refused_for_it() -> None:
    words = "Cannot read the request: temperature 0, prompt 'Which bird?'"
    with OpenAIServer(then=status(400, words)) as server:
        asked = model(server)
        before = asked.identity
        [reply] = asked.answer(ASKED[:1])
        assert len(server.chats) == 2
    assert isinstance(reply, Failure)
    assert "Cannot read the request" in reply.reason
    assert asked.identity == before


def test_answers_of_a_model_that_refuses_are_found_again_and_no_others(tmp_path: Path) -> None:
    with (
        AnswerStore(tmp_path / "a.db") as store,
        OpenAIServer(refusing("temperature", then="Egret.")) as server,
    ):
        ask(model(server), ASKED, store)
        calls = len(server.chats)
        assert answers(ask(model(server), ASKED, store)) == ["Egret."] * 3
        assert len(server.chats) == calls, "another process asks nothing again"
        fresh = model(server)
        assert store.get(fresh.identity, ASKED) == [None] * 3, (
            "they are not those of a model that takes it"
        )


def test_effort_and_other_fields_are_passed_on_and_part_of_the_key() -> None:
    with OpenAIServer(then="Egret.") as server:
        plain = model(server)
        asked = model(
            server,
            reasoning_effort="low",
            extra={"top_k": 3, "chat_template_kwargs": {"thinking": False}},
        )
        assert answers(asked.answer(ASKED[:1])) == ["Egret."]
        [sent] = server.chats
    assert sent.json["reasoning_effort"] == "low"
    assert sent.json["top_k"] == 3
    assert sent.json["chat_template_kwargs"] == {"thinking": False}
    assert asked.identity != plain.identity
    assert "extra" not in plain.identity


def test_a_recipe_names_effort_and_fields_but_not_those_that_are_ours() -> None:
    settings = ApiVLMSettings(model="openai/x", reasoning_effort="low", extra={"top_k": 3})
    assert (settings.reasoning_effort, settings.extra) == ("low", {"top_k": 3})
    for name in ("messages", "stream", "max_tokens"):
        with pytest.raises(
            ValidationError, match=f"must not have {name}, which taxtune sends itself"
        ):
            ApiVLMSettings(model="openai/x", extra={name: 1})
