from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from taxtune.report.console import print_result
from taxtune.report.tables import candidate_table
from tests.report import samples
from tests.report.test_summary import certified


def printed(result, *, width=80, **options):
    stream = io.StringIO()
    print_result(Console(file=stream, width=width), result, **options)
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
    run = with_prompt(samples.with_candidates_of(samples.tune(n=20)), "Name the bird. " * 90)
    text = printed(run)
    lines = text.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[-2:] == ["baseline", "winner"]
    wrong = run.selection.outcomes.wrong
    certified = f"hP is at least 0.983 with 90 % confidence (120 tuning images with {wrong} wrong"
    assert f"Certified: {certified} answers)." in " ".join(lines)
    (scored,) = (line for line in lines if "precision hP" in line)
    assert scored.split()[-6:] == ["0.871", "0.962", "+0.091", "(+0.070", "to", "+0.111)"]
    counts = [line.split()[-2:] for line in lines[1:6]]
    assert [sum(int(count[i].replace(",", "")) for count in counts) for i in (0, 1)] == [200, 200]
    assert lines[6].startswith("  labels given that are wrong ")
    assert re.search(r" \d+ of \d+ \(\d+\.\d to \d+\.\d %\)$", lines[6])
    assert "doubtful" not in text
    assert "more lines)" in text
    assert "better" not in text
    assert "\x1b" not in text


def four_candidates():
    """A certified run with an offer, whose candidates are as many as there can be."""
    run = samples.with_candidates_of(samples.tune(n=20))
    first, *others = run.selection.candidates
    candidates = (first, replace(first, iteration=3, taken=False), *others)
    selection = replace(run.selection, candidates=candidates)
    where = {**run.where, "probabilities": "By the model's own probabilities it would be better."}
    return replace(with_prompt(run, "Name the bird. " * 90), selection=selection, where=where)


def test_four_candidates_fit_a_screen_and_what_is_offered_is_a_detail():
    run = four_candidates()
    lines = printed(run).splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    narrow = printed(run, width=60).splitlines()
    first = next(i for i, line in enumerate(narrow) if line.startswith("Candidates"))
    assert max(map(len, narrow[first + 1 : first + 10])) <= 60
    assert "own probabilities" not in printed(run)
    assert "By the model's own probabilities" in printed(run, details=True)


def test_the_candidates_are_counted_and_one_line_away():
    run = samples.with_candidates_of(samples.tune(n=5))
    lines = printed(run).splitlines()
    at = lines.index("Candidates, by their tuning images (* the run's choice):")
    shown = lines[at + 1 : at + 9]
    assert " ".join(shown[0].split()) == "no. wrong general exact of hP (90 % bound) proven"
    for row, line in zip(candidate_table(run).rows, shown[1:7:2], strict=True):
        *cells, _, _ = row
        assert line.split() == " ".join(map(str, cells)).split()
    assert shown[2].startswith("        winner, most careful: {{ question }} Try 2: say only")
    assert shown[7] == "Another one: taxtune choose runs/sample 1"


def test_a_comparison_says_where_the_candidates_of_its_runs_are():
    found = samples.comparison(5)
    runs = tuple(map(samples.with_candidates_of, found.runs))
    where = {"report": "runs/sample/report.html"}
    lines = printed(replace(found, runs=runs, where=where)).splitlines()
    assert "The candidates of each run are in the report." in lines
    assert len(lines) <= 35
    assert lines[-2] == "Report runs/sample/report.html"


def test_details_have_every_score_and_what_doubtful_placements_would_change():
    run = certified(samples.tune(n=3))
    text = printed(run, details=True)
    (doubtful,) = (line for line in text.splitlines() if line.split()[:2] == ["winner", "28"])
    assert " ".join(doubtful.split()[2:]) == "0.140 0.962 0.982 0.902 0.633 0.643 0.583"
    assert "ihP" in text
    assert "ihP" not in printed(run)


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
