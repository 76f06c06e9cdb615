"""What providers reply and refuse besides the plain form, over HTTP."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from taxtune.errors import ModelError
from taxtune.models import Answer, AnswerStore, Failure, Request, ask, count_faults
from taxtune.models.api_errors import classify
from taxtune.models.refusals import refused
from taxtune.settings import ApiVLMSettings
from tests import servers
from tests.models.replies import api_model, exchange, texts
from tests.servers import OpenAIServer, Reply, error_in_200, refusing, status, text

pytestmark = pytest.mark.usefixtures("litellm")
ASKED = [Request(f"Which bird is {i}?") for i in range(3)]


def model(server, **settings):
    return api_model(server, "openai/a-deployment", concurrency=1, **settings)


def reply_to(*script, **settings):
    """The reply, chats and faults of one question."""
    [reply], chats, faults = exchange(
        ASKED[:1], *script, name="openai/a-deployment", concurrency=1, **settings
    )
    return reply, chats, faults


# -- whether an answer ended -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "cut"),
    [("stop", False), ("length", True), ("eos_token", False), ("max_output_tokens", True)],
)
def test_an_answer_knows_whether_it_was_cut_off_also_out_of_the_store(tmp_path, reason, cut):
    with (
        OpenAIServer(text("A great eg", finish_reason=reason)) as server,
        AnswerStore(tmp_path / "a.db") as store,
    ):
        [new] = ask(model(server), ASKED[:1], store)
        [stored] = ask(model(server), ASKED[:1], store)
    assert isinstance(new, Answer)
    assert (new.cut, stored.cut, stored.cached) == (cut, cut, True)


def test_a_reply_that_was_cut_off_before_its_text_was_paid_for():
    cut = text("", finish_reason="length", reasoning="A mallard, or", completion_tokens=64)
    reply, _, _ = reply_to(then=cut)
    assert reply.cut
    assert reply.unfinished.completion_tokens == 64
    assert "within max_tokens = 64" in reply.reason


def test_thoughts_are_no_answer_and_stay_in_the_store(tmp_path):
    written = ["A mallard?</think>Great egret.", "[THINK]A mallard? Or", "A <b>great</b> egret."]
    with OpenAIServer(*written) as server, AnswerStore(tmp_path / "a.db") as store:
        first = ask(model(server), ASKED, store)
        again = ask(model(server), ASKED, store)
        stored = store.get(model(server).identity, ASKED)
    assert texts(stored) == written
    for egret, unfinished, other in (first, again):
        assert texts([egret, other]) == ["Great egret.", "A <b>great</b> egret."]
        assert "within the model's thought" in unfinished.reason
        assert not unfinished.retryable


# -- content and errors ------------------------------------------------------------------------------------------------


EGRET = {"type": "text", "text": "Egret."}


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, EGRET],
        [{"type": "text", "text": "Eg"}, {"type": "output_text", "text": "ret."}],
        [{"type": "reasoning", "text": "A mallard?"}, "Egret."],
        [{"text": "Egret."}],
        [None, {"type": "text", "text": {"value": "Egret.", "annotations": []}}],
        EGRET,
    ],
)
def test_the_text_parts_of_content_are_the_answer(content):
    reply, _, _ = reply_to(text(content))
    assert texts([reply]) == ["Egret."]


def as_json(body, code=200):
    return Reply(code=code, body=json.dumps(body).encode())


OVERLOADED = "The engine is overloaded"
HALF_OVERLOADED = {
    "index": 0,
    "message": {"content": ""},
    "error": {"code": 503, "message": "is overloaded"},
}


@pytest.mark.parametrize(
    ("error", "fault", "calls"),
    [
        (error_in_200(OVERLOADED, code=502), "server_error", 3),
        (error_in_200(OVERLOADED, code="429"), "rate_limit", 3),
        (error_in_200(OVERLOADED, type="overloaded_error"), "server_error", 3),
        (error_in_200(OVERLOADED, code=400), "rejected_request", 1),
        (error_in_200(OVERLOADED, type="invalid_request_error"), "rejected_request", 1),
        (servers.no_choices(error=OVERLOADED), "malformed_response", 3),
        (servers.no_choices(choices=[HALF_OVERLOADED]), "server_error", 3),
        (error_in_200(OVERLOADED, code="too_many_requests"), "rate_limit", 3),
        (error_in_200(OVERLOADED, status="UNAVAILABLE"), "server_error", 3),
        (error_in_200(OVERLOADED, code="HTTP 504"), "timeout", 3),
        (error_in_200(OVERLOADED, code="context_length_exceeded"), "rejected_request", 1),
        (as_json({"object": "error", "message": OVERLOADED, "code": 503}), "server_error", 3),
        (as_json({"detail": OVERLOADED}), "malformed_response", 3),
        (as_json([{"error": {"message": OVERLOADED, "code": 503}}]), "server_error", 3),
    ],
)
def test_an_error_within_a_200_keeps_its_words_and_is_retried_by_its_code(error, fault, calls):
    reply, chats, faults = reply_to(then=error)
    assert len(chats) == calls
    assert fault == "timeout" or "is overloaded" in reply.reason
    assert faults == {fault: calls}


@pytest.mark.parametrize(
    ("code", "words"),
    [(401, "rejected the key"), (402, "no credit left"), ("insufficient_quota", "no credit left")],
)
def test_a_fatal_error_within_a_200_ends_the_work(code, words):
    with pytest.raises(ModelError, match=words):
        reply_to(then=error_in_200("Not for you", code=code))


@pytest.mark.parametrize(("kind", "fault"), [("refusal", "refusal"), ("image_url", "empty_text")])
def test_parts_without_text_are_no_answer(kind, fault):
    reply, _, faults = reply_to(then=text([{"type": kind, kind: "I cannot tell."}]))
    assert isinstance(reply, Failure)
    assert set(faults) == {fault}


@pytest.mark.parametrize(
    "more", [{"finish_reason": "error"}, {"error": {"code": 502, "message": "The engine stopped"}}]
)
def test_half_an_answer_with_an_error_is_none(more):
    choice = {"index": 0, "message": {"role": "assistant", "content": "A great eg"}, **more}
    reply, _, _ = reply_to(then=servers.no_choices(choices=[choice]))
    assert reply.retryable


def test_errors_in_a_list_keep_their_words():
    error = {"code": 400, "message": "The picture is upside down", "status": "INVALID_ARGUMENT"}
    reply, _, _ = reply_to(as_json([{"error": error}], code=400))
    assert "upside down" in reply.reason


def test_an_answer_beside_an_empty_error_counts():
    body = text("Egret.").body.replace(b'"id"', b'"error": null, "id"', 1)
    reply, _, _ = reply_to(Reply(body=body))
    assert texts([reply]) == ["Egret."]


# -- waits -------------------------------------------------------------------------------------------------------------


TEN = {"date": "Fri, 01 Jan 2027 10:00:00 GMT"}


@pytest.mark.parametrize(
    ("headers", "words", "seconds"),
    [
        ({"retry-after": "12"}, "", 12),
        ({"retry-after": "Fri, 01 Jan 2027 10:00:09 GMT", **TEN}, "", 9),
        ({"retry-after": "Fri, 01 Jan 2027 09:00:00 GMT", **TEN}, "", 0),
        ({"retry-after": "Fri Jan  1 10:00:09 2027", **TEN}, "", 9),
        ({"retry-after": "Friday, 01-Jan-27 10:00:09 GMT", **TEN}, "", 9),
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
def test_what_a_server_asks_to_wait(headers, words, seconds, status_code):
    class ServerError(Exception):
        pass

    error = ServerError(words or "Too many requests")
    error.status_code = status_code
    error.response = SimpleNamespace(headers=headers)
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
def test_a_model_is_asked_again_without_what_it_refuses(words, notes):
    script = refusing("temperature", "seed", then="Egret.", words=words)
    with OpenAIServer(script) as server, count_faults() as faults:
        asked = model(server, seed=3, temperature=0.7)
        before = asked.identity
        assert texts(asked.answer(ASKED)) == ["Egret."] * 3
        assert len(server.chats) == 5, "found out once for each parameter"
        assert {"temperature", "seed"}.isdisjoint(server.chats[-1].json)
        assert server.chats[-1].json["max_tokens"] == 64
    assert faults == {"refused_temperature": 1, "refused_seed": 1}
    assert asked.identity == {**before, "without": "temperature, seed"}
    assert "takes no temperature and is asked without it" in " ".join(notes)


def test_names_of_parameters_may_begin_a_sentence():
    arguments = {"temperature": 0.0, "max_tokens": 64}
    assert refused("Temperature is not supported", arguments) == "temperature"
    assert refused("The room temperatures are not supported", arguments) is None


def test_max_tokens_goes_under_its_new_name(notes):
    words = "Unsupported parameter: '{}'. Use 'max_completion_tokens' instead, the maximum of all tokens."
    with OpenAIServer(refusing("max_tokens", then="Egret.", words=words)) as server:
        assert texts(model(server).answer(ASKED)) == ["Egret."] * 3
        sent = [request.json.get("max_completion_tokens") for request in server.chats]
    assert sent == [None, 64, 64, 64]
    assert "takes no max_tokens and is asked with max_completion_tokens" in " ".join(notes)


def test_a_value_out_of_range_is_no_refusal():
    words = "{} is too large: this model supports at most 16."
    reply, chats, _ = reply_to(refusing("max_tokens", then="Egret.", words=words))
    assert len(chats) == 1
    assert "too large" in reply.reason


def test_what_is_refused_without_it_as_well_was_not_refused_for_it():
    words = "Cannot read the request: temperature 0, prompt 'Which bird?'"
    with OpenAIServer(then=status(400, words)) as server:
        asked = model(server)
        before = asked.identity
        [reply] = asked.answer(ASKED[:1])
        assert len(server.chats) == 2
    assert "Cannot read the request" in reply.reason
    assert asked.identity == before


def test_answers_of_a_model_that_refuses_are_found_again_and_no_others(tmp_path):
    with (
        AnswerStore(tmp_path / "a.db") as store,
        OpenAIServer(refusing("temperature", then="Egret.")) as server,
    ):
        ask(model(server), ASKED, store)
        calls = len(server.chats)
        assert texts(ask(model(server), ASKED, store)) == ["Egret."] * 3
        assert len(server.chats) == calls, "another process asks nothing again"
        fresh = model(server)
        found = store.get(fresh.identity, ASKED)
    assert found == [None] * 3, "they are not those of a model that takes it"


def test_effort_and_other_fields_are_passed_on_and_part_of_the_key():
    extra = {"top_k": 3, "chat_template_kwargs": {"thinking": False}}
    with OpenAIServer(then="Egret.") as server:
        plain = model(server)
        asked = model(server, reasoning_effort="low", extra=extra)
        assert texts(asked.answer(ASKED[:1])) == ["Egret."]
        [sent] = server.chats
    assert {"reasoning_effort": "low", **extra}.items() <= sent.json.items()
    assert asked.identity != plain.identity
    assert "extra" not in plain.identity


def test_a_recipe_names_effort_and_fields_but_not_those_that_are_ours():
    settings = ApiVLMSettings(model="openai/x", reasoning_effort="low", extra={"top_k": 3})
    assert (settings.reasoning_effort, settings.extra) == ("low", {"top_k": 3})
    for name in ("messages", "stream", "max_tokens"):
        message = f"must not have {name}, which taxtune sends itself"
        with pytest.raises(ValidationError, match=message):
            ApiVLMSettings(model="openai/x", extra={name: 1})
