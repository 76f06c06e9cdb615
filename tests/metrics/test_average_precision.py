from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from taxtune.metrics.average_precision import (
    average_precision,
    bootstrap_average_precision,
    resample_counts,
)


@st.composite
def problems(draw):
    shape = (draw(st.integers(1, 12)), draw(st.integers(1, 4)))
    # Few distinct values, so that ties are the rule.
    values = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 3.0])
    scores = draw(arrays(float, shape, elements=values))
    return scores, draw(arrays(bool, shape))


@settings(max_examples=30, deadline=None)
@given(problems(), st.integers(0, 99))
def test_a_resample_against_its_definition(problem, seed):
    scores, truth = problem
    counts = resample_counts(len(scores), 5, seed)
    ours = bootstrap_average_precision(scores, truth, counts)
    for found, own_scores, own_truth in zip(ours, scores.T, truth.T, strict=True):
        expected = [by_the_definition(own_scores, own_truth, drawn) for drawn in counts.T]
        assert found == pytest.approx(expected, abs=1e-6, nan_ok=True)


def by_the_definition(scores, truth, counts):
    """The mean precision over the draws of positive images, each of which adds itself once."""
    precisions = []
    drawn = np.repeat(np.arange(len(scores)), counts.astype(int))
    for image in drawn:
        if truth[image]:
            above = scores >= scores[image]
            above[image] = False
            positive = counts[above & truth].sum() + 1
            precisions.append(positive / (counts[above].sum() + 1))
    return float(np.mean(precisions)) if precisions else np.nan


def test_resamples_are_hardly_biased():
    rng = np.random.default_rng(0)
    shown = rng.integers(30, size=300)
    scores = rng.normal(size=(300, 30))
    scores[np.arange(300), shown] += 0.5
    truth = np.eye(30, dtype=bool)[shown]
    counts = resample_counts(300, 60, 1)
    drawn = bootstrap_average_precision(scores, truth, counts)
    estimate = average_precision(scores, truth).mean()
    # With copies that help themselves the mean would lie 0.017 above.
    assert np.nanmean(drawn) == pytest.approx(estimate, abs=0.005)
    unknown = average_precision([[1.0]], [[False]])
    assert np.isnan(unknown).all()
