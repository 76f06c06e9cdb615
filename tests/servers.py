"""A small server that speaks OpenAI's chat API on 127.0.0.1, and misbehaves to order.

    with OpenAIServer(status(429, retry_after=0), "A: a mallard.") as server:
        ...  # point the client at server.api_base; the first call meets a 429, the second the text
    assert server.prompts == [...]

The replies are used up in order; `then` answers every call after them. A call that nothing was scripted for gets a 400
and makes the `with` block fail at its end, so that a test notices a call too many. In place of replies, a function
from the request's JSON to a reply can be given.
"""

from __future__ import annotations

import json
import math
import random
import socket
import struct
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from taxtune.models import ModelSettings, RetryPolicy

__all__ = [
    "OpenAIServer",
    "Reply",
    "Request",
    "calls",
    "closed_api_base",
    "content_filter",
    "dropped",
    "empty_body",
    "empty_text",
    "error_in_200",
    "every_fault",
    "half",
    "html",
    "invalid_json",
    "logprobs",
    "model_refusal",
    "model_settings",
    "no_choices",
    "refusal_text",
    "refusing",
    "slow",
    "status",
    "text",
    "troubled",
]

PROMPT_TOKENS, COMPLETION_TOKENS = 11, 7

#: From the JSON of a request to its reply.
Script = Callable[[dict[str, Any]], "Reply | str"]


@dataclass(frozen=True)
class Reply:
    """One HTTP reply.

    Attributes:
        code: The status.
        body: The body.
        headers: The headers, but for the length of the body.
        delay: Seconds before it.
        drop: Cuts the connection in place of it.
        half: Cuts the connection within it.
        trickle: Seconds between two bytes, those of the headers included.
        endless: Goes on for ever after the body, byte by byte if it trickles.
    """

    code: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    delay: float = 0.0
    drop: bool = False
    half: bool = False
    trickle: float = 0.0
    endless: bool = False


@dataclass(frozen=True)
class Request:
    """One request as it came in; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    json: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.json.get("messages", []))


def text(
    content: str | list[Any] | None,
    *,
    prompt_tokens: int = PROMPT_TOKENS,
    completion_tokens: int = COMPLETION_TOKENS,
    finish_reason: str = "stop",
    refusal: str | None = None,
    reasoning: str | None = None,
    model: str = "gpt-4o-2024-08-06",
    tool_calls: Sequence[Mapping[str, Any]] = (),
    logprobs: Mapping[str, Any] | None = None,
) -> Reply:
    """A well-formed chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if refusal is not None:
        message["refusal"] = refusal
    if tool_calls:
        message["tool_calls"] = list(tool_calls)
    payload = {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": logprobs}
        ],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }
    return Reply(body=json.dumps(payload).encode())


def logprobs(
    *places: Mapping[str | bytes, float], most: int = 20, in_bytes: bool = True
) -> dict[str, Any]:
    """Log-probabilities of an answer's tokens as OpenAI tells them.

    Args:
        places: At each place the token that was said, then the others, with their probabilities; what is a part of a
            character as bytes.
        most: How many of the most likely ones are told at a place.
        in_bytes: Whether the bytes of the tokens are told.
    """

    def told(token: str | bytes, share: float) -> dict[str, Any]:
        raw = token if isinstance(token, bytes) else token.encode()
        written = (
            token
            if isinstance(token, str)
            else "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)
        )
        logprob = math.log(share) if share > 0 else -9999.0
        return {"token": written, "bytes": list(raw) if in_bytes else None, "logprob": logprob}

    content = []
    for place in places:
        best = sorted(place.items(), key=lambda item: -item[1])[:most]
        content.append(
            {**told(*next(iter(place.items()))), "top_logprobs": [told(*each) for each in best]}
        )
    return {"content": content, "refusal": None}


def calls(
    *wanted: tuple[str, Any], content: str | None = None, finish_reason: str = "tool_calls"
) -> Reply:
    """A completion that calls tools: each a name and arguments, as an object or as the text that stands for one."""
    made = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for number, (name, arguments) in enumerate(wanted)
    ]
    return text(content, tool_calls=made, finish_reason=finish_reason)


def status(code: int, message: str | None = None, *, retry_after: float | None = None) -> Reply:
    """An error in OpenAI's form."""
    known = {
        401: ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
        403: ("You are not allowed to use this model.", "permission_error", "forbidden"),
        404: ("The model does not exist.", "invalid_request_error", "model_not_found"),
        429: ("Rate limit reached.", "rate_limit_error", "rate_limit_exceeded"),
    }
    default, kind, error_code = known.get(
        code, ("The server had an error.", "server_error", "server_error")
    )
    headers = {"Content-Type": "application/json"}
    if retry_after is not None:
        headers["Retry-After"] = f"{retry_after:g}"
    payload = {
        "error": {"message": message or default, "type": kind, "param": None, "code": error_code}
    }
    return Reply(code=code, body=json.dumps(payload).encode(), headers=headers)


