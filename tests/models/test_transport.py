"""What leaves for an API, and what is read of a reply, over real HTTP."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zlib
from pathlib import Path

import httpx
import pytest

from taxtune.errors import ModelError
from taxtune.models import Answer, Failure, ModelSettings, Request, RetryPolicy
from taxtune.models.api import ApiModel
from taxtune.models.api_errors import load_litellm
from taxtune.models.base import Candidates
from tests import servers
from tests.models.replies import KEY, api_model, exchange, texts
from tests.servers import OpenAIServer

pytestmark = pytest.mark.usefixtures("litellm")
PROMPT = Request("What is this?")


def model(server, name="openai/x", **settings):
    return api_model(server, name, **{"max_retries": 0, "timeout": 60.0, **settings})


def moved(code, address):
    return servers.Reply(code=code, headers={"Location": address})


def packed(content, coding):
    """A completion whose body is packed, or is said to be."""
    return servers.Reply(body=content, headers={**WHOLE.headers, "Content-Encoding": coding})


WHOLE = servers.text("A: a wren.")


# -- where it goes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", ["openai/x", "huggingface/x", "ollama_chat/x"])
def test_no_redirect_takes_a_request_to_another_server(code, name):
    with OpenAIServer() as other:
        away = moved(code, f"{other.api_base}/chat/completions")
        message = r"sends its requests on to.*api_base"
        with OpenAIServer(then=away) as server, pytest.raises(ModelError, match=message):
            model(server, name).answer([PROMPT])
        assert not other.requests


def test_a_providers_own_server_sends_nothing_on_either(monkeypatch):
    with OpenAIServer() as other:
        with OpenAIServer(moved(307, f"{other.api_base}/chat/completions")) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
            settings = ModelSettings(api_key=KEY, retry=RetryPolicy(max_retries=0))
            with pytest.raises(ModelError, match="sends its requests on to"):
                ApiModel("openai/x", settings).answer([PROMPT])
        assert not other.requests


def test_a_redirect_on_the_same_server_is_followed():
    with OpenAIServer(moved(307, "/v1/there/chat/completions"), WHOLE) as server:
        assert texts(model(server).answer([PROMPT])) == ["A: a wren."]
        assert [request.path for request in server.requests][1:] == ["/v1/there/chat/completions"]


def test_an_address_in_the_models_name_is_the_agreed_one():
    with OpenAIServer(WHOLE, WHOLE) as server, OpenAIServer() as other:
        settings = servers.model_settings(server, api_key=KEY)
        texts(ApiModel(f"huggingface/{server.api_base}", settings).answer([PROMPT]))
        # Whatever litellm makes of the two, nothing but the address in the settings is asked.
        model(server, f"huggingface/{other.api_base}").answer([PROMPT])
        assert not other.requests


@pytest.mark.parametrize("slashes", ["////", "///", "/", r"\\", r"/\/"])
@pytest.mark.parametrize("where", ["api_base", "model"])
def test_what_is_plainly_no_address_is_never_sent_to(slashes, where):
    with OpenAIServer() as server:
        address = server.api_base.replace("//", slashes, 1)
        if where == "api_base":
            asked = model(address)
        else:
            settings = ModelSettings(api_key=KEY, retry=RetryPolicy(0))
            asked = ApiModel(f"huggingface/{address}", settings)
        with pytest.raises(ModelError, match="address of the model is none"):
            asked.check()
        with pytest.raises(ModelError, match="address of the model is none"):
            asked.answer([PROMPT])
        assert not server.requests


def test_calls_of_others_in_the_process_pass_as_they_are(litellm):
    whole = servers.text("x" * 2**21)
    with OpenAIServer() as other, OpenAIServer(whole) as server:
        away = moved(307, f"{server.api_base}/chat/completions")
        other.enqueue(away)
        reply = litellm.completion(
            model="openai/x",
            messages=[{"role": "user", "content": "hello"}],
            api_base=other.api_base,
            api_key=KEY,
        )
    assert len(reply.choices[0].message.content) == 2**21


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
def test_a_packed_reply_is_read(coding, pack):
    replies, chats, _ = exchange([PROMPT], packed(pack(WHOLE.body), coding))
    assert texts(replies) == ["A: a wren."]
    assert chats[0].headers["accept-encoding"] == "gzip"


LARGE = servers.text("quack " * 2**18)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (LARGE, "more than 1 MB"),
        (packed(gzip.compress(LARGE.body), "gzip"), "more than 1 MB"),
        (servers.Reply(body=b"{", endless=True), "more than 1 MB"),
        (servers.Reply(code=500, body=b"quack " * 2**18), "more than 1 MB"),
        (packed(b"\x00" * 100, "br"), "packed as 'br'"),
        (packed(b"quack", "gzip"), "cannot be unpacked"),
    ],
    ids=["large", "packed", "endless", "error", "brotli", "damaged"],
)
def test_a_reply_is_read_within_bounds(reply, reason):
    [failure], _, _ = exchange([PROMPT], then=reply, max_retries=0, timeout=60.0)
    assert reason in failure.reason
    assert failure.retryable


def test_probabilities_have_more_room():
    others = {f"other{n}": 0.01 for n in range(19)}
    told = servers.logprobs(*[{f"word{i}": 0.5, **others} for i in range(1000)])
    reply = servers.text("A: a wren.", logprobs=told)
    assert len(reply.body) > 2**20
    scored = Request("What is this?", candidates=Candidates(("wren", "finch")))
    [answer], _, _ = exchange([scored], reply)
    assert isinstance(answer, Answer)
    [refused], _, _ = exchange([PROMPT], then=reply, max_retries=0)
    assert isinstance(refused, Failure)


MEASURED = """
import resource, sys
from taxtune.models import Failure, Request
from taxtune.models.api import ApiModel
from tests.servers import model_settings
model = ApiModel("openai/x", model_settings(sys.argv[1], api_key="sk-x-1234", max_retries=0))
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
def ask(): return model.answer([Request("What is this?")] * 4)
ask()
before = peak()
assert all(isinstance(reply, Failure) for reply in ask())
print(peak() - before)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["packed", "endless"])
def test_no_reply_fills_the_memory(kind):
    bomb = packed(gzip.compress(bytes(100 * 2**20), 1), "gzip")
    reply = bomb if kind == "packed" else servers.Reply(body=b"x" * 2**26, endless=True)
    with OpenAIServer("a", "b", "c", "d", then=reply) as server:
        assert _growth(server.api_base) < 50


def _growth(api_base):
    """Returns the MiB that a process needs for four calls, above what four plain ones before them took."""
    command = [sys.executable, "-c", MEASURED, api_base]
    folder = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=True
    )
    return int(done.stdout)


def test_a_client_of_the_programs_own_stays(litellm, monkeypatch):
    with httpx.Client() as own:
        monkeypatch.setattr(litellm, "client_session", own)
        assert load_litellm().client_session is own
