"""Calls of an API: several under way at a time, each bounded in time and in the length of its reply."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from taxtune.models.api_errors import UnusableReplyError
from taxtune.models.base import Fault

__all__ = ["MOST_BYTES", "as_completed", "bounded"]

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")

#: Most bytes of a reply: beyond what any model writes in the tokens that it is given.
MOST_BYTES = 1_000_000


def as_completed(
    items: Sequence[Item], work: Callable[[Item, threading.Event], Result], concurrency: int
) -> Generator[tuple[int, Result]]:
    """Gives (place, what `work` makes of the item) as it comes; the items are begun in order.

    The first error ends everything, and so do Ctrl-C and closing the generator: items under way are told by the event
    and not waited for. What was answered before, and paid for, is given first.

    Args:
        items: What to work on.
        work: Called with an item and an event that is set when no result is wanted any more.
        concurrency: Items under way at a time.
    """
    stop, places = threading.Event(), iter(range(len(items)))
    finished: queue.SimpleQueue[tuple[int, Result] | BaseException] = queue.SimpleQueue()

    def run() -> None:
        for place in places:
            if stop.is_set():
                return
            try:
                finished.put((place, work(items[place], stop)))
            except BaseException as error:
                stop.set()  # before another call is begun
                finished.put(error)

    for _ in range(min(concurrency, len(items))):
        # Daemons, unlike those of `ThreadPoolExecutor`, which the end of the program waits for; each in a context of
        # its own, so that its notes go to the display in force here.
        threading.Thread(target=copy_context().run, args=(run,), name="taxtune-model", daemon=True).start()
    try:
        for _ in items:
            try:
                got = finished.get()
                if isinstance(got, BaseException):
                    raise got
            except BaseException:
                stop.set()
                while not finished.empty():
                    if isinstance(more := finished.get(), tuple):
                        yield more
                raise
            yield got
    finally:
        stop.set()


@dataclass
class _Bound:
    """The end of a call, in seconds of the monotonic clock, and what is wrong with the reply if anything is."""

    end: float
    problem: str | None = None


_bound: ContextVar[_Bound | None] = ContextVar("taxtune_bound", default=None)


def bounded(call: Callable[[], T], seconds: float) -> T:
    """Returns the result of a call.

    It is made in a thread of its own, since the time-outs of HTTP clients begin anew with every byte. A thread whose
    time is up is left to itself, and ends with the next bytes that come.

    Raises:
        UnusableReplyError: If it takes longer than that, or the reply is too long, or compressed.
    """
    _watch_replies()
    bound = _Bound(time.monotonic() + seconds)
    done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        _bound.set(bound)
        try:
            done.put((call(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=copy_context().run, args=(run,), name="taxtune-call", daemon=True).start()
    try:
        result, error = done.get(timeout=seconds)
    except queue.Empty:
        raise UnusableReplyError(Fault.TIMEOUT, "did not answer in time") from None
    if bound.problem is not None:
        raise UnusableReplyError(Fault.MALFORMED, bound.problem) from error
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
