from __future__ import annotations

import re
from dataclasses import replace

import pytest

from taxtune.metrics.hierarchical import HierarchicalScores
from taxtune.metrics.statistics import PairedDifference
from taxtune.report.html import render_report
from taxtune.report.outcome import outcome_sentences, outcomes
from taxtune.tuning.records import (
    ComparisonResult,
    Difference,
    ExampleRow,
    FullTreeScores,
    HeldoutResult,
    Optimism,
    TuneResult,
)
from tests.report import samples
from tests.report.test_html import check, text

SPECIES, FAMILY, WRONG = "bird/owls/tawny owl", "bird/owls", "bird/crows/jay"
_SCORES = {SPECIES: (1.0, 1.0), FAMILY: (1.0, 2 / 3), WRONG: (1 / 3, 1 / 3)}


def rows(*placed: str | None) -> tuple[ExampleRow, ...]:
    """One answer an image, each about a tawny owl."""
    made = []
    for i, path in enumerate(placed):
        hp, hr = (None, None) if path is None else _SCORES[path]
        node = None if path is None else list(_SCORES).index(path)
        failure = None if path else "timed out"
        row = ExampleRow(f"{i}", f"{i}.png", 0, SPECIES, path, node, path, "verbatim", None, hp, hr, failure=failure)
        made.append(row)
    return tuple(made)


def run(before: tuple[ExampleRow, ...], after: tuple[ExampleRow, ...], **changes: object) -> TuneResult:
    found = samples.tune(n=2)
    held = (replace(found.heldout[0], rows=before), replace(found.heldout[1], rows=after))
    return replace(found, heldout=held, **changes)  # type: ignore[arg-type]


def test_gain_and_cost_are_told_in_the_same_sentence() -> None:
    before = rows(SPECIES, SPECIES, SPECIES, FAMILY, WRONG, WRONG, None)
    after = rows(SPECIES, FAMILY, FAMILY, SPECIES, FAMILY, WRONG, SPECIES)
    assert outcome_sentences(run(before, after)) == {
        "winner": "2 of 6 held-out images have a better answer than with the baseline (general → exact 1, "
        "wrong → general 1, wrong → exact 0), and 2 a worse one (exact → general 2, "
        "exact → wrong 0); 2 are unchanged, 1 more is without an answer and not counted."
    }
    (shown,) = outcomes(run(before, after))
    table = shown["table"]
    cells = [part["count"] for _, _, row in table["rows"] for cell in row for part in cell]
    assert sum(cells) == sum(n for _, n in table["columns"]) == sum(n for _, n, _ in table["rows"]) == 6
    assert [name for name, _ in table["columns"]] == ["exact", "general", "wrong"]


def test_what_is_not_named_is_summed_so_that_the_numbers_add_up() -> None:
    for sentence in outcome_sentences(samples.comparison(2)).values():
        for total, inside in re.findall(r"(\d+) (?:of 199[^(]*|a worse one )\(([^)]*)\)", sentence):
            assert sum(map(int, re.findall(r"\d+", inside))) == int(total)
        assert "otherwise" in sentence


def test_one_image_and_no_change() -> None:
    (sentence,) = outcome_sentences(run(rows(FAMILY), rows(FAMILY))).values()
    assert sentence == (
        "None of 1 held-out image has a better answer than with the baseline, and none a worse one; 1 is unchanged."
    )


def test_a_winner_that_is_the_baseline_gained_and_lost_nothing() -> None:
    found = run(rows(FAMILY, SPECIES), rows(FAMILY, SPECIES))
    held = (found.heldout[0], replace(found.heldout[1], template=found.heldout[0].template))
    (shown,) = outcomes(replace(found, heldout=held, winner=0))
    assert shown["sentences"] == [
        "The winner is the baseline itself, since no template that was tried did better on the tuning images: nothing "
        "is gained and nothing lost on the 2 held-out images."
    ]
    assert shown["table"] is None


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (PairedDifference(0.02, -0.02, 0.06, 0.3), "hP shows no clear difference (0.871 to 0.962, p = 0.300)"),
        # The interval leaves zero out, but the p value is what counts.
        (PairedDifference(0.05, 0.01, 0.08, 0.06), "hP shows no clear difference (0.871 to 0.962, p = 0.060)"),
        (PairedDifference(0.05, 0.02, 0.08, 0.001), "hP rose from 0.871 to 0.962 (+0.050, p = 0.001)"),
        (PairedDifference(-0.05, -0.08, -0.02, 0.0001), "hP fell from 0.871 to 0.962 (−0.050, p < 0.001)"),
    ],
)
def test_the_p_value_decides_what_is_significant(difference: PairedDifference, words: str) -> None:
    found = run(
        rows(SPECIES, WRONG), rows(FAMILY, FAMILY), differences=(Difference("winner", "baseline", {"hp": difference}),)
    )
    (shown,) = outcomes(found)
    assert shown["sentences"][1] == f"{words}."


