"""Progress of long work, and notes about it, for the display in force.

    for file in track_each(files, "reading images"): ...
    with loading("the weights of the model"): ...
    note("12 images are left out: their label is not in the taxonomy.")

Without a display nothing is shown, and notes are logged as warnings of the logger "taxtune". The
display in force is a context variable: tasks of asyncio inherit it, and threads that report
anything run in a copied context.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Display", "Task", "loading", "note", "showing", "track", "track_each"]

T = TypeVar("T")
D = TypeVar("D", bound="Display")


@dataclass(eq=False)
class Task:
    """Work that is under way.

    Attributes:
        what: What is done, such as "reading images".
        total: The number of steps; None where it is unknown, or there is one.
        display: The display that shows it.
        done: Steps that are done.
        stored: How many of these came from a store.
        ended: Whether the work has ended, finished or not.
    """

    what: str
    total: int | None
    display: Display
    done: int = 0
    stored: int = 0
    ended: bool = False

    def advance(self, count: int = 1, *, stored: int = 0) -> None:
        """Reports that `count` more steps are done, `stored` of them from a store."""
        self.done += count
        self.stored += stored
        self.display.update(self)


class Display:
    """Shows no progress and logs notes as warnings; subclass it to show more.

    It is called from any thread.
    """

    def note(self, text: str) -> None:
        """Shows a note that needs no action."""
        logging.getLogger("taxtune").warning("%s", text)

    def update(self, task: Task) -> None:
        """Shows a task; called when it begins, advances and ends."""

    def close(self) -> None:
        """Clears what is still shown; called when the display is no longer in force."""


_NO_DISPLAY = Display()
_display: ContextVar[Display] = ContextVar("taxtune_display", default=_NO_DISPLAY)


@contextmanager
def showing(display: D) -> Iterator[D]:
    """Puts a display in force for the block."""
    token = _display.set(display)
    try:
        yield display
    finally:
        _display.reset(token)
        display.close()


def note(text: str) -> None:
    """Reports a note that needs no action."""
    _display.get().note(text)


@contextmanager
def track(what: str, total: int | None = None, *, done: int = 0, stored: int = 0) -> Iterator[Task]:
    """Reports the progress of the block and yields the task to `advance`.

    Args:
        what: The work.
        total: The number of steps.
        done: Steps that are done already.
        stored: How many of these came from a store.
    """
    task = Task(what, total, _display.get(), done, stored)
    task.advance(0)
    try:
        yield task
    finally:
        task.ended = True
        task.advance(0)


def loading(what: str) -> AbstractContextManager[Task]:
    """Reports that the block loads something, such as "the weights of the model"."""
    return track(f"loading {what}")


def track_each(items: Collection[T], what: str) -> Iterator[T]:
    """Yields items, and reports how many are done."""
    with track(what, len(items)) as task:
        for item in items:
            yield item
            task.advance()
