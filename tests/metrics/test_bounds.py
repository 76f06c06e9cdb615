from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from taxtune.metrics.bounds import p_value, upper_bound

Losses = NDArray[np.float64]

# Values and their probabilities: losses of placed answers, rare whole errors, and much of
# everything.
HIERARCHICAL = ((0.0, 0.25, 0.5, 0.75), (0.94, 0.03, 0.02, 0.01))
BINARY = ((0.0, 1.0), (0.98, 0.02))
BROAD = ((0.0, 0.25, 0.5, 0.75, 1.0), (0.3, 0.2, 0.2, 0.2, 0.1))

some_losses = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0])
rows_of_losses = st.lists(some_losses, min_size=1, max_size=80)


def draw(kind, n, times):
    values, shares = kind
    rng = np.random.default_rng(0)
    return rng.choice(values, (times, n), p=shares)


def by_hand(losses, risk, level):
    """The betting p-value as it is printed, one loss after the other."""
    capital = most = 1.0
    mean = 0.5
    variance = 0.25
    total = 0.5
    squares = 0.25
    for i, loss in enumerate(losses, 1):
        square = 2 * np.log(1 / level) / (len(losses) * variance)
        stake = min(1.0, np.sqrt(square))
        capital *= 1 - stake * (loss - risk)
        most = max(most, capital)
        total += loss
        mean = total / (i + 1)
        squares += (loss - mean) ** 2
        variance = squares / (i + 1)
    return 1 / most


@given(rows_of_losses, st.floats(0.0, 1.0), st.floats(0.01, 0.5))
def test_the_p_value_is_the_printed_one(losses, risk, level):
    row = np.array(losses)
    expected = by_hand(row, risk, level)
    assert p_value(row, risk, level=level) == pytest.approx(expected)


@given(rows_of_losses, st.floats(0.05, 0.99))
def test_the_bound_is_the_least_risk_that_is_not_refuted(losses, confidence):
    bound = upper_bound(losses, confidence)
    level = 1 - confidence
    assert 0 < bound <= 1
    assert p_value(losses, max(0.0, bound - 1e-6), level=level) > level
    if bound < 1:
        assert p_value(losses, min(1.0, bound + 1e-6), level=level) <= level


@given(st.integers(1, 300), st.sampled_from([0.8, 0.9, 0.99]))
def test_without_losses_the_bound_is_close_to_the_exact_one(n, confidence):
    exact = 1 - (1 - confidence) ** (1 / n)
    bound = upper_bound(np.zeros(n), confidence)
    assert bound >= exact - 1e-9
    if n >= 100:
        assert bound <= 1.08 * exact


@pytest.mark.parametrize("n", [10, 50, 300])
@pytest.mark.parametrize(
    "kind", [HIERARCHICAL, BINARY, BROAD], ids=["hierarchical", "binary", "broad"]
)
def test_the_mean_is_above_the_bound_no_more_often_than_promised(kind, n):
    times = 1000
    level = 0.1
    mean = float(np.dot(*kind))
    refuted = 0
    for losses in draw(kind, n, times):
        refuted += p_value(losses, mean, level=level) <= level
    error = np.sqrt(level * (1 - level) / times)
    assert refuted / times <= level + 3 * error


@pytest.mark.parametrize("losses", [[], [0.5, 1.5], [-0.1], [float("nan")], [[0.5]]])
def test_losses_that_are_none_are_refused(losses):
    with pytest.raises(ValueError, match="losses must"):
        upper_bound(losses, 0.9)
