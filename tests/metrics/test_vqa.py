from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk import edit_distance

from taxtune.metrics.consensus import character_similarity, normalise_answer
from taxtune.metrics.registry import make_measure

WORDS = st.sampled_from(["yes", "no", "2", "red", "a red", "two"])


# The benchmark's rules (Antol et al., 2015), worked out by hand.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two dogs.", "2 dogs"),
        ("none", "0"),
        ("ten", "10"),
        ("eleven", "eleven"),
        ("The cat and an owl", "cat and owl"),
        ("T-shirt", "t shirt"),
        ("red, white", "red white"),
        ("red,white", "red white"),
        ("1,000", "1000"),
        ("1,000-2,000", "10002000"),
        ("3.5", "3.5"),
        ("o.k.", "ok"),
        ("yes/no", "yes no"),
        ("(left)", "left"),
        ("dont know", "don't know"),
        ("it's", "it's"),
        ("were", "were"),
        ("this is here", "this is here"),
        ("Im sure its theirs", "i'm sure its theirs"),
        ("a-b(-c)", "b c"),
        ("10:30 am", "10:30 am"),
        ("new\nline\ttab", "new line tab"),
        ("a", ""),
        ("", ""),
        ("قطة!", "قطة"),
        ("🐱?", "🐱"),
    ],
)
def test_normalisation(text, expected):
    assert normalise_answer(text) == expected


def test_accuracy_by_hand():
    vqa = make_measure("vqa-accuracy")
    said_by_two = ["red"] * 2 + ["blue"] * 8
    # Two of the ten subsets leave one of the two out (1/3), eight leave both in (2/3).
    expected = [(2 * 1 / 3 + 8 * 2 / 3) / 10, 1, 0]
    found = vqa.scores_many(["Red.", "blue", "green"], [said_by_two] * 3)
    assert found == pytest.approx(expected)
    said_by_three = ["red"] * 3 + ["x"] * 7
    found = vqa.scores_many(["RED"], [said_by_three])
    assert found == pytest.approx([(3 * 2 / 3 + 7 * 1) / 10])


@given(WORDS, st.lists(WORDS, min_size=2, max_size=10))
def test_accuracy_against_the_definition(answer, references):
    wanted = normalise_answer(answer)
    same = [normalise_answer(reference) == wanted for reference in references]
    subsets = combinations(same, len(same) - 1)
    accuracies = [min(sum(subset) / 3, 1) for subset in subsets]
    found = make_measure("vqa-accuracy").scores_many([answer], [references])
    assert found == pytest.approx([np.mean(accuracies)])


@given(st.text(max_size=12), st.text(min_size=1, max_size=12))
def test_similarity_against_nltk(answer, reference):
    errors = edit_distance(answer, reference) / len(reference)
    expected = max(0.0, 1 - errors)
    assert character_similarity(answer, reference) == pytest.approx(expected)


def test_no_reference_is_unscored_and_few_are_told():
    vqa = make_measure("vqa-accuracy")
    assert np.isnan(vqa.scores_many(["cat"], [[]]))
    assert vqa.notes == ()
    found = vqa.scores_many(["cat"], [["cat", "cat"]])
    assert found == pytest.approx([1 / 3])
    assert "two or three references" in vqa.notes[0]
