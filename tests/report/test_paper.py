"""The table of a result for a paper, and what pandas and notebooks show of it."""

from __future__ import annotations

import io
from dataclasses import replace

import pandas as pd
import pytest

from taxtune.report.paper import score_rows, write
from taxtune.results import offered
from tests.report import samples


def with_candidates(n=4):
    return samples.with_candidates_of(samples.tune(n=n))


def test_rows_of_held_out_images_and_of_candidates_stand_apart():
    rows = score_rows(with_candidates())
    assert [(row["images"], row["template"]) for row in rows] == [
        ("held-out", "baseline"),
        ("held-out", "winner"),
        ("tuning", "0: baseline"),
        ("tuning", "1: best estimate, boldest"),
        ("tuning", "2: winner, most careful"),
    ]
    assert [row["n"] for row in rows] == [200, 200, 19, 19, 19], "one of twenty has no answer"
    for row in rows:
        assert row["hp"].low <= row["hp"].estimate <= row["hp"].high
    assert rows[1]["hp"].estimate == 0.962


def test_without_other_candidates_the_held_out_images_are_all():
    rows = score_rows(samples.tune(n=4))
    assert {row["images"] for row in rows} == {"held-out"}
    both = score_rows(samples.comparison(2))
    assert [row["template"] for row in both] == [
        "baseline",
        "hP-tuned",
        "accuracy-tuned",
    ]


def test_three_forms_of_the_same_rows():
    result = with_candidates()
    numbers = pd.read_csv(io.StringIO(write(result, "csv")))
    first = ["images", "template", "n", "hp", "hp_low", "hp_high"]
    assert numbers.columns[:6].tolist() == first
    assert numbers["hp"].tolist() == [row["hp"].estimate for row in score_rows(result)]
    markdown = write(result, "markdown").splitlines()
    assert len(markdown) == 2 + len(numbers)
    assert "| held-out | winner | 200 | 0.962 [0.944, 0.978] |" in markdown[3]
    latex = offered(result).to_latex()
    assert latex.startswith("\\begin{tabular}{llrrrr}\n\\toprule\n")
    before, after = latex.split("\\midrule\ntuning & ")
    assert before.count("held-out &") == 2
    assert after.count("tuning &") == 2


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("50%_&", r"50\%\_\&"),
        ("a\\b{}$#^", r"a\textbackslash b\{\}\$\#\textasciicircum "),
        ("\x1b[31m", r"\textbackslash x1b[31m"),
    ],
)
def test_latex_reads_a_name_as_text(name, written):
    result = samples.tune(n=1)
    baseline, winner = result.heldout
    result = replace(result, heldout=(replace(baseline, name=name), winner))
    assert written in offered(result).to_latex()


def test_the_held_out_frame_has_ten_columns_and_numbers():
    result = samples.comparison(2)
    frame = result.heldout_frame()
    assert frame.columns.tolist() == [
        *("wrong", "general", "exact", "images"),
        *("share_wrong", "share_wrong_95", "hp", "hp_95", "hr", "hr_95"),
    ]
    assert frame.index.tolist() == ["baseline", "hp", "accuracy"]
    assert (frame[["wrong", "general", "exact"]].sum(axis=1) == frame["images"]).all()
    assert frame.loc["hp", "hp"] == 0.962
    assert frame.loc["hp", "hp_95"] == pd.Interval(0.944, 0.978, "both")
    assert 0 < frame.loc["hp", "share_wrong_95"].left < frame.loc["hp", "share_wrong"]
    everything = result.heldout_frame(details=True)
    assert everything.loc["accuracy", "accuracy_low"] == pytest.approx(0.535 - 0.018)
    assert everything.loc["hp", "template"] == result.heldout[1].template


def test_iterations_and_candidates_have_their_counts_first():
    result = with_candidates(8)
    frame = result.to_frame()
    first = ["iteration", "winner", "wrong", "general", "exact", "images", "hp", "hr"]
    assert frame.columns[:8].tolist() == first
    assert frame["wrong"].isna().tolist() == [record.scores is None for record in result.iterations]
    assert frame.set_index("iteration")["images"].get(3) == 19
    found = result.candidates()
    assert found[["iteration", "taken", "role"]].to_numpy().tolist() == [
        [2, True, "most careful"],
        [1, False, "best estimate, boldest"],
        [0, False, "baseline"],
    ]
    assert (found[["wrong", "general", "exact"]].sum(axis=1) == found["images"]).all()
    assert found["certified"].tolist() == [True, False, False]
    both = samples.comparison(2)
    runs = tuple(samples.with_candidates_of(run) for run in both.runs)
    many = replace(both, runs=runs).candidates()
    assert many["objective"].tolist() == ["hp"] * 3 + ["accuracy"] * 3


def test_a_notebook_shows_what_the_terminal_does_and_no_markup_of_others():
    run = with_candidates()
    hostile = replace(run.iterations[0], prompt=f"{samples.HOSTILE} {'Name it. ' * 50}end")
    page = offered(replace(run, iterations=(hostile, *run.iterations[1:])))._repr_html_()
    (held, _), (candidates, _) = (part.split("</table>") for part in page.split("<table")[1:])
    wrong, general, exact = (
        held.index(f"<td>{name}</td>") for name in ("wrong", "right, but general", "exact")
    )
    assert wrong < general < exact < held.index("<td>labels given that are wrong</td>")
    assert "<td>winner, most careful</td>" in candidates
    assert "&lt;script&gt;" in candidates
    assert "end" not in candidates.split("&lt;script")[1]
    assert "<script>" not in page
    alone = offered(samples.tune(n=1))._repr_html_()
    assert "Candidates" not in alone
