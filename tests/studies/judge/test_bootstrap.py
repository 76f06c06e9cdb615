from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from taxtune.studies.judge.bootstrap import bootstrap_correlations
from tests.displays import Recorder


@pytest.mark.parametrize("kind", ["three levels", "two levels", "continuous"])
def test_each_resample_has_scipys_correlations(kind: str) -> None:
    rng = np.random.default_rng(3)
    n, resamples = 60, 25
    human = (
        rng.normal(size=n) if kind == "continuous" else rng.choice([0, 0.5, 1][: 2 if kind == "two levels" else 3], n)
    )
    scores = np.stack([human + rng.normal(size=n), (rng.random(n) < 0.2) * 1.0, rng.choice(20, n) * 1.0, -human])
    found = bootstrap_correlations(scores, human, resamples=resamples, seed=7)
    draws = np.random.default_rng(7).integers(0, n, size=(resamples, n))
    for i, row in enumerate(scores):
        assert found.rho[i] == pytest.approx(stats.spearmanr(row, human).statistic)
        assert found.tau[i] == pytest.approx(stats.kendalltau(row, human).statistic)
        rho = [stats.spearmanr(row[draw], human[draw]).statistic for draw in draws]
        tau = [stats.kendalltau(row[draw], human[draw]).statistic for draw in draws]
        np.testing.assert_allclose(found.rho_resamples[:, i], rho, atol=1e-12)
        np.testing.assert_allclose(found.tau_resamples[:, i], tau, atol=1e-12)


def test_what_is_constant_has_no_correlation() -> None:
    human = np.array([0.0, 0.5, 1.0, 1.0])
    found = bootstrap_correlations(np.stack([np.ones(4), human]), human, resamples=50, seed=0)
    assert np.isnan([found.rho[0], found.tau[0]]).all()
    assert np.isnan(found.rho_resamples[:, 0]).all()
    defined = found.rho_resamples[:, 1]
    assert np.nanmax(np.abs(defined - 1)) < 1e-12
    assert np.isnan(bootstrap_correlations(np.stack([human]), np.ones(4), resamples=5, seed=0).rho).all()
    assert np.isnan(bootstrap_correlations(np.ones((1, 1)), np.ones(1), resamples=5, seed=0).tau_resamples).all()


def test_the_seed_decides() -> None:
    human = np.arange(30.0)
    scores = np.random.default_rng(0).normal(size=(1, 30))
    runs = [bootstrap_correlations(scores, human, resamples=9, seed=seed).rho_resamples for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_progress_is_told_to_the_end(recorder: Recorder) -> None:
    bootstrap_correlations(np.ones((1, 5)), np.ones(5), resamples=12, seed=0)
    assert recorder.of("resamples")[-1] == (12, 12)
