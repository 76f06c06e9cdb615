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
