import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.hierarchical import harmonic_mean
from taxtune.tuning.objective import make_objective
from taxtune.tuning.records import TemplateScores

# With 20 images on a tree of depth d, means are multiples of 1/(20 d): far apart from the millionth that breaks ties.
share = st.integers(0, 1000).map(lambda n: n / 1000)


def scores(hp: float, hr: float, accuracy: float = 0.5) -> TemplateScores:
    return TemplateScores(hp, hr, harmonic_mean(hp, hr), accuracy, 3.0, 20)


@given(share, share, share, share)
def test_hp_orders_by_floor_then_hp_then_hr(hp_a, hr_a, hp_b, hr_b):
    objective = make_objective("hp", hr_floor=0.5)

    def key(hp, hr):
        return (True, hp, hr) if hr >= 0.5 else (False, hr, 0.0)

    a, b = objective.value(scores(hp_a, hr_a)), objective.value(scores(hp_b, hr_b))
    assert (a < b) == (key(hp_a, hr_a) < key(hp_b, hr_b))


def test_the_trivial_answer_does_not_win():
    objective = make_objective("hp", hr_floor=None, trivial_hr=0.5)
    trivial, useful = scores(1.0, 0.5), scores(0.9, 0.8)
    assert not objective.feasible(trivial)
    assert objective.value(useful) > objective.value(trivial)


def test_a_given_floor_is_kept_and_met_by_equality():
    objective = make_objective("hp", hr_floor=0.7, trivial_hr=0.5)
    assert objective.hr_floor == 0.7
    assert objective.feasible(scores(1.0, 0.7))


def test_the_floor_never_passes_one():
    assert make_objective("hp", hr_floor=None, trivial_hr=1.0).feasible(scores(1.0, 1.0))


@pytest.mark.parametrize(("kind", "expected"), [("hf", harmonic_mean(0.9, 0.6)), ("accuracy", 0.5)])
def test_the_other_objectives_have_no_floor(kind, expected):
    objective = make_objective(kind, hr_floor=0.7, trivial_hr=0.5)
    assert objective.hr_floor is None
    assert objective.feasible(scores(0.9, 0.1))
    assert objective.value(scores(0.9, 0.6)) == expected
