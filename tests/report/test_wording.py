from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.metrics.statistics import PairedDifference
from taxtune.report import wording
from taxtune.tuning.records import Difference
from tests.report import samples


def test_numbers_have_a_true_minus_and_no_negative_zero() -> None:
    assert wording.number(0.9714) == "0.971"
    assert wording.number(None) == "–"
    assert wording.number(4.1234, "depth") == "4.12"
    assert wording.signed(-0.02) == "−0.020"
    assert wording.signed(0.02) == "+0.020"
    assert wording.signed(-0.0001) == "0.000"
    assert wording.p_value(0.0004) == "< 0.001"
    assert wording.p_value(0.31) == "0.310"


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("baseline", "baseline"),
        ("iteration 3", "iteration 3"),
        ("hp", "hP-tuned"),
        ("hr_at_hp", "hR-at-hP-tuned"),
        ("rouge-1", "ROUGE-tuned"),
        ("birds: winner", "birds: winner"),
        ("birds: accuracy", "birds: accuracy-tuned"),
        ("paper1-minimal", "paper1-minimal"),
    ],
)
def test_a_template_is_called_after_what_it_was_tuned_for_or_by_its_own_name(name: str, called: str) -> None:
    assert wording.template_name(name) == called


def test_headline_says_what_was_found_with_intervals() -> None:
    text = wording.headline(samples.comparison())
    assert text == (
        "On 200 held-out images the template tuned for hP raised hierarchical precision (hP) from 0.871 to 0.962: "
        "+0.091, 95 % interval +0.070 to +0.111. This is above the template tuned for accuracy "
        "(0.847; +0.115, 95 % interval +0.095 to +0.136)."
    )


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (PairedDifference(0.01, -0.02, 0.04, 0.5), "no clear difference"),
        (PairedDifference(0.0, 0.0, 0.0, 1.0), "no clear difference"),
        (PairedDifference(-0.05, -0.08, -0.02, 0.001), "lowered hierarchical precision"),
        (PairedDifference(0.05, 0.02, 0.08, 0.001), "raised hierarchical precision"),
        (PairedDifference(0.05, 0.01, 0.08, 0.06), "no clear difference"),
    ],
)
def test_headline_claims_nothing_that_the_p_value_does_not_show(difference: PairedDifference, words: str) -> None:
    result = replace(samples.tune(n=3), differences=(Difference("winner", "baseline", {"hp": difference}),))
    assert words in wording.headline(result)


def test_headline_without_held_out_scores() -> None:
    result = replace(samples.tune(n=2), heldout=(), differences=())
    assert wording.headline(result) == "There is no held-out comparison with the baseline."


def test_a_pair_is_found_whichever_way_round_it_is_kept() -> None:
    kept = PairedDifference(-0.1, -0.13, -0.08, 0.01)
    result = replace(samples.comparison(n=2), differences=(Difference("accuracy", "hp", {"hp": kept}),))
    assert wording.paired(result, "hp", "accuracy", "hp") == PairedDifference(0.1, 0.08, 0.13, 0.01)
    assert wording.paired(result, "accuracy", "hp", "hp") == kept
    assert wording.paired(result, "hp", "baseline", "hp") is None
    assert wording.paired(result, "hp", "accuracy", "hr") is None


def test_best_so_far_skips_what_failed_or_breaks_the_floor_and_keeps_the_first_of_equals() -> None:
    records = [
        samples.iteration(0, state="void"),
        samples.iteration(1, hp=0.8, hr=0.5),
        samples.iteration(2, hp=0.99, hr=0.1),  # below the floor
        samples.iteration(3, hp=0.8, hr=0.6),
        samples.iteration(4, hp=0.85, hr=0.55),
        samples.iteration(5, state="failed"),
    ]
    assert [b and b.iteration for b in wording.best_so_far(records)] == [None, 1, 1, 1, 4, 4]
