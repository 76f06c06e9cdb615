"""How much better a winner looks than it is: where templates differ by luck alone, and where one is really better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.tuning.objective import Objective
from taxtune.tuning.optimism import find_optimism, simulate_optimism
from taxtune.tuning.records import ExampleRow, IterationRecord, Optimism, TemplateScores
from taxtune.tuning.selection import choose
from tests.report import samples

#: hP without a floor, so that nothing but hP decides.
HP = Objective("hP alone", lambda scores: scores.hp, shown=("hp",))


def records(hp: np.ndarray[Any, Any], asked: list[int] | None = None) -> list[IterationRecord]:
    """Iterations whose images have these values, shape (templates, images); of some only the first so many."""
    made = []
    for k, column in enumerate(hp):
        values = column[: None if asked is None else asked[k]]
        rows = tuple(
            ExampleRow(f"{i}", "", 1, "", answer="x", node=1, hp=float(value), hr=0.5) for i, value in enumerate(values)
        )
        mean = float(values.mean())
        scores = TemplateScores(hp=mean, hr=0.5, hf=harmonic_mean(mean, 0.5), accuracy=0.0, depth=1.0, n=len(values))
        made.append(IterationRecord(k, "complete", f"{k}", scores=scores, value=mean, rows=rows))
    return made


def coins(seed: int, templates: int, images: int, right: float = 0.7) -> np.ndarray[Any, Any]:
    return np.where(np.random.default_rng(seed).random((templates, images)) < right, 1.0, 0.4)


def test_the_luckiest_of_equals_looks_better_than_it_is_by_about_as_much_as_expected() -> None:
    true, expected = [], []
    for seed in range(12):
        tried = records(coins(seed, 12, 20))
        selection = choose(tried, HP)
        assert selection is not None
        best = next(record for record in tried if record.iteration == selection.winner).scores
        assert best is not None
        true.append(best.hp - (0.4 + 0.6 * 0.7))
        expected.append(simulate_optimism(tried, HP, ["hp"], draws=30, seed=seed)["hp"].mean())
    assert np.mean(true) > 0.05
    assert np.mean(expected) == pytest.approx(np.mean(true), abs=0.05)


def test_where_one_is_really_better_there_is_next_to_nothing_to_be_lucky_with() -> None:
    clear = records(np.vstack([coins(0, 5, 40, 0.2), coins(1, 1, 40, 0.95)]))
    assert simulate_optimism(clear, HP, ["hp"], draws=30)["hp"].mean() == pytest.approx(0, abs=0.03)


def test_templates_that_dropped_out_of_the_race_stay_out_of_it() -> None:
    """One that is perfect on the few images it was asked about is not chosen when the choice is repeated either."""
    hp = np.vstack([coins(0, 2, 40), np.ones((1, 40))])
    found = simulate_optimism(records(hp, asked=[40, 40, 5]), HP, ["hp"], draws=20)["hp"]
    assert len(found) == 20
    assert (found < 1).all()
    assert simulate_optimism(records(hp, asked=[40, 40, 5]), HP, ["hp"], draws=20)["hp"].tolist() == found.tolist()


def test_one_template_is_no_choice() -> None:
    (only,) = records(coins(0, 1, 20))
    held = samples.heldout("winner", "0", 0.8, 0.5, 0.3, seed=1)
    hp, hr = find_optimism([only], only, held, HP, ["hp", "hr", "lave"])
    assert only.scores is not None
    assert hp == Optimism("hp", only.scores.hp, 0.8, None)
    assert (hr.tuning, hr.heldout) == (0.5, 0.5)
