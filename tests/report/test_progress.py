from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest

from taxtune.progress import note, showing, track, track_each
from taxtune.report import progress
from taxtune.report.progress import Terminal, TuningProgress
from taxtune.report.wording import best_so_far
from tests.report import samples


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


class Screen(io.StringIO):
    """A terminal in memory."""

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    return Screen()


def tuner(iterations: int, objective: str = "hp") -> Any:
    return SimpleNamespace(
        experiment=SimpleNamespace(
            iterations=iterations,
            objective=SimpleNamespace(constraints=(), name=objective),
            outlook=samples.outlook(objective),
        )
    )


def follow(terminal: Terminal, clock: Clock, *, objective: str = "hp", done: int = 0) -> None:
    run = samples.tune(n=8)
    shown = TuningProgress(terminal)
    with showing(terminal):
        for _ in track_each(range(2), "reading images"):
            pass
        shown.on_start(tuner(8, objective), run.iterations[:done])
        for record, best in list(zip(run.iterations, best_so_far(run.iterations), strict=True))[done:]:
            with track("answers", 20, done=5, stored=5) as answers:
                answers.advance(15)
            clock.now += 10
            shown.on_iteration(record, best)
        for answered in (100, 200):
            shown.on_heldout("baseline", answered, 200)
        note("MLflow could not record iteration 3")
        shown.on_stop("finished")


def test_a_line_an_iteration_where_there_is_no_terminal(clock: Clock) -> None:
    stream = io.StringIO()
    follow(Terminal(stream=stream), clock)
    said = stream.getvalue().splitlines()
    # What the images can show, before anything is asked and once the baseline was.
    assert [line.split(": ")[0].strip() for line in said[:5]] == [
        "goal",
        "trivial answers",
        "always the right <order>",
        "one image",
        "told apart",
    ]
    assert "as the baseline's own scores vary" in said[6]
    lines = [said[5], *said[7:]]
    assert len(lines) == 9 + 1 + 1
    assert lines[1] == (
        "iteration 1/8  |  hP 0.874  hR 0.729  abstained 0.100  off the tree 0.050  |  best hP 0.874 (iteration 1)"
        "  |  5 from store  |  1 missing  |  about 70 s left"
    )
    assert lines[7].startswith("iteration 7/8  |  failed: three replies in a row were refused")
    assert "left" not in lines[8]
    assert lines[9] == "held-out split: baseline, 200 images"
    assert lines[10] == "taxtune: note: MLflow could not record iteration 3"
    assert "\x1b" not in stream.getvalue()


def test_time_left_counts_this_sitting_only(clock: Clock) -> None:
    clock.now = 5000.0
    stream = io.StringIO()
    follow(Terminal(stream=stream), clock, done=6)
    assert "about 20 s left" in stream.getvalue().splitlines()[0]


@pytest.mark.parametrize("kind", [io.StringIO, Screen])
def test_quiet_says_nothing_but_notes(clock: Clock, kind: type[io.StringIO]) -> None:
    stream = kind()
    follow(Terminal(quiet=True, stream=stream), clock)
    assert stream.getvalue() == "taxtune: note: MLflow could not record iteration 3\n"


def test_a_terminal_gets_a_display_that_goes_away(clock: Clock, screen: Screen) -> None:
    follow(Terminal(stream=screen), clock, objective="accuracy")
    assert "tuning for accuracy" in screen.text
    assert "reading images" in screen.text
    assert "5 from store" in screen.text
    assert "about 70 s left" in screen.text
    assert "held-out split: baseline" in screen.text
    assert "taxtune: note: MLflow could not record iteration 3" in screen.text
    assert screen.getvalue().rstrip().endswith("\x1b[2K")  # the last thing is to wipe the display


def test_a_bar_is_there_as_long_as_its_task(screen: Screen) -> None:
    terminal = Terminal(stream=screen)
    with showing(terminal), track("outer", 2) as outer:
        with track("inner [bold]", 3):
            assert terminal._bars is not None
            assert [bar.description for bar in terminal._bars.tasks] == ["outer", "inner [bold]"]
        outer.advance()
        (bar,) = terminal._bars.tasks
        assert (bar.description, bar.completed, bar.total) == ("outer", 1, 2)
    assert terminal._bars is None


def test_bars_that_nobody_ended_are_wiped(screen: Screen) -> None:
    with showing(Terminal(stream=screen)):
        held = track_each(range(3), "held")
        next(held)
        assert "held" in screen.text
    assert screen.getvalue().rstrip().endswith("\x1b[2K")
    held.close()
    assert list(track_each(range(3), "nobody sees this")) == [0, 1, 2]
    assert "nobody" not in screen.text


def test_a_dumb_terminal_gets_no_bars(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with showing(Terminal(stream=screen)), track("reading", 2):
        note("one is missing")
    assert screen.getvalue() == "taxtune: note: one is missing\n"


def test_methods_do_no_harm_outside_a_run() -> None:
    stream = io.StringIO()
    shown = TuningProgress(Terminal(stream=stream))
    shown.on_iteration(samples.iteration(0, state="void"), None)
    shown.on_heldout("winner", 1, 2)
    shown.on_stop("failed")
    assert "iteration 0/0  |  void: 18 of 20 calls failed: HTTP 500  |" in stream.getvalue()


def test_control_characters_of_a_server_are_not_obeyed() -> None:
    stream = io.StringIO()
    Terminal(stream=stream).note("server said \x1b[2J")
    assert stream.getvalue() == "taxtune: note: server said \\x1b[2J\n"


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert progress._duration(seconds) == text
