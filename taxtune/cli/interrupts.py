"""Ctrl-C and SIGTERM: a command ends with one line on standard error that says what of its work is kept.

Ctrl-C ends it with exit code 130. SIGTERM, which `kill`, a container or a queue of jobs ends a process with, does the
same, with exit code 143.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, ParamSpec

import typer

__all__ = ["ended_by_interrupt", "interrupts", "keep_replies", "keep_scores", "keep_work", "stoppable"]

Parameters = ParamSpec("Parameters")

_REPLIES_KEPT = "replies so far are saved; run the same command again to continue."
_SCORES_KEPT = "scores and embeddings so far are saved; run the same command again to compute the rest."


class Interrupts:
    """What ends the command that runs. As a context manager it turns SIGTERM into an interrupt.

    Attributes:
        kept: What is kept of the command's work, as a sentence; None while nothing is.
        code: The exit code of an interrupted command.
    """

    kept: str | None = None
    code = 130

    def __enter__(self) -> None:
        self.kept, self.code = None, 130
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            with suppress(ValueError):  # outside the main thread
                signal.signal(signal.SIGTERM, self._terminate)

    def __exit__(self, *_: object) -> None:
        if signal.getsignal(signal.SIGTERM) == self._terminate:
            with suppress(ValueError):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminate(self, *_: object) -> None:
        self.code = 143
        handler: Any = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, None)


#: Those of the command that runs.
interrupts = Interrupts()


@contextmanager
def ended_by_interrupt(said: Callable[[], str]) -> Iterator[None]:
    """Ends the command on Ctrl-C, with one line on standard error.

    Args:
        said: Returns what follows "stopped; " in that line.

    Raises:
        typer.Exit: With code 130, or 143 after SIGTERM.
    """
    try:
        with interrupts:
            yield
    except KeyboardInterrupt:
        # A terminal has written ^C where the cursor was.
        start = "\n" if sys.stderr.isatty() else ""
        print(f"{start}taxtune: stopped; {said()}", file=sys.stderr)
        raise typer.Exit(interrupts.code) from None


def stoppable(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Makes a command end on Ctrl-C with exit code 130 and a line that says what is kept, see `keep_work`."""

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        with ended_by_interrupt(lambda: interrupts.kept or "nothing was saved."):
            command(*arguments, **options)

    return run


def keep_replies() -> None:
    """Takes note that from here on the replies of a model are kept as they come."""
    interrupts.kept = _REPLIES_KEPT


def keep_scores() -> None:
    """Takes note that from here on scores and embeddings that a model has made are kept."""
    interrupts.kept = interrupts.kept or _SCORES_KEPT


def keep_work(specs: Iterable[str | None]) -> None:
    """Takes note of what is kept from here on of the work of measures and similarities.

    Args:
        specs: What a user named them by, such as "rouge-1", "lexical", "sentence:MODEL" or "lave"; None is none.
    """
    from taxtune.metrics.registry import MEASURES

    for spec in specs:
        kind = MEASURES.get((spec or "").partition(":")[0])
        if kind is not None and "question" in kind.needs:
            keep_replies()
        elif ":" in (spec or "") or (kind is not None and kind.default_model is not None):
            keep_scores()
