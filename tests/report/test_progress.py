from __future__ import annotations

import io
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from taxtune.objective import make_objective
from taxtune.progress import note, showing, track
from taxtune.report.progress import TuningProgress
from taxtune.report.terminal import Terminal
from taxtune.tuning.selection import best_so_far, choose, rungs
from tests.report import samples


class Clock:
    now = 5000.0

    def __call__(self):
        return self.now


class Screen(io.StringIO):
    """A terminal in memory."""

    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def screen(monkeypatch):
    for name, value in {"COLUMNS": "100", "LINES": "40", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    return Screen()


def displayed(screen):
    pyte = pytest.importorskip(
        "pyte", reason="the terminal is rendered with pyte, of the extra dev"
    )
    rendered = pyte.Screen(100, 40)
    pyte.Stream(rendered).feed(screen.getvalue().replace("\n", "\r\n"))
    return [line.rstrip() for line in rendered.display if line.strip()]


def tuner(iterations=8, group=None):
    objective = make_objective("hp")
    return SimpleNamespace(
        group=group,
        experiment=SimpleNamespace(
            objective=objective,
            rungs=rungs(20, 80, iterations + 1, always=int(objective.held_to_baseline)),
            splits=SimpleNamespace(tuning=range(80), heldout=range(200)),
        ),
    )


def follow(terminal, clock, look=lambda: None):
    """A run from its first to its last event; `look` is called after each iteration."""
    run = samples.tune(n=8)
    shown = TuningProgress(terminal)
    with showing(terminal):
        shown.on_start(tuner(), ())
        for record, best in zip(run.iterations, best_so_far(run.iterations), strict=True):
            with track("asking", 20, done=5, stored=5) as task:
                clock.now += 10
                task.advance(15)
            shown.on_iteration(record, best)
            look()
        shown.on_rung(replace(run.iterations[1], rows=samples.rows(80, 1)))
        selection = choose(list(run.iterations), make_objective("hp"))
        assert selection is not None
        shown.on_selection(selection)
        for name in ("baseline", "winner"):
            shown.on_heldout(name, 200)
        note("MLflow could not record iteration 3")
        shown.on_stop("finished")


def test_a_log_has_a_line_per_iteration_and_no_control_characters(clock, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on servers that build: it is a log all the same
    stream = io.StringIO()
    follow(Terminal(stream=stream, clock=clock), clock)
    lines = stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()
    assert max(len(line) for line in lines if line.startswith("   ")) <= 120
    assert lines[0].startswith("goal: the highest hP, with hR at least 80 % of the baseline's")
    iterations = {int(match[1]): line for line in lines if (match := re.match(r" +(\d+)  ", line))}
    assert list(iterations) == list(range(9)) or list(iterations) == [0, *range(2, 9), 1]
    first = next(line for line in lines if line.startswith("   1 "))
    scores = r"hP 0\.874 ± \.\d{3}  hR 0\.729 ± \.\d{3}  abst\. 0\.100  off 0\.050  best"
    assert re.match(rf"   1     20 images  {scores}", first)
    assert iterations[7].startswith("   7  failed: three replies in a row were refused")
    assert any(re.match(r"iteration \d wins\. Chosen for the highest hP", line) for line in lines)
    assert lines[-3:] == [
        "held-out split: baseline, 200 images",
        "held-out split: winner, 200 images",
        "taxtune: note: MLflow could not record iteration 3",
    ]


def test_a_log_says_every_half_minute_how_far_the_work_is(clock):
    stream = io.StringIO()
    with showing(Terminal(stream=stream, clock=clock)), track("answers placed", 90_000) as task:
        for seconds in (20, 20, 20, 20):
            clock.now += seconds
            task.advance(1000)
    assert stream.getvalue() == "answers placed 2,000/90,000\nanswers placed 4,000/90,000\n"


@pytest.mark.parametrize("make", [io.StringIO, Screen])
def test_quiet_says_nothing_but_notes(clock, make, screen):
    stream = make()
    follow(Terminal(quiet=True, stream=stream, clock=clock), clock)
    assert (
        re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
        == "taxtune: note: MLflow could not record iteration 3\n"
    )


def test_a_terminal_has_bars_below_the_lines_that_stay(clock, screen, monkeypatch):
    # Drawn when the test looks, not by rich's thread, which the emulated screen may meet in the middle of a line.
    monkeypatch.setattr("rich.live._RefreshThread.run", lambda _: None)
    terminal = Terminal(stream=screen, clock=clock)
    bars = []

    def look():
        assert terminal._progress is not None
        terminal._progress.refresh()
        bars.append(displayed(screen)[-1])

    follow(terminal, clock, look)
    assert re.match(r"iteration 3 of 8, 45 calls, \$0\.01 .*60/\d+", bars[2])
    lines = displayed(screen)
    assert not any("of 8, " in line for line in lines), "the bars are gone"
    assert any(line.startswith("   1     20 images") for line in lines)
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l"), (
        "the cursor is back"
    )


def test_control_characters_of_a_server_are_not_obeyed():
    stream = io.StringIO()
    Terminal(stream=stream).note("server said \x1b[2J")
    assert stream.getvalue() == "taxtune: note: server said \\x1b[2J\n"
