"""The protocol of trackers, the records that they are given besides results, and the tracker that records nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from taxtune.tuning.callbacks import Group
from taxtune.tuning.records import ComparisonResult, IterationRecord, TuneResult

__all__ = ["Group", "NullTracker", "Split", "Tracker"]


@dataclass(frozen=True)
class Split:
    """The images of a split, with their labels.

    Attributes:
        context: The use of the split.
        name: Name of the data set.
        source: A path or an address.
        images: Image files, by example id.
        labels: Path of each label on the tree, joined with "/", by example id.
        digest: Tells these images and labels from others.
    """

    context: Literal["tuning", "heldout"]
    name: str
    source: str
    images: Mapping[str, Path] = field(repr=False)
    labels: Mapping[str, str] = field(repr=False)
    digest: str


class Tracker(Protocol):
    """Where a run is recorded."""

    @property
    def whole(self) -> bool:
        """Whether everything is recorded."""

    def start(
        self,
        name: str,
        parameters: Mapping[str, Any],
        tags: Mapping[str, str],
        run_id: str | None = None,
        *,
        group: Group | None = None,
        splits: Sequence[Split] = (),
        render: Callable[[str], str] | None = None,
    ) -> str:
        """Starts a tuning run's record, or continues `run_id`, and returns its id."""

    def data(self) -> None:
        """Records the images and labels of the splits."""

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        """Records an iteration, unless it is recorded already."""

    def finish(self, result: TuneResult) -> None:
        """Records the result with its files and its templates, and each iteration that is not recorded yet."""

    def group(self, result: ComparisonResult, group: Group) -> str | None:
        """Records the result of runs that belong together; returns the id of the run above them, or None."""

    def close(self, status: str = "FINISHED") -> None:
        """Ends the run as "FINISHED", "FAILED" or "KILLED"."""

    def where(self) -> str | None:
        """Returns where to look at the record, or None."""

    def address(self) -> str:
        """Returns the address of the record; the same after the run's folder was moved."""


class NullTracker:
    """Records nothing."""

    whole = True

    def start(self, name: str, parameters: Any, tags: Any, run_id: str | None = None, **options: Any) -> str:
        """Returns the id it was given, or an empty one."""
        return run_id or ""

    def data(self) -> None:
        """Does nothing."""

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        """Does nothing."""

    def finish(self, result: TuneResult) -> None:
        """Does nothing."""

    def group(self, result: ComparisonResult, group: Group) -> str | None:
        """Returns None."""
        return None

    def close(self, status: str = "FINISHED") -> None:
        """Does nothing."""

    def where(self) -> str | None:
        """Returns None."""
        return None

    def address(self) -> str:
        """Returns an empty address."""
        return ""
