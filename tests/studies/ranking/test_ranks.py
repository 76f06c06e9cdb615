"""Tests of the ranks of models and their bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from taxtune.studies.ranking.ranks import Measured, kendall_taus, rank_models

NAN = float("nan")


def measured(*rows):
    """Scores of models under one measure, a row each."""
    return Measured("m", np.array(rows, dtype=float))


def ranked(scores, resamples=100, seed=0):
    """The ranks of models under one measure."""
    models = list("abc")[: len(scores.scores)]
    ranks, _ = rank_models([scores], models, resamples=resamples, seed=seed)
    return ranks


def test_ranks_and_probability_of_being_first_of_a_hand_computed_case():
    # Two examples; a resample is (0, 0), (0, 1), (1, 0) or (1, 1), each with probability 1/4.
    # Model a scores (1, 0), model b (0, 1): a is first in one of the four, b in one, and they tie in two.
    found = ranked(measured([1, 0], [0, 1]), resamples=4000, seed=1)
    assert found["rank"].tolist() == [1.5, 1.5]
    assert found["P(first)"].sum() == pytest.approx(1)
    assert found["P(first)"].tolist() == pytest.approx([0.5, 0.5], abs=0.03)
    assert found["2.5 %"].tolist() == [1, 1]
    assert found["97.5 %"].tolist() == [2, 2]


def test_a_missing_score_is_no_zero_and_costs_no_other_model_an_example():
    # On the first two examples, which both have, a leads b; over all that b has, b's mean is the higher one. c, which
    # was asked everything, is compared with each on what the two have: above a on rows 0-1, below b on rows 0-3.
    a = [0.4, 0.4, NAN, NAN]
    b = [0.3, 0.3, 1.0, 1.0]
    c = [0.5, 0.5, 0.0, 0.0]
    scores = measured(a, b, c)
    assert scores.values()[0].tolist() == pytest.approx([0.4, 0.65, 0.25])
    # a beats b (0.4 > 0.3), b beats c (0.65 > 0.25), c beats a (0.5 > 0.4): all win once, so all share rank 2.
    assert ranked(scores)["rank"].tolist() == [2, 2, 2]


def test_a_model_without_any_score_has_no_rank_and_takes_none():
    scores = measured([0.1, 0.2], [NAN, NAN], [0.5, 0.6])
    found = ranked(scores, resamples=20)
    assert np.isnan(scores.values()[0, 1])
    last, none, first = found[["rank", "2.5 %", "97.5 %", "P(first)"]].to_numpy()
    assert last.tolist() == [2, 2, 2, 0]
    assert np.isnan(none).all()
    assert first.tolist() == [1, 1, 1, 1]


def test_the_harmonic_mean_is_that_of_the_means():
    hp = np.array([[1.0, 0.5], [0.75, 0.75]])
    hr = np.array([[0.25, 0.75], [0.5, 0.5]])
    scores = Measured("hF", hp, hr)
    # Means 0.75 and 0.5 for both models: hF = 0.6 for both, though the means of the examples' own hF differ.
    assert scores.values()[0].tolist() == pytest.approx([0.6, 0.6])
    assert ranked(scores)["rank"].tolist() == [1.5, 1.5]


def test_resampling_agrees_with_a_loop_over_plain_resamples():
    rng = np.random.default_rng(5)
    scores = rng.random((3, 25)).round(1)
    scores[1, :4] = NAN
    found = ranked(measured(*scores), resamples=3000, seed=2)
    wins = np.zeros(3)
    for _ in range(3000):
        rows = scores[:, rng.integers(25, size=25)]
        ranks = []
        for i, mine in enumerate(rows):
            rank = 1.0
            for theirs in np.delete(rows, i, axis=0):
                both = ~np.isnan(mine) & ~np.isnan(theirs)
                gap = theirs[both].mean() - mine[both].mean()
                rank += (np.sign(gap) + 1) / 2 if abs(gap) > 1e-12 else 0.5
            ranks.append(rank)
        best = np.array(ranks) == min(ranks)
        wins += best / best.sum()
    assert found["P(first)"].to_numpy() == pytest.approx(wins / 3000, abs=0.03)


def test_the_interval_is_that_of_95_percent():
    # The first model loses where 5 of 9 draws or more fall on the other's two examples: P = 0.0304 by the binomial
    # distribution, more than the 2.5 % outside the interval on either side and less than 5 %.
    first = np.arange(9) < 7
    found = ranked(measured(first, ~first), resamples=20_000)
    assert found.loc[1, "P(first)"] == pytest.approx(0.0304, abs=0.005)
    assert found["2.5 %"].tolist() == [1, 1]
    assert found["97.5 %"].tolist() == [2, 2]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=9), st.data())
def test_ranks_and_tau_agree_with_scipy(values, data):
    others = data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
    a, b = np.array([values, others], dtype=np.float64)
    models = [str(i) for i in range(len(a))]
    ranks, _ = rank_models([measured(*a[:, np.newaxis])], models, resamples=1)
    assert ranks["rank"].tolist() == rankdata(-a).tolist()
    assert kendall_taus(a, b) == pytest.approx(kendalltau(a, b).statistic, nan_ok=True)
