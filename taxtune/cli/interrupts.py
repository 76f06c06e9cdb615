"""Ctrl-C and SIGTERM: a command ends with one line on standard error, and exit code 130 or 143."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, ParamSpec

import typer

__all__ = ["ended_by_interrupt", "stoppable", "terminable"]

Parameters = ParamSpec("Parameters")

_KEPT = "run the same command again to continue: what a model has answered is not asked again."


@contextmanager
def terminable() -> Iterator[list[int]]:
    """Turns SIGTERM, which containers and queues of jobs end a process with, into a Ctrl-C; yields the exit code."""
    code = [130]

    def terminate(*_: object) -> None:
        code[0] = 143
        handler: Any = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, None)

    before = signal.getsignal(signal.SIGTERM)
    with suppress(ValueError):  # outside the main thread
        if before is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, terminate)
    try:
        yield code
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


@contextmanager
def ended_by_interrupt(said: Callable[[], str] = lambda: _KEPT) -> Iterator[None]:
    """Ends the command on Ctrl-C, with one line on standard error.

    Args:
        said: Returns what follows "stopped; " in that line.

    Raises:
        typer.Exit: With code 130, or 143 after SIGTERM.
    """
    with terminable() as code:
        try:
            yield
        except KeyboardInterrupt:
            # A terminal has written ^C where the cursor was.
            print("\n" if sys.stderr.isatty() else "", f"taxtune: stopped; {said()}", sep="", file=sys.stderr)
            raise typer.Exit(code[0]) from None


def stoppable(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Makes a command end on Ctrl-C with exit code 130 and a line that says how to go on."""

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        with ended_by_interrupt():
            command(*arguments, **options)

    return run
