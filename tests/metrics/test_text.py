from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.metrics.registry import make_measure
from taxtune.metrics.text import stems

INCLUSION = ["text-inclusion", "text-inclusion-literal"]
NAMES = ["exact-match", "contained", "bleu-2", "rouge-1", "meteor", *INCLUSION]
# Few words, so that random texts share some, in both numbers, with marks that matter to one measure
# or another.
_WORDS = [
    "red",
    "Red",
    "fox",
    "foxes",
    "gray",
    "seal",
    "seals",
    "cat's",
    "cat-like",
    "é",
    "🦊",
    "狐",
    "...",
]
_TEXTS = st.lists(st.sampled_from(_WORDS), max_size=8).map(" ".join)
_SEVERAL = st.lists(_TEXTS, min_size=1, max_size=5)


@pytest.fixture(scope="module")
def measures():
    return {name: make_measure(name) for name in NAMES}


def score(measure, answer, reference):
    (found,) = make_measure(measure).scores([answer], [reference])
    return float(found)


@pytest.mark.parametrize(
    ("answer", "reference", "exact", "contained"),
    [
        ("Gray Seals!", "gray seal", 1, 1),
        ("This is a gray seal.", "Gray seals", 0, 1),
        ("a seal, gray", "gray seal", 0, 0),
        ("grayseal", "seal", 0, 0),
        ("caterpillar", "cat", 0, 0),
        ("", "seal", 0, 0),
    ],
)
def test_exact_match_and_contained(answer, reference, exact, contained):
    assert score("exact-match", answer, reference) == exact
    assert score("contained", answer, reference) == contained


@pytest.mark.parametrize(
    ("answer", "reference", "whole", "literal"),
    [
        ("a hairy caterpillar", "cat", 0, 1),
        ("trash can's canopy", "can", 0, 1),
        ("the trash CAN is full", "can", 1, 1),
        ("a robin’s nest", "robin", 0, 1),
        ("a robin’s nest with a robin", "robin", 1, 1),
        ("Anna's hummingbird", "anna's", 1, 1),
        ("a cat-like thing", "cat", 0, 1),
        ("a red-tailed hawk", "red tailed hawk", 1, 0),
        ("a red tailed hawk", "Red-tailed Hawk", 1, 0),
        ("Leach's Storm-Petrel", "petrel", 1, 1),
        ("a robin—no doubt", "robin", 1, 1),
        ("two cats", "cat", 0, 1),
        ("זה טווס הודי", "טווס", 1, 1),
        ("这是一只猫", "猫", 1, 1),
        ("I see 🐦🐦", "🐦", 1, 1),
        ("", "cat", 0, 0),
    ],
)
def test_text_inclusion_on_word_boundaries_and_as_published(answer, reference, whole, literal):
    assert score("text-inclusion", answer, reference) == whole
    assert score("text-inclusion-literal", answer, reference) == literal


_REAL = [
    ("Collared Swift", "Swifts"),
    ("Swifts and allies", "Collared Swift"),
    ("it is a guide to action which ensures that the military always obeys the commands of the party",
     "it is a guide to action that ensures that the military will forever heed party commands"),
    ("birds birds birds", "birds of prey and birds"),
    ("hawk tailed red", "red tailed hawk"),
    ("falcon", "peregrine falcon"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "reference"), _REAL)
def test_bleu_is_sacrebleus(answer, reference):
    from sacrebleu.metrics import BLEU

    bleu = BLEU(
        max_ngram_order=2,
        smooth_method="add-k",
        smooth_value=1,
        tokenize="none",
        effective_order=True,
    )
    stemmed = " ".join(stems(answer))
    stemmed_reference = " ".join(stems(reference))
    theirs = bleu.sentence_score(stemmed, [stemmed_reference])
    assert score("bleu-2", answer, reference) == pytest.approx(theirs.score / 100)


@pytest.mark.parametrize(("answer", "reference"), _REAL)
def test_rouge_is_that_of_rouge_score_with_its_own_words(answer, reference):
    from rouge_score.rouge_scorer import RougeScorer

    # It stems words of more than three letters only; none of these has a shorter one that stemming
    # would change.
    scorer = RougeScorer(["rouge1"], use_stemmer=True)
    theirs = scorer.score(reference, answer)["rouge1"]
    assert score("rouge-1", answer, reference) == pytest.approx(theirs.recall)


def test_rouge_counts_repeats_in_any_script():
    # Two of the three stems of the reference, and "狐" once of twice.
    assert score("rouge-1", "Foxes, foxes!", "fox fox den") == pytest.approx(2 / 3)
    assert score("rouge-1", "狐 a", "狐狐") == pytest.approx(1 / 2)


@settings(max_examples=60, deadline=None)
@given(answers=_SEVERAL, references=_SEVERAL)
def test_the_matrix_is_the_scores_of_all_pairs(measures, answers, references):
    pairs = list(product(answers, references))
    for name, measure in measures.items():
        table = measure.matrix(answers, references)
        assert table.shape == (len(answers), len(references))
        expected = measure.scores(*zip(*pairs, strict=True))
        np.testing.assert_allclose(table.ravel(), expected, atol=1e-12, err_msg=name)
        known = expected[~np.isnan(expected)]
        assert ((known >= 0) & (known <= 1)).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_without_words_is_unscored_and_counted(name):
    measure = make_measure(name)
    references = ["bird", "", " "]
    unscored = [False, True, True]
    assert np.isnan(measure.scores(["bird"] * 3, references)).tolist() == unscored
    assert np.isnan(measure.matrix(["bird", ""], references)).tolist() == [unscored] * 2
    assert "Pairs left unscored because the reference is empty: 6." in measure.notes
