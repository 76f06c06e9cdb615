"""Progress on standard error: rich's bars below the lines that stay, or a log of lines where there is no terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from taxtune.metrics.names import metric_name
from taxtune.progress import Display, Task
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from taxtune.tuning.records import IterationRecord, Selection

__all__ = ["Terminal", "TuningProgress"]

# Seconds between two lines in a log that say how far the work is.
_EVERY = 30.0
_LOG_WIDTH = 120


class Terminal(Display):
    """Writes notes and lines to standard error, and shows the tasks that are under way.

    In a terminal they are bars below all lines and go when they end. In a log a line says every half minute how far
    the work is.

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
        self._clock, self._quiet, self._stream = clock, quiet, stream
        self._lock = threading.RLock()
        self._logged = clock()
        self._progress: Progress | None = None
        self._bars: dict[int, TaskID] = {}
        self._console: Console | None = None

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
                if (
                    self._progress is not None
                    and (bar := self._bars.pop(id(task), None)) is not None
                ):
                    self._progress.remove_task(bar)
                if not self._bars:
                    self._stop()
            else:
                progress, stored = (
                    self._shown(),
                    f"{task.stored:,} from store" if task.stored else "",
                )
                if id(task) not in self._bars:
                    self._bars[id(task)] = progress.add_task("", total=task.total, stored=stored)
                what = visible(task.what)
                bar = self._bars[id(task)]
                progress.update(
                    bar, completed=task.done, total=task.total, description=what, stored=stored
                )

    def close(self) -> None:
        """Removes the bars of tasks that never ended, such as those of a generator that is still held."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        self._bars = {}
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _shown(self) -> Progress:
        if self._progress is None:
            from rich import progress

            self._progress = progress.Progress(
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
            self._progress.start()
        return self._progress

    def _log(self, task: Task) -> None:
        if not task.ended and self._clock() - self._logged >= _EVERY:
            self._logged = self._clock()
            count = "" if task.total is None else f" {task.done:,}/{task.total:,}"
            self._print(f"{visible(task.what)}{count or (f' {task.done:,}' if task.done else '')}")

    def _is_terminal(self) -> bool:
        # Not what rich makes of FORCE_COLOR, which would draw in a log.
        return (self._stream or sys.stderr).isatty() and not self._screen.is_dumb_terminal

    @property
    def _screen(self) -> Console:
        # The same throughout, so that what was told to write to it writes above the bars that are shown later, too.
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self._stream or sys.stderr)
        return self._console

    def _print(self, text: str, style: str = "") -> None:
        with self._lock:
            if self._is_terminal():
                from rich.text import Text

                self._screen.print(Text(text, style), soft_wrap=True)
            else:
                print(text, file=self._stream or sys.stderr, flush=True)


class TuningProgress:
    """Shows a tuning run: a callback that prints a line per iteration, and a bar for search, race and held-out images.

    Args:
        terminal: Where to show it.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._printed: set[str] = set()
        self._experiment: Any = None
        self._heldout: dict[str, int] = {}
        self._records: dict[int, IterationRecord] = {}
        self._task: Task | None = None

    def on_start(self, tuner: Any, done: Sequence[IterationRecord]) -> None:
        """Begins the display of a run."""
        from taxtune.report.summary import goal_in_words, power_in_words
        from taxtune.tuning.plan import analyse_power
        from taxtune.tuning.selection import most_questions

        experiment = self._experiment = tuner.experiment
        self._aim = experiment.objective.spec
        self._last = experiment.stages[0].templates - 1
        # Runs that are compared ask about the baseline once.
        self._heldout = {
            name: n
            for name, n in self._heldout.items()
            if name == "baseline" and tuner.group is not None
        }
        self._records = {record.iteration: record for record in done}
        self._once(f"goal: {goal_in_words(self._aim)}")
        for text in power_in_words(
            analyse_power(experiment.objective, len(experiment.splits.tuning))
        ):
            self._once(text)
        if done:
            self._terminal.line(f"{len(done):,} iterations are done already")
        total = most_questions(experiment.objective, experiment.stages) + 2 * len(
            experiment.splits.heldout
        )
        self._task = Task("tuning", total, self._terminal)
        self._show()

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Prints a finished iteration."""
        self._add(record, "best" if best is not None and best.iteration == record.iteration else "")

    def on_race(self, record: IterationRecord) -> None:
        """Prints the scores of a template that may win on more images."""
        self._add(record, "race")

    def on_selection(self, selection: Selection) -> None:
        """Prints which template wins, and why."""
        from taxtune.report.summary import selection_in_words

        verdict = selection_in_words(selection, self._aim)
        self._terminal.line(f"iteration {selection.winner} wins. {verdict}", "bold")

    def on_heldout(self, name: str, images: int) -> None:
        """Shows which template is asked about the held-out images, or about those that a command names."""
        from taxtune.report.scores import template_name

        if name not in self._heldout:
            split = "asking" if self._experiment is None else "held-out split"
            self._terminal.line(f"{split}: {template_name(name)}, {images:,} images")
        self._heldout[name] = images
        self._show()

    def on_stop(self, status: str) -> None:
        """Ends the display of a run."""
        if self._task is not None:
            self._task.ended = True
            self._task.advance(0)
            self._task = None

    def _once(self, text: str) -> None:
        # Runs that are compared have most of it in common.
        if text not in self._printed:
            self._terminal.line(text)
        self._printed.add(text)

    def _show(self) -> None:
        """Moves the bar: images that are answered, of all that the run may ask about."""
        if self._task is None:
            return
        from taxtune.tuning.records import Usage

        usage = sum((record.usage for record in self._records.values()), Usage())
        cost = usage.cost_usd
        spent = f", {usage.vlm.calls:,} calls" + ("" if cost is None else f", ${cost:,.2f}")
        searching = len(self._records) <= self._last and not self._heldout
        stage = f"iteration {len(self._records)} of {self._last}" if searching else "race"
        self._task.what = (
            f"held-out: {list(self._heldout)[-1]}" if self._heldout else stage
        ) + spent
        done = sum(len(record.rows) for record in self._records.values()) + sum(
            [*self._heldout.values()][:-1]
        )
        self._task.done = min(done, self._task.total or done)
        self._task.advance(0)

    def _add(self, record: IterationRecord, mark: str) -> None:
        """Counts an iteration and prints its line: each mean ± its standard error, a dash where that is not known."""
        from taxtune.report.scores import number, score_of
        from taxtune.tuning.records import count_cut, cut_in_words

        if self._experiment is None:
            return
        self._records[record.iteration] = record
        self._show()
        if record.scores is None:
            self._terminal.line(
                f"{record.iteration:>4}  {record.state}: {record.reason or 'no reason given'}"
            )
            return
        self._once("means on the tuning images ± standard error")
        cells = []
        for key in dict.fromkeys(("hp", "hr", self._aim.measure or "hp")):
            error = record.table.standard_error(key)
            spread = "–" if error is None else number(error, key).removeprefix("0")
            cells.append(
                f"{metric_name(key)} {number(score_of(record.scores, key), key)} ± {spread:<4}"
            )
        shares = (("abst.", "abstained"), ("off", "off_tree"))
        cells += [f"{head} {number(score_of(record.scores, key))}" for head, key in shares]
        missing = f"{record.missing} missing" if record.missing else ""
        template = " ".join((record.template or "").split())
        settings = getattr(getattr(self._experiment, "vlm", None), "settings", None)
        limit = getattr(settings, "max_tokens", None)
        told = cut_in_words(record.rows, limit)
        cut = f"{count_cut(record.rows)[0]} cut off" if told else ""
        setback = "misses a constraint" if not record.feasible and not record.cut_short else ""
        remarks = filter(None, (mark if record.feasible else setback, missing, cut, template))
        line = f"{record.iteration:>4}  {record.scores.n:>5,} images  {'  '.join(cells)}  {'; '.join(remarks)}"
        shown = line if len(line) <= _LOG_WIDTH else f"{line[: _LOG_WIDTH - 1].rstrip()}…"
        self._terminal.line(shown, "bold" if mark == "best" else "")
        if told:
            self._once(told)
