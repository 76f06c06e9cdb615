"""Intervals of scores on the tuning images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.report.uncertainty import counted_scores, tuning_interval
from taxtune.tuning.objective import Constraint
from taxtune.tuning.records import IterationRecord, SampleResult
from tests.report import samples


def record(hp: list[float | None], hr: list[float | None]) -> IterationRecord:
    rows = tuple(
        SampleResult(str(i), f"{i}.png", 0, "a", node=None if p is None else 0, hp=p, hr=r, measures={"own": p})
        for i, (p, r) in enumerate(zip(hp, hr, strict=True))
    )
    return replace(samples.iteration(0), rows=rows)


def test_an_interval_is_as_wide_as_theory_says() -> None:
    rng = np.random.default_rng(0)
    hp = rng.choice([0.5, 1.0], size=400)
    found = tuning_interval(record(hp.tolist(), hp.tolist()), "hp")
    assert found is not None
    assert found.estimate == pytest.approx(hp.mean())
    error = hp.std() / math.sqrt(len(hp))
    assert found.low == pytest.approx(hp.mean() - 1.96 * error, abs=0.25 * error)
    assert found.high == pytest.approx(hp.mean() + 1.96 * error, abs=0.25 * error)


def test_hf_is_of_the_means_and_what_failed_counts_for_none() -> None:
    hp, hr = [1.0, 0.5, 0.5, None], [0.25, 1.0, 0.5, None]
    found = tuning_interval(record(hp, hr), "hf")
    assert found is not None
    assert found.estimate == pytest.approx(harmonic_mean(2 / 3, 1.75 / 3))
    own = tuning_interval(record(hp, hr), "own")
    assert own is not None
    assert own.estimate == pytest.approx(2 / 3)
    exact = tuning_interval(record([1.0, 1.0, None], [1.0, 0.5, None]), "accuracy")
    assert exact is not None
    assert exact.estimate == 0.5


@pytest.mark.parametrize(
    "made",
    [record([None], [None]), record([], []), replace(record([1.0], [1.0]), scores=None)],
)
def test_without_an_answer_there_is_none(made: IterationRecord) -> None:
    assert tuning_interval(made, "hp") is None


def test_a_score_that_is_no_mean_over_images_has_none() -> None:
    assert tuning_interval(record([1.0], [1.0]), "hr_at_hp") is None


def test_what_decides_comes_first_and_what_is_held_after() -> None:
    run = samples.tune(n=2)
    assert counted_scores(run) == ("hp", "hr")
    assert counted_scores(samples.tune("accuracy", n=2)) == ("accuracy",)
    # hR at a held hP is no score; what it raises and what it holds are.
    held = replace(samples.tune(n=2), objective="hr_at_hp", constraints=(Constraint("hp", 0.98, 0.9),), spec=None)
    assert counted_scores(held) == ("hp",)
    assert counted_scores(replace(held, spec=replace(samples.spec("hr_at_hp"), measure="hr"))) == ("hr", "hp")
    assert counted_scores(replace(held, constraints=(), spec=None)) == ("hp", "hr")
