"""The progress of a tuning run: a line per iteration, and a bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taxtune.metrics.names import metric_name
from taxtune.progress import Task
from taxtune.report.formatting import number, score_of, template_name
from taxtune.report.summary import (
    goal_in_words,
    power_in_words,
    selection_in_words,
)
from taxtune.report.terminal import Terminal
from taxtune.tuning.plan import analyse_power
from taxtune.tuning.records import IterationRecord, Selection, Usage, count_cut, cut_in_words
from taxtune.tuning.selection import most_questions

__all__ = ["TuningProgress"]

_LOG_WIDTH = 120


class TuningProgress:
    """A callback that prints a line per iteration, and shows a bar until the end of a run.

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
        experiment = tuner.experiment
        self._experiment = experiment
        self._aim = experiment.objective.spec
        self._last = experiment.rungs[0].templates - 1
        baseline = self._heldout.get("baseline")
        self._heldout = {}
        if baseline is not None and tuner.group is not None:
            # Runs that are compared ask about the baseline once.
            self._heldout = {"baseline": baseline}
        self._records = {record.iteration: record for record in done}
        self._once(f"goal: {goal_in_words(self._aim)}")
        powers = analyse_power(experiment.objective, len(experiment.splits.tuning))
        for text in power_in_words(powers):
            self._once(text)
        if done:
            self._terminal.line(f"{len(done):,} iterations are done already")
        tuning = most_questions(experiment.objective, experiment.rungs)
        total = tuning + 2 * len(experiment.splits.heldout)
        self._task = Task("tuning", total, self._terminal)
        self._show()

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Prints a finished iteration."""
        is_best = best is not None and best.iteration == record.iteration
        self._add(record, "best" if is_best else "")

    def on_rung(self, record: IterationRecord) -> None:
        """Prints the scores of a template that may win on more images."""
        self._add(record, "rung")

    def on_selection(self, selection: Selection) -> None:
        """Prints the template that wins, and the reason."""
        verdict = selection_in_words(selection, self._aim)
        self._terminal.line(f"iteration {selection.winner} wins. {verdict}", "bold")

    def on_heldout(self, name: str, images: int) -> None:
        """Shows the template that is asked about held-out images, or about those of a command."""
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
        task = self._task
        if task is None:
            return
        if self._heldout:
            stage = f"held-out: {list(self._heldout)[-1]}"
        elif len(self._records) <= self._last:
            stage = f"iteration {len(self._records)} of {self._last}"
        else:
            stage = "successive halving"
        usage = sum((record.usage for record in self._records.values()), Usage())
        task.what = f"{stage}, {usage.vlm.calls:,} calls"
        if usage.cost_usd is not None:
            task.what += f", ${usage.cost_usd:,.2f}"
        finished = list(self._heldout.values())[:-1]
        done = sum(len(record.rows) for record in self._records.values()) + sum(finished)
        task.done = min(done, task.total or done)
        task.advance(0)

    def _add(self, record: IterationRecord, mark: str) -> None:
        """Counts an iteration and prints its line."""
        if self._experiment is None:
            return
        self._records[record.iteration] = record
        self._show()
        if record.scores is None:
            reason = record.reason or "no reason given"
            self._terminal.line(f"{record.iteration:>4}  {record.state}: {reason}")
            return
        self._once("means on the tuning images ± standard error")
        settings = getattr(getattr(self._experiment, "vlm", None), "settings", None)
        cut = cut_in_words(record.rows, getattr(settings, "max_tokens", None))
        style = "bold" if mark == "best" else ""
        if not record.feasible:
            mark = "" if record.cut_short else "misses a constraint"
        remarks = [
            mark,
            f"{record.missing} missing" if record.missing else "",
            f"{count_cut(record.rows)[0]} cut off" if cut else "",
            " ".join((record.template or "").split()),
        ]
        cells = "  ".join(self._cells(record))
        remark = "; ".join(filter(None, remarks))
        line = f"{record.iteration:>4}  {record.scores.n:>5,} images  {cells}  {remark}"
        if len(line) > _LOG_WIDTH:
            line = f"{line[: _LOG_WIDTH - 1].rstrip()}…"
        self._terminal.line(line, style)
        if cut:
            self._once(cut)

    def _cells(self, record: IterationRecord) -> list[str]:
        """Returns each mean ± its standard error, a dash where that is not known, and the shares."""
        cells = []
        for key in dict.fromkeys(("hp", "hr", self._aim.measure or "hp")):
            error = record.table.standard_error(key)
            spread = "–" if error is None else number(error, key).removeprefix("0")
            mean = number(score_of(record.scores, key), key)
            cells.append(f"{metric_name(key)} {mean} ± {spread:<4}")
        cells.append(f"abst. {number(score_of(record.scores, 'abstained'))}")
        cells.append(f"off {number(score_of(record.scores, 'off_tree'))}")
        return cells
