"""How many images a proof takes."""

from __future__ import annotations

import numpy as np
import pytest

from taxtune.metrics.bounds import (
    ASSUMED_LOSS,
    errorless_images,
    highest_provable,
    images_to_certify,
    poisson_bound,
)


@pytest.mark.parametrize(
    ("least", "confidence"), [(0.98, 0.9), (0.95, 0.9), (0.98, 0.95), (0.5, 0.6)]
)
def test_so_many_images_without_an_error_are_needed_and_no_more(least, confidence):
    n = errorless_images(least, confidence)
    bound = 1 - poisson_bound(np.zeros(n), confidence, typical=ASSUMED_LOSS)
    assert bound >= least
    assert highest_provable(n, confidence) == pytest.approx(bound)
    if n > 1:
        fewer = 1 - poisson_bound(np.zeros(n - 1), confidence, typical=ASSUMED_LOSS)
        assert fewer < least


def test_images_that_certify_a_template_are_enough_and_no_fewer():
    losses = np.array([0.0] * 59 + [0.25])
    n = images_to_certify(losses, 0.98, 0.9, typical=0.25)
    assert n is not None
    proven = [poisson_bound(losses, 0.9, typical=0.25, images=k) <= 0.02 for k in (n - 1, n)]
    assert proven == [False, True]
    assert images_to_certify([0.0, 0.25], 0.98, 0.9, typical=0.25) is None, "it loses too much"