def empty_body() -> Reply:
    """200 with nothing in it."""
    return Reply()


def empty_text() -> Reply:
    """A completion whose text is empty."""
    return text("", completion_tokens=0)


def invalid_json() -> Reply:
    """200 with half a JSON object, which is all that was announced."""
    return Reply(body=text("A: a mallard.").body[:100])


def no_choices(**changes: Any) -> Reply:
    """A completion with an empty list of choices, or with what is given in its place."""
    return Reply(body=json.dumps({**json.loads(text("").body), "choices": [], **changes}).encode())


def error_in_200(message: str, **more: Any) -> Reply:
    """An error in the body of a reply whose status is 200."""
    return Reply(body=json.dumps({"error": {"message": message, **more}}).encode())


def refusing(
    *parameters: str, then: Reply | str, words: str = "Unsupported parameter: '{}'."
) -> Script:
    """A script that refuses calls with any of some parameters, by name, and else replies."""

    def reply(body: dict[str, Any]) -> Reply | str:
        named = [name for name in parameters if name in body]
        return status(400, words.format(named[0])) if named else then

    return reply


def html(
    page: str = "<!DOCTYPE html><html><body><h1>Sign in</h1></body></html>", code: int = 200
) -> Reply:
    """A web page, as a captive portal or a wrong address gives."""
    return Reply(
        code=code, body=page.encode(), headers={"Content-Type": "text/html; charset=utf-8"}
    )


def refusal_text(content: str = "I'm sorry, but I can't help with that request.") -> Reply:
    """A refusal in the completion's text."""
    return text(content)


def model_refusal(reason: str = "I can't assist with that.") -> Reply:
    """A refusal in the message's `refusal` field, with no content."""
    return text(None, refusal=reason)


def content_filter() -> Reply:
    """A completion that a content filter cut off."""
    return text("", finish_reason="content_filter")


def slow(seconds: float, then: Reply | str = "too late") -> Reply:
    """A reply that comes after so many seconds (or when the server closes)."""
    return replace(_as_reply(then), delay=seconds)


def dropped() -> Reply:
    """The connection is reset in place of a reply."""
    return Reply(drop=True)


def half() -> Reply:
    """The connection is cut in the middle of a completion."""
    return replace(text("A: a mallard."), half=True)


def every_fault(silence: float = 8.0, secret: str = "") -> dict[str, tuple[Reply, ...]]:
    """Every fault that may pass, by the key that it is counted under.

    Args:
        silence: Seconds that a silent server keeps the connection open.
        secret: What the server blurts out wherever it says something.
    """
    return {
        "rate_limit": (status(429, f"Slow down, {secret}"), status(429, retry_after=0)),
        "server_error": (status(500, f"Broken: {secret}"), status(503, f"Overloaded: {secret}")),
        "timeout": (slow(silence),),
        "lost_connection": (dropped(), half()),
        "malformed_response": (
            invalid_json(),
            empty_body(),
            Reply(body=f'{{"key": {secret}'.encode()),
            no_choices(error=secret),
            html(f"<html>{secret}</html>"),
            no_choices(choices=None, echo=secret),
        ),
        "empty_text": (empty_text(), text(None), text(" \n")),
        "refusal": (model_refusal(f"I can't assist with {secret}."),),
        "content_filter": (content_filter(), status(400, f"content management policy: {secret}")),
    }


def closed_api_base() -> str:
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def model_settings(server: OpenAIServer | str, **given: Any) -> ModelSettings:
    """Returns the settings of a model behind a server in tests: short waits.

    Args:
        server: The server, or its address.
        given: Fields of `ModelSettings` and of `RetryPolicy`.
    """
    policy = {"first_wait": 0.01, "max_retries": 2, "timeout": 30.0}
    policy |= {
        field.name: given.pop(field.name) for field in fields(RetryPolicy) if field.name in given
    }
    base = server if isinstance(server, str) else server.api_base
    return ModelSettings(api_base=base, retry=RetryPolicy(**policy), **given)


def troubled(
    script: Script, faults: Mapping[str, Sequence[Reply]], *, share: float, seed: int = 0
) -> tuple[Script, Counter[str]]:
    """Returns a script that answers a share of the calls with a fault in place of the script's reply, at random.

    Args:
        script: What answers the other calls.
        faults: The faults by kind, each kind as frequent as the others.
        share: How many calls meet a fault, in [0, 1].
        seed: Of the random numbers.

    Returns:
        The script, and how many faults of each kind it has made so far.
    """
    chance = random.Random(seed)
    made: Counter[str] = Counter()

    def reply(body: dict[str, Any]) -> Reply | str:
        if chance.random() >= share:
            return script(body)
        kind = chance.choice(list(faults))
        made[kind] += 1
        return chance.choice(faults[kind])

    return reply, made


