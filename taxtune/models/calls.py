"""Several calls under way at a time, and a call that is bounded in time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence
from contextvars import copy_context
from typing import TypeVar

__all__ = ["as_completed", "bounded"]

Item = TypeVar("Item")
Result = TypeVar("Result")


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
        _in_thread(run)
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


def bounded(call: Callable[[], Result], seconds: float) -> Result:
    """Returns the result of a call made in a thread, since the time-outs of HTTP clients begin anew with every byte.

    A thread whose time is up is left to itself.

    Raises:
        TimeoutError: If it takes longer than that.
    """
    done: queue.SimpleQueue[tuple[Result] | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((call(),))
        except BaseException as error:
            done.put(error)

    _in_thread(run)
    try:
        got = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(got, BaseException):
        raise got
    return got[0]


def _in_thread(run: Callable[[], None]) -> None:
    # A daemon, unlike those of `ThreadPoolExecutor`, which the end of the program waits for; in a context of its own,
    # so that its notes go to the display in force here.
    threading.Thread(target=copy_context().run, args=(run,), name="taxtune-call", daemon=True).start()
