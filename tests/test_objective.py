import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.table import TemplateScores, with_derived
from taxtune.objective import Aims, Constraint, make_objective, read_floor

# With 20 images on a tree of depth d, means are multiples of 1/(20 d): far apart from the millionth that breaks ties.
share = st.integers(0, 1000).map(lambda n: n / 1000)


def scores(hp, hr, accuracy=0.5):
    means = {"hp": hp, "hr": hr, "accuracy": accuracy, "depth": 3.0}
    return TemplateScores(n=20, means=with_derived(means))


@given(share, share, share, share)
def test_hp_orders_by_floor_then_hp(hp_a, hr_a, hp_b, hr_b):
    objective = make_objective("hp", aims=Aims(read_floor(0.5)))

    def key(hp, hr):
        return (True, hp) if hr >= 0.5 else (False, hr)

    a = objective.value(scores(hp_a, hr_a))
    b = objective.value(scores(hp_b, hr_b))
    assert (a < b) == (key(hp_a, hr_a) < key(hp_b, hr_b))


def test_a_given_floor_is_kept_and_met_by_equality():
    objective = make_objective("hp", aims=Aims(read_floor(0.7)))
    assert objective.constraints == (Constraint("hr", 0.7),)
    assert objective.feasible(scores(1.0, 0.7))


def test_a_share_is_of_the_baselines():
    objective = make_objective("hp")
    assert objective.constraints == (Constraint("hr", 0.8, of="baseline"),)
    baseline = scores(0.9, 0.5)
    below = scores(1.0, 0.39)
    assert objective.feasible(scores(1.0, 0.4), baseline)
    assert not objective.feasible(below, baseline)
    assert objective.value(below, baseline) == pytest.approx(-0.01)
    assert objective.feasible(scores(1.0, 0.0)), "as long as nothing is known of the baseline"


def test_hr_at_hp_orders_by_what_is_missed_then_by_hr():
    objective = make_objective("hr_at_hp", aims=Aims(hp_target=0.95, confidence=0.8))
    assert objective.constraints == (Constraint("hp", 0.95, 0.8),)
    far = scores(0.5, 0.9)
    near = scores(0.94, 0.9)
    timid = scores(1.0, 0.3)
    best = scores(0.95, 0.31)
    order = [far, near, timid, best]
    assert sorted(order, key=objective.value) == order
