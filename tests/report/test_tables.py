from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from taxtune.report.tables import print_result
from taxtune.tuning.records import ComparisonResult, Finalist, Selection, TuneResult
from tests.report import samples
from tests.report.test_summary import HELD, certified


def printed(
    result: TuneResult | ComparisonResult, width: int = 80, *, terminal: bool = False, details: bool = False
) -> str:
    stream = io.StringIO()
    print_result(Console(file=stream, width=width, force_terminal=terminal), result, details=details)
    return stream.getvalue()


def with_prompt(run: TuneResult, prompt: str) -> TuneResult:
    won = tuple(replace(each, template=prompt) if each.iteration == run.winner else each for each in run.iterations)
    return replace(run, iterations=won)


def evaluated(templates: int) -> ComparisonResult:
    """An evaluation of so many templates whose names are long."""
    found = samples.comparison(2)
    names = [f"paper{i}-question-answer" for i in range(templates)]
    held = (found.heldout[0], *(replace(found.heldout[1], name=name) for name in names))
    differences = tuple(replace(found.differences[0], name=name) for name in names)
    return replace(found, runs=(), heldout=held, differences=differences)


def test_the_verdict_of_a_run_fits_a_screen() -> None:
    run = with_prompt(certified(samples.tune(n=20)), "Name the bird. " * 90)
    text = printed(run)
    lines = text.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[-2:] == ["baseline", "tuned"]
    assert "Certified: hP is at least 0.985 with 90 % confidence (120 tuning images)." in lines
    (scored,) = (line for line in lines if "precision hP" in line)
    assert scored.endswith("0.871  0.962  +0.091 (+0.070 to +0.111)")
    counts = [line.split()[-2:] for line in lines[1:6]]
    assert [sum(int(count[i].replace(",", "")) for count in counts) for i in (0, 1)] == [200, 200]
    assert "more lines)" in text
    assert "better" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("status", ["passes-alone", "estimate"])
def test_whatever_is_to_be_said_fits_a_screen(status: str) -> None:
    def chosen(run: TuneResult) -> TuneResult:
        finalist = Finalist(run.winner, 0.8, 0.7, {"hp": 0.97})
        selection = Selection(run.winner, False, 120, (finalist,), policy={}, status=status)  # type: ignore[arg-type]
        return with_prompt(replace(run, constraints=HELD, selection=selection), "Look closely.\n" * 30)

    found = samples.comparison(20)
    several = replace(found, runs=tuple(map(chosen, found.runs)))
    for result in (chosen(found.runs[0]), several):
        lines = printed(result).splitlines()
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 80
    assert "hP-tuned − baseline: hP +0.091 (+0.070 to +0.111)" in printed(several)


@pytest.mark.parametrize("templates", [1, 2, 4, 9])
def test_an_evaluation_fits_80_columns_however_many_templates_it_has(templates: int) -> None:
    text = printed(evaluated(templates))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("exact") == 1
    assert "+0.091 (+0.070 to +0.111)" in text
    for i in range(templates) if templates > 1 else ():
        assert f"paper{i}-question-answer − baseline: hP +0.091 (+0.070 to +0.111)" in text


def test_of_a_front_the_winner_is_shown() -> None:
    run = samples.tune(n=2)
    held = (*run.heldout, *(replace(run.heldout[1], name=f"iteration {i}") for i in range(12)))
    more = tuple(replace(run.differences[0], name=f"iteration {i}") for i in range(12))
    found = replace(run, heldout=held, differences=(*run.differences, *more))
    assert printed(found) == printed(run)
    assert "iteration 11" in printed(found, details=True)


def test_details_are_every_score_with_its_interval() -> None:
    for result in (samples.comparison(2), samples.tune(n=2), evaluated(4)):
        text = printed(result, details=True)
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= 80
        for part in ("0.962", "0.944", "0.978", "0.091", "0.0004", "200 held-out images"):
            assert part in text
        assert text.endswith(printed(result))


def test_the_prompt_is_shown_as_it_is_and_markup_in_it_stays_text() -> None:
    text = printed(with_prompt(samples.tune(n=2), "[bold]Name[/bold] it.\n\n[red]{% if ranks %}"))
    assert "\n  [bold]Name[/bold] it.\n\n  [red]{% if ranks %}\n" in text


def test_a_run_without_held_out_scores_is_printed_too() -> None:
    bare = replace(samples.tune(n=1), heldout=(), differences=(), where={})
    for details in (False, True):
        assert "There are no held-out results." in printed(bare, details=details)


def test_only_a_terminal_gets_colours() -> None:
    assert "\x1b[" in printed(samples.tune(n=1), terminal=True)


def test_control_characters_in_foreign_text_are_shown_and_not_obeyed() -> None:
    assert "safe\\x1b[2Jtext\\u202e\\r" in printed(with_prompt(samples.tune(n=1), "safe\x1b[2Jtext\u202e\r"))
