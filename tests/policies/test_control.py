from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from taxtune.fieldguide import TAXONOMY_FILE
from taxtune.metrics import p_value, precision_recall, score
from taxtune.policies import Vote, control_risk, images_needed, worst_loss
from taxtune.taxonomy import Taxonomy, read_taxonomy

VOTES = Path(__file__).parents[2] / "benchmarks" / "landscapes" / "votes-shipped.npz"
SPLITS = 1000


@pytest.fixture(scope="module")
def birds() -> Taxonomy:
    return read_taxonomy(TAXONOMY_FILE, names=False)


@pytest.fixture(scope="module")
def recorded() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nodes, shape (400, 16), and targets of the field guide's baseline at temperature 1 (`votes.py`)."""
    with np.load(VOTES) as arrays:
        return arrays["nodes"].T.astype(np.int64), arrays["targets"].astype(np.int64)


@pytest.fixture(scope="module")
def losses(birds: Taxonomy, recorded: tuple[NDArray[np.int64], NDArray[np.int64]]) -> NDArray[np.float64]:
    """1 - hP of always answering the root, and at the eight shares that differ with 8 answers; shape (9, 400)."""
    nodes, target = recorded
    off = np.zeros((len(nodes), 8), dtype=bool)
    places = [Vote(8, votes / 8).place(birds, nodes[:, :8], off).nodes for votes in range(8, 0, -1)]
    return np.array([np.zeros(len(target)), *(1 - precision_recall(birds, each, target)[0] for each in places)])


def test_eight_answers_of_the_baseline_are_as_good_as_measured(
    birds: Taxonomy, recorded: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> None:
    nodes, target = recorded
    off = np.zeros((len(nodes), 8), dtype=bool)
    found = [score(birds, Vote(8, 0.7).place(birds, some, off).nodes, target) for some in (nodes[:, :8], nodes[:, 8:])]
    assert np.mean([each.hp for each in found]) == pytest.approx(0.986, abs=0.004)
    assert np.mean([each.hr for each in found]) == pytest.approx(0.854, abs=0.012)
    direct = score(birds, nodes[:, 0], target)
    assert direct.hp < min(each.hp for each in found) - 0.03


def chosen_risks(losses: NDArray[np.float64], n: int, risk: float, confidence: float | None) -> NDArray[np.float64]:
    """The mean loss, on all images, of what each of many draws of calibration images chose."""
    rng = np.random.default_rng(0)
    means = losses.mean(axis=1)
    found = []
    for _ in range(SPLITS):
        drawn = losses[:, rng.integers(losses.shape[1], size=n)]
        levels = control_risk(drawn, risk, confidence, worst=0.75)
        # Where not even the root is certain to keep the promise, it keeps it none the less: it has no loss.
        found.append(means[max(0, sum(level.kept for level in levels) - 1)])
    return np.array(found)


@pytest.mark.parametrize(("n", "risk"), [(60, 0.02), (200, 0.02), (200, 0.01), (400, 0.04)])
def test_the_risk_is_kept_in_expectation(losses: NDArray[np.float64], n: int, risk: float) -> None:
    risks = chosen_risks(losses, n, risk, None)
    assert risks.mean() <= risk + 3 * risks.std() / math.sqrt(SPLITS)
    assert (risks > 0).mean() > 0.5, "the promise must not be kept by answering the root alone"


@pytest.mark.parametrize(("n", "risk", "confidence"), [(200, 0.02, 0.9), (400, 0.02, 0.9), (400, 0.04, 0.8)])
def test_the_risk_is_kept_with_the_confidence(
    losses: NDArray[np.float64], n: int, risk: float, confidence: float
) -> None:
    risks = chosen_risks(losses, n, risk, confidence)
    level = 1 - confidence
    assert (risks > risk).mean() <= level + 3 * math.sqrt(level * confidence / SPLITS)
    assert (risks > 0).mean() > 0.5


def test_without_control_the_risk_is_not_kept(losses: NDArray[np.float64]) -> None:
    """The tests above can fail: a share taken for its mean on the calibration images breaks the promise."""
    rng = np.random.default_rng(0)
    means = losses.mean(axis=1)
    naive = []
    for _ in range(SPLITS):
        drawn = losses[:, rng.integers(losses.shape[1], size=200)]
        naive.append(means[(drawn.mean(axis=1) <= 0.02).sum() - 1])
    assert (np.array(naive) > 0.02).mean() > 0.2


def test_levels_stop_at_the_first_that_is_not_kept() -> None:
    losses = np.zeros((4, 100))
    losses[2, :20] = 0.5
    losses[3, :20] = 0.6
    in_expectation = control_risk(losses, 0.02)
    assert [level.kept for level in in_expectation] == [True, True, False, False]
    assert in_expectation[0].bound == pytest.approx(1 / 101)
    assert in_expectation[2].bound == pytest.approx(11 / 101)
    assert in_expectation[2].loss == pytest.approx(0.1)
    confident = control_risk(losses, 0.05, 0.9)
    assert [level.kept for level in confident] == [p_value(row, 0.05) <= 0.1 for row in losses]
    assert confident[0].bound < confident[2].bound


@pytest.mark.parametrize(("risk", "confidence", "worst"), [(0.02, None, 1.0), (0.02, 0.9, 0.75), (0.1, 0.99, 1.0)])
def test_so_many_images_are_needed_at_best(risk: float, confidence: float | None, worst: float) -> None:
    n = images_needed(risk, confidence, worst=worst)
    (enough,) = control_risk(np.zeros((1, n)), risk, confidence, worst=worst)
    (few,) = control_risk(np.zeros((1, n - 1)), risk, confidence, worst=worst)
    assert enough.kept
    assert not few.kept


def test_the_worst_loss_is_that_of_the_deepest_wrong_node(birds: Taxonomy) -> None:
    assert worst_loss(birds) == 0.75
    assert worst_loss(Taxonomy(["root"], [-1])) == 0.5


@pytest.mark.parametrize(
    ("losses", "risk"),
    [([[0.5, 0.2], [0.1, 0.3]], 0.1), ([[0.5, 1.5]], 0.1), ([[]], 0.1), ([[float("nan")]], 0.1), ([[0.5]], 0.0)],
)
def test_what_is_no_nested_loss_is_refused(losses: list[list[float]], risk: float) -> None:
    with pytest.raises(ValueError, match=r"loss|risk"):
        control_risk(losses, risk)