def test_what_was_asked_for_stands_beside_what_came_out() -> None:
    sentences = outcomes(samples.comparison(2))[0]["sentences"]
    assert len(sentences) == 3
    assert "hR fell from 0.738 to 0.633 (−0.105, p < 0.001; at least 0.420 was asked for)" in sentences[1]


def test_ceilings_and_optimism_are_told() -> None:
    lucky = (Optimism("hp", 0.98, 0.962, 0.01),)
    found = run(rows(SPECIES, FAMILY, WRONG, SPECIES), rows(SPECIES, SPECIES, WRONG, FAMILY), optimism=lucky)
    assert outcomes(found)[0]["sentences"][2] == (
        "At most +0.167 in hP (on the 1 of 4 images where it is below 1) and +0.250 in hR (on 2) could be gained; on "
        "the tuning images, on which it was chosen, its hP was 0.980, 0.018 more than here (+0.010 is "
        "expected of such a choice)."
    )
    best = run(rows(SPECIES, SPECIES), rows(SPECIES, FAMILY))
    assert outcomes(best)[0]["sentences"][2] == (
        "Nothing could be gained in hP or hR, where the baseline has 1 on every image."
    )
    careful = run(rows(SPECIES, FAMILY), rows(SPECIES, SPECIES))
    assert outcomes(careful)[0]["sentences"][2] == (
        "At most +0.167 in hR (on the 1 of 2 images where it is below 1) could be gained and nothing in hP, where the "
        "baseline has 1 on every image."
    )


def test_what_was_tuned_for_comes_first_whatever_it_is() -> None:
    found = samples.tune("accuracy", n=2)
    assert outcomes(found)[0]["sentences"][1].startswith("Accuracy rose from 0.470 to 0.535")
    own = replace(found, objective="brevity", outlook=None)
    assert outcomes(own)[0]["sentences"][1].startswith("hP fell")


def test_a_restricted_run_says_which_tree_its_scores_are_on() -> None:
    found = samples.tune(n=2)
    full = FullTreeScores("Aves", "life", HierarchicalScores(0.98, 0.8, 0.88, 0.3, 4.0, 200), {})
    held = tuple(replace(one, full=full) for one in found.heldout)
    assert "hP on Aves rose" in outcomes(replace(found, heldout=held))[0]["sentences"][1]


def test_given_templates_are_judged_in_the_same_way() -> None:
    found = samples.tune(n=1)
    held = (found.heldout[0], replace(found.heldout[1], name="template"))
    given = ComparisonResult(
        "birds", (), held, (Difference("template", "baseline", samples.differences(0.1, 0, 0)),), "x"
    )
    (shown,) = outcomes(given)
    assert shown["heading"] == "Template"
    assert shown["sentences"][0].startswith("89 of 199 held-out images have a better answer")
    assert "<h2>Template</h2>" in render_report(given)


def test_runs_side_by_side_are_compared_each_with_its_own_baseline() -> None:
    one, two = samples.tune(n=1), samples.tune(n=1)
    names = {"a: baseline": one.heldout[0], "a: winner": one.heldout[1], "b: baseline": two.heldout[0]}
    same = {**names, "b: winner": replace(two.heldout[0], template="other")}
    held = tuple(replace(each, name=name) for name, each in same.items())
    joined = ComparisonResult("a, b", (one, two), held, (), "x", names=("a: winner", "b: winner"))
    shown = outcomes(joined)
    assert [each["heading"] for each in shown] == ["a: tuned for hP", "b: tuned for hP"]
    assert shown[0]["sentences"][0].startswith("89 of 199")
    assert shown[1]["sentences"][0].startswith("None of 199")
    check(render_report(joined))


def test_where_nothing_was_answered_by_both_there_is_nothing_to_compare() -> None:
    (shown,) = outcomes(run(rows(None, SPECIES), rows(SPECIES, None)))
    assert shown["sentences"] == [
        "No held-out image has an answer to both templates, so that there is nothing to compare."
    ]


def test_a_run_without_held_out_answers_says_so() -> None:
    found: tuple[HeldoutResult, ...] = ()
    page = render_report(replace(samples.tune(n=2), heldout=found, differences=()))
    assert "There is no held-out comparison with the baseline." in text(page)
