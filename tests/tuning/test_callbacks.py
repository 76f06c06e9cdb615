"""The record of a run is written beside it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from taxtune.errors import TaxtuneError
from taxtune.tracking import NullTracker
from taxtune.tuning.callbacks import TrackingCallback
from taxtune.tuning.records import IterationRecord, TuneResult
from tests.tuning.toy import make_parts, tuned


class Slow(NullTracker):
    """Records what it is told once it may."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.may, self.fault, self.told = threading.Event(), fault, []

    def start(self, *what: object) -> str:
        if self.fault is not None:
            raise self.fault
        self.told.append("start")
        return "run"

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        self.may.wait(30)
        self.told.append(record.iteration)

    def finish(self, result: TuneResult) -> None:
        self.told.append("finish")

    def close(self, status: str = "FINISHED") -> None:
        self.told.append(status)


def test_a_run_does_not_wait_for_its_record_until_its_end(tmp_path: Path) -> None:
    tracker = Slow()

    def last(record: IterationRecord, best: IterationRecord | None) -> None:
        if record.iteration == 5:
            assert tracker.told == ["start"], "all iterations are done, and nothing is recorded"
            tracker.may.set()

    parts = make_parts(tmp_path / "in", tmp_path / "out")
    tuned(parts, callbacks=[TrackingCallback(lambda: tracker), last])
    assert tracker.told == ["start", *range(6), "finish", "FINISHED"]


def test_nothing_is_asked_where_the_record_cannot_be_started(tmp_path: Path) -> None:
    tracker = Slow(TaxtuneError("MLflow cannot record the run: the disk is full."))
    parts = make_parts(tmp_path / "in", tmp_path / "out")
    with pytest.raises(TaxtuneError, match="the disk is full"):
        tuned(parts, callbacks=[TrackingCallback(lambda: tracker)])
    assert tracker.told == ["FAILED"]
    assert parts.vlm.asked == 0
