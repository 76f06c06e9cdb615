"""Ctrl-C that is not lost.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. Where that is a finalizer or a callback of the
garbage collector, of which there are many while large packages are imported, the interrupt is printed and swallowed,
and the run would go on as if nothing had been pressed.

What is interrupted ends with exit code 130 and one line on standard error that says what of the work is kept. SIGTERM,
which `kill`, a container or a queue of jobs ends a process with, does the same, with exit code 143.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, ParamSpec

import typer

__all__ = [
    "Interrupts",
    "ended_by_interrupt",
    "interrupts",
    "keep_replies",
    "keep_scores",
    "keep_work",
    "stoppable",
]

Parameters = ParamSpec("Parameters")

_REPLIES_KEPT = "replies so far are saved; run the same command again to continue."
_SCORES_KEPT = "scores and embeddings so far are saved; run the same command again to compute the rest."


class Interrupts:
    """Repeats an interrupt until it is heard. Use it as a context manager around what can be interrupted.

    Args:
        every: Seconds after which an interrupt that was not heard is repeated.
    """

    def __init__(self, every: float = 1.5) -> None:
        self._every = every
        self._before: list[tuple[signal.Signals, Any]] = []
        self._heard = threading.Event()
        self._repeating = False
        #: What is kept of the work of the command that runs, as a sentence; None while nothing is.
        self.kept: str | None = None
        #: The exit code of what is interrupted.
        self.code = 130

    def __enter__(self) -> None:
        self._heard.clear()
        self._repeating = False
        self.kept, self.code = None, 130
        # Not where interrupts are ignored (nohup) or somebody else's, nor outside the main thread, which has none.
        for number, default, handler in (
            (signal.SIGINT, signal.default_int_handler, self._interrupt),
            (signal.SIGTERM, signal.SIG_DFL, self._terminate),
        ):
            if signal.getsignal(number) is default:
                with suppress(ValueError):
                    self._before.append((number, signal.signal(number, handler)))

    def __exit__(self, *_: object) -> None:
        self.heard()
        while self._before:
            signal.signal(*self._before.pop())

    def heard(self) -> None:
        """Ends the repetition: the interrupt, if there was one, has come to where it is dealt with."""
        self._heard.set()

    def _interrupt(self, *_: object) -> None:
        if not self._repeating:
            self._repeating = True
            threading.Thread(target=self._repeat, name="taxtune-interrupt", daemon=True).start()
        raise KeyboardInterrupt

    def _terminate(self, *_: object) -> None:
        self.code = 143
        handler = signal.getsignal(signal.SIGINT)  # of whoever handles interrupts now; of nobody where they are ignored
        (handler if callable(handler) else self._interrupt)(signal.SIGINT, None)

    def _repeat(self) -> None:
        while not self._heard.wait(self._every):
            if hasattr(signal, "pthread_kill"):
                # To the main thread itself, so that it also wakes from a wait for a lock.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                _thread.interrupt_main()


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
