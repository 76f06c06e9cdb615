"""How many images a proof takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from taxtune.metrics.bounds import ASSUMED_LOSS, poisson_bound
from taxtune.tuning.objective import make_objective
from taxtune.tuning.power import ceiling_reached, highest_provable, images_needed, images_to_certify
from taxtune.tuning.records import TemplateScores


@pytest.mark.parametrize(("least", "confidence"), [(0.98, 0.9), (0.95, 0.9), (0.98, 0.95), (0.5, 0.6)])
def test_so_many_images_without_an_error_are_needed_and_no_more(least: float, confidence: float) -> None:
    n = images_needed(least, confidence)
    bounds = [1 - poisson_bound(np.zeros(k), confidence, typical=ASSUMED_LOSS) for k in (n, n - 1) if k]
    assert bounds[0] >= least
    assert all(bound < least for bound in bounds[1:])
    assert highest_provable(n, confidence) == pytest.approx(bounds[0])


def test_images_that_certify_a_template_are_enough_and_no_fewer() -> None:
    losses = np.array([0.0] * 59 + [0.25])
    n = images_to_certify(losses, 0.98, 0.9, typical=0.25)
    assert n is not None
    proven = [poisson_bound(losses, 0.9, typical=0.25, images=k) <= 0.02 for k in (n - 1, n)]
    assert proven == [False, True]
    assert images_to_certify([0.0, 0.25], 0.98, 0.9, typical=0.25) is None, "it loses too much"


@pytest.mark.parametrize("objective", ["hr_at_hp", "hp", "accuracy", "hf"])
def test_nothing_is_left_to_win_where_the_exact_labels_would_do_no_better(objective: str) -> None:
    top = TemplateScores(1.0, 1.0, 1.0, 1.0, 2.0, 20, ihp=1.0, ihr=1.0, ihf=1.0)
    assert ceiling_reached(make_objective(objective), top)
    worse = replace(top, hp=0.99, hr=0.9, hf=0.94, accuracy=0.8)
    assert not ceiling_reached(make_objective(objective), worse)
    assert not ceiling_reached(make_objective(lambda scores: scores.hp), top), "of a function nothing is known"
