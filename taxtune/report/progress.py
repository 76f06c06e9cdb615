"""What is shown on standard error while work goes on: a live display below the lines that stay, or a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from taxtune.progress import Display, Task
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from taxtune.tuning.records import IterationRecord, Selection

__all__ = ["Run", "Terminal", "TuningProgress"]

# Seconds between two lines in a log that say how far the work is.
_EVERY = 30.0
_LABEL, _NAME, _BAR = 10, 20, 24  # cells


class Run(Protocol):
    """What is shown above the tasks that are under way."""

    def rows(self, width: int) -> list[tuple[str, str]]:
        """Returns what is known of it by label; a text may be longer than `width` cells only at blanks."""
        ...

    def status(self) -> str:
        """Returns how far it is, in a line."""
        ...


class Terminal(Display):
    """Writes notes and lines to standard error, and shows the tasks that are under way.

    In a terminal they are shown below all lines, and go when they end. In a log a line says every half minute how far
    the work is.

    Args:
        quiet: Whether to say nothing but notes (for scripts).
        stream: Where to write; standard error by default, since standard output belongs to results.
        clock: Seconds from some time on.
        look_every: Seconds between two looks of a thread at whether `log` has something to say; 0 for no thread.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        look_every: float = 1.0,
    ) -> None:
        self.clock = clock
        self._quiet = quiet
        self._stream = stream
        self._lock = threading.RLock()
        # Replaced and never changed: the thread that draws reads it without the lock.
        self._tasks: tuple[tuple[Task, float], ...] = ()
        self._run: Run | None = None
        self._loaded, self._loading = 0.0, 0.0  # seconds in loading, and when it began
        self._said = clock()
        self._console: Console | None = None
        self._live: Live | None = None
        self._look_every = look_every
        self._log: threading.Event | None = None

    @property
    def width(self) -> int | None:
        """Cells of a line; None where there is no terminal."""
        return self._screen.width if self._is_screen() else None

    def working(self) -> float:
        """Returns the seconds from some time on in which nothing was loaded."""
        now = self.clock()
        under_way = any(task.once for task, _ in self._tasks)
        return now - self._loaded - (now - self._loading if under_way else 0.0)

    def note(self, text: str) -> None:
        """Prints a note, even when quiet."""
        self._print(f"taxtune: note: {visible(text)}")

    def line(self, text: str, style: str = "") -> None:
        """Prints a line, unless quiet."""
        if not self._quiet:
            self._print(visible(text), style)

    def show(self, run: Run | None) -> None:
        """Shows a run above the tasks from now on, or none."""
        with self._lock:
            self._run, self._said = None if self._quiet else run, self.clock()
            self._show()

    def update(self, task: Task) -> None:
        """Shows how far a task is; it goes when it ends."""
        if self._quiet:
            return
        with self._lock:
            shown = {id(each): (each, since) for each, since in self._tasks}
            if task.ended:
                shown.pop(id(task), None)
            else:
                shown.setdefault(id(task), (task, self.clock()))
            self._count_loading(tuple(shown.values()))
            self._show()

    def log(self) -> None:
        """Prints how far the work is if that was not said for half a minute; a thread asks for it in a log."""
        with self._lock:
            if (self._run or self._tasks) and self.clock() - self._said >= _EVERY:
                self._said = self.clock()
                self._print(self._run.status() if self._run else self.under_way())

    def close(self) -> None:
        """Wipes what is shown of tasks that never ended, such as those of a generator that somebody holds."""
        with self._lock:
            self._tasks, self._run = (), None
            if self._live is not None:
                self._show()
            if self._log is not None:
                self._log.set()
                self._log = None

    def under_way(self) -> str:
        """Returns what is being done, innermost: "asking 12/20"."""
        return _in_words(self._tasks[-1][0]) if self._tasks else ""

    def _count_loading(self, tasks: tuple[tuple[Task, float], ...]) -> None:
        before, after = (any(task.once for task, _ in each) for each in (self._tasks, tasks))
        if after and not before:
            self._loading = self.clock()
        elif before and not after:
            self._loaded += self.clock() - self._loading
        self._tasks = tasks

    def _is_screen(self) -> bool:
        # Not what rich makes of FORCE_COLOR, which would draw in a log.
        return (self._stream or sys.stderr).isatty() and not self._screen.is_dumb_terminal

    @property
    def _screen(self) -> Console:
        # The same all along, so that what was told to write to it writes above what is shown later, too.
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self._stream or sys.stderr)
        return self._console

    def _show(self) -> None:
        """Begins or ends the live display, in which all is drawn four times a second; in a log, the thread for it."""
        any_shown = bool(self._tasks or self._run)
        if not self._is_screen():
            if any_shown and self._log is None and self._look_every:
                self._keep_a_log()
        elif any_shown and self._live is None:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._picture,
                console=self._screen,
                transient=True,
                redirect_stdout=False,  # results go to standard output as they are
            )
            self._live.start(refresh=True)
        elif not any_shown and self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _keep_a_log(self) -> None:
        self._log = ended = threading.Event()

        def work() -> None:
            while not ended.wait(self._look_every):
                self.log()

        threading.Thread(target=work, name="taxtune-log", daemon=True).start()

    def _print(self, text: str, style: str = "") -> None:
        with self._lock:
            if self._is_screen():
                from rich.text import Text

                from taxtune.report.cells import wrapped

                self._screen.print(Text(wrapped(text, self._screen.width), style), soft_wrap=True)
            else:
                # Whole lines without wrapping: a log is searched by line.
                print(text, file=self._stream or sys.stderr, flush=True)

    def _picture(self) -> RenderableType:
        from rich.console import Group

        tasks, run = self._tasks, self._run
        width = self._screen.width
        return Group(
            *([] if run is None else [_labelled(run.rows(width - _LABEL), width)]),
            *([self._bars(tasks, width)] if tasks else []),
        )

    def _bars(self, tasks: Sequence[tuple[Task, float]], width: int) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Column, Table
        from rich.text import Text

        from taxtune.report.cells import cut

        counts = [_count(task) for task, _ in tasks]
        times = [_clock(self.clock() - since) for _, since in tasks]
        remarks = [_stored(task.stored) for task, _ in tasks]
        room = width - 1
        widths = []
        for texts in (times, counts, remarks):
            wide = max(map(len, texts), default=0)
            kept = wide if room - wide - 1 >= _LABEL else 0
            room -= kept + 1 if kept else 0
            widths.append(kept)
        bar = min(_BAR, room // 2)
        name = max(0, min(max(_NAME, *(len(task.what) for task, _ in tasks)), room - bar - 1))
        columns = [name, bar, widths[1], widths[2], widths[0]]
        table = Table.grid(*(Column(width=each, no_wrap=True) for each in columns if each), padding=(0, 1, 0, 0))
        for (task, _), count, remark, spent in zip(tasks, counts, remarks, times, strict=True):
            total = task.total
            strip = ProgressBar(total, task.done, width=bar, pulse=total is None, animation_time=self.clock())
            cells: list[RenderableType] = [Text(cut(task.what, name)), strip, count, remark, spent]
            table.add_row(*(cell for cell, wide in zip(cells, columns, strict=True) if wide))
        return table


class TuningProgress:
    """Shows a tuning run: a callback that tells a terminal of its stage, its iterations, the best and what is spent."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._open = ExitStack()
        self._looked: set[str] = set()
        self._experiment: Any = None
        self._heldout: dict[str, tuple[int, int]] = {}

    def on_start(self, tuner: Any, done: Sequence[IterationRecord]) -> None:
        """Begins the display of a run."""
        from taxtune.report.goals import goal_in_words, power_in_words
        from taxtune.report.iteration_lines import IterationLines
        from taxtune.report.pace import Pace
        from taxtune.tuning.history import best
        from taxtune.tuning.power import analyse_power
        from taxtune.tuning.records import Usage

        self._open.close()
        experiment = self._experiment = tuner.experiment
        self._aim = experiment.objective.spec.measure
        self._lines = IterationLines(experiment.objective, self._aim)
        self._pace = Pace(self._terminal.working)
        # Of the tuning images, then by held-out template: how many are answered, and how many of these from the store.
        self._answered = (0, 0)
        # Runs that are compared ask about the baseline once.
        again = {"baseline"} if tuner.group is not None else set()
        self._heldout = {name: (done, done) for name, (done, _) in self._heldout.items() if name in again}
        self._records: dict[int, IterationRecord] = {}
        self._best: IterationRecord | None = None
        self._known = tuner.history.records
        self._winner, self._template, self._asking = "", "", ""
        self._best_rows: list[tuple[str, list[str]]] = []
        self._usage = Usage()
        if not done:
            self._look(f"goal: {goal_in_words(experiment.objective.spec)}")
            for text in power_in_words(analyse_power(experiment.objective, len(experiment.splits.tuning))):
                self._look(f"provable: {text}")
        for record in done:
            self._keep(record, best(done))
        if done:
            self._terminal.line(f"{len(done):,} iterations are done already")
        self._open.callback(self._terminal.show, None)
        self._terminal.show(self)

    def on_template(self, iteration: int, template: str, images: int) -> None:
        """Shows the template that is asked about next."""
        self._template = template
        race = iteration in self._records
        self._asking = f"race: iteration {iteration} on {images:,} images" if race else ""

    def on_answers(self, done: int, from_store: int) -> None:
        """Counts what is asked about the tuning images."""
        if self._experiment is not None:
            self._answered = (done, from_store)
            self._pace.answered(done, from_store)

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Shows a finished iteration and the best so far."""
        if self._experiment is None:
            return
        self._keep(record, best)
        self._pace.end()
        self._write(record, "best" if best is not None and best.iteration == record.iteration else "")
        self._pace.begin()

    def on_race(self, record: IterationRecord) -> None:
        """Shows what a template that may win has on more images."""
        self._keep(record, self._best)
        self._write(record, "race")

    def on_selection(self, selection: Selection) -> None:
        """Says which template wins, and why."""
        from taxtune.report.summary import selection_in_words

        records = {record.iteration: record for record in self._known()}
        self._winner = selection_in_words(selection, self._experiment.objective.spec, tuple(records.values()))
        record = records[selection.winner]
        self._keep(record, record)
        self._terminal.line(f"iteration {record.iteration} wins. {self._winner}", "bold")

    def on_heldout(self, name: str, done: int, total: int) -> None:
        """Shows which template is asked about the held-out images, or about those that a command names."""
        from taxtune.report.wording import template_name

        if name not in self._heldout:
            split = "asking" if self._experiment is None else "held-out split"
            self._terminal.line(f"{split}: {template_name(name)}, {total:,} images")
        _, stored = self._heldout.get(name, (done, done))
        self._heldout[name] = (done, stored)
        if self._experiment is not None:
            self._asking = f"held-out images: {template_name(name)}"
            record = {"baseline": self._records.get(0), "winner": self._best}.get(name)
            self._template = (record and record.template) or ""
            self._pace.answered(done, stored)

    def on_stop(self, status: str) -> None:
        """Ends the display of a run."""
        self._open.close()

    # -- what the terminal shows of it ---------------------------------------------------------------------------------

    def rows(self, width: int) -> list[tuple[str, str]]:
        """Returns the stage, the template, the best and what is spent, by label."""
        from taxtune.report.cells import cut, fitted

        rows = [("tuning", fitted([self._stage(), self._left()], width))]
        if self._template:
            rows.append(("template", cut(" ".join(visible(self._template).split()), width)))
        rows += [(label, fitted(parts, width)) for label, parts in self._best_rows]
        return [*rows, ("spent", fitted(self._spent(), width))]

    def status(self) -> str:
        """Returns how far the run is, in a line."""
        parts = [self._stage(), self._terminal.under_way(), self._left(), *self._spent()]
        return ", ".join(filter(None, parts))

    def _look(self, text: str) -> None:
        # Runs that are compared or repeated have most of it in common.
        if text not in self._looked:
            self._terminal.line(text)
        self._looked.add(text)

    def _keep(self, record: IterationRecord, best: IterationRecord | None) -> None:
        from taxtune.tuning.records import sum_usage

        # With those of the run's other workers, which nobody tells of.
        self._records |= {each.iteration: each for each in self._known()} | {record.iteration: record}
        self._answered = (0, 0)  # they are in the record
        self._usage = sum_usage([each.usage for each in self._records.values()])
        self._best = best
        if best is not None and best.scores is not None:
            self._best_rows = [("winner" if self._winner else "best", self._scores(best)), ("", [self._why(best)])]

    def _write(self, record: IterationRecord, mark: str) -> None:
        from taxtune.report.wording import metric_name

        held = next((each.measure for each in self._experiment.objective.constraints), "hr")
        mark = mark if record.feasible or record.scores is None else f"{metric_name(held)} low"
        self._look("means over n images ± standard error (– where all images score alike):")
        *header, line = self._lines.lines(record, mark, width=self._terminal.width)
        for text in header:
            self._terminal.line(text, "dim")
        self._terminal.line(line, "bold" if mark == "best" else "")

    def _scores(self, record: IterationRecord) -> list[str]:
        from taxtune.report.iteration_lines import scored
        from taxtune.report.wording import metric_name, number, score_of

        keys = dict.fromkeys(("hp", "hr", *([] if self._aim is None else [self._aim])))
        shown = [f"{metric_name(key)} {scored(record, key)}".rstrip() for key in keys]
        shares = {"abst.": "abstained", "off": "off_tree"}
        shown += [f"{name} {number(score_of(record.scores, key))}" for name, key in shares.items()]
        return [f"iter {record.iteration}", *shown]

    def _why(self, best: IterationRecord) -> str:
        from taxtune.report.goals import best_in_words

        if self._winner:
            return self._winner
        images = self._experiment.stages[-1].images
        race = "" if len(best.rows) >= images else f"; a race on up to {images:,} images decides"
        baseline = self._records[0].scores if 0 in self._records else None
        return best_in_words(best, self._experiment.objective, self._aim, baseline) + race

    def _stage(self) -> str:
        last = self._experiment.stages[0].templates - 1
        if self._asking or len(self._records) > last:
            return self._asking or "choosing the templates that go on"
        return f"iteration {len(self._records)} of {last}"

    def _spent(self) -> list[str]:
        """Returns calls, tokens, dollars and minutes so far, each with what the budget has of it."""
        usage, budget, each = self._usage, self._experiment.budget, self._experiment.policy.calls
        under_way = [self._answered, *self._heldout.values()]
        calls = usage.asked + each * sum(done - stored for done, stored in under_way)
        stored = usage.from_store + each * sum(stored for _, stored in under_way)
        tokens = usage.vlm_prompt_tokens + usage.vlm_completion_tokens
        llm = usage.proposer_prompt_tokens + usage.proposer_completion_tokens
        costs = [cost for cost in (usage.vlm_cost_usd, usage.proposer_cost_usd) if cost is not None]
        said = [_of(f"{calls:,} calls", None if self._heldout else budget.vlm_calls, "{:,}")]
        said += [f"{stored:,} from store"] if stored else []
        said += [f"{tokens:,} tokens"]
        said += [_of(f"{llm:,} LLM tokens", None, "{:,}")] if llm else []
        if costs or calls or budget.usd:
            said += [_of(_dollars(sum(costs)) if costs else "price unknown", budget.usd, "${:,.2f}")]
        return said

    def _left(self) -> str:
        """Returns how long the rest takes by what was measured: the search, the race and the held-out images."""
        from taxtune.report.pace import duration
        from taxtune.tuning.selection import most_questions

        experiment, stages = self._experiment, self._experiment.stages
        block = stages[0].images
        raced = sum(max(0, len(record.rows) - block) for record in list(self._records.values()))
        searching = not (self._winner or raced)
        iterations = max(0, stages[0].templates - len(self._records)) if searching else 0
        images = iterations * block
        if not self._winner:
            images += max(0, most_questions(experiment.objective, stages) - block * stages[0].templates - raced)
        images += len(experiment.splits.heldout) * 2 - sum(done for done, _ in self._heldout.values())
        # Of the race the images of the block are in the store.
        images -= self._answered[0] if searching else self._answered[0] - self._answered[1]
        seconds = self._pace.left(max(0, images), iterations)
        return f"about {duration(seconds)} left" if seconds else ""


def _labelled(rows: Sequence[tuple[str, str]], width: int) -> RenderableType:
    from rich.text import Text

    from taxtune.report.cells import wrapped

    lines = []
    for label, text in rows:
        for i, line in enumerate(wrapped(text, width - _LABEL).split("\n")):
            lines.append(Text.assemble((f"{'' if i else label:<{_LABEL}}", "dim"), line))
    # Not filled up to the width: lines that are shorter than the terminal stay lines when it is made narrower.
    return Text("\n").join(lines)


def _of(used: str, most: float | None, form: str) -> str:
    return used if most is None else f"{used} of {form.format(most)}"


def _dollars(value: float) -> str:
    return "under $0.01" if 0 < value < 0.01 else f"${value:,.2f}"


def _in_words(task: Task) -> str:
    return f"{task.what} {_count(task)}".rstrip()


def _count(task: Task) -> str:
    if task.total is None:
        return f"{task.done:,}" if task.done else ""
    return f"{task.done:,}/{task.total:,}"


def _stored(count: int) -> str:
    return f"{count:,} from store" if count else ""


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
