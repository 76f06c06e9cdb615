from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.metrics import information_scores, leaf_information, score
from taxtune.metrics.statistics import (
    INFORMATION_METRICS,
    METRICS,
    Interval,
    Sample,
    bootstrap,
    hierarchical_sample,
    paired_bootstrap,
)
from taxtune.metrics.table import Predictions
from tests.trees import tree_and_nodes

ENDS = [0.025, 0.975]


def row_bootstrap(tree, predicted, target):
    """The textbook bootstrap: draw row numbers, score the resample; (resamples, METRICS)."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(3000):
        drawn = rng.integers(0, len(target), len(target))
        scores = score(tree, predicted[drawn], target[drawn]).as_dict()
        rows.append([scores[name] for name in METRICS])
    return np.array(rows)


@settings(max_examples=40)
@given(tree_and_nodes())
def test_estimates_are_the_scores_and_intervals_are_ordered(case):
    tree, (predicted, target) = case
    scores = score(tree, predicted, target).as_dict()
    intervals = bootstrap(hierarchical_sample(tree, predicted, target), resamples=50)
    assert tuple(intervals) == METRICS
    for name, interval in intervals.items():
        assert interval.estimate == pytest.approx(scores[name])
        assert interval.low <= interval.high
        if name != "depth":
            assert 0 <= interval.low <= interval.high <= 1 + 1e-12


def test_intervals_agree_with_drawing_rows(birds):
    rng = np.random.default_rng(0)
    predicted, target = rng.integers(0, len(birds), (2, 60))
    plain = row_bootstrap(birds, predicted, target)
    low, high = np.quantile(plain, ENDS, axis=0)
    intervals = bootstrap(hierarchical_sample(birds, predicted, target), resamples=20_000)
    for i, interval in enumerate(intervals.values()):
        spread = plain[:, i].std()
        assert interval.low == pytest.approx(low[i], abs=0.2 * spread)
        assert interval.high == pytest.approx(high[i], abs=0.2 * spread)


def test_paired_intervals_agree_with_drawing_the_same_rows_for_both(birds):
    rng = np.random.default_rng(5)
    target = rng.integers(0, len(birds), 60)
    a = np.where(rng.random(60) < 0.7, target, 1)
    b = np.where(rng.random(60) < 0.5, target, 6)
    plain = row_bootstrap(birds, a, target) - row_bootstrap(birds, b, target)
    low, high = np.quantile(plain, ENDS, axis=0)
    not_above = (plain <= 0).mean(axis=0)
    not_below = (plain >= 0).mean(axis=0)
    p_values = np.minimum(1, 2 * np.minimum(not_above, not_below))
    scores_a = score(birds, a, target).as_dict()
    scores_b = score(birds, b, target).as_dict()
    first = hierarchical_sample(birds, a, target)
    second = hierarchical_sample(birds, b, target)
    differences = paired_bootstrap((first, second), resamples=20_000)
    for i, (name, found) in enumerate(differences.items()):
        spread = plain[:, i].std()
        assert found.difference == pytest.approx(scores_a[name] - scores_b[name])
        assert found.low == pytest.approx(low[i], abs=0.2 * spread)
        assert found.high == pytest.approx(high[i], abs=0.2 * spread)
        assert found.p_value == pytest.approx(p_values[i], abs=0.05)


@pytest.mark.parametrize(
    ("predicted", "settings", "message"),
    [
        ([], {}, "no examples"),
        ([1], {"resamples": -1}, "at least [01], not -1"),
        ([1], {"confidence": 1.0}, "between 0 and 1"),
        ([-1], {}, "not a node"),
    ],
)
def test_bad_settings_are_refused(birds, predicted, settings, message):
    def sample():
        return hierarchical_sample(birds, predicted, predicted)

    with pytest.raises(ValueError, match=message):
        bootstrap(sample(), **settings)
    with pytest.raises(ValueError, match=message):
        paired_bootstrap((sample(), sample()), **settings)


@settings(max_examples=40)
@given(tree_and_nodes(rows=3), st.data())
def test_information_is_estimated_resampled_and_compared(case, data):
    tree, (a, b, target) = case
    information = leaf_information(tree)
    n = len(target)
    masks = st.lists(st.booleans(), min_size=n, max_size=n)
    scores = []
    tables = []
    for nodes in (a, b):
        off = np.array(data.draw(masks))
        scored = information_scores(information, nodes, target, off_tree=off)
        scores.append(scored.as_dict())
        tables.append(Predictions(information, nodes, target, off).table())
    intervals = tables[0].intervals(seed=0, resamples=50)
    paired = tables[0].differences(tables[1], seed=0)
    assert tuple(intervals) == tuple(paired) == (*METRICS, *INFORMATION_METRICS)
    for name in INFORMATION_METRICS:
        interval = intervals[name]
        assert interval.estimate == pytest.approx(scores[0][name])
        assert interval.low <= interval.high
        expected = scores[0][name] - scores[1][name]
        assert paired[name].difference == pytest.approx(expected, abs=1e-9)
        assert 0 < paired[name].p_value <= 1


def test_quotients_of_sums():
    parts = {"a": np.array([1.0, 0, 2]), "b": np.zeros(3)}
    wholes = {"a": np.array([1.0, 1, 2]), "b": np.zeros(3)}
    keyed = Sample(parts, wholes, keys=(*parts.values(), *wholes.values()))
    found = bootstrap(keyed, resamples=500)
    assert found["a"] == Interval(0.75, 0, 1)
    assert np.isnan(list(asdict(found["b"]).values())).all()
    wider = wholes | {"a": np.array([1.0, 1, 4])}
    changed = Sample(parts, wider)
    different = paired_bootstrap((Sample(parts, wholes), changed))["a"]
    assert different.difference == 0.75 - 0.5


def compared_with_zeros(values, **settings):
    zeros = np.zeros(len(values))
    pair = (Sample.mean("x", values), Sample.mean("x", zeros))
    return paired_bootstrap(pair, **settings)["x"]


@settings(max_examples=200)
@given(
    changes=st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.25, 0.5, 0.75, 1.0]), max_size=14),
    alike=st.integers(0, 60),
    resamples=st.sampled_from([10, 99, 999, 2000]),
    confidence=st.sampled_from([0.8, 0.9, 0.95, 0.99]),
)
def test_the_interval_excludes_no_difference_just_where_the_p_value_says_so(
    changes, alike, resamples, confidence
):
    values = np.array([*changes, *[0.0] * (alike + 1)])
    found = compared_with_zeros(values, resamples=resamples, confidence=confidence)
    excludes_zero = found.low > 0 or found.high < 0
    assert excludes_zero == (round(found.p_value, 9) < round(1 - confidence, 2))
    assert found.low <= found.high
    if confidence == 0.95:
        assert found.significant == excludes_zero


@pytest.mark.parametrize(("n", "differing"), [(20, 4), (50, 8), (200, 12)])
def test_what_does_not_differ_on_average_is_seldom_called_different(n, differing):
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        values = np.zeros(n)
        k = min(n, rng.poisson(differing))
        sizes = rng.choice([0.25, 0.5, 0.75, 1], k)
        values[:k] = sizes * rng.choice([-1, 1], k)
        wrong += compared_with_zeros(values, resamples=499).significant
    assert wrong / 400 <= 0.08
