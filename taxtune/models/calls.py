"""Calls in threads: several under way at a time, and one that is bounded in time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

__all__ = ["as_completed", "bounded"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def as_completed(
    items: Sequence[Item], work: Callable[[Item, threading.Event], Result], concurrency: int
) -> Generator[tuple[int, Result]]:
    """Gives (place, result of `work`) as results come; the items are begun in order.

    The first error ends everything, and so do Ctrl-C and closing the generator: items under way are
    told by the event and not waited for. What was answered before, and paid for, is given first.

    Args:
        items: What to work on.
        work: Called with an item and an event that is set when no result is wanted any more.
        concurrency: Items under way at a time.
    """
    stop = threading.Event()
    places = iter(range(len(items)))
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
        _in_thread(run)
    try:
        for _ in items:
            try:
                result = _next(finished)
                if isinstance(result, BaseException):
                    raise result
            except BaseException:
                stop.set()
                while not finished.empty():
                    earlier = finished.get()
                    if isinstance(earlier, tuple):
                        yield earlier
                raise
            yield result
    finally:
        stop.set()


def _next(finished: queue.SimpleQueue[Result]) -> Result:
    """Returns the next result.

    It looks up once a second: a Ctrl-C that comes just before the wait begins would not end it.
    """
    while True:
        with suppress(queue.Empty):
            return finished.get(timeout=1)


def bounded(call: Callable[[], Result], seconds: float) -> Result:
    """Returns the result of a call made in a thread.

    (The time-outs of HTTP clients begin anew with every byte.) A thread whose time is up is left to
    itself.

    Raises:
        TimeoutError: If it takes longer than that.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    _in_thread(run)
    return future.result(timeout=seconds)


def _in_thread(run: Callable[[], None]) -> None:
    # A daemon, unlike those of `ThreadPoolExecutor`, which the end of the program waits for; in a
    # context of its own, so that its notes go to the display in force here.
    context = copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name="taxtune-call", daemon=True)
    thread.start()
