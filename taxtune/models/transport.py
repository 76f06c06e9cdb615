"""What leaves for an API, and what is read of its replies: to the agreed server alone, and no more than is wanted.

litellm sends what its providers send through the transport here. Calls of others in this process pass as they are.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import httpx

from taxtune.models.base import Fault
from taxtune.models.bodies import CodelessError, readable

__all__ = ["LimitError", "guarded", "install"]

# Most bytes that are read of a reply, unpacked; and of one with the probabilities of its tokens, which take a hundred
# times the room of its text.
_MOST, _MOST_WITH_LOGPROBS = 2**20, 2**24
# Headers about how a body came, which is not how it is passed on.
_PACKING = ("content-encoding", "content-length", "transfer-encoding")

Result = TypeVar("Result")


class LimitError(Exception):
    """A call was stopped, since it would have left for another server or read more than is wanted.

    Args:
        fault: What it is counted as.
        reason: What the server did, as the rest of a sentence that begins with "The model ...".
        remedy: What to do about it.
    """

    def __init__(self, fault: Fault, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.fault, self.reason, self.remedy = fault, reason, remedy


class _Call(NamedTuple):
    """The call under way: the server agreed on, the bytes of a reply, the monotonic time at which reading ends.

    `extra` are further fields of its body.
    """

    server: str | None
    most: int
    until: float
    extra: Mapping[str, Any]


_call: ContextVar[_Call | None] = ContextVar("taxtune_call", default=None)


def guarded(
    call: Callable[[], Result],
    server: str | None,
    seconds: float,
    *,
    logprobs: bool,
    extra: Mapping[str, Any] | None = None,
) -> Result:
    """Returns the result of a call of litellm; a `LimitError` may be the cause of what it raises.

    Args:
        call: The call; it sends in the thread that it is called in.
        server: Scheme, host and port of the agreed server; None for the provider's own.
        seconds: Time after which nothing more is read.
        logprobs: Whether the probabilities of tokens are asked for, which take more room than the text.
        extra: Further fields of the body, whatever litellm knows of them.
    """
    most = _MOST_WITH_LOGPROBS if logprobs else _MOST
    token = _call.set(
        _Call(server=server, most=most, until=time.monotonic() + seconds, extra=extra or {})
    )
    try:
        return call()
    finally:
        _call.reset(token)


def install(litellm: Any) -> None:
    """Lets litellm send through the transport, unless the program has given it a client or transport of its own."""
    if getattr(litellm, "sync_transport", None) is None:
        litellm.sync_transport = _Guard()
    if litellm.client_session is None:
        litellm.client_session = httpx.Client(
            transport=litellm.sync_transport, follow_redirects=True
        )


class _Guard(httpx.BaseTransport):
    """Sends requests through a client of its own, for the proxies and certificates of the environment."""

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
        response = self._client.send(_with_fields(request, call.extra), stream=True)
        with closing(response):
            if response.has_redirect_location:
                _check_target(request.url.join(response.headers["Location"]), _server(request.url))
            content = b"".join(_unpacked(response, call))
        try:
            status, content = readable(response.status_code, content)
        except CodelessError as error:
            raise LimitError(
                Fault.MALFORMED, f"returned an error, not a chat completion: {error}"
            ) from None
        headers = [pair for pair in response.headers.multi_items() if pair[0] not in _PACKING]
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))

    def close(self) -> None:
        """Leaves the connections open: litellm closes clients now and then that share the transport."""


def _with_fields(request: httpx.Request, extra: Mapping[str, Any]) -> httpx.Request:
    """Returns a request with further fields in its JSON."""
    if not extra:
        return request
    body = {**json.loads(request.read()), **extra}
    headers = [pair for pair in request.headers.multi_items() if pair[0] != "content-length"]
    return httpx.Request(
        request.method, request.url, headers=headers, json=body, extensions=request.extensions
    )


def _server(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def _check_target(url: httpx.URL, agreed: str) -> None:
    """Raises a `LimitError` where a request would go to another server than the agreed one, or its encrypted self."""
    server = _server(url)
    if server not in (agreed, agreed.replace("http://", "https://", 1)):
        reason = f"was not found at {agreed}, which sends its requests on to {server}"
        raise LimitError(
            Fault.NOT_FOUND, reason, "If you trust that server, give its address as `api_base`."
        )


def _unpacked(response: httpx.Response, call: _Call) -> Iterator[bytes]:
    """Yields the body of a reply, unpacked, and stops where it exceeds what the call allows."""
    packed = response.headers.get("content-encoding", "identity").lower()
    if packed not in ("identity", "gzip", "x-gzip", "deflate", ""):
        raise LimitError(
            Fault.MALFORMED, f"returned a reply packed as {packed!r}, which was not asked for"
        )
    unpack: Any = (
        None if packed in ("identity", "") else zlib.decompressobj(wbits=47)
    )  # gzip or zlib, by its head
    left = call.most
    for chunk in response.iter_raw():
        try:
            content = chunk if unpack is None else unpack.decompress(chunk, left + 1)
        except zlib.error as error:
            raise LimitError(
                Fault.MALFORMED, f"returned a reply that cannot be unpacked: {error}"
            ) from None
        left -= len(content)
        if left < 0:
            raise LimitError(
                Fault.MALFORMED, f"returned a reply of more than {call.most / 2**20:.0f} MB"
            )
        if time.monotonic() > call.until:
            raise TimeoutError
        yield content
