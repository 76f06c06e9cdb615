"""Evidence on a promised mean loss: right as often as it says, whenever one looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.evidence import weigh_evidence

RISK = 0.02
LOSS = st.sampled_from([0.0, 0.2, 0.4, 0.8])
WEIGHT = st.floats(0.1, 1)
ROWS = st.lists(st.tuples(LOSS, WEIGHT), min_size=1, max_size=40)


def drawn(rng, n, risk):
    """Returns losses of 0, .2 and .6 with a mean, and weights of doubtful and sure images."""
    is_doubtful = rng.random(n) < 0.2
    # A fifth of the images has four fifths of the risk and is drawn three times as often.
    share = np.where(is_doubtful, 4.0, 0.25) * risk / 0.4
    is_wrong = rng.random(n) < share
    return is_wrong * rng.choice([0.2, 0.6], n)


def verdicts(risk, labels=500, runs=300, before=0):
    rng = np.random.default_rng(7)
    said = []
    for _ in range(runs):
        first = drawn(rng, before, RISK)
        losses = np.concatenate([first, drawn(rng, labels, risk)])
        said.append(weigh_evidence(losses, np.ones(len(losses)), RISK, worst=0.8))
    return said


def test_a_kept_promise_is_seldom_called_broken_however_often_one_looks():
    said = [evidence.verdict(0.1) for evidence in verdicts(RISK)]
    assert said.count("broken") / len(said) <= 0.1


def test_a_promise_that_is_just_broken_is_seldom_said_to_hold():
    holds = [evidence.holds.max() >= 1 for evidence in verdicts(RISK)]
    assert np.mean(holds) <= 0.1


def test_a_change_is_found_after_a_long_good_time():
    found = []
    for evidence in verdicts(0.06, labels=250, runs=100, before=600):
        is_found = evidence.verdict(0.1) == "broken"
        found.append(is_found and abs(evidence.since - 600) < 200)
    assert np.mean(found) >= 0.8


def test_a_promise_that_is_well_kept_is_said_to_hold():
    said = [evidence.verdict(0.1) for evidence in verdicts(0.004, runs=50)]
    assert said.count("holds") >= 45


@given(ROWS, st.integers(1, 40))
def test_a_look_in_between_sees_the_same_evidence(rows, end):
    losses, weights = map(list, zip(*rows, strict=True))
    whole = weigh_evidence(losses, weights, RISK, worst=0.8)
    part = weigh_evidence(losses[:end], weights[:end], RISK, worst=0.8)
    assert part.broken == pytest.approx(whole.broken[:end])
    assert part.holds == pytest.approx(whole.holds[:end])


@given(ROWS)
def test_the_bet_on_a_change_is_the_mean_over_its_starts(rows):
    losses, weights = map(np.array, zip(*rows, strict=True))
    n = len(losses)
    capital = []
    for stake in (1, 2, 4):
        factors = 1 + stake * weights * (losses - RISK)
        started = []
        for start in range(n):
            part = (start + 1) ** -0.25 - (start + 2) ** -0.25
            started.append(part * factors[start:].prod())
        capital.append(sum(started) + (n + 1) ** -0.25)
    evidence = weigh_evidence(losses, weights, RISK, worst=0.8)
    assert 10 ** evidence.broken[-1] == pytest.approx(np.mean(capital))


@given(LOSS, WEIGHT)
def test_no_single_label_can_take_more_than_the_capital(loss, weight):
    evidence = weigh_evidence([loss], [weight], RISK, worst=0.8)
    assert not np.isnan(evidence.holds).any()
    assert np.isfinite(evidence.broken).all()


def test_the_number_of_labels_that_a_verdict_takes_is_about_right():
    rng = np.random.default_rng(3)
    losses = drawn(rng, 2000, 0.004)
    first = weigh_evidence(losses[:100], np.ones(100), RISK, worst=0.8)
    said = first.verdict(0.01)
    assert said.startswith("not known yet, about ")
    number = int(said.split()[-2])
    holds = weigh_evidence(losses, np.ones(2000), RISK, worst=0.8).holds
    taken = int((holds >= 2).argmax()) + 1
    assert 0.5 < (100 + number) / taken < 2
