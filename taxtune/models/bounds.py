"""Bounds on a call of an API, whichever client litellm makes it with: how long it takes, and how much it sends back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

__all__ = ["MOST_BYTES", "ReplyError", "bounded"]

T = TypeVar("T")

#: Most bytes of a reply: beyond what any model writes in the tokens that it is given.
MOST_BYTES = 1_000_000


class ReplyError(Exception):
    """A reply is too long, or compressed though that was not asked for; the message begins with a verb."""


@dataclass
class _Bound:
    """The end of a call, in seconds of the monotonic clock, and what is wrong with the reply if anything is."""

    end: float
    problem: str | None = None


_bound: ContextVar[_Bound | None] = ContextVar("taxtune_bound", default=None)


def bounded(call: Callable[[], T], seconds: float) -> T:
    """Returns what a call returns.

    It is made in a thread of its own, since the time-outs of HTTP clients begin anew with every byte. A thread whose
    time is up is left to itself, and ends with the next bytes that come.

    Raises:
        TimeoutError: If it takes longer than that.
        ReplyError: If the reply is too long, or compressed.
    """
    _watch_replies()
    bound = _Bound(time.monotonic() + seconds)
    done: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        _bound.set(bound)
        try:
            done.put((call(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=copy_context().run, args=(run,), name="taxtune-call", daemon=True).start()
    try:
        result, error = done.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if bound.problem is not None:
        raise ReplyError(bound.problem) from error
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


@cache
def _watch_replies() -> None:
    """Has httpx, through which all of litellm's clients go, count the bytes of replies to calls that are bounded.

    litellm offers no hook that all its providers' clients share.
    """
    import httpx

    plain = httpx.HTTPTransport.handle_request

    class Counted(httpx.SyncByteStream):
        """A reply of which no more is read than the bound allows."""

        def __init__(self, stream: Any, bound: _Bound) -> None:
            self._stream, self._bound = stream, bound

        def __iter__(self) -> Iterator[bytes]:
            read = 0
            for chunk in self._stream:
                read += len(chunk)
                if read > MOST_BYTES:
                    self._bound.problem = f"sent a reply of more than {MOST_BYTES:,} bytes"
                if self._bound.problem is not None or time.monotonic() > self._bound.end:
                    raise httpx.ReadError(self._bound.problem or "too late")
                yield chunk

        def close(self) -> None:
            self._stream.close()

    def handle_request(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        bound = _bound.get()
        if bound is None or request.method != "POST":
            return plain(self, request)
        # A kilobyte of gzip may be a megabyte.
        request.headers["accept-encoding"] = "identity"
        response = plain(self, request)
        if response.headers.get("content-encoding", "identity") != "identity":
            bound.problem = "sent a compressed reply, which was not asked for"
        response.stream = Counted(response.stream, bound)
        return response

    httpx.HTTPTransport.handle_request = handle_request  # type: ignore[method-assign]