class OpenAIServer:
    """Serves scripted replies on a free port of 127.0.0.1 while the `with` block lasts.

    Args:
        replies: Replies in order (a string stands for `text(string)`), or one function from the request's JSON to a
            reply; functions are called under a lock, one request at a time.
        then: The reply to every call after those; None makes such a call an error.
        slots: Calls that are worked on at a time; None for any number.
        when_full: The reply to a call that finds no slot free; None lets it wait for one.
    """

    def __init__(
        self,
        *replies: Reply | str | Script,
        then: Reply | str | None = None,
        slots: int | None = None,
        when_full: Reply | None = None,
    ) -> None:
        self.then = then
        self.when_full = when_full
        self.refused = 0
        self._slots = threading.Semaphore(sys.maxsize if slots is None else slots)
        self.requests: list[Request] = []
        self.unexpected = 0
        self.most_at_once = 0
        self._at_once = 0
        self._script: Script | None = None
        self._queue: deque[Reply | str] = deque()
        for reply in replies:
            if callable(reply):
                self._script = reply
            else:
                self._queue.append(reply)
        if self._script is not None and self._queue:
            raise ValueError("give replies or one function, not both")
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server: _Server | None = None

    def enqueue(self, *replies: Reply | str) -> None:
        """Adds replies to the end of the script."""
        with self._lock:
            self._queue.extend(replies)

    @property
    def api_base(self) -> str:
        """The address to give to an OpenAI client, with /v1."""
        assert self._server is not None, "the server runs only inside its with block"
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def chats(self) -> list[Request]:
        """The chat completion requests so far, in order of arrival."""
        with self._lock:
            return [
                request for request in self.requests if request.path.endswith("/chat/completions")
            ]

    @property
    def prompts(self) -> list[str]:
        """The text of the last message of each chat request."""
        return [_text_of(request.messages[-1]) for request in self.chats]

    def __enter__(self) -> OpenAIServer:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._server is not None
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        if kind is None:
            assert self.unexpected == 0, (
                f"{self.unexpected} calls came that nothing was scripted for"
            )

    def _reply(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            if request.method == "GET":
                return Reply(
                    body=json.dumps(
                        {"object": "list", "data": [{"id": "gpt-4o", "object": "model"}]}
                    ).encode()
                )
            if self._script is not None:
                return _as_reply(self._script(request.json))
            if self._queue:
                return _as_reply(self._queue.popleft())
            if self.then is not None:
                return _as_reply(self.then)
            self.unexpected += 1
            return status(400, "nothing was scripted for this call")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a client that went away between two requests: what a test reads on stderr is the client's."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _as_reply(reply: Reply | str) -> Reply:
    return text(reply) if isinstance(reply, str) else reply


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _handler(owner: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                payload = json.loads(body) if body else {}
            except ValueError:
                payload = {}
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = owner._reply(Request(self.command, self.path, headers, body, payload))
            with owner._lock:
                owner._at_once += 1
                owner.most_at_once = max(owner.most_at_once, owner._at_once)
            worked_on = owner._slots.acquire(blocking=owner.when_full is None)
            if not worked_on and owner.when_full is not None:
                reply = owner.when_full
            try:
                self._send(reply)
            except OSError:
                self.close_connection = True  # the client gave up waiting
            finally:
                if worked_on:
                    owner._slots.release()
                with owner._lock:
                    owner._at_once -= 1
                    owner.refused += not worked_on

        def _send(self, reply: Reply) -> None:
            if reply.delay:
                owner._closing.wait(reply.delay)
            if reply.drop:
                self._reset()
                return
            self.send_response(reply.code)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.endless:
                self.send_header("Connection", "close")
            else:
                self.send_header("Content-Length", str(len(reply.body)))
            if reply.trickle and not reply.endless:
                for byte in b"".join([*self._headers_buffer, b"\r\n", reply.body]):
                    self.connection.sendall(bytes([byte]))
                    owner._closing.wait(reply.trickle)
                return
            self.end_headers()
            if reply.half:
                self.wfile.write(reply.body[: len(reply.body) // 2])
                self.wfile.flush()
                self._reset()
                return
            self.wfile.write(reply.body)
            while reply.endless and not owner._closing.is_set():
                self.wfile.write(b"x" * (1 if reply.trickle else 2**16))
                owner._closing.wait(reply.trickle)

        def _reset(self) -> None:
            # Lingering for no time makes close() send a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Stays silent."""

    return Handler
