from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from taxtune.report.html import render_report
from taxtune.report.outcome import backed_off, first_screen
from taxtune.report.summary import summarise
from taxtune.tuning.records import ComparisonResult, Difference, Finalist, Provenance, Selection, TuneResult
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


def test_hp_and_hr_are_explained_and_stand_beside_the_goal_with_their_changes() -> None:
    said = text(render_report(samples.tune(n=3)))
    assert "precision hP how much of what the answers say is true 0.871 0.962 +0.091 (+0.070 to +0.111)" in said
    assert "recall hR (goal 0.420) how much of what is true the answers say 0.738 0.633 −0.105" in said


@pytest.mark.parametrize("status", ["certified", "passes-alone", "estimate"])
def test_every_winner_has_its_prompt_and_its_verdict(status: Any) -> None:
    result = samples.comparison(3)
    finalist = Finalist(result.runs[0].winner, 0.8, 0.7, {"hr": 0.5})
    chosen = Selection(finalist.iteration, status == "certified", 20, (finalist,), status=status)
    runs = (replace(result.runs[0], selection=chosen), result.runs[1])
    found = shown(replace(result, runs=runs))
    assert [each["heading"] for each in found["winners"]] == ["Prompt tuned for hP", "Prompt tuned for accuracy"]
    assert [each["prompt"] for each in found["winners"]] == [run.best.template for run in runs]
    assert found["winners"][0]["verdict"] == summarise(replace(result, runs=runs)).winners[0].verdict != ""
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


def test_a_photo_that_can_still_be_read_is_preferred(tmp_path: Path) -> None:
    Image.new("RGB", (640, 480), (90, 120, 60)).save(tmp_path / "a.png")
    images = {"i0": str(tmp_path / "a.png"), "i1": str(tmp_path / "gone.png")}
    run = samples.answered([OWL, OWL], baseline=[FAR, NEAR], winner=[FAMILY, FAMILY])
    example = shown(replace(run, provenance=Provenance(images=images)))["example"]
    assert example["picture"].startswith("data:image/jpeg")
    assert example["answers"][0]["text"] == "jay"


def test_without_an_answer_that_backed_off_rightly_there_is_no_example() -> None:
    run = samples.answered([OWL, OWL], baseline=[OWL, FAR], winner=[FAMILY, OWL])
    assert shown(run)["example"] is None
    page = render_report(run)
    check(page)
    assert "<figure class=" not in page


def test_templates_that_were_given_have_counts_and_no_verdict() -> None:
    run = samples.tune(n=1)
    held = (run.heldout[0], replace(run.heldout[1], name="template"))
    given = ComparisonResult(
        "birds", (), held, (Difference("template", "baseline", samples.differences(0.1, 0, 0)),), "x"
    )
    found = shown(given)
    assert (found["winners"], found["columns"]) == ([], ["baseline", "template"])
    assert "which the search never saw" not in text(render_report(given))


def test_a_run_without_held_out_answers_says_so() -> None:
    run: TuneResult = replace(samples.tune(n=2), heldout=(), differences=())
    assert first_screen(run) is None
    assert "There is no held-out comparison with the baseline." in text(render_report(run))
