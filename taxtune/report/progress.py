"""The progress of a tuning run: a line per iteration, or per rung, and a bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taxtune.metrics.outcomes import OFF_TREE
from taxtune.progress import Task
from taxtune.report.formatting import shortened, template_name
from taxtune.report.summary import (
    goal_in_words,
    power_in_words,
    selection_in_words,
)
from taxtune.report.terminal import Terminal
from taxtune.tuning.plan import analyse_power
from taxtune.tuning.records import (
    IterationRecord,
    Selection,
    Usage,
    count_cut,
    cut_in_words,
    outcomes_of,
)
from taxtune.tuning.selection import choose, most_questions

__all__ = ["TuningProgress"]

_SCORES = "hP: how much of what is said is true; hR: how much of the truth is said"
_COUNTS = "wrong: untrue; general: true, not down to the label; exact: the label"
_FAILED = {"failed": "no template", "void": "not counted"}


class TuningProgress:
    """A callback that says how a run goes, and shows a bar until its end.

    Args:
        terminal: Where to show it.
        by_rung: Whether to print a line at the end of each rung in place of one per iteration.
    """

    def __init__(self, terminal: Terminal, *, by_rung: bool = False) -> None:
        self._terminal = terminal
        self._by_rung = by_rung
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
        self._images = max((len(record.rows) for record in done), default=0)
        self._best = self._leader()
        tuning = most_questions(experiment.objective, experiment.rungs)
        total = tuning + 2 * len(experiment.splits.heldout)
        calls = total * experiment.policy.samples
        self._once(f"goal: {goal_in_words(self._aim)}; at most {calls:,} calls")
        powers = analyse_power(
            experiment.objective, experiment.splits.tuning, experiment.recipe.data.group
        )
        for text in power_in_words(power for power in powers if power.needed > power.groups):
            self._once(text)
        if done:
            self._terminal.line(f"{len(done):,} iterations are done already")
        self._once(_SCORES)
        self._once(_COUNTS)
        if not self._by_rung:
            self._once("a line for each prompt; *: the best so far")
            self._task = Task("tuning", total, self._terminal)
        self._show()

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Prints a finished iteration."""
        self._add(record)

    def on_rung(self, record: IterationRecord) -> None:
        """Prints what became of more images with a template that may win."""
        self._add(record, again=True)

    def on_selection(self, selection: Selection) -> None:
        """Prints the template that wins, and the reason."""
        self._end_rung()
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

    def _leader(self) -> int | None:
        """Returns the iteration that would win now."""
        selection = choose(list(self._records.values()), self._experiment.objective)
        return None if selection is None else selection.winner

    def _end_rung(self) -> None:
        """Prints how many prompts were asked about the images of a rung, and the best so far."""
        if not self._by_rung or self._best is None:
            return
        asked = [record for record in self._records.values() if len(record.rows) == self._images]
        prompts = "1 prompt" if len(asked) == 1 else f"{len(asked):,} prompts"
        best = self._records[self._best]
        self._terminal.line(
            f"{prompts} asked about {self._images:,} images; best so far is iteration "
            f"{self._best}: {self._counts(best)}"
        )

    def _add(self, record: IterationRecord, *, again: bool = False) -> None:
        """Counts an iteration and prints its line; `again` where it was asked about more images."""
        if self._experiment is None:
            return
        if len(record.rows) > self._images:
            if self._images:
                self._end_rung()
            self._images = len(record.rows)
        self._records[record.iteration] = record
        earlier = self._best
        self._best = self._leader()
        self._show()
        if self._by_rung:
            return
        is_best = self._best == record.iteration
        last = str(self._last)
        line = str(record.iteration).rjust(len(last))
        if again:
            line = f"asked about more images: {line}"
        else:
            line = f"{line} of {last}".rjust(8) if record.iteration else "baseline"
        if record.scores is None:
            line += f"   {_FAILED[record.state]}: {record.reason or 'no reason given'}"
        else:
            width = len(str(len(record.rows)))
            line += f" {'*' if is_best else ' '} {self._counts(record, width)}"
            if self._best not in (earlier, record.iteration):
                line += f"; best so far: {self._best}"
            line += f"  {' '.join((record.prompt or record.template or '').split())}"
        self._terminal.line(shortened(line, self._terminal.width), "bold" if is_best else "")
        settings = getattr(getattr(self._experiment, "vlm", None), "settings", None)
        cut = cut_in_words(record.rows, getattr(settings, "max_tokens", None))
        if cut:
            self._once(cut)

    def _counts(self, record: IterationRecord, width: int = 0) -> str:
        """Returns the counts of a template's answers, as "2 wrong, 30 general, 17 exact of 49"."""
        found = outcomes_of(record.rows)
        text = f"{found.wrong:>{width}} wrong, {found.general:>{width}} general, "
        text += f"{found.exact:>{width}} exact of {found.images}"
        rare = {
            "off the tree": found.counts.get(OFF_TREE, 0),
            "missing": record.missing,
            "cut off": count_cut(record.rows)[0],
            **found.nothing,
        }
        shown = [f"{count} {name}" for name, count in rare.items() if count]
        return f"{text} ({', '.join(shown)})" if shown else text
