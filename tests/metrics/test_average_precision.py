from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.metrics.average_precision import (
    average_precision,
    bootstrap_average_precision,
    resample_counts,
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    images, labels = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    # Few distinct values, so that ties are the rule.
    value = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 3.0])
    scores = draw(st.lists(value, min_size=images * labels, max_size=images * labels))
    truth = draw(st.lists(st.booleans(), min_size=images * labels, max_size=images * labels))
    return np.array(scores).reshape(images, labels), np.array(truth).reshape(images, labels)


@settings(max_examples=30, deadline=None)
@given(problems(), st.integers(0, 99))
def test_a_resample_against_its_definition(
    problem: tuple[np.ndarray, np.ndarray], seed: int
) -> None:
    scores, truth = problem
    counts = resample_counts(len(scores), 5, seed)
    ours = bootstrap_average_precision(scores, truth, counts)
    for i in range(5):
        for label in range(scores.shape[1]):
            drawn = [
                j for j in range(len(scores)) for _ in range(int(counts[j, i])) if truth[j, label]
            ]
            precisions = []
            for j in drawn:
                above = [
                    k for k in range(len(scores)) if scores[k, label] >= scores[j, label] and k != j
                ]
                positive = sum(counts[k, i] for k in above if truth[k, label]) + 1
                precisions.append(positive / (sum(counts[k, i] for k in above) + 1))
            expected = np.mean(precisions) if precisions else np.nan
            assert ours[label, i] == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_resamples_are_hardly_biased() -> None:
    rng = np.random.default_rng(0)
    shown = rng.integers(30, size=300)
    scores = rng.normal(size=(300, 30))
    scores[np.arange(300), shown] += 0.5
    truth = np.eye(30, dtype=bool)[shown]
    drawn = bootstrap_average_precision(scores, truth, resample_counts(300, 60, 1))
    # With copies that help themselves the mean would lie 0.017 above.
    assert np.nanmean(drawn) == pytest.approx(average_precision(scores, truth).mean(), abs=0.005)
    assert np.isnan(average_precision([[1.0]], [[False]])).all()
