from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.report.formatting import share_wrong, spread_wrong
from taxtune.report.html import backed_off, render_report
from taxtune.report.summary import summarise
from taxtune.report.tables import candidate_table, choose_command
from taxtune.tuning.records import Selection
from tests.report import samples
from tests.report.samples import with_candidates_of
from tests.report.test_html import Tables, check, text

OWL = "bird/owls/tawny owl"
NEAR = "bird/owls/snowy owl"
FAR = "bird/crows/jay"


def test_the_counts_are_those_of_the_summary_and_each_winners_lead_to_its_images():
    result = samples.comparison(2)
    page = render_report(result)
    reader = Tables()
    reader.feed(page)
    rows = next(rows for caption, rows in reader.tables if "200 held-out images" in caption)
    assert rows[0] == ["answers", "baseline", "hP-tuned", "accuracy-tuned"]
    summary = summarise(result)
    for state, (head, *cells) in zip(summary.states, rows[1:], strict=False):
        assert head.split(" ", 1)[1].strip() == state
        assert list(map(int, cells)) == [column.outcomes.count(state) for column in summary.columns]
    links = [attributes for _, attributes in check(page).elements if "data-error" in attributes]
    assert {link["data-template"] for link in links} == {"0", "1"}
    (doubtful,) = (cells for head, *cells in rows if head.startswith("doubtful placements"))
    assert doubtful == ["28"] * 3
    (wrong,) = (cells for head, *cells in rows if head.startswith("labels given that are wrong"))
    assert wrong == [share_wrong(column.outcomes) for column in summary.columns]
    for column in summary.columns:
        assert spread_wrong(column.outcomes) in text(page).replace("\u00a0", " ")
    assert 'href="#gallery?template=1&amp;placement=doubtful"' in page
    unknown = replace(result, heldout=tuple(replace(held, doubt=None) for held in result.heldout))
    assert "doubtful placements" not in text(render_report(unknown))


def test_each_run_shows_its_candidates_with_their_whole_prompts():
    result = samples.comparison(3)
    first = with_candidates_of(result.runs[0])
    page = render_report(replace(result, runs=(first, result.runs[1])))
    reader = Tables()
    reader.feed(page)
    (rows,) = (rows for caption, rows in reader.tables if caption.startswith("Candidates, by"))
    shown = [row for row in rows[1:] if len(row) > 1]
    assert [int(row[1]) for row in shown] == [2, 1, 0]
    assert [row[-1] for row in shown] == [
        "certified",
        "proves hP 0.962 of 0.980",
        "proves hP 0.871 of 0.980",
    ]
    for *_, prompt in candidate_table(first).rows:
        assert " ".join(prompt.split()) in text(page)
    assert choose_command(first) in text(page)


@pytest.mark.parametrize("status", ["certified", "passes-alone", "estimate"])
def test_every_winner_has_its_prompt_and_its_verdict(status):
    result = samples.comparison(3)
    chosen = Selection(result.runs[0].winner, status == "certified", 20, status=status)
    result = replace(result, runs=(replace(result.runs[0], selection=chosen), result.runs[1]))
    winners = summarise(result).winners
    headings = [each.heading for each in winners]
    assert headings == ["Prompt tuned for hP", "Prompt tuned for accuracy"]
    assert [each.prompt for each in winners] == [run.best.template for run in result.runs]
    page = render_report(result)
    assert " ".join(winners[0].verdict.split()) in text(page)
    assert f'class="verdict {status}"' in page
    assert page.index(result.runs[1].best.template or "-") < page.index("<nav")


def test_the_example_is_the_most_specific_right_answer_to_what_the_baseline_all_but_knew():
    run = samples.answered(
        [OWL] * 5,
        baseline=[FAR, FAR, NEAR, OWL, FAR],
        winner=["bird", "bird/owls", "bird/owls", "bird/owls", None],
    )
    assert [row.example for row in backed_off(run)] == ["i2", "i1", "i0"]
    answers = "baseline snowy owl ✕ wrong winner owls ✓ right, but general"
    assert f"no picture bird › owls › tawny owl {answers}" in text(render_report(run))
