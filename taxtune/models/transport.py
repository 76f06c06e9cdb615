"""What leaves for an API, and what is read of its replies: for the agreed server, within bounds.

litellm sends what its providers send through the transport here. Calls of others in this process
pass as they are.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import httpx

from taxtune.models.base import CallError, Fault
from taxtune.models.bodies import readable
from taxtune.models.calls import bounded

__all__ = ["OF_FILES", "guarded", "install", "responder"]

#: The module of litellm that makes the clients of files and batches; older versions lack it.
OF_FILES = "litellm.llms.openai.workload_identity"

# Most bytes that are read of a reply, unpacked.
_MOST_BYTES = 2**20
# The same of a reply with the probabilities of its tokens, which take a hundred times the room of
# its text.
_MOST_BYTES_WITH_LOGPROBS = 2**24
# Headers about how a body came, which is not how it is passed on.
_PACKING = ("content-encoding", "content-length", "transfer-encoding")

Result = TypeVar("Result")


class _Call(NamedTuple):
    """The call under way.

    Attributes:
        server: Scheme, host and port of the agreed server; None for the provider's own.
        most_bytes: Bytes that are read of a reply.
        deadline: The monotonic time at which reading ends.
        extra: Further fields of the call's body.
        is_chat: Whether it asks for a chat completion.
    """

    server: str | None
    most_bytes: int
    deadline: float
    extra: Mapping[str, Any]
    is_chat: bool


_Respond = Callable[[httpx.Request], httpx.Response]
_call: ContextVar[_Call | None] = ContextVar("taxtune_call", default=None)
#: Answers requests, of which none then leaves; None for the server.
responder: ContextVar[_Respond | None] = ContextVar("taxtune_responder", default=None)


def guarded(
    call: Callable[[], Result],
    server: str | None,
    seconds: float,
    *,
    logprobs: bool,
    extra: Mapping[str, Any],
    replies: int | None = None,
) -> Result:
    """Returns the result of a call of litellm; a `CallError` may be the cause of what it raises.

    Args:
        call: The call.
        server: Scheme, host and port of the agreed server; None for the provider's own.
        seconds: Time that it may take.
        logprobs: Whether the probabilities of tokens are asked for, which take more room than the
            text.
        extra: Further fields of the body, whatever litellm knows of them.
        replies: The most replies in a file that it asks for; None for a chat completion.

    Raises:
        TimeoutError: If it takes longer.
    """
    most_bytes = _MOST_BYTES_WITH_LOGPROBS if logprobs else _MOST_BYTES
    limits = _Call(
        server=server,
        most_bytes=most_bytes * (replies or 1),
        deadline=time.monotonic() + seconds,
        extra=extra,
        is_chat=replies is None,
    )
    token = _call.set(limits)
    try:
        return bounded(call, seconds)
    finally:
        _call.reset(token)


def install(litellm: Any) -> None:
    """Lets litellm send through the transport, unless the program gave it a client of its own."""
    if getattr(litellm, "sync_transport", None) is None:
        litellm.sync_transport = _Guard()
        with suppress(ImportError):  # files and batches go through clients that take no transport
            clients = import_module(OF_FILES)
            clients.OpenAIHTTPClient = partial(  # type: ignore[attr-defined]
                httpx.Client, transport=litellm.sync_transport, follow_redirects=True
            )
    if litellm.client_session is None:
        litellm.client_session = httpx.Client(
            transport=litellm.sync_transport, follow_redirects=True
        )


class _Guard(httpx.BaseTransport):
    """Sends requests through a client with the proxies and certificates of the environment."""

    def __init__(self) -> None:
        from litellm.llms.custom_httpx.http_handler import get_ssl_configuration

        limits = httpx.Limits(max_connections=1000, max_keepalive_connections=100)
        self._client = httpx.Client(verify=get_ssl_configuration(), limits=limits)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        call = _call.get()
        if call is None:
            return self._client.send(request, stream=True)
        if call.server is not None:
            _check_target(request.url, call.server)
        request.headers["Accept-Encoding"] = "gzip"
        send = responder.get() or partial(self._client.send, stream=True)
        response = send(_with_fields(request, call.extra))
        with closing(response):
            if response.has_redirect_location:
                _check_target(request.url.join(response.headers["Location"]), _server(request.url))
            content = b"".join(_unpacked(response, call))
        status = response.status_code
        if call.is_chat:
            status, content = readable(status, content)
        headers = [pair for pair in response.headers.multi_items() if pair[0] not in _PACKING]
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))

    def close(self) -> None:
        """Leaves the connections open: litellm now and then closes clients that share them."""


def _with_fields(request: httpx.Request, extra: Mapping[str, Any]) -> httpx.Request:
    """Returns a request with further fields in its JSON."""
    if not extra:
        return request
    headers = [pair for pair in request.headers.multi_items() if pair[0] != "content-length"]
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        json={**json.loads(request.read()), **extra},
        extensions=request.extensions,
    )


def _server(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def _check_target(url: httpx.URL, agreed: str) -> None:
    """Raises a `CallError` if a request would go to another server than the agreed one.

    The agreed server may send it to its encrypted self.
    """
    server = _server(url)
    encrypted = agreed.replace("http://", "https://", 1)
    if server in (agreed, encrypted):
        return
    reason = f"was not found at {agreed}, which sends its requests on to {server}"
    remedy = "If you trust that server, give its address as `api_base`."
    raise CallError(Fault.NOT_FOUND, reason, remedy)


def _unpacked(response: httpx.Response, call: _Call) -> Iterator[bytes]:
    """Yields the body of a reply, unpacked, and stops where it exceeds what the call allows."""
    packing = response.headers.get("content-encoding", "identity").lower()
    unpack: Any = None
    if packing in ("gzip", "x-gzip", "deflate"):
        unpack = zlib.decompressobj(wbits=47)  # gzip or zlib, by its head
    elif packing not in ("identity", ""):
        reason = f"returned a reply packed as {packing!r}, which was not asked for"
        raise CallError(Fault.MALFORMED, reason)
    left = call.most_bytes
    for chunk in response.iter_raw():
        try:
            content = chunk if unpack is None else unpack.decompress(chunk, left + 1)
        except zlib.error as error:
            reason = f"returned a reply that cannot be unpacked: {error}"
            raise CallError(Fault.MALFORMED, reason) from None
        left -= len(content)
        if left < 0:
            reason = f"returned a reply of more than {call.most_bytes / 2**20:.0f} MB"
            raise CallError(Fault.MALFORMED, reason)
        if time.monotonic() > call.deadline:
            raise TimeoutError
        yield content
