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
from tests import servers
from tests.servers import OpenAIServer

KEY = "sk-a-secret-of-the-test"
PROMPT = Request("What is this?")


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded():
    load_litellm()


def model(server, name="openai/x", **settings):
    chosen = {"api_key": KEY, "max_retries": 0, "timeout": 60.0, **settings}
    return ApiModel(name, servers.model_settings(server, **chosen))


def moved(code, address):
    return servers.Reply(code=code, headers={"Location": address})


def packed(reply, coding, body):
    return servers.Reply(body=body, headers={**reply.headers, "Content-Encoding": coding})


# -- where it goes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", ["openai/x", "huggingface/x", "ollama_chat/x"])
def test_no_redirect_takes_a_request_to_another_server(code, name):
    with OpenAIServer() as other:
        away = moved(code, f"{other.api_base}/chat/completions")
        with (
            OpenAIServer(then=away) as server,
            pytest.raises(ModelError, match="sends its requests on to") as refused,
        ):
            model(server, name).answer([PROMPT])
        assert not other.requests
    assert "api_base" in str(refused.value)


def test_a_providers_own_server_sends_nothing_on_either(monkeypatch):
    with OpenAIServer() as other:
        with OpenAIServer(moved(307, f"{other.api_base}/chat/completions")) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
            asked = ApiModel(
                "openai/x", ModelSettings(api_key=KEY, retry=RetryPolicy(max_retries=0))
            )
            with pytest.raises(ModelError, match="sends its requests on to"):
                asked.answer([PROMPT])
        assert not other.requests


def test_a_redirect_on_the_same_server_is_followed():
    with OpenAIServer(moved(307, "/v1/there/chat/completions"), "A: a wren.") as server:
        (answer,) = model(server).answer([PROMPT])
        assert [request.path for request in server.requests][1:] == ["/v1/there/chat/completions"]
    assert answer.text == "A: a wren."


def test_an_address_in_the_models_name_is_the_agreed_one():
    with OpenAIServer("A: a wren.") as server, OpenAIServer() as other:
        named = ApiModel(
            f"huggingface/{server.api_base}", servers.model_settings(server, api_key=KEY)
        )
        (answer,) = named.answer([PROMPT])
        assert isinstance(answer, Answer)
        # Whatever litellm makes of the two, nothing but the address in the settings is asked.
        server.enqueue("A: a wren.")
        model(server, f"huggingface/{other.api_base}").answer([PROMPT])
        assert not other.requests


@pytest.mark.parametrize("slashes", ["////", "///", "/", r"\\", r"/\/"])
@pytest.mark.parametrize("where", ["api_base", "model"])
def test_what_is_plainly_no_address_is_never_sent_to(slashes, where):
    with OpenAIServer() as server:
        address = server.api_base.replace("//", slashes, 1)
        named = where == "model"
        settings = servers.model_settings(address, api_key=KEY, max_retries=0)
        made = model(server, f"huggingface/{address}") if named else ApiModel("openai/x", settings)
        if named:
            made = ApiModel(
                f"huggingface/{address}", ModelSettings(api_key=KEY, retry=RetryPolicy(0))
            )
        for act in (made.check, lambda: made.answer([PROMPT])):
            with pytest.raises(ModelError, match="address of the model is none"):
                act()
        assert not server.requests


def test_calls_of_others_in_the_process_pass_as_they_are():
    litellm = load_litellm()
    with (
        OpenAIServer() as other,
        OpenAIServer(moved(307, f"{other.api_base}/chat/completions")) as server,
    ):
        other.enqueue(servers.text("x" * 2**21))
        said = litellm.completion(
            model="openai/x",
            messages=[{"role": "user", "content": "hello"}],
            api_base=server.api_base,
            api_key=KEY,
        )
    assert len(said.choices[0].message.content) == 2**21


# -- what is read ------------------------------------------------------------------------------------------------------

WHOLE = servers.text("A: a wren.")


@pytest.mark.parametrize(
    "reply",
    [
        packed(WHOLE, "gzip", gzip.compress(WHOLE.body)),
        packed(WHOLE, "deflate", zlib.compress(WHOLE.body)),
        packed(WHOLE, "identity", WHOLE.body),
    ],
    ids=["gzip", "deflate", "identity"],
)
def test_a_packed_reply_is_read(reply):
    with OpenAIServer(reply) as server:
        (answer,) = model(server).answer([PROMPT])
        assert server.chats[0].headers["accept-encoding"] == "gzip"
    assert answer.text == "A: a wren."


LARGE = servers.text("quack " * 2**18)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (LARGE, "more than 1 MB"),
        (packed(LARGE, "gzip", gzip.compress(LARGE.body)), "more than 1 MB"),
        (servers.Reply(body=b"{", endless=True), "more than 1 MB"),
        (servers.Reply(code=500, body=b"quack " * 2**18), "more than 1 MB"),
        (packed(WHOLE, "br", b"\x00" * 100), "packed as 'br'"),
        (packed(WHOLE, "gzip", b"quack"), "cannot be unpacked"),
    ],
    ids=["large", "packed", "endless", "error", "brotli", "damaged"],
)
def test_a_reply_is_read_within_bounds(reply, said):
    with OpenAIServer(then=reply) as server:
        (failure,) = model(server).answer([PROMPT])
    assert said in failure.reason
    assert failure.retryable


def test_probabilities_have_more_room():
    told = servers.logprobs(
        *[{f"word{i}": 0.5, **{f"other{n}{i}": 0.01 for n in range(19)}} for i in range(1000)]
    )
    reply = servers.text("A: a wren.", logprobs=told)
    assert len(reply.body) > 2**20
    with OpenAIServer(reply, reply) as server:
        (answer,) = model(server).answer([Request("What is this?", candidates=(("wren", "finch")))])
        (refused,) = model(server).answer([PROMPT])
    assert isinstance(answer, Answer)
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
    bomb = packed(WHOLE, "gzip", gzip.compress(bytes(100 * 2**20), 1))
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


def test_a_client_of_the_programs_own_stays(monkeypatch):
    litellm = load_litellm()
    with httpx.Client() as own:
        monkeypatch.setattr(litellm, "client_session", own)
        assert load_litellm().client_session is own
