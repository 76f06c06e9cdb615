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
from taxtune.tuning.selection import choose, rungs
from tests.report import samples
from tests.rows import sample_row


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
            policy=SimpleNamespace(samples=1),
            rungs=rungs(20, 80, iterations + 1, always=int(objective.held_to_baseline)),
            recipe=SimpleNamespace(data=SimpleNamespace(group=None)),
            splits=SimpleNamespace(tuning=[sample_row()] * 80, heldout=range(200)),
        ),
    )


def follow(terminal, clock, look=lambda: None, *, by_rung=False):
    """A run from its first to its last event; `look` is called after each iteration.

    Returns the winner.
    """
    run = samples.tune(n=8)
    records = list(run.iterations)
    shown = TuningProgress(terminal, by_rung=by_rung)
    with showing(terminal):
        shown.on_start(tuner(), ())
        for record in records:
            with track("asking", 20, done=5, stored=5) as task:
                clock.now += 10
                task.advance(15)
            shown.on_iteration(record, None)
            look()
        for number in (1, 4):
            records[number] = replace(records[number], rows=samples.rows(40, number))
            shown.on_rung(records[number])
        selection = choose(records, make_objective("hp"))
        assert selection is not None
        shown.on_selection(selection)
        for name in ("baseline", "winner"):
            shown.on_heldout(name, 200)
        note("MLflow could not record iteration 3")
        shown.on_stop("finished")
    return selection.winner


def test_a_log_has_a_line_per_iteration_and_no_control_characters(clock, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on servers that build: it is a log all the same
    stream = io.StringIO()
    winner = follow(Terminal(stream=stream, clock=clock), clock)
    lines = stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()
    assert lines[0].startswith("goal: the highest hP, with hR at least 80 % of the baseline's")
    assert lines[0].endswith("; at most 920 calls")
    assert lines[1].startswith("hP: how much of what is said is true")
    assert lines[2].startswith("wrong: untrue; general: true, not down to the label")
    asked = [line for line in lines if re.match(r" *(baseline|\d of 8) ", line)]
    assert len(asked) == 9
    assert max(map(len, asked)) <= 120
    counts = (
        "  1 of 8 *  2 wrong, 12 general,  5 exact of 19 (1 missing)  {{ question }} Try 1: say"
    )
    assert asked[1].startswith(counts)
    assert (
        asked[7]
        == "  7 of 8   no template: three replies in a row were refused: a repeat of iteration 2"
    )
    (more,) = (line for line in lines if line.startswith("asked about more images: 4"))
    assert "   5 wrong, 28 general,  6 exact of 39 (1 missing); best so far: 6  {{" in more
    assert any(
        re.match(rf"iteration {winner} wins\. Chosen for the highest", line) for line in lines
    )
    assert lines[-3:] == [
        "held-out split: baseline, 200 images",
        "held-out split: winner, 200 images",
        "taxtune: note: MLflow could not record iteration 3",
    ]


def test_the_last_mark_is_the_winner_that_is_announced(clock):
    stream = io.StringIO()
    winner = follow(Terminal(stream=stream, clock=clock), clock)
    marks = re.findall(r"(\d)(?: of 8)? \* |best so far: (\d)", stream.getvalue())
    assert int("".join(marks[-1])) == winner


def test_a_notebook_has_a_line_per_rung(clock):
    stream = io.StringIO()
    winner = follow(Terminal(stream=stream, clock=lambda: 0.0), clock, by_rung=True)
    goal, _, _, *rungs, won, _, _, _ = stream.getvalue().splitlines()
    assert goal.startswith("goal: the highest hP")
    assert rungs == [
        "8 prompts asked about 20 images; best so far is iteration 1: 2 wrong, 12 general, 5 exact "
        "of 19 (1 missing)",
        f"2 prompts asked about 40 images; best so far is iteration {winner}: 6 wrong, 9 general, "
        "4 exact of 19 (1 missing)",
    ]
    assert won.startswith(f"iteration {winner} wins. ")


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
    assert any(line.startswith("  1 of 8 *  2 wrong, 12 general") for line in lines)
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l"), (
        "the cursor is back"
    )


def test_control_characters_of_a_server_are_not_obeyed():
    stream = io.StringIO()
    Terminal(stream=stream).note("server said \x1b[2J")
    assert stream.getvalue() == "taxtune: note: server said \\x1b[2J\n"
