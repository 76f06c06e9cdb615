"""Standard error as a display: rich's bars below the lines that stay, or a log of lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from taxtune.progress import Display, Task
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

__all__ = ["Terminal"]

#: Seconds between two lines in a log that say how far the work is.
_EVERY = 30.0
_LOG_WIDTH = 120


class Terminal(Display):
    """Writes notes and lines to standard error, and shows the tasks that are under way.

    In a terminal they are bars below all lines and go when they end. In a log a line says every
    half minute how far the work is.

    Args:
        quiet: Whether to write nothing but notes (for scripts).
        stream: Where to write; standard error by default, since standard output belongs to results.
        clock: A clock in seconds.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet = quiet
        self._stream = stream
        self._clock = clock
        self._lock = threading.RLock()
        self._logged = clock()
        self._progress: Progress | None = None
        self._bars: dict[int, TaskID] = {}

    @property
    def width(self) -> int:
        """The most characters of a line."""
        return self._screen.width if self._is_terminal() else _LOG_WIDTH

    def note(self, text: str) -> None:
        """Prints a note, even when quiet."""
        self._print(f"taxtune: note: {visible(text)}")

    def line(self, text: str, style: str = "") -> None:
        """Prints a line, unless quiet."""
        if not self._quiet:
            self._print(visible(text), style)

    def update(self, task: Task) -> None:
        """Shows how far a task is; it goes when it ends."""
        if self._quiet:
            return
        with self._lock:
            if not self._is_terminal():
                self._log(task)
            elif task.ended:
                self._remove_bar(task)
            else:
                self._move_bar(task)

    def close(self) -> None:
        """Removes the bars of tasks that never ended, such as those of a generator that is held."""
        with self._lock:
            self._stop()

    def _move_bar(self, task: Task) -> None:
        if self._progress is None:
            self._progress = self._start()
        stored = f"{task.stored:,} kept from before" if task.stored else ""
        if id(task) not in self._bars:
            self._bars[id(task)] = self._progress.add_task("", total=task.total, stored=stored)
        self._progress.update(
            self._bars[id(task)],
            completed=task.done,
            total=task.total,
            description=visible(task.what),
            stored=stored,
        )

    def _remove_bar(self, task: Task) -> None:
        bar = self._bars.pop(id(task), None)
        if self._progress is not None and bar is not None:
            self._progress.remove_task(bar)
        if not self._bars:
            self._stop()

    def _start(self) -> Progress:
        from rich import progress

        shown = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[stored]}", markup=False),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=self._screen,
            transient=True,
            redirect_stdout=False,  # results go to standard output as they are
            speed_estimate_period=600,
        )
        shown.start()
        return shown

    def _stop(self) -> None:
        self._bars = {}
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _log(self, task: Task) -> None:
        if task.ended or self._clock() - self._logged < _EVERY:
            return
        self._logged = self._clock()
        text = visible(task.what)
        if task.total is not None:
            text += f" {task.done:,}/{task.total:,}"
        elif task.done:
            text += f" {task.done:,}"
        self._print(text)

    def _is_terminal(self) -> bool:
        # Not what rich makes of FORCE_COLOR, which would draw in a log.
        return (self._stream or sys.stderr).isatty() and not self._screen.is_dumb_terminal

    @cached_property
    def _screen(self) -> Console:
        # The same throughout, so that what was told to write to it writes above the bars that are
        # shown later, too.
        from rich.console import Console

        return Console(file=self._stream or sys.stderr)

    def _print(self, text: str, style: str = "") -> None:
        with self._lock:
            if self._is_terminal():
                from rich.text import Text

                self._screen.print(Text(text, style), soft_wrap=True)
            else:
                print(text, file=self._stream or sys.stderr, flush=True)
