from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taxtune.report.html import render_report
from taxtune.report.outcome import backed_off, first_screen
from taxtune.report.summary import summarise
from taxtune.tuning.records import Finalist, Selection
from tests.report import samples
from tests.report.test_html import check, text

OWL = "bird/owls/tawny owl"
NEAR, FAR, FAMILY, ROOT = "bird/owls/snowy owl", "bird/crows/jay", "bird/owls", "bird"


def shown(result: Any) -> dict[str, Any]:
    found = first_screen(result)
    assert found is not None
    return found


def test_the_counts_are_those_of_the_summary_and_each_winners_lead_to_its_images() -> None:
    result = samples.comparison(2)
    found, columns = shown(result), summarise(result).columns
    assert found["columns"] == ["baseline", "hP-tuned", "accuracy-tuned"]
    for row in found["counts"]:
        assert row["cells"] == list(zip((column.counts[row["name"]] for column in columns), (None, 0, 1), strict=True))
    page = render_report(result)
    links = [found for tag, found in check(page).elements if tag == "a" and "data-error" in found]
    assert {link["data-template"] for link in links} == {"0", "1"}


@pytest.mark.parametrize("status", ["certified", "passes-alone", "estimate"])
def test_every_winner_has_its_prompt_and_its_verdict(status: Any) -> None:
    result = samples.comparison(3)
    finalist = Finalist(result.runs[0].winner, 0.8, 0.7, {"hr": 0.5})
    chosen = Selection(finalist.iteration, status == "certified", 20, (finalist,), status=status)
    runs = (replace(result.runs[0], selection=chosen), result.runs[1])
    found = shown(replace(result, runs=runs))
    assert [each.heading for each in found["winners"]] == ["Prompt tuned for hP", "Prompt tuned for accuracy"]
    assert [each.prompt for each in found["winners"]] == [run.best.template for run in runs]
    assert found["winners"][0].verdict == summarise(replace(result, runs=runs)).winners[0].verdict != ""
    page = render_report(replace(result, runs=runs))
    assert f'class="verdict {status}"' in page
    assert page.index(runs[1].best.template or "-") < page.index("<nav")


def test_the_example_is_the_most_specific_right_answer_to_what_the_baseline_all_but_knew() -> None:
    truths = [OWL] * 5
    run = samples.answered(truths, baseline=[FAR, FAR, NEAR, OWL, FAR], winner=[ROOT, FAMILY, FAMILY, FAMILY, None])
    assert [row.example for row in backed_off(run)] == ["i2", "i1", "i0"]
    example = shown(run)["example"]
    assert example["truth"] == OWL.split("/")
    assert [(each["name"], each["text"], each["state"]) for each in example["answers"]] == [
        ("baseline", "snowy owl", "wrong"),
        ("tuned", "owls", "right, but general"),
    ]
    assert "no picture" in text(render_report(run))
