"""What is shown on standard error while work goes on: bars in a terminal, notes, and a line an iteration of a run."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO

from taxtune.progress import Display, Task, track

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from taxtune.tuning.outlook import Outlook
    from taxtune.tuning.records import IterationRecord

__all__ = ["Terminal", "TuningProgress"]

# What TERM says of terminals that cannot move the cursor.
_DUMB = frozenset({"dumb", "unknown"})


class Terminal(Display):
    """Writes notes and lines to standard error, and shows a bar for each task that is under way if it is a terminal.

    Args:
        quiet: Whether to say nothing but notes (for scripts).
        stream: Where to write; standard error by default, since standard output belongs to results.
    """

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._quiet = quiet
        self._stream = stream
        self._lock = threading.RLock()
        self._bars: Progress | None = None
        self._shown: dict[Task, TaskID] = {}

    def note(self, text: str) -> None:
        """Prints a note, even when quiet."""
        from taxtune.report.wording import visible  # here, so that `taxtune --help` loads none of it

        self._print(f"taxtune: note: {visible(text)}")

    def line(self, text: str) -> None:
        """Prints a line, unless quiet."""
        if not self._quiet:
            self._print(text)

    def update(self, task: Task) -> None:
        """Shows how far a task is; the bar goes when the task ends."""
        stream = self._stream or sys.stderr
        if self._quiet or not stream.isatty() or os.environ.get("TERM", "").lower() in _DUMB:
            return
        with self._lock:
            if task.ended:
                self._end(task)
                return
            if self._bars is None:
                self._bars = _bars(stream)
                self._bars.start()
            if task not in self._shown:
                self._shown[task] = self._bars.add_task(task.what, total=task.total, remark="")
            remark = task.remark or _stored(task.stored)
            self._bars.update(self._shown[task], completed=task.done, remark=remark)

    def close(self) -> None:
        """Wipes the bars of tasks that were never ended, such as those of a generator that somebody still holds."""
        with self._lock:
            self._shown.clear()
            if self._bars is not None:
                self._bars.stop()
                self._bars = None

    def _end(self, task: Task) -> None:
        bar = self._shown.pop(task, None)
        if self._bars is None or bar is None:
            return
        if self._shown:
            self._bars.remove_task(bar)
        else:
            self.close()

    def _print(self, text: str) -> None:
        with self._lock:
            if self._bars is not None:
                # Whole lines without wrapping: a log is searched by line.
                self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                print(text, file=self._stream or sys.stderr)


class TuningProgress:
    """Shows a tuning run: a callback that tells a terminal of its iterations, the best so far and the time left."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._objective, self._aim, self._held = "hp", "hp", "hr"
        self._total = self._first = self._seen = 0
        self._best: IterationRecord | None = None
        self._begin = time.monotonic()
        self._heldout_said: set[str] = set()
        self._looked: set[str] = set()
        self._outlook: Outlook | None = None
        self._open = ExitStack()
        self._task: Task | None = None

    def on_start(self, tuner: Any, done: Sequence[Any]) -> None:
        """Begins the display of a run."""
        experiment = tuner.experiment
        self._objective = experiment.objective.name
        self._aim = next((aim.measure for aim in experiment.outlook.aims if aim.measure), self._objective)
        self._held = next((each.measure for each in experiment.objective.constraints), "hr")
        self._total, self._first, self._seen = experiment.iterations + 1, len(done), len(done)
        self._best, self._begin = None, time.monotonic()
        self._heldout_said.clear()
        self._open.close()
        from taxtune.report.outlook import outlook_lines
        from taxtune.report.wording import metric_name

        self._outlook = experiment.outlook if not done else None
        for name, text in () if self._outlook is None else outlook_lines(self._outlook):
            self._look(f"{name}: {text}" if name else f"  {text}")
        what = f"tuning for {metric_name(self._objective)}"
        self._task = self._open.enter_context(track(what, self._total, done=len(done)))

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Shows a finished iteration and the best so far."""
        self._seen, self._best = self._seen + 1, best
        self._terminal.line(self._summary(record))
        if record.iteration == 0 and self._outlook is not None:
            from taxtune.report.outlook import resolution_in_words

            self._look(resolution_in_words(self._outlook.seen(record)))
        if self._task is not None:
            self._task.advance(remark=self._left())

    def on_heldout(self, name: str, done: int, total: int) -> None:
        """Says which template the held-out images are asked about."""
        if name not in self._heldout_said:
            self._terminal.line(f"held-out split: {name}, {total} images")
        self._heldout_said.add(name)

    def on_stop(self, status: str) -> None:
        """Ends the display of a run."""
        self._open.close()

    def _look(self, text: str) -> None:
        # Runs that are compared or repeated have most of it in common.
        if text not in self._looked:
            self._terminal.line(text)
        self._looked.add(text)

    def _summary(self, record: IterationRecord) -> str:
        from taxtune.report.wording import SHARES, metric_name, number, score_of, visible

        head = f"iteration {record.iteration}/{max(self._total - 1, 0)}"
        if record.scores is None:
            body = f"{record.state}: {visible(record.reason or 'no reason given')}"
        else:
            shown = dict.fromkeys(("hp", "hr", self._aim, *SHARES))
            values = [(key, score_of(record.scores, key)) for key in shown]
            body = "  ".join(f"{metric_name(key)} {number(value)}" for key, value in values if value is not None)
            if not record.feasible:
                body += f"  ({metric_name(self._held)} too low)"
        parts = [head, body]
        if self._best is not None and self._best.scores is not None:
            best = score_of(self._best.scores, self._aim)
            name = metric_name(self._objective if best is None else self._aim)
            value = number(self._best.value if best is None else best)
            floor = "" if self._best.feasible else f", {metric_name(self._held)} too low"
            parts.append(f"best {name} {value} (iteration {self._best.iteration}{floor})")
        parts += [text for text in (_stored(record.usage.from_store), _missing(record), self._left()) if text]
        return "  |  ".join(parts)

    def _left(self) -> str:
        done = self._seen - self._first
        remaining = self._total - self._seen
        if done <= 0 or remaining <= 0:
            return ""
        return f"about {_duration((time.monotonic() - self._begin) / done * remaining)} left"


def _bars(stream: TextIO) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[remark]}", markup=False),
        TimeElapsedColumn(),
        console=Console(file=stream),
        transient=True,
        redirect_stdout=False,  # results go to standard output as they are
    )


def _stored(count: int) -> str:
    return f"{count} from store" if count else ""


def _missing(record: IterationRecord) -> str:
    return f"{record.missing} missing" if record.missing else ""


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
