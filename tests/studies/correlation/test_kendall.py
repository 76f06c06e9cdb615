from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from taxtune.studies.correlation.kendall import LEAST_P, kendall, p_text


def test_tau_by_hand() -> None:
    # Of six pairs 3 agree, 2 disagree and 1 is tied in y.
    found = kendall([1, 2, 3, 4], [1, 3, 3, 2])
    by_hand = (3 - 2) / math.sqrt(6 * 5)
    assert found.tau == pytest.approx(by_hand)
    assert found.n == 4


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=2, max_size=40))
def test_tau_counts_every_pair(rows: list[tuple[int, int]]) -> None:
    x, y = zip(*rows, strict=True)
    agree = ties_x = ties_y = 0
    for i in range(len(rows)):
        for j in range(i):
            agree += np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])
            ties_x += x[i] == x[j]
            ties_y += y[i] == y[j]
    total = len(rows) * (len(rows) - 1) / 2
    found = kendall(x, y)
    if ties_x == total or ties_y == total:
        assert math.isnan(found.tau)
        assert math.isnan(found.p_value)
    else:
        assert found.tau == pytest.approx(agree / math.sqrt((total - ties_x) * (total - ties_y)))
        assert found.p_value == pytest.approx(max(kendalltau(x, y).pvalue, LEAST_P))
        assert -1 <= found.low <= found.tau + 1e-12
        assert found.tau <= found.high + 1e-12
        assert found.high <= 1


def test_the_interval_is_that_of_a_bootstrap() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 7, 1500) / 7
    y = np.round(x + rng.normal(0, 0.6, 1500), 1)
    found = kendall(x, y)
    rows = rng.integers(0, 1500, (600, 1500))
    spread = np.std([kendalltau(x[row], y[row]).statistic for row in rows])
    assert (found.high - found.low) / 2 / 1.96 == pytest.approx(spread, rel=0.12)
    # It matters not which of the two has fewer values.
    swapped = kendall(y, x)
    assert (swapped.low, swapped.high) == pytest.approx((found.low, found.high))


def test_no_p_value_is_zero() -> None:
    x = np.arange(5000) % 7
    found = kendall(x, x)
    assert found.tau == pytest.approx(1)
    assert found.p_value == LEAST_P
    assert [p_text(p) for p in (LEAST_P, 2.34e-7, 0.25, math.nan)] == ["< 1e-300", "2.3e-07", "0.250", None]


def test_a_constant_has_no_correlation() -> None:
    for x, y in (([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0]), ([1], [2]), ([], [])):
        found = kendall(x, y)
        assert math.isnan(found.tau)
        assert math.isnan(found.low)


def test_nan_and_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        kendall([1, 2], [1, math.nan])
    with pytest.raises(ValueError, match="length"):
        kendall([1, 2], [1, 2, 3])
