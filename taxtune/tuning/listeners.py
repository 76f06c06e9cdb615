"""Who hears of a tuning run: the MLflow tracker and the files that people read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.atomic import write_json, write_text
from taxtune.tracking import Tracker
from taxtune.tuning.loop import Listener
from taxtune.tuning.records import IterationRecord, TuneResult

if TYPE_CHECKING:
    from taxtune.tuning.loop import Tuner

__all__ = ["FilesListener", "SilentListener", "TrackingListener"]

_STATUS = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}


class SilentListener(Listener):
    """Hears everything and does nothing; a base for listeners that care about some events."""

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """Does nothing."""

    def on_answers(self, done: int, from_store: int) -> None:
        """Does nothing."""

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Does nothing."""

    def on_heldout(self, name: str, done: int, total: int) -> None:
        """Does nothing."""

    def on_result(self, tuner: Tuner, result: TuneResult) -> None:
        """Does nothing."""

    def on_stop(self, status: str) -> None:
        """Does nothing."""


class TrackingListener(SilentListener):
    """Records the run in MLflow: a parent run, a nested run an iteration, the winner in the prompt registry.

    Args:
        tracker: Where to record.
        tags: Tags of the parent run.
    """

    def __init__(self, tracker: Tracker, tags: dict[str, str]) -> None:
        self._tracker = tracker
        self._tags = tags
        self._alone: Callable[[], AbstractContextManager[None]] = nullcontext

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """Starts the parent run, or goes on with the one that the history remembers."""
        # Of several workers one at a time: there is one parent run, and what looks half-recorded is somebody's work.
        self._alone = partial(tuner.history.alone, "tracking")
        recipe = tuner.session.recipe
        parameters = recipe.settings()
        parameters["objective"] = {"kind": tuner.kind, "hr_floor": tuner.objective.hr_floor}
        # What the model turned out to be: the commit behind a branch, the dtype behind "auto".
        parameters["resolved"] = {
            "vlm": dict(tuner.session.vlm.identity),
            "mapper": dict(tuner.session.mapper.identity()),
            "proposer": dict(tuner.session.proposer.identity()),
        }
        with self._alone():
            run = self._tracker.start(
                f"{recipe.name} ({tuner.kind})",
                parameters,
                {**self._tags, "taxtune.recipe": recipe.name, "taxtune.objective": tuner.kind},
                tuner.history.note("mlflow_run"),
            )
            tuner.history.set_note("mlflow_run", run)
            for record in done:
                self._tracker.iteration(record)

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Records the iteration."""
        with self._alone():
            self._tracker.iteration(record, best)

    def on_result(self, tuner: Tuner, result: TuneResult) -> None:
        """Records the held-out scores, the figures and the report, and registers the winner."""
        with self._alone():
            self._result(result)

    def _result(self, result: TuneResult) -> None:
        self._tracker.finish(result)
        for path in sorted(Path(result.folder).glob("*.png")) + sorted(Path(result.folder).glob("*.svg")):
            self._tracker.figure(path)
        for name in ("report.html", "winner.j2"):
            if (Path(result.folder) / name).exists():
                self._tracker.artifact(Path(result.folder) / name)
        winner = result.heldout[-1]
        self._tracker.register(
            f"{result.name}-{result.objective}",
            winner.template,
            {"objective": result.objective, "iteration": str(result.winner)}
            | {f"heldout.{key}": f"{getattr(winner.scores, key):.4f}" for key in ("hp", "hr", "hf", "accuracy")},
            alias="winner",
        )

    def on_stop(self, status: str) -> None:
        """Ends the parent run."""
        self._tracker.close(_STATUS[status])


class FilesListener(SilentListener):
    """Writes what people read: the winning template, the result as JSON, the figures and the report."""

    def on_result(self, tuner: Tuner, result: TuneResult) -> None:
        """Writes `winner.j2`, `result.json`, the figures and `report.html` into the run's folder."""
        from dataclasses import asdict

        from taxtune.report.html import write_report

        folder = Path(result.folder)
        write_text(folder / "winner.j2", result.heldout[-1].template)
        write_json(folder / "result.json", asdict(result))
        write_report(result, folder, tuner.session)
