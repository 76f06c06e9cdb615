"""Calls under way side by side, in threads that nobody has to wait for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

__all__ = ["Effort", "thread_map"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Effort:
    """Whether it is worth trying calls again, told from those made side by side.

    Where a call has failed to its last attempt and none has succeeded, the server is down for all of them, and to wait
    as long for each would only keep the user waiting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered = False
        self.stop = threading.Event()
        self.vain = threading.Event()

    def failed(self) -> None:
        """Takes note of a call that failed to its last attempt."""
        with self._lock:
            if not self._answered:
                self.vain.set()

    def succeeded(self) -> None:
        """Takes note of a call that was answered."""
        with self._lock:
            self._answered = True
            self.vain.clear()


def thread_map(items: Sequence[Item], work: Callable[[Item, Effort], Result], concurrency: int) -> list[Result]:
    """Returns what `work` makes of each item, several at a time, in order; its first error ends everything.

    Unlike a pool of `concurrent.futures`, it does not wait at Ctrl-C for a server that does not answer.

    Args:
        items: What to work on.
        work: Called with an item and what the calls side by side share.
        concurrency: Items under way at a time, at least 1.
    """
    effort = Effort()
    open_places: queue.SimpleQueue[int] = queue.SimpleQueue()
    finished: queue.SimpleQueue[tuple[int, Result | None, BaseException | None]] = queue.SimpleQueue()
    for place in range(len(items)):
        open_places.put(place)

    def run() -> None:
        while not effort.stop.is_set():
            try:
                place = open_places.get_nowait()
            except queue.Empty:
                return
            try:
                finished.put((place, work(items[place], effort), None))
            except BaseException as error:
                finished.put((place, None, error))

    results: dict[int, Any] = {}
    for _ in range(min(concurrency, len(items))):
        # Each thread in a context of its own, so that its notes go to the display in force here.
        threading.Thread(target=copy_context().run, args=(run,), name="taxtune-model", daemon=True).start()
    try:
        for _ in items:
            place, result, error = finished.get()
            if error is not None:
                raise error
            results[place] = result
    finally:
        effort.stop.set()
    return [results[place] for place in range(len(items))]
