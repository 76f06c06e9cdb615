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
import re
import socket
import struct
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from email import message_from_bytes
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from taxtune.models import ModelSettings, RetryPolicy

__all__ = [
    "BatchServer",
    "OpenAIServer",
    "Reply",
    "Request",
    "calls",
    "closed_api_base",
    "content_filter",
    "dropped",
    "empty_text",
    "error_in_200",
    "every_fault",
    "half",
    "html",
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
    def messages(self):
        return list(self.json.get("messages", []))


def text(
    content,
    *,
    prompt_tokens=PROMPT_TOKENS,
    completion_tokens=COMPLETION_TOKENS,
    finish_reason="stop",
    refusal=None,
    reasoning=None,
    model="gpt-4o-2024-08-06",
    tool_calls=(),
    logprobs=None,
):
    """A well-formed chat completion."""
    message = {"role": "assistant", "content": content}
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
    return _as_json(payload)


def logprobs(*places, most=20, in_bytes=True):
    """Log-probabilities of an answer's tokens as OpenAI tells them.

    Args:
        places: At each place the token that was said, then the others, with their probabilities; what is a part of a
            character as bytes.
        most: How many of the most likely ones are told at a place.
        in_bytes: Whether the bytes of the tokens are told.
    """

    def told(token, share):
        raw = token if isinstance(token, bytes) else token.encode()
        if isinstance(token, bytes):
            token = "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
        logprob = math.log(share) if share > 0 else -9999.0
        return {"token": token, "bytes": list(raw) if in_bytes else None, "logprob": logprob}

    content = []
    for place in places:
        first = next(iter(place))
        best = sorted(place.items(), key=lambda item: -item[1])[:most]
        alternatives = [told(token, share) for token, share in best]
        content.append({**told(first, place[first]), "top_logprobs": alternatives})
    return {"content": content, "refusal": None}


def calls(*wanted, content=None, finish_reason="tool_calls"):
    """A completion that calls tools: each a name and arguments, an object or a text for one."""
    made = []
    for number, (name, arguments) in enumerate(wanted):
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        function = {"name": name, "arguments": arguments}
        made.append({"id": f"call_{number}", "type": "function", "function": function})
    return text(content, tool_calls=made, finish_reason=finish_reason)


def status(code, message=None, *, retry_after=None):
    """An error in OpenAI's form."""
    known = {
        401: ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
        403: ("You are not allowed to use this model.", "permission_error", "forbidden"),
        404: ("The model does not exist.", "invalid_request_error", "model_not_found"),
        429: ("Rate limit reached.", "rate_limit_error", "rate_limit_exceeded"),
    }
    other = ("The server had an error.", "server_error", "server_error")
    default, kind, name = known.get(code, other)
    error = {"message": message or default, "type": kind, "param": None, "code": name}
    reply = _as_json({"error": error}, code)
    if retry_after is None:
        return reply
    return replace(reply, headers={**reply.headers, "Retry-After": f"{retry_after:g}"})


def empty_text():
    """A completion whose text is empty."""
    return text("", completion_tokens=0)


def no_choices(**changes):
    """A completion with an empty list of choices, or with what is given in its place."""
    return _as_json({**json.loads(text("").body), "choices": [], **changes})


def error_in_200(message, **more):
    """An error in the body of a reply whose status is 200."""
    return _as_json({"error": {"message": message, **more}})


def refusing(*parameters, then, words="Unsupported parameter: '{}'."):
    """A script that refuses calls with any of some parameters, by name, and else replies."""

    def reply(body):
        named = [name for name in parameters if name in body]
        return status(400, words.format(named[0])) if named else then

    return reply


def html(page="<!DOCTYPE html><html><body><h1>Sign in</h1></body></html>", code=200):
    """A web page, as a captive portal or a wrong address gives."""
    headers = {"Content-Type": "text/html; charset=utf-8"}
    return Reply(code=code, body=page.encode(), headers=headers)


def refusal_text(content="I'm sorry, but I can't help with that request."):
    """A refusal in the completion's text."""
    return text(content)


def model_refusal(reason="I can't assist with that."):
    """A refusal in the message's `refusal` field, with no content."""
    return text(None, refusal=reason)


def content_filter():
    """A completion that a content filter cut off."""
    return text("", finish_reason="content_filter")


def slow(seconds, then="too late"):
    """A reply that comes after so many seconds (or when the server closes)."""
    return replace(_as_reply(then), delay=seconds)


def dropped():
    """The connection is reset in place of a reply."""
    return Reply(drop=True)


def half():
    """The connection is cut in the middle of a completion."""
    return replace(text("A: a mallard."), half=True)


def every_fault(silence=8.0, secret=""):
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
            Reply(body=text("A: a mallard.").body[:100]),  # half a JSON object
            Reply(),
            Reply(body=f'{{"key": {secret}'.encode()),
            no_choices(error=secret),
            html(f"<html>{secret}</html>"),
            no_choices(choices=None, echo=secret),
        ),
        "empty_text": (empty_text(), text(None), text(" \n")),
        "refusal": (model_refusal(f"I can't assist with {secret}."),),
        "content_filter": (content_filter(), status(400, f"content management policy: {secret}")),
    }


def closed_api_base():
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def model_settings(server, **given):
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


