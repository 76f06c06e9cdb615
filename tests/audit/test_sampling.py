"""The draw and the estimate: sizes, exact inclusion probabilities, unbiasedness and coverage by simulation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.audit.sampling import LEAST, Drawn, draw, estimate

CELLS = st.tuples(st.sampled_from(["verbatim", "head", "vote"]), st.integers(0, 4))
UNITS = st.lists(st.tuples(CELLS, st.integers(1, 50)), min_size=1, max_size=60)


@given(units=UNITS, n=st.integers(1, 80), seed=st.integers(0, 2**32))
def test_a_sample_has_its_size_and_its_weights_sum_to_the_file(
    units: list[tuple[tuple[str, int], int]], n: int, seed: int
) -> None:
    cells, counts = zip(*units, strict=True)
    drawn = draw(cells, counts, n, seed)
    assert len(drawn) == len({unit.item for unit in drawn}) == min(n, len(units))
    assert all(0 < unit.inclusion <= 1 for unit in drawn)
    assert drawn == draw(cells, counts, n, seed)
    total = sum(counts[unit.item] / unit.inclusion for unit in drawn)
    assert total == pytest.approx(sum(counts))
    found = estimate(drawn, [counts[unit.item] for unit in drawn], [True] * len(drawn))
    assert found is not None
    assert found.share == pytest.approx(1)
    assert found.coverage == pytest.approx(1)
    assert 0 <= found.low <= found.share <= found.high <= 1
    if n >= len(units):
        assert found.low == found.share


@given(units=UNITS, n=st.integers(4, 80), seed=st.integers(0, 99))
def test_every_stratum_has_its_least_number_of_draws_while_there_is_room(
    units: list[tuple[tuple[str, int], int]], n: int, seed: int
) -> None:
    # Without repeated answers nothing is drawn for certain, and the strata are the cells.
    cells = [cell for cell, _ in units]
    sizes = Counter(cells)
    drawn = draw(cells, [1] * len(cells), n, seed)
    got = Counter(cells[unit.item] for unit in drawn)
    if sum(min(LEAST, size) for size in sizes.values()) <= n:
        assert all(got[cell] >= min(LEAST, size) for cell, size in sizes.items())
    by_stratum = Counter(unit.stratum for unit in drawn)
    assert len(drawn) < LEAST or len(by_stratum) == 1 or min(by_stratum.values()) >= 1


def test_draws_are_in_proportion_to_the_strata() -> None:
    cells = [("verbatim", 3)] * 600 + [("vote", 2)] * 300 + [("similarity", 4)] * 100
    got = Counter(cells[unit.item] for unit in draw(cells, [1] * 1000, 50, seed=1))
    assert got == {("verbatim", 3): 30, ("vote", 2): 15, ("similarity", 4): 5}


def test_the_most_frequent_answer_is_drawn_for_certain_and_costs_its_stratum_no_draws() -> None:
    cells = [("verbatim", 3)] * 50 + [("head", 3)] * 50
    counts = [500] + [1] * 99
    for seed in range(20):
        drawn = draw(cells, counts, 11, seed)
        assert [unit.inclusion for unit in drawn if unit.item == 0] == [1.0]
        rest = Counter(cells[unit.item] for unit in drawn if unit.item != 0)
        assert rest == {("verbatim", 3): 5, ("head", 3): 5}


def population(seed: int) -> tuple[list[tuple[str, int]], list[int], list[bool]]:
    rng = np.random.default_rng(seed)
    cells, counts, right = [], [], []
    for stage, depth, n, share in (("a", 1, 80, 0.95), ("a", 2, 60, 0.9), ("b", 1, 30, 0.6), ("c", 5, 3, 0.0)):
        for _ in range(n):
            cells.append((stage, depth))
            # A few answers are said very often, as in real files.
            counts.append(int(rng.zipf(1.8)) if rng.random() < 0.9 else 40)
            right.append(bool(rng.random() < share))
    return cells, [min(count, 200) for count in counts], right


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_estimate_is_unbiased_and_its_interval_covers(seed: int) -> None:
    cells, counts, right = population(seed)
    truth = sum(count for count, yes in zip(counts, right, strict=True) if yes) / sum(counts)
    shares, covered, drawn_often = [], 0, np.zeros(len(cells))
    inclusion = np.zeros(len(cells))
    draws = 2000
    for k in range(draws):
        drawn = draw(cells, counts, 40, seed=k)
        found = estimate(drawn, [counts[u.item] for u in drawn], [right[u.item] for u in drawn])
        assert found is not None
        shares.append(found.share)
        covered += found.low <= truth <= found.high
        for unit in drawn:
            drawn_often[unit.item] += 1
            inclusion[unit.item] = unit.inclusion
    error = np.std(shares) / np.sqrt(draws)
    assert np.mean(shares) == pytest.approx(truth, abs=4 * error)
    assert covered / draws >= 0.93
    # What it says of its inclusion probabilities holds: within five standard errors of each.
    bound = 5 * np.sqrt(inclusion * (1 - inclusion) / draws) + 1e-9
    assert (np.abs(drawn_often / draws - inclusion) <= bound).all()


def test_one_stratum_and_no_repeats_is_wilsons_interval_with_the_finite_population() -> None:
    # By hand: 8 of 10 right, 10 of 20 units drawn, so n' = 10 / (1 - 0.5) = 20 by the weights, and by the variance
    # p (1 - p) / ((1 - f) s² / n) = 0.16 / (0.5 · (0.16 · 10 / 9) / 10) = 18; Wilson with 18 and z = 1.96.
    drawn = [Drawn(i, 0, 0.5) for i in range(10)]
    found = estimate(drawn, [1] * 10, [True] * 8 + [False] * 2)
    assert found is not None
    assert found.share == pytest.approx(0.8)
    assert (found.low, found.high) == pytest.approx((0.5714, 0.9231), abs=2e-4)


def test_all_right_still_has_an_interval_and_a_whole_file_has_none() -> None:
    some = [Drawn(i, 0, 0.1) for i in range(20)]
    found = estimate(some, [1] * 20, [True] * 20)
    assert found is not None
    assert found.high == found.share == 1
    assert 0.8 < found.low < 0.9
    whole = estimate([Drawn(i, 0, 1.0) for i in range(20)], [1] * 20, [True] * 19 + [False])
    assert whole is not None
    assert (whole.low, whole.high) == pytest.approx((0.95, 0.95))


def test_without_a_verdict_the_others_of_the_stratum_stand_for_it() -> None:
    drawn = [Drawn(0, 0, 0.5), Drawn(1, 0, 0.5), Drawn(2, 1, 0.25), Drawn(3, 1, 0.25), Drawn(4, 2, 0.5)]
    # Strata of 4, 8 and 2 answers. The first keeps its weight with one verdict; the third has none at all.
    found = estimate(drawn, [1] * 5, [True, None, False, True, None])
    assert found is not None
    assert found.share == pytest.approx((4 * 1 + 8 * 0.5) / 12)
    assert found.judged == 3
    assert found.coverage == pytest.approx(12 / 14)
    assert estimate(drawn, [1] * 5, [None] * 5) is None
    part = estimate(drawn, [1] * 5, [True, None, False, True, None], [False, False, True, True, False])
    assert part is not None
    assert part.share == pytest.approx(0.5)


@pytest.mark.parametrize(("cells", "counts", "n"), [([("a", 1)], [], 1), ([("a", 1)], [0], 1), ([("a", 1)], [1], 0)])
def test_what_cannot_be_drawn(cells: list[tuple[str, int]], counts: list[int], n: int) -> None:
    with pytest.raises(ValueError, match="draw needs"):
        draw(cells, counts, n, 0)
