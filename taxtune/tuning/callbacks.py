"""Who is told what a tuning run does as it happens: the terminal's progress display, MLflow, code of one's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.tracking import Tracker
from taxtune.tuning.records import ComparisonResult, IterationRecord, Selection, TuneResult

if TYPE_CHECKING:
    from taxtune.tuning.loop import Tuner

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

    def on_comparison(self, result: ComparisonResult, identity: str) -> None:
        """Several runs were compared; `identity` joins the comparison to its runs."""

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


class TrackingCallback(Callback):
    """Records runs in MLflow: a parent run each, a nested run an iteration, the winner in the prompt registry.

    Iterations are recorded in a thread, so that the model need not wait for MLflow; the end of a run waits until all is
    recorded.

    Args:
        make_tracker: Returns a new record of a run; called once a run.
    """

    def __init__(self, make_tracker: Callable[[], Tracker]) -> None:
        self._make = make_tracker
        self.tracker: Tracker = make_tracker()
        self._alone: Callable[[], AbstractContextManager[None]] = nullcontext
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[tuple[IterationRecord, IterationRecord | None]] = deque()

    def where(self) -> dict[str, str]:
        """Returns where to look at what is recorded."""
        shown = self._make().where()
        return {} if shown is None else {"experiments": shown}

    def settled(self) -> bool:
        """Tells whether all that was told is recorded."""
        return self.tracker.whole

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """Starts the parent run, or goes on with the one that the history remembers.

        Raises:
            TaxtuneError: If the store cannot be reached or written.
        """
        # Of several workers one at a time: there is one parent run, and what looks half-recorded is somebody's work.
        self._alone = partial(tuner.history.alone, "tracking")
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
        tags = {"taxtune.recipe": experiment.name, "taxtune.objective": objective.name}
        if tuner.comparison is not None:
            tags["taxtune.comparison"] = tuner.comparison
        with self._alone():
            run = self.tracker.start(
                f"{experiment.name} ({objective.name})",
                parameters,
                tags,
                tuner.history.note("mlflow_run"),
            )
            # Before anything is asked: of a run that is killed there would be a second record otherwise.
            tuner.history.set_note("mlflow_run", run)
        self._thread = ThreadPoolExecutor(1, "taxtune-tracking")
        self._waiting = deque((record, None) for record in done)
        self._then(self._record)

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Records the iteration."""
        self._waiting.append((record, best))
        self._then(self._record)

    def on_result(self, tuner: Tuner, result: TuneResult) -> None:
        """Records the held-out scores, the figures and the report, and registers the winner."""
        self._then(self._result, result).result()

    def on_comparison(self, result: ComparisonResult, identity: str) -> None:
        """Records the comparison."""
        folder = Path(result.folder)
        figures = [path for name in ("figure6", "history") for path in sorted(folder.glob(f"{name}.*"))]
        self.tracker = self._make()
        self.tracker.comparison(result, figures, identity)

    def on_stop(self, status: str) -> None:
        """Ends the parent run, once all that was told is recorded."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self.tracker.close(_STATUS[status])

    def _then(self, work: Callable[..., None], *arguments: Any) -> Future[None]:
        """Has the thread do something after what it is doing."""
        assert self._thread is not None
        return self._thread.submit(copy_context().run, work, *arguments)  # notes go to the display in force here

    def _record(self) -> None:
        """Records all that waits by now: where a server is slow, what piles up costs one attempt."""
        if self._waiting:
            with self._alone():
                while self._waiting:
                    self.tracker.iteration(*self._waiting.popleft())

    def _result(self, result: TuneResult) -> None:
        with self._alone():
            self.tracker.finish(result)
            for path in sorted(Path(result.folder).glob("*.png")) + sorted(Path(result.folder).glob("*.svg")):
                self.tracker.figure(path)
            # With the latter two `load_run` reads the run where its folder is not at hand.
            for name in ("report.html", "winner.j2", "result.json", "provenance.json"):
                if (Path(result.folder) / name).exists():
                    self.tracker.artifact(Path(result.folder) / name)
            winner = result.heldout[-1]
            self.tracker.register(
                f"{result.name}-{result.objective}",
                winner.template,
                {"objective": result.objective, "iteration": str(result.winner)}
                | {f"heldout.{key}": f"{winner.scores.get(key):.4f}" for key in ("hp", "hr", "hf", "accuracy")},
                alias="winner",
            )
