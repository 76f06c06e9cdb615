"""Who is told what a tuning run does as it happens: the terminal's progress display, MLflow, code of one's own."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from taxtune.tracking import Group, Split, Tracker
from taxtune.tuning.records import ComparisonResult, IterationRecord, Selection, TuneResult
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from taxtune.data import Example
    from taxtune.tuning.experiment import Experiment
    from taxtune.tuning.loop import Tuner
    from taxtune.tuning.repeats import RepeatsResult

__all__ = ["Callback", "Callbacks", "TrackingCallback"]

_STATUS = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}


class Callback:
    """Is told what a run does; override what you care about.

    Anything with some of these methods will do, and so will a plain function, which is called as `on_iteration` is.
    A callback watches and never steers: to end a run early, raise `KeyboardInterrupt`.
    """

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """The loop begins, with the iterations that are already done."""

    def on_template(self, iteration: int, template: str, images: int) -> None:
        """So many tuning images are to be asked about with a template: the block, or more of them in the race."""

    def on_answers(self, done: int, from_store: int) -> None:
        """So many of the tuning images are answered, so many of them from the store."""

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """An iteration is finished; `best` is the best one so far."""

    def on_race(self, record: IterationRecord) -> None:
        """A template was asked about more of the tuning images."""

    def on_selection(self, selection: Selection) -> None:
        """The winner is chosen, before the held-out images are asked about."""

    def on_heldout(self, name: str, done: int, total: int) -> None:
        """So many of the held-out images are answered for the template called `name`."""

    def on_result(self, tuner: Tuner, result: TuneResult) -> None:
        """The run is complete."""

    def on_comparison(self, result: ComparisonResult, group: Group) -> None:
        """Several runs were compared; `group` joins the comparison to its runs."""

    def on_repeats(self, result: RepeatsResult, group: Group) -> None:
        """A run was repeated with other seeds; `group` joins the repeats."""

    def on_stop(self, status: str) -> None:
        """The run ends: "finished", "failed" or "killed"."""


class Callbacks:
    """Tells several callbacks, in their order.

    Args:
        given: Objects with some of `Callback`'s methods, or functions of (record, best).
    """

    def __init__(self, given: Sequence[Any]) -> None:
        names = {name for name in vars(Callback) if name.startswith("on_")}
        for each in given:
            if not callable(each) and not any(hasattr(each, name) for name in names):
                raise TypeError(f"{each!r} is not a callback: it has none of {', '.join(sorted(names))}")
        self._given = tuple(given)

    def tell(self, event: str, *what: Any) -> None:
        """Calls a method of every callback that has it.

        Args:
            event: The method's name, such as "on_iteration".
            *what: What it is told.
        """
        for each in self._given:
            method = getattr(each, event, None)
            if method is None and event == "on_iteration" and callable(each):
                method = each
            if method is not None:
                method(*what)

    def settled(self) -> bool:
        """Tells whether callbacks have done all that they were told to do, and need not be told of it again."""
        return all(each.settled() for each in self._given if hasattr(each, "settled"))

    def where(self) -> dict[str, str]:
        """Returns where to look at what callbacks have recorded, by what it shows."""
        return {what: place for each in self._given if hasattr(each, "where") for what, place in each.where().items()}

    def addresses(self) -> list[str]:
        """Returns what tells the records that callbacks keep from others, the same after the run's folder was moved."""
        return [each.address() for each in self._given if hasattr(each, "address")]


