"""An outlook in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.report.outlook import aim_in_words, nothing_left, outlook_lines, resolution_in_words
from taxtune.tuning.objective import Constraint
from taxtune.tuning.outlook import Aim, Resolution
from tests.report import samples


def test_an_outlook_in_lines() -> None:
    lines = outlook_lines(replace(samples.outlook(), needed={"hp": 114}))
    assert lines == [
        ("goal", "the highest hP, with hR at least 80 % of the baseline's"),
        ("trivial answer", "always answering the domain's root: hP 1.000, hR 0.400"),
        ("oracles", "always the right <order>: hP 1.000, hR 0.600"),
        ("one image", "one level wrong instead of right, it lowers the mean by 0.013 in hP and hR"),
        (
            "told apart",
            "with 80 % power at the 5 % level, 20 images cannot show differences below 0.10 in hP and hR "
            "(if templates differ on 15 % of the images, as on the field guide)",
        ),
        (
            "too few images",
            "the confidence demanded of hP takes at least 114 images without an error; there are 20, so no template "
            "can be certain to reach it",
        ),
    ]
    assert len(outlook_lines(replace(samples.outlook(), needed={"hp": 20}))) == 5


@pytest.mark.parametrize(
    ("aim", "said"),
    [
        (Aim("hf", "hf", "maximize", ()), "the highest hF"),
        (
            Aim("hr_at_hp", "hr", "maximize", (Constraint("hp", 0.98, 0.9),)),
            "the highest hR, with hP at least 0.980 (90 % confidence)",
        ),
        (Aim("hp", "hp", "maximize", (Constraint("hr", 0.26),)), "the highest hP, with hR at least 0.260"),
        (Aim("f_beta", None, "maximize", ()), "the highest Fβ of hP and hR"),
        (Aim("bits", "misinformation", "minimize", ()), "the lowest misinformation, bits"),
    ],
)
def test_what_is_tuned_for_in_words(aim: Aim, said: str) -> None:
    assert aim_in_words(aim) == said


def test_what_each_score_can_show() -> None:
    seen = (
        Resolution("hp", 0.01, 0.1, "templates", 0.0612),
        Resolution("hr", 0.01, 0.2, "templates", 0.1249),
        Resolution("accuracy", 0.05, 9.0, "assumed", None),
    )
    assert resolution_in_words(replace(samples.outlook(), resolutions=seen, images=1)) == (
        "with 80 % power at the 5 % level, 1 image cannot show differences below 0.06 in hP, 0.12 in hR "
        "(as the templates tried differ from the baseline); nor any difference in accuracy "
        "(if templates differ on 15 % of the images, as on the field guide)"
    )


def test_another_objective_is_suggested_where_there_is_one() -> None:
    assert "or another objective, such as hr_at_hp" in nothing_left("hp", 20)
    assert "another objective" not in nothing_left("hr_at_hp", 20)
    assert "raise data.block" in nothing_left("hr_at_hp", 20, block=True)
