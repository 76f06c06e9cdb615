"""The record of a run is written beside it."""

from __future__ import annotations

import threading

from taxtune.tracking import TrackingCallback
from taxtune.tuning.loop import Callback
from tests.displays import NullTracker
from tests.tuning.toy import make_parts, tuned


class Slow(NullTracker):
    """Records what it is told once it may."""

    def __init__(self, fault=None):
        self.may = threading.Event()
        self.fault = fault
        self.told: list[object] = []
        self.best: list[int | None] = []

    def start(self, *what, **more):
        if self.fault is not None:
            raise self.fault
        self.told.append("start")
        return "run"

    def iteration(self, record, best=None):
        self.may.wait(30)
        self.told.append(record.iteration)
        self.best.append(None if best is None else best.iteration)

    def finish(self, result):
        self.told.append("finish")

    def close(self, status="FINISHED"):
        self.told.append(status)


def test_a_run_does_not_wait_for_its_record_until_its_end(tmp_path):
    tracker = Slow()

    def last(record, best):
        if record.iteration == 5:
            assert tracker.told == ["start"], "all iterations are done, and nothing is recorded"
            tracker.may.set()

    parts = make_parts(tmp_path / "in", tmp_path / "out")
    tuned(parts, callbacks=[TrackingCallback(lambda: tracker), last])
    assert tracker.told == ["start", *range(6), "finish", "FINISHED"]
    again = Slow()
    again.may.set()
    parts = make_parts(tmp_path / "in", tmp_path / "out")
    tuned(parts, callbacks=[TrackingCallback(lambda: again)], resume=True)
    # Of a resumed run, too: the record may lack an iteration.
    assert again.best == tracker.best != [None] * 6


class Diary(Callback):
    """Writes down what a run does, and what the display in force is told meanwhile."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.lines: list[object] = []
        self.rows: dict[int, int] = {}

    def on_start(self, tuner, done):
        assert ("opening the history", 0, None) in self.recorder.steps
        assert not self.recorder.of("asking")

    def on_iteration(self, record, best):
        self.lines.append((record.iteration, len(record.rows)))

    def on_rung(self, record):
        self.lines.append((record.iteration, len(record.rows)))
        self.rows[record.iteration] = len(record.rows)

    def on_selection(self, selection):
        assert selection.images == max(self.rows.values())
        self.lines.append("chosen")

    def on_heldout(self, name, images):
        self.lines.append(name)


def test_what_is_done_is_told_when_it_begins(tmp_path, recorder):
    diary = Diary(recorder)
    parts = make_parts(tmp_path / "in", tmp_path / "out", overrides=("data.first_rung=4",))
    result = tuned(parts, callbacks=[diary])
    end = diary.lines.index("chosen")
    assert diary.lines[:6] == [(k, 4) for k in range(6)]
    halving = diary.lines[6:end]
    assert len(halving) >= 2
    assert {images for _, images in halving} == {6, 8}
    assert [*dict.fromkeys(diary.lines[end:])] == ["chosen", "baseline", "winner"]
    assert result.selection is not None
    names = [name for name, _, _ in recorder.steps]
    first = {name: names.index(name) for name in names}
    order = ["opening the history", "opening the record of the run", "asking", "placing", "scoring"]
    order += ["bootstrapping intervals", "recording the result"]
    assert sorted(order, key=first.__getitem__) == order
    proposed = names.index("proposing a template", first["scoring"])
    assert proposed < first["bootstrapping intervals"]
