"""An outlook in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taxtune.report.outlook import nothing_left, outlook_lines, resolution_in_words
from taxtune.tuning.objective import Constraint
from taxtune.tuning.outlook import Aim, Resolution, images_needed
from tests.report import samples


def test_an_outlook_in_lines() -> None:
    assert outlook_lines(samples.outlook()) == [
        ("goal", "the highest hP, with hR at least 80 % of the baseline's"),
        ("trivial answer", "always answering the domain's root: hP 1.000, hR 0.400"),
        ("oracles", "always the right <order>: hP 1.000, hR 0.600"),
        ("one image", "one level wrong instead of right, it lowers the mean by 0.013 in hP and hR"),
        (
            "told apart",
            "with 80 % power at the 5 % level, 20 images cannot show differences below 0.10 in hP and hR "
            "(if templates differ on 15 % of the images, as on the field guide)",
        ),
    ]


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (
            50,
            "without a single error, 50 images prove hP 0.977 with 90 % confidence: label 8 more photos, or raise "
            "data.tuning, to prove 0.980",
        ),
        (58, "without a single error, 58 images prove hP 0.980 with 90 % confidence"),
        (400, "without a single error, 400 images prove hP 0.997 with 90 % confidence"),
    ],
)
def test_an_outlook_says_what_a_spotless_run_could_prove(images: int, said: str) -> None:
    """Where that is less than the target, it says how many more images would do."""
    aims = (Aim("hr_at_hp", "hr", "maximize", (Constraint("hp", 0.98, 0.9), Constraint("hr", 0.1))),)
    outlook = replace(samples.outlook(), aims=aims, images=images, needed={"hp": images_needed(0.98, 0.9)})
    assert outlook_lines(outlook)[-1] == ("provable", said)
    assert [name for name, _ in outlook_lines(outlook)].count("provable") == 1


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
