from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from taxtune.report.console import print_result
from tests.report import samples
from tests.report.test_summary import certified


def printed(result):
    stream = io.StringIO()
    print_result(Console(file=stream, width=80), result)
    return stream.getvalue()


def with_prompt(run, prompt):
    won = tuple(
        replace(each, template=prompt) if each.iteration == run.winner else each
        for each in run.iterations
    )
    return replace(run, iterations=won)


def evaluated(templates):
    """An evaluation of so many templates whose names are long."""
    found = samples.comparison(2)
    names = [f"paper{i}-question-answer" for i in range(templates)]
    held = (found.heldout[0], *(replace(found.heldout[1], name=name) for name in names))
    differences = tuple(replace(found.differences[0], name=name) for name in names)
    return replace(found, runs=(), heldout=held, differences=differences)


def test_the_verdict_of_a_run_fits_a_screen():
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
    assert "baseline, 28 doubtful: hP 0.891, hR 0.748 without them; 0.811, 0.688 if wrong" in lines
    assert "tuned, 28 doubtful: hP 0.982, hR 0.643 without them; 0.902, 0.583 if wrong" in lines
    sure = tuple(
        replace(held, doubt=replace(held.doubt, n=0)) for held in run.heldout if held.doubt
    )
    assert "doubtful" not in printed(replace(run, heldout=sure))
    assert "more lines)" in text
    assert "better" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("templates", [1, 2, 4, 9])
def test_an_evaluation_fits_80_columns_however_many_templates_it_has(templates):
    text = printed(evaluated(templates))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("exact") == 1
    assert "+0.091 (+0.070 to +0.111)" in text
    for i in range(templates) if templates > 1 else ():
        assert f"paper{i}-question-answer − baseline: hP +0.091 (+0.070 to +0.111)" in text


def test_the_prompt_is_shown_as_it_is_and_markup_in_it_stays_text():
    text = printed(with_prompt(samples.tune(n=2), "[bold]Name[/bold] it.\n\n[red]{% if ranks %}"))
    assert "\n  [bold]Name[/bold] it.\n\n  [red]{% if ranks %}\n" in text


def test_control_characters_in_foreign_text_are_shown_and_not_obeyed():
    assert "safe\\x1b[2Jtext\\u202e\\r" in printed(
        with_prompt(samples.tune(n=1), "safe\x1b[2Jtext\u202e\r")
    )
