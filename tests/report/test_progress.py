from __future__ import annotations

import io
import re

import pytest

from taxtune.report import progress
from taxtune.report.progress import Progress
from taxtune.report.wording import best_so_far
from tests.report import samples


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def follow(bar: Progress, clock: Clock, *, objective: str = "hp", done: int = 0) -> None:
    run = samples.tune(n=8)
    with bar:
        for read in (40, 80):
            bar.on_images(read, 80)
        bar.start(8, 20, name=objective, done=done)
        for record, best in list(zip(run.iterations, best_so_far(run.iterations), strict=True))[done:]:
            for answered in (8, 16, 20):
                bar.on_answers(answered, 5)
            clock.now += 10
            bar.on_iteration(record, best)
        for answered in (100, 200):
            bar.on_heldout("baseline", answered, 200)
        bar.note("MLflow could not record iteration 3")


def test_a_line_an_iteration_where_there_is_no_terminal(clock: Clock) -> None:
    stream = io.StringIO()
    follow(Progress(stream=stream), clock)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 9 + 1 + 1
    assert lines[1] == (
        "iteration 1/8  |  hP 0.874  hR 0.729  abstained 0.100  off the tree 0.050  |  best hP 0.874 (iteration 1)"
        "  |  5 from store  |  1 missing  |  about 70 s left"
    )
    assert lines[7].startswith("iteration 7/8  |  failed: three replies in a row were refused")
    assert "left" not in lines[8]
    assert lines[9] == "held-out split: baseline, 200 images"
    assert "\x1b" not in stream.getvalue()


def test_time_left_counts_this_sitting_only(clock: Clock) -> None:
    clock.now = 5000.0
    stream = io.StringIO()
    follow(Progress(stream=stream), clock, done=6)
    assert "about 20 s left" in stream.getvalue().splitlines()[0]


def test_quiet_says_nothing_but_notes(clock: Clock) -> None:
    stream = io.StringIO()
    follow(Progress(quiet=True, stream=stream), clock)
    assert stream.getvalue() == "MLflow could not record iteration 3\n"


def test_a_terminal_gets_a_display_that_goes_away(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    follow(Progress(stream=stream), clock, objective="accuracy")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert "tuning for accuracy" in text
    assert "reading images" in text
    assert "5 from store" in text
    assert "held-out: baseline" in text
    assert "MLflow could not record iteration 3" in text
    assert stream.getvalue().rstrip().endswith("\x1b[2K")  # the last thing is to wipe the display


def test_the_answers_clock_starts_anew_with_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with Progress(stream=Terminal()) as bar:
        bar.start(1, 4)
        assert bar._bars is not None
        task = next(task for task in bar._bars.tasks if task.id == bar._answers)
        bar.on_answers(4, 0)
        assert task.finished
        record = samples.iteration(0)
        bar.on_iteration(record, record)
        assert not task.finished
        assert task.completed == 0
        bar.on_answers(4, 0)
        bar.on_heldout("baseline", 1, 8)
        assert not task.finished
        assert (task.completed, task.total) == (1, 8)


def test_methods_do_no_harm_outside_the_context() -> None:
    stream = io.StringIO()
    bar = Progress(stream=stream)
    bar.on_answers(1, 0)
    bar.on_iteration(samples.iteration(0, state="void"), None)
    bar.on_heldout("winner", 1, 2)
    assert "iteration 0/0  |  void: 18 of 20 calls failed: HTTP 500  |" in stream.getvalue()
    bar.start(3, 4)


def test_control_characters_of_a_server_are_not_obeyed() -> None:
    stream = io.StringIO()
    Progress(stream=stream).note("server said \x1b[2J")
    assert stream.getvalue() == "server said \\x1b[2J\n"


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert progress._duration(seconds) == text
