"""What a tracker is, and the one that records nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from taxtune.tuning.records import ComparisonResult, IterationRecord, TuneResult

__all__ = ["NullTracker", "Tracker"]


class Tracker(Protocol):
    """Where a run is recorded."""

    @property
    def whole(self) -> bool:
        """Whether all that was told is recorded."""

    def start(
        self, name: str, parameters: Mapping[str, Any], tags: Mapping[str, str], run_id: str | None = None
    ) -> str:
        """Starts the parent run, or goes on with `run_id`, and returns its id."""

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        """Records an iteration, unless it is recorded already."""

    def finish(self, result: TuneResult) -> None:
        """Records the result, and whatever iteration is not recorded yet."""

    def figure(self, path: str | Path) -> None:
        """Keeps a figure with the parent run."""

    def artifact(self, path: str | Path) -> None:
        """Keeps a file with the parent run."""

    def register(self, name: str, template: str, tags: Mapping[str, str], alias: str | None = None) -> str | None:
        """Puts a template into the prompt registry and returns its address there, or None."""

    def comparison(self, result: ComparisonResult, figures: Sequence[Path], identity: str) -> str | None:
        """Records a comparison of tuning runs and returns the id of its run, or None."""

    def close(self, status: str = "FINISHED") -> None:
        """Ends the parent run as "FINISHED", "FAILED" or "KILLED"."""

    def where(self) -> str | None:
        """Returns where to look at what is recorded, or None."""


class NullTracker:
    """Records nothing."""

    whole = True

    def start(
        self, name: str, parameters: Mapping[str, Any], tags: Mapping[str, str], run_id: str | None = None
    ) -> str:
        """Returns the id it was given, or an empty one."""
        return run_id or ""

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        """Records nothing."""

    def finish(self, result: TuneResult) -> None:
        """Records nothing."""

    def figure(self, path: str | Path) -> None:
        """Records nothing."""

    def artifact(self, path: str | Path) -> None:
        """Records nothing."""

    def register(self, name: str, template: str, tags: Mapping[str, str], alias: str | None = None) -> str | None:
        """Returns None."""
        return None

    def comparison(self, result: ComparisonResult, figures: Sequence[Path], identity: str) -> str | None:
        """Returns None."""
        return None

    def close(self, status: str = "FINISHED") -> None:
        """Does nothing."""

    def where(self) -> str | None:
        """Returns None."""
        return None
