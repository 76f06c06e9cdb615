"""Recording a tuning run as it happens, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.tracking.mlflow_tracker import MLflowTracker
from taxtune.tuning.loop import Callback, Group
from taxtune.tuning.records import ComparisonResult, IterationRecord, TuneResult
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from taxtune.tuning.loop import Tuner

__all__ = ["TrackingCallback"]

_STATUS = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}


class TrackingCallback(Callback):
    """Records runs in MLflow: a run each, a nested run an iteration, templates in the prompt registry.

    Iterations are recorded in a thread, so that the model need not wait for MLflow; the end of a run waits until all is
    recorded.

    Args:
        make_tracker: Returns a new record of a run; called once a run.
    """

    def __init__(self, make_tracker: Callable[[], MLflowTracker]) -> None:
        self._make = make_tracker
        self.tracker = make_tracker()
        self._lost = False
        self._thread: ThreadPoolExecutor | None = None

    def where(self) -> dict[str, str]:
        """Returns where to look at what is recorded."""
        return {"experiments": self._make().where()}

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
        objective, splits = experiment.objective, experiment.splits
        parameters = dict(experiment.settings)
        parameters["objective"] = {"kind": objective.name, **objective.identity()}
        # What the model turned out to be: the commit behind a branch, the dtype behind "auto".
        parameters["resolved"] = {
            "vlm": dict(experiment.vlm.identity),
            "mapper": dict(experiment.mapper.identity()),
            "proposer": dict(experiment.proposer.identity()),
        }
        run = self.tracker.start(
            f"{experiment.recipe.name} ({objective.name})",
            parameters,
            {"taxtune.recipe": experiment.recipe.name, "taxtune.objective": objective.name},
            tuner.history.note("mlflow_run"),
            group=tuner.group,
            images={each.id: Path(each.image).resolve() for each in (*splits.tuning, *splits.heldout)},
            render=partial(render, variables=experiment.variables),
        )
        # Before anything is asked: of a run that is killed there would be a second record otherwise.
        tuner.history.set_note("mlflow_run", run)
        self._thread = ThreadPoolExecutor(1, "taxtune-tracking")
        for record in done:
            self._then(self.tracker.iteration, record, None)

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Records the iteration."""
        self._then(self.tracker.iteration, record, best)

    def on_result(self, result: TuneResult | ComparisonResult) -> None:
        """Records the held-out scores, the files and the templates of a run."""
        if isinstance(result, TuneResult):
            self._then(self.tracker.finish, result).result()

    def on_comparison(self, result: ComparisonResult, group: Group) -> None:
        """Records the comparison in the run above its runs."""
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
