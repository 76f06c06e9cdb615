"""Progress of a run on standard error: a live display in a terminal, a line an iteration elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from taxtune.report.wording import SHARES, metric_name, number, score_of, visible
from taxtune.tuning.records import IterationRecord

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

__all__ = ["Progress", "ProgressCallback"]


class Progress:
    """Shows how far a run is.

    Use it as a context manager around the run; every method may be called at any time, and none raises because of the
    terminal.

    Args:
        quiet: Whether to say nothing but notes (for scripts).
        stream: Where to write; standard error by default, since standard output belongs to results.
    """

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._objective = "hp"
        self._quiet = quiet
        self._stream = stream
        self._console: Console | None = None
        self._bars: Bars | None = None
        self._iterations: TaskID | None = None
        self._answers: TaskID | None = None
        self._reading: TaskID | None = None
        self._total = 0
        self._images = 0
        self._first = 0
        self._seen = 0
        self._best: IterationRecord | None = None
        self._begin = time.monotonic()
        self._heldout_said: set[str] = set()

    def __enter__(self) -> Progress:
        console = self._terminal()
        if console.is_terminal and not console.is_dumb_terminal and not self._quiet:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars

            self._bars = Bars(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
                # What libraries print is theirs; only our own lines go through the display.
                redirect_stdout=False,
                redirect_stderr=True,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def start(self, total_iterations: int, images: int, *, name: str = "hp", done: int = 0) -> None:
        """Says how much there is to do.

        Args:
            total_iterations: Iterations after the baseline.
            images: Images asked an iteration.
            name: The objective: what "best" means.
            done: Records of an earlier, interrupted run, the baseline's among them.
        """
        self._objective = name
        self._total, self._images, self._first, self._seen = total_iterations + 1, images, done, done
        self._best, self._begin, self._reading = None, time.monotonic(), None
        self._heldout_said.clear()
        if self._bars is None:
            return
        for task in self._bars.task_ids:
            self._bars.remove_task(task)
        text = f"tuning for {metric_name(name)}"
        self._iterations = self._bars.add_task(text, total=self._total, completed=done, note="")
        self._answers = self._bars.add_task("answers", total=images, note="")

    def on_images(self, done: int, total: int) -> None:
        """Shows how many images have been read and checked before anything is asked."""
        if self._bars is None:
            return
        if self._reading is None:
            self._reading = self._bars.add_task("reading images", total=total, note="")
        self._bars.update(self._reading, completed=done, total=total, visible=done < total)

    def on_answers(self, done: int, from_store: int) -> None:
        """Shows how many of the images of this iteration have an answer, and how many of those came from the store."""
        if self._bars is not None and self._answers is not None:
            self._bars.update(self._answers, completed=done, total=max(self._images, done), note=_stored(from_store))

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Shows a finished iteration and the best so far."""
        self._seen, self._best = self._seen + 1, best
        self._line(self._summary(record))
        if self._bars is not None and self._iterations is not None and self._answers is not None:
            self._bars.update(self._iterations, completed=self._seen, note=self._left())
            # A finished bar keeps its time until it is reset.
            self._bars.reset(self._answers, total=self._images, note="")

    def on_heldout(self, name: str, done: int, total: int) -> None:
        """Shows how many held-out images a template has been asked about."""
        if self._bars is not None and self._answers is not None:
            if name not in self._heldout_said:
                self._bars.reset(self._answers, total=total)
            self._bars.update(self._answers, description=f"held-out: {name}", completed=done, total=total, note="")
        elif name not in self._heldout_said:
            self._line(f"held-out split: {name}, {total} images")
        self._heldout_said.add(name)

    def note(self, text: str) -> None:
        """Says something that the user should know, even when quiet."""
        self._line(visible(text), always=True)

    def _summary(self, record: IterationRecord) -> str:
        head = f"iteration {record.iteration}/{max(self._total - 1, 0)}"
        if record.scores is None:
            body = f"{record.state}: {visible(record.reason or 'no reason given')}"
        else:
            shown = dict.fromkeys(("hp", "hr", self._objective, *SHARES))
            values = [(key, score_of(record.scores, key)) for key in shown]
            body = "  ".join(f"{metric_name(key)} {number(value)}" for key, value in values if value is not None)
            if not record.feasible:
                body += "  (hR too low)"
        parts = [head, body]
        if self._best is not None and self._best.scores is not None:
            best = score_of(self._best.scores, self._objective)
            value = number(self._best.value if best is None else best)
            floor = "" if self._best.feasible else ", hR too low"
            parts.append(f"best {metric_name(self._objective)} {value} (iteration {self._best.iteration}{floor})")
        parts += [text for text in (_stored(record.usage.from_store), _missing(record), self._left()) if text]
        return "  |  ".join(parts)

    def _left(self) -> str:
        done = self._seen - self._first
        remaining = self._total - self._seen
        if done <= 0 or remaining <= 0:
            return ""
        return f"about {_duration((time.monotonic() - self._begin) / done * remaining)} left"

    def _line(self, text: str, *, always: bool = False) -> None:
        if self._quiet and not always:
            return
        # Whole lines without wrapping: a log is searched by line.
        self._terminal().print(text, markup=False, highlight=False, soft_wrap=True)

    def _terminal(self) -> Console:
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self._stream or sys.stderr)
        return self._console


class ProgressCallback:
    """Shows a run in the terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.on_answers = progress.on_answers
        self.on_iteration = progress.on_iteration
        self.on_heldout = progress.on_heldout
        self.note = progress.note

    def on_start(self, tuner: Any, done: Sequence[Any]) -> None:
        """Begins the display of a run."""
        experiment = tuner.experiment
        self._progress.start(
            experiment.iterations, len(experiment.splits.tuning), name=experiment.objective.name, done=len(done)
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