def troubled(script, faults, *, share, seed=0):
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
    made = Counter()

    def reply(body):
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
        *replies,
        then=None,
        slots=None,
        when_full=None,
    ):
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

    def enqueue(self, *replies):
        """Adds replies to the end of the script."""
        with self._lock:
            self._queue.extend(replies)

    @property
    def api_base(self):
        """The address to give to an OpenAI client, with /v1."""
        assert self._server is not None, "the server runs only inside its with block"
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def chats(self):
        """The chat completion requests so far, in order of arrival."""
        with self._lock:
            requests = list(self.requests)
        return [request for request in requests if request.path.endswith("/chat/completions")]

    @property
    def prompts(self):
        """The text of the last message of each chat request."""
        return [_text_of(request.messages[-1]) for request in self.chats]

    def __enter__(self):
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        serve = partial(self._server.serve_forever, poll_interval=0.02)
        self._thread = threading.Thread(target=serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        assert self._server is not None
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        if kind is None:
            assert not self.unexpected, f"{self.unexpected} calls that nothing was scripted for"

    def _reply(self, request):
        with self._lock:
            self.requests.append(request)
            if request.method == "GET":
                return _as_json({"object": "list", "data": [{"id": "gpt-4o", "object": "model"}]})
            if self._script is not None:
                return _as_reply(self._script(request.json))
            if self._queue:
                return _as_reply(self._queue.popleft())
            if self.then is not None:
                return _as_reply(self.then)
            self.unexpected += 1
            return status(400, "nothing was scripted for this call")


class BatchServer(OpenAIServer):
    """A server that also takes batches, which end when the test says so.

    Args:
        script: From the JSON of a chat request to its reply, live and in batches.

    Attributes:
        paid: How often each request was accepted in a batch, by its custom_id.
        batches: The batches, the latest last, as the server tells them.
        page_size: How many it lists at a time.
    """

    def __init__(self, script):
        super().__init__(script)
        self.paid = Counter()
        self.batches = []
        self.page_size = 100
        self._files = {}

    def lines(self, batch):
        """The requests of a batch."""
        return _json_lines(self._files[batch["input_file_id"]])

    def end(self, how="completed", *, lost=(), rejected=()):
        """Ends all batches, the replies in another order than the requests.

        Args:
            how: Their status.
            lost: Prompts without a line in the output.
            rejected: Prompts whose line has an error.
        """
        for batch in self.batches:
            if batch["status"] == "in_progress":
                self._end(batch, how, lost, rejected)

    def _end(self, batch, how, lost, rejected):
        output = []
        errors = []
        for line in reversed(self.lines(batch)):
            prompt = _text_of(line["body"]["messages"][-1])
            if how != "completed" or prompt in lost:
                continue
            reply = _as_reply(self._script(line["body"]))
            if prompt in rejected:
                reply = status(400, "The image is too small.")
            response = {"status_code": reply.code, "body": json.loads(reply.body)}
            told = {"custom_id": line["custom_id"], "response": response, "error": None}
            (errors if reply.code != 200 else output).append(told)
        if how == "expired":
            error = {"code": "batch_expired", "message": "The batch expired before this request."}
            for line in self.lines(batch):
                errors.append({"custom_id": line["custom_id"], "response": None, "error": error})
        batch["status"] = how
        batch["output_file_id"] = self._keep(output)
        batch["error_file_id"] = self._keep(errors)

    def _keep(self, lines):
        if not lines:
            return None
        return self._store("\n".join(map(json.dumps, lines)).encode())

    def _store(self, content):
        name = f"file-{len(self._files)}"
        self._files[name] = content
        return name

    def _reply(self, request):
        path, _, query = request.path.partition("?")
        if path.endswith("/chat/completions"):
            return super()._reply(request)
        with self._lock:
            self.requests.append(request)
            kind, *names = re.search("(?:files|batches).*", path)[0].split("/")
            known = [*self._files, *(batch["id"] for batch in self.batches)]
            if names and names[0] not in known:
                return status(404, f"No such {kind}.")
            if kind == "files" and request.method == "GET":
                return Reply(body=self._files[names[0]])
            if kind == "files":
                return _as_json(self._uploaded(request))
            if request.method == "POST":
                return _as_json(self._begun(request.json))
            if names:
                return _as_json(next(one for one in self.batches if one["id"] == names[0]))
            return _as_json(self._page(parse_qs(query)))

    def _uploaded(self, request):
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n"
        parts = message_from_bytes(head.encode() + request.body).get_payload()
        (file,) = (part for part in parts if part.get_filename())
        content = file.get_payload(decode=True)
        name = self._store(content)
        told = {"id": name, "object": "file", "bytes": len(content), "created_at": 1_700_000_000}
        return told | {"filename": file.get_filename(), "purpose": "batch", "status": "processed"}

    def _begun(self, wanted):
        batch = {"id": f"batch_{len(self.batches)}", "object": "batch", "status": "in_progress"}
        batch |= {"created_at": 1_700_000_000, **wanted}
        self.batches.append(batch)
        self.paid.update(line["custom_id"] for line in self.lines(batch))
        return batch

    def _page(self, query):
        latest_first = self.batches[::-1]
        after = query.get("after", [None])[0]
        ids = [batch["id"] for batch in latest_first]
        start = 0 if after is None else ids.index(after) + 1
        page = latest_first[start : start + self.page_size]
        has_more = start + len(page) < len(ids)
        return {"object": "list", "data": page, "has_more": has_more}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        """Says nothing of a client that went away between two requests: what a test reads on stderr is the client's."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _as_json(value, code=200):
    return Reply(code=code, body=json.dumps(value).encode())


def _as_reply(reply):
    return text(reply) if isinstance(reply, str) else reply


def _json_lines(content):
    return [json.loads(line) for line in content.splitlines()]


def _text_of(message):
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def _handler(owner):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self._serve()

        def do_POST(self):
            self._serve()

        def _serve(self):
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

        def _send(self, reply):
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

        def _reset(self):
            # Lingering for no time makes close() send a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        def log_message(self, format, *args):
            """Stays silent."""

    return Handler
