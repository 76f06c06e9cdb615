from __future__ import annotations

import io
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.live import Live

from taxtune.policies import DIRECT
from taxtune.progress import loading, note, showing, track, track_each
from taxtune.report.pace import Pace, duration
from taxtune.report.progress import Terminal, TuningProgress
from taxtune.report.wording import best_so_far
from taxtune.settings import BudgetSettings
from taxtune.tuning.objective import OBJECTIVES, Aims, make_objective
from taxtune.tuning.records import Finalist, IterationRecord, Selection
from taxtune.tuning.selection import choose, most_questions, race
from tests.report import samples

WIDTHS = (20, 40, 60, 80, 120, 200)


class Clock:
    now = 5000.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    """A terminal in memory, as wide as COLUMNS says."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return [line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())) if line]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_screen(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Screen]:
    def make(width: int = 80) -> Screen:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("LINES", "40")
        return Screen()

    monkeypatch.setenv("TERM", "xterm")
    return make


def tuner(
    iterations: int = 8,
    kind: str = "hp",
    budget: BudgetSettings | None = None,
    group: str | None = None,
    known: Sequence[IterationRecord] = (),
) -> Any:
    objective = make_objective(kind, metrics=() if kind in OBJECTIVES else (kind,))
    return SimpleNamespace(
        group=group,
        history=SimpleNamespace(records=lambda: known),
        experiment=SimpleNamespace(
            objective=objective,
            stages=race(objective, 20, 80, iterations + 1),
            budget=budget or BudgetSettings(),
            policy=DIRECT,
            splits=SimpleNamespace(tuning=range(80), heldout=range(200)),
        ),
    )


def ask(shown: TuningProgress, clock: Clock, images: int = 20, stored: int = 0, seconds: float = 10.0) -> None:
    with track("asking", images, done=stored, stored=stored) as task:
        shown.on_answers(stored, stored)
        clock.now += seconds
        task.advance(images - stored)
        shown.on_answers(images, stored)


def follow(
    terminal: Terminal, clock: Clock, *, kind: str = "hp", done: int = 0, budget: BudgetSettings | None = None
) -> Iterator[str]:
    """A run, event by event; yields what has just happened."""
    run = samples.tune(kind if kind == "accuracy" else "hp", n=8)
    shown = TuningProgress(terminal)
    with showing(terminal):
        for _ in track_each(range(2), "reading images"):
            pass
        known = list(run.iterations[:done])
        shown.on_start(tuner(8, kind, budget, known=known), run.iterations[:done])
        yield "start"
        for record, best in list(zip(run.iterations, best_so_far(run.iterations), strict=True))[done:]:
            if record.template is not None:
                shown.on_template(record.iteration, record.template, 20)
                if record.iteration == 0:
                    with loading("the weights of a-model"):
                        clock.now += 300
                ask(shown, clock, stored=5)
            known.append(record)
            shown.on_iteration(record, best)
            yield f"iteration {record.iteration}"
        grown = [replace(record, rows=samples.rows(80, record.iteration)) for record in run.iterations[1:3]]
        for record in grown:
            shown.on_template(record.iteration, record.template or "", 80)
            ask(shown, clock, 80, 20, seconds=40)
            known[record.iteration] = record
            shown.on_race(record)
        yield "race"
        selection = choose([run.iterations[0], *grown, *run.iterations[3:]], make_objective("hp"))
        assert selection is not None
        shown.on_selection(selection)
        for name in ("baseline", "winner"):
            for answered in (0, 100, 200):
                shown.on_heldout(name, answered, 200)
                clock.now += 50 * (answered < 200)
            yield name
        note("MLflow could not record iteration 3")
        shown.on_stop("finished")
    yield "end"


def after(event: str, events: Iterator[str]) -> None:
    """Runs a run up to and with an event, and leaves it there."""
    assert event in events


def test_a_log_has_whole_lines_and_no_control_characters(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on servers that build: it is a log all the same
    monkeypatch.setenv("COLUMNS", "20")
    stream = io.StringIO()
    after("end", follow(Terminal(stream=stream, clock=clock, look_every=0), clock))
    assert "\x1b" not in stream.getvalue()
    said = stream.getvalue().splitlines()
    # What the images can show, before anything is asked and once the baseline was.
    assert [line.split(": ")[0].strip() for line in said[:5]] == [
        "goal",
        "trivial answer",
        "oracles",
        "one image",
        "told apart",
    ]
    assert said[5] == "means over n images ± standard error (– where all images score alike):"
    assert re.fullmatch(r"iter +n +hP +hR +abst\. +off +template", said[6])
    lines = {int(found[1]): line for line in said[7:16] if (found := re.match(r" +(\d+) ", line))}
    assert list(lines) == list(range(8))
    assert re.match(r"   1     20  0\.874 ± \.\d{3}  0\.729 ± \.\d{3}  0\.100  0\.050  best    1 missing;", lines[1])
    assert lines[7].startswith("   7  failed: three replies in a row were refused")
    columns = [line.index("±") for number, line in lines.items() if number != 7]
    assert len(set(columns)) == 1
    assert sum("as the baseline's own scores vary" in line for line in said) == 1
    assert [line[:36] for line in said[-3:]] == [
        "held-out split: baseline, 200 images",
        "held-out split: winner, 200 images",
        "taxtune: note: MLflow could not reco",
    ]
    assert re.search(
        r"^iteration \d wins. Chosen for the highest hP, less a margin for luck, among those with hR at least 0\.594 "
        r"on average \(\d+ tuning images\)\.$",
        stream.getvalue(),
        re.MULTILINE,
    )


def test_a_log_says_every_half_minute_how_far_it_is(clock: Clock) -> None:
    stream = io.StringIO()
    terminal = Terminal(stream=stream, clock=clock, look_every=0)
    run = follow(terminal, clock, budget=BudgetSettings(llm_tokens=4000))
    after("iteration 2", run)
    terminal.log()  # what the thread of a log calls every second
    terminal.log()
    clock.now += 29
    terminal.log()
    found = [line for line in stream.getvalue().splitlines() if line.startswith("iteration ")]
    assert len(found) == 1
    assert re.fullmatch(
        r"iteration 3 of 8, about \d+ min left, 45 calls, 15 from store, 1,770 tokens, 3,840 LLM tokens of 4,000, "
        r"under \$0\.01",
        found[0],
    )
    clock.now += 1
    terminal.log()
    assert stream.getvalue().splitlines()[-1] == found[0]


def test_a_thread_looks_whether_there_is_something_to_say(clock: Clock) -> None:
    said = threading.Event()

    class Log(io.StringIO):
        def write(self, text: str) -> int:
            said.set()
            return super().write(text)

    stream = Log()
    with showing(Terminal(stream=stream, clock=clock, look_every=0.001)), loading("the weights of a-model"):
        clock.now += 31
        assert said.wait(30)
    assert stream.getvalue() == "loading the weights of a-model\n"


def test_a_log_of_other_work_says_so_too(clock: Clock) -> None:
    stream = io.StringIO()
    terminal = Terminal(stream=stream, clock=clock, look_every=0)
    with showing(terminal), track("answers placed", 90_000) as task:
        clock.now += 20
        terminal.log()
        task.advance(1234)
        clock.now += 20
        terminal.log()
    clock.now += 100
    terminal.log()
    assert stream.getvalue() == "answers placed 1,234/90,000\n"


def test_time_left_counts_the_race_and_the_held_out_images_and_not_the_loading(clock: Clock) -> None:
    stream = io.StringIO()
    terminal = Terminal(stream=stream, clock=clock, look_every=0)
    run = follow(terminal, clock)

    def left() -> str:
        clock.now += 30
        terminal.log()
        return stream.getvalue().splitlines()[-1]

    experiment = tuner(8).experiment
    most = most_questions(experiment.objective, experiment.stages)
    after("iteration 0", run)  # 15 images in 10 s, after 300 s of loading
    assert f"iteration 1 of 8, about {duration((most - 20 + 2 * 200) * 10 / 15)} left" in left()
    after("baseline", run)
    # 200 images are left, of which one takes some 0.6 s: 450 took 260 s.
    assert left().startswith("held-out images: baseline, about 2 min left, ")


@pytest.mark.parametrize("make", [io.StringIO, Screen])
def test_quiet_says_nothing_but_notes(
    clock: Clock, make: type[io.StringIO], make_screen: Callable[..., Screen]
) -> None:
    make_screen()
    stream = make()
    terminal = Terminal(quiet=True, stream=stream, clock=clock)
    for _ in follow(terminal, clock):
        clock.now += 60
        terminal.log()
    said = stream.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", said) == "taxtune: note: MLflow could not record iteration 3\n"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["hp", "accuracy", "hf", "pareto"])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_broken(
    width: int, kind: str, clock: Clock, make_screen: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refresh in the middle of a step would show one screen numbers that the other never had.
    monkeypatch.setattr("rich.live.Live", partial(Live, auto_refresh=False))

    def shown_on(screen: Screen, ticking: Clock) -> Screen:
        terminal = Terminal(stream=screen, clock=ticking)
        for event in follow(terminal, clock, kind=kind):
            if terminal._live is not None:
                terminal._live.refresh()
            if event == "end":
                break
        return screen

    wide = shown_on(make_screen(400), clock)
    narrow = shown_on(make_screen(width), Clock())
    assert max(map(cell_len, narrow.lines)) <= width
    number = re.compile(r"(?<![\w.])[\d.,]*\d[\d.,]*(?![\w…])")
    whole = {found for line in wide.lines for found in number.findall(line)}
    # Those of the display itself: what a template is cut to may hold others.
    shown = {found for line in narrow.lines for found in number.findall(line.split("template")[0])}
    assert shown <= whole
    assert "hP" in narrow.text
    assert "hR" in narrow.text or width == 20


def test_the_live_display_says_what_is_done_what_is_best_and_why(
    clock: Clock, make_screen: Callable[..., Screen]
) -> None:
    pyte = pytest.importorskip("pyte", reason="the terminal is rendered with pyte, of the extra dev")
    screen = make_screen()
    terminal = Terminal(stream=screen, clock=clock)
    budget = BudgetSettings(vlm_calls=900, usd=2.0, minutes=10)
    run = follow(terminal, clock, budget=budget)

    def display() -> list[str]:
        if terminal._live is not None:
            terminal._live.refresh()  # as happens four times a second
        rendered = pyte.Screen(80, 40)
        pyte.Stream(rendered).feed(screen.getvalue().replace("\n", "\r\n"))
        return [line.rstrip() for line in rendered.display if line.strip()]

    after("iteration 2", run)
    with track("asking", 20, done=5, stored=5):
        note("the server asked for patience")
        lines = display()
    at = lines.index("taxtune: note: the server asked for patience")
    assert lines[at + 1].startswith("tuning    iteration 3 of 8  about ")
    assert lines[at + 2].startswith("template  {{ question }} Try 2: say only what you are sure of.")
    assert re.match(r"best      iter 2  hP 0\.\d{3} ± \.\d{3}  hR 0\.\d{3} ± \.\d{3}  abst\. 0\.100", lines[at + 3])
    assert " ".join(line.strip() for line in lines[at + 4 : at + 6]) == (
        "highest hP so far with hR at least 0.594 on average; a race on up to 80 images decides"
    )
    assert lines[at + 6] == "spent     45 calls of 900  15 from store  1,770 tokens  3,840 LLM tokens"
    assert re.fullmatch(r"asking    [━╸╺ ]+ 5/20 5 from store 0:00:00", lines[at + 7])
    after("end", run)
    lines = display()
    assert not any(line.startswith(("tuning ", "template ", "best ", "spent ", "asking ")) for line in lines)
    assert "taxtune: note: the server asked for patience" in lines


def test_nothing_that_others_write_is_overwritten(clock: Clock, make_screen: Callable[..., Screen]) -> None:
    pyte = pytest.importorskip("pyte", reason="the terminal is rendered with pyte, of the extra dev")
    screen = make_screen()
    terminal = Terminal(stream=screen, clock=clock)
    logger = logging.getLogger("somebody-else")
    with showing(terminal):
        with loading("packages"):
            handler = logging.StreamHandler()  # bound to the standard error of this moment, as libraries do
        logger.addHandler(handler)
        try:
            with track("asking", 3) as task:
                logger.warning("first")
                task.advance()
                print("second", file=sys.stderr)
                terminal.line("third")
                note("fourth")
        finally:
            logger.removeHandler(handler)
    rendered = pyte.Screen(80, 40)
    pyte.Stream(rendered).feed(screen.getvalue().replace("\n", "\r\n"))
    lines = [line.rstrip() for line in rendered.display if line.strip()]
    assert lines == ["first", "second", "third", "taxtune: note: fourth"]
    assert not rendered.cursor.hidden


def test_the_terminal_is_left_in_order_when_the_work_is_interrupted(
    clock: Clock, make_screen: Callable[..., Screen]
) -> None:
    screen, before = make_screen(), sys.stderr
    run = follow(Terminal(stream=screen, clock=clock), clock)
    after("iteration 1", run)
    assert "\x1b[?25l" in screen.getvalue()
    with pytest.raises(KeyboardInterrupt):
        run.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l")
    assert not re.search(r"\w", re.split(r"\x1b\[2K", screen.getvalue())[-1].replace("\x1b[?25h", ""))  # it is wiped
    assert sys.stderr is before


def test_a_template_is_cut_by_the_cells_that_it_takes(clock: Clock, make_screen: Callable[..., Screen]) -> None:
    screen = make_screen()
    shown = TuningProgress(Terminal(stream=screen, clock=clock))
    shown.on_start(tuner(), ())
    shown.on_template(0, "これは何の鳥ですか。" * 12 + "\x1b[2J", 20)
    ((_, text),) = [row for row in shown.rows(69) if row[0] == "template"]
    assert cell_len(text) in (68, 69)
    assert text.endswith("…")
    assert "\x1b" not in text
    shown.on_stop("killed")


def test_what_is_left_of_the_screen_goes_away(clock: Clock, make_screen: Callable[..., Screen]) -> None:
    screen = make_screen()
    with showing(Terminal(stream=screen, clock=clock)):
        held = track_each(range(3), "held [bold]")
        next(held)
        assert "held [bold]" in screen.text
    assert screen.getvalue().rstrip().endswith("\x1b[2K\x1b[?25h")
    held.close()
    assert list(track_each(range(3), "nobody sees this")) == [0, 1, 2]
    assert "nobody" not in screen.text


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_a_dumb_terminal_gets_a_log(
    kind: str, make_screen: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = make_screen()
    monkeypatch.setenv("TERM", kind)
    with showing(Terminal(stream=screen)), track("reading", 2):
        note("one is missing")
    assert screen.getvalue() == "taxtune: note: one is missing\n"


def test_no_colour_where_none_is_wanted(
    clock: Clock, make_screen: Callable[..., Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = make_screen()
    after("end", follow(Terminal(stream=screen, clock=clock), clock))
    assert not re.search(r"\x1b\[[0-9;]*3\d[;m]", screen.getvalue())


def test_a_path_that_is_longer_than_a_line_stays_whole(make_screen: Callable[..., Screen]) -> None:
    screen = make_screen(40)
    path = "/somewhere/" + "far/" * 20 + "below.csv"
    Terminal(stream=screen).note(f"wrote {path}")
    assert path in screen.getvalue()


def test_methods_do_no_harm_outside_a_run() -> None:
    stream = io.StringIO()
    shown = TuningProgress(Terminal(stream=stream))
    shown.on_answers(1, 0)
    shown.on_iteration(samples.iteration(0, state="void"), None)
    shown.on_heldout("template", 1, 2)
    shown.on_stop("failed")
    assert stream.getvalue() == "asking: template, 2 images\n"


def test_runs_that_are_compared_ask_about_the_baseline_once(clock: Clock) -> None:
    stream = io.StringIO()
    shown = TuningProgress(Terminal(stream=stream, clock=clock, look_every=0))
    for _ in range(2):
        shown.on_start(tuner(group="both"), ())
        for name in ("baseline", "winner"):
            shown.on_heldout(name, 0, 200)
            shown.on_heldout(name, 200, 200)
        shown.on_stop("finished")
    assert stream.getvalue().count("held-out split: baseline") == 1
    assert stream.getvalue().count("held-out split: winner") == 2
    assert stream.getvalue().count("goal: ") == 1


def test_what_other_workers_of_a_run_do_counts_too(clock: Clock) -> None:
    run = samples.tune(n=4)
    known: list[IterationRecord] = []
    shown = TuningProgress(Terminal(stream=io.StringIO(), clock=clock, look_every=0))
    shown.on_start(tuner(known=known), ())
    known += run.iterations[:4]  # of these another worker did all but the last
    shown.on_iteration(known[3], known[3])
    assert dict(shown.rows(200))["tuning"].startswith("iteration 4 of 8")
    assert dict(shown.rows(200))["spent"].startswith("60 calls  20 from store")
    known[1] = replace(known[1], rows=samples.rows(80, 1))
    shown.on_race(known[1])
    shown.on_selection(Selection(2, True, 20, (Finalist(2, 0.8, 0.78),)))
    assert dict(shown.rows(200))["winner"].startswith("iter 2  hP")
    shown.on_stop("finished")


def test_control_characters_of_a_server_are_not_obeyed() -> None:
    stream = io.StringIO()
    Terminal(stream=stream).note("server said \x1b[2J")
    assert stream.getvalue() == "taxtune: note: server said \\x1b[2J\n"


@pytest.mark.parametrize(
    ("kind", "feasible", "said"),
    [
        ("hr_at_hp", True, "highest hR so far with hP at least 0.980 on average"),
        ("hr_at_hp", False, "no template has hP at least 0.980 on average yet; this one comes nearest"),
        ("hp", True, "highest hP so far with hR at least 0.560 on average"),
        ("hf", True, "highest hF so far"),
        ("f_beta", True, "highest Fβ so far"),
        ("pareto", True, "highest hP × hR so far"),
    ],
)
def test_why_a_template_is_the_best(kind: str, feasible: bool, said: str) -> None:
    from taxtune.report.goals import best_in_words

    objective = OBJECTIVES[kind](Aims())
    best: IterationRecord = replace(samples.iteration(3), feasible=feasible)
    aim = None if kind in ("f_beta", "pareto") else next(iter(objective.shown))
    assert best_in_words(best, objective, aim, samples.scores(0.9, 0.7, 0.4)) == said


def test_the_pace_is_that_of_questions_and_of_what_an_iteration_takes_besides(clock: Clock) -> None:
    pace = Pace(clock)
    assert pace.left(0) == 0
    assert pace.left(10) is None
    pace.begin()
    clock.now += 1
    pace.answered(5, 5)  # out of the store
    clock.now += 4
    pace.answered(10, 5)
    assert pace.left(10) == pytest.approx(8)
    clock.now += 2
    pace.answered(15, 5)
    pace.end()
    assert pace.asked == 10
    assert pace.left(10, 2) == pytest.approx(6 + 2 * 1)
    clock.now += 50  # between iterations
    pace.begin()
    clock.now += 7  # a proposal, which the first iteration has not
    pace.answered(0, 0)
    clock.now += 6
    pace.answered(10, 0)
    pace.end()
    assert pace.left(10, 2) == pytest.approx(6 + 2 * 7)


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
