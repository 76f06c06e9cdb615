from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from taxtune.report.tables import print_result
from taxtune.tuning.records import ComparisonResult, TuneResult
from tests.report import samples


def printed(result: TuneResult | ComparisonResult, width: int = 80, *, terminal: bool = False) -> str:
    stream = io.StringIO()
    print_result(Console(file=stream, width=width, force_terminal=terminal), result)
    return stream.getvalue()


@pytest.mark.parametrize("result", [samples.comparison(20), samples.tune(n=20)])
def test_no_number_is_cut_on_a_narrow_terminal(result: TuneResult | ComparisonResult) -> None:
    text = printed(result)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for part in ("0.962", "0.944 to 0.978", "+0.091", "+0.070 to +0.111", "p < 0.001", "200 images"):
        assert part in text
    assert "7 failed: three replies in a row were refused" in text
    assert "\x1b" not in text


def test_the_template_can_be_copied_and_markup_in_it_stays_text() -> None:
    source = "[bold]{{ question }}[/bold] " + "word " * 40 + "\n{% if ranks %}[red]{% endif %}"
    run = samples.tune(n=2)
    run = replace(run, iterations=(replace(run.iterations[0], template=source), *run.iterations[1:]), winner=0)
    text = printed(run)
    for line in source.splitlines():
        assert f"    {line}\n" in text


def test_a_run_without_held_out_scores_is_printed_too() -> None:
    text = printed(replace(samples.tune(n=1), heldout=(), differences=(), where={}))
    assert "Held-out split" not in text
    assert "no held-out comparison" in text


def test_only_a_terminal_gets_colours() -> None:
    assert "\x1b[" in printed(samples.tune(n=1), terminal=True)


def test_control_characters_in_foreign_text_are_shown_and_not_obeyed() -> None:
    run = samples.tune(n=1)
    sly = replace(run.iterations[0], template="safe\x1b[2Jtext\u202e\r", reason="bell \x07")
    text = printed(replace(run, iterations=(sly,), winner=0))
    assert "safe\\x1b[2Jtext\\u202e\\r" in text
    assert "bell \\x07" in text
