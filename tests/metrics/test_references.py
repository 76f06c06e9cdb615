"""Several references of an answer: what several people said, and the names of one target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.base import name_scores
from taxtune.metrics.registry import Measure, make_measure

NAMES = st.lists(
    st.sampled_from(["goldfinch", "finch", "red finch", "Carduelis", "owl"]), max_size=4
)
CONSENSUS = ("vqa-accuracy", "soft-vqa-accuracy", "cider", "cider-d")


class Odd(Measure):
    """Needs the question that belongs to the answer; unscored for an empty reference."""

    needs_questions = True

    def scores(self, answers, references, *, questions=None):
        assert list(questions) == list(answers)
        return np.array([len(reference) or np.nan for reference in references], dtype=np.float64)


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_the_best_reference_counts_with_the_question_of_its_answer(
    references,
):
    answers = [f"answer {i}" for i in range(len(references))]
    for scores_of in (Odd.scores_many, name_scores):
        found = scores_of(Odd("odd", "Odd"), answers, references, questions=answers)
        expected = [max(map(len, given), default=np.nan) for given in references]
        np.testing.assert_array_equal(found, expected)


def test_a_reference_that_cannot_be_scored_does_not_hide_another():
    answers = ["a", "b"]
    found = Odd("odd", "Odd").scores_many(answers, [["", "ab", ""], [""]], questions=answers)
    np.testing.assert_array_equal(found, [2, np.nan])


@pytest.mark.parametrize("kind", CONSENSUS)
@given(answer=st.sampled_from(["a goldfinch", "finch", "owl"]), names=NAMES)
def test_a_name_of_a_target_is_no_vote(kind, answer, names):
    measure = make_measure(kind)
    if kind.startswith("cider"):
        measure.fit([["a goldfinch"], ["red finch"], ["owl", "Carduelis"]])
    found = name_scores(measure, [answer], [names])
    single = measure.scores([answer] * len(names), names) if names else np.array([])
    expected = np.nan if np.isnan(single).all() else np.nanmax(single)
    np.testing.assert_allclose(found, [expected])