class TrackingCallback(Callback):
    """Records runs in MLflow: a run each, a nested run an iteration, templates in the prompt registry.

    Iterations are recorded in a thread, so that the model need not wait for MLflow; the end of a run waits until all is
    recorded.

    Args:
        make_tracker: Returns a new record of a run; called once a run.
    """

    def __init__(self, make_tracker: Callable[[], Tracker]) -> None:
        self._make = make_tracker
        self.tracker: Tracker = make_tracker()
        self._lost = False
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[tuple[IterationRecord, IterationRecord | None]] = deque()

    def where(self) -> dict[str, str]:
        """Returns where to look at what is recorded."""
        shown = self._make().where()
        return {} if shown is None else {"experiments": shown}

    def address(self) -> str:
        """Returns what tells the record from others."""
        return self._make().address()

    def settled(self) -> bool:
        """Tells whether all that was told is recorded, of the runs before this one, too."""
        return self.tracker.whole and not self._lost

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """Starts the run's record, or goes on with the one that the history remembers.

        Raises:
            TaxtuneError: If the store cannot be reached or written.
        """
        self._lost = not self.settled()
        self.tracker = self._make()
        experiment = tuner.experiment
        objective = experiment.objective
        parameters = dict(experiment.settings)
        parameters["objective"] = {"kind": objective.name, **objective.identity()}
        # What the model turned out to be: the commit behind a branch, the dtype behind "auto".
        parameters["resolved"] = {
            "vlm": dict(experiment.vlm.identity),
            "mapper": dict(experiment.mapper.identity()),
            "proposer": dict(experiment.proposer.identity()),
        }
        run = self.tracker.start(
            f"{experiment.name} ({objective.name})",
            parameters,
            {"taxtune.recipe": experiment.name, "taxtune.objective": objective.name},
            tuner.history.note("mlflow_run"),
            group=tuner.group,
            splits=_splits(experiment),
            render=partial(render, variables=experiment.variables),
        )
        # Before anything is asked: of a run that is killed there would be a second record otherwise.
        tuner.history.set_note("mlflow_run", run)
        self._thread = ThreadPoolExecutor(1, "taxtune-tracking")
        self._waiting = deque((record, None) for record in done)
        self._then(self._data)
        self._then(self._record)

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Records the iteration."""
        self._waiting.append((record, best))
        self._then(self._record)

    def on_result(self, tuner: Tuner, result: TuneResult) -> None:
        """Records the held-out scores, the files and the templates."""
        self._then(self._result, result).result()

    def on_comparison(self, result: ComparisonResult, group: Group) -> None:
        """Records the comparison in the run above its runs."""
        self.tracker.group(result, group)

    def on_repeats(self, result: RepeatsResult, group: Group) -> None:
        """Records the repeats in the run above them."""
        self.tracker.group(result, group)

    def on_stop(self, status: str) -> None:
        """Ends the run's record, once all that was told is recorded."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self.tracker.close(_STATUS[status])

    def _then(self, work: Callable[..., None], *arguments: Any) -> Future[None]:
        """Has the thread do something after what it is doing."""
        assert self._thread is not None
        return self._thread.submit(copy_context().run, work, *arguments)  # notes go to the display in force here

    def _data(self) -> None:
        self.tracker.data()

    def _record(self) -> None:
        """Records all that waits by now: where a server is slow, what piles up costs one attempt."""
        while self._waiting:
            self.tracker.iteration(*self._waiting.popleft())

    def _result(self, result: TuneResult) -> None:
        self.tracker.finish(result)


def _splits(experiment: Experiment) -> tuple[Split, Split]:
    """Returns the images of an experiment as a tracker takes them."""
    path = experiment.settings.get("data", {}).get("path")
    given = None if path is None else (experiment.source.parent if experiment.source else Path()) / path
    if given is None:
        source = os.path.commonpath([each.image for each in experiment.splits.heldout])
    else:
        source = str(given.resolve() if given.exists() else path)

    def made(context: Literal["tuning", "heldout"], examples: Sequence[Example]) -> Split:
        tree = experiment.taxonomy
        labels = {each.id: "/".join(tree.path(each.target)) for each in examples}
        contents = sorted(f"{each.sha256} {labels[each.id]}" for each in examples)
        digest = hashlib.sha256("\n".join(contents).encode()).hexdigest()[:8]
        images = {each.id: Path(each.image).resolve() for each in examples}
        return Split(context, f"{experiment.name}-{context}", source, images, labels, digest)

    return made("tuning", experiment.splits.tuning), made("heldout", experiment.splits.heldout)
