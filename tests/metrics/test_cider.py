from __future__ import annotations

import math
import random

import numpy as np
import pytest

from taxtune.metrics.consensus import Cider
from taxtune.metrics.registry import make_measure
from taxtune.metrics.text import stems, tokens

PUBLISHED = {
    "a red bird on a branch": ["a red bird sits on a branch", "a bird on the branch of an oak"],
    "two small lakes in spring": ["small lakes seen in spring"],
    "a bird on the branch of an oak": ["an oak near two lakes", "birds on the branch of an oak"],
    "a a a a red red oak": ["a red oak a red oak"],
    "a bird": ["a red bird on the branch of an oak near two small lakes in spring"],
}
#: What pycocoevalcap 1.2 prints for these answers and references (CiderScorer over our words), / 10.
PUBLISHED_SCORES = [
    0.30864280851176357,
    0.21882710123419233,
    0.1694196709021498,
    0.22544149027851298,
    0.009363724791063736,
]


def measure(kind="cider"):
    made = make_measure(kind)
    assert isinstance(made, Cider)
    return made


def by_the_formula(kind, answer, references, documents):
    """The definition, summed over all n-grams that there are, one pair at a time."""
    clipped = kind == "cider-d"
    split = tokens if clipped else stems

    def grams(text, n):
        words = split(text)
        return [words[i : i + n] for i in range(len(words) - n + 1)]

    def weights(text, terms, n):
        weights = []
        for term in terms:
            having = 0
            for document in documents:
                having += any(term in grams(other, n) for other in document)
            rarity = math.log(len(documents) / max(1, having))
            weights.append(grams(text, n).count(term) * rarity)
        return np.array(weights)

    total = 0.0
    for reference in references:
        difference = len(split(answer)) - len(split(reference))
        penalty = math.exp(-(difference**2) / 72) if clipped else 1
        for n in (1, 2, 3, 4):
            terms = sorted({*grams(answer, n), *grams(reference, n)})
            a = weights(answer, terms, n)
            b = weights(reference, terms, n)
            norms = np.linalg.norm(a) * np.linalg.norm(b)
            if norms:
                matched = np.minimum(a, b) if clipped else a
                total += penalty * float(matched @ b) / norms / 4
    return total / len(references)


def made_up(seed, n):
    """Answers and one to four references of each."""
    rng = random.Random(seed)
    # So few that whole runs of four stand in several documents.
    words = ["a", "red", "bird", "birds", "🐦"]

    def text(least):
        return " ".join(rng.choices(words, k=rng.randint(least, 9)))

    answers = [text(0) for _ in range(n)]
    documents = []
    for _ in range(n):
        documents.append([text(1) for _ in range(rng.randint(1, 4))])
    return answers, documents


@pytest.mark.parametrize("kind", ["cider", "cider-d"])
def test_the_formula_pair_by_pair(kind):
    answers, documents = made_up(0, 25)
    found = measure(kind).scores_many(answers, documents)
    expected = []
    for answer, given in zip(answers, documents, strict=True):
        expected.append(by_the_formula(kind, answer, given, documents))
    assert found == pytest.approx(expected, abs=1e-12)
    assert len({round(score, 6) for score in expected}) > 15


def test_digits_of_the_published_code():
    answers = list(PUBLISHED)
    references = list(PUBLISHED.values())
    found = measure("cider-d").scores_many(answers, references)
    assert found == pytest.approx(PUBLISHED_SCORES, abs=1e-12)


def test_references_that_cannot_be_compared_are_left_out_and_counted():
    some = measure()
    references = [["red", "...", "the"], ["the"], ["…"], ["the fox"]]
    scores = some.scores_many(["red", "red", "red", ""], references)
    # Three documents have words, all of them "the"; what remains of the first is its first
    # reference.
    np.testing.assert_array_equal(scores, [0.25, np.nan, np.nan, 0])
    assert len(some.notes) == 2
    assert some.notes[0] == "2 pairs unscored: the reference has no words."
    assert some.notes[1].startswith("2 pairs unscored: every n-gram of the reference is in")
    unscored = some.scores_many(["red", "fox"], [[], ["fox"]])
    assert np.isnan(unscored).all()


@pytest.mark.parametrize("kind", ["cider", "cider-d"])
def test_a_matrix_takes_each_reference_for_a_document(kind):
    answers, documents = made_up(1, 20)
    references = [given[0] for given in documents]
    references.append("...")
    table = measure(kind).matrix(answers, references)
    pairs = measure(kind)
    pairs.fit([[reference] for reference in references])
    for row, answer in zip(table, answers, strict=True):
        expected = pairs.scores([answer] * 21, references)
        np.testing.assert_allclose(row, expected, atol=1e-12)
    assert np.isnan(table[:, 20]).all()
    again = measure(kind)
    np.testing.assert_array_equal(again.matrix(answers, references), table)
    assert again.notes == ("20 pairs unscored: the reference has no words.",)
    assert again.matrix([], ["x"]).shape == (0, 1)
    assert again.matrix(["x"], []).shape == (1, 0)


def test_what_was_fitted_weighs_whatever_is_scored_together():
    answers, documents = made_up(2, 30)
    whole = measure().scores_many(answers, documents)
    fitted = measure()
    fitted.fit(documents)
    again = fitted.scores_many(answers, documents)
    np.testing.assert_array_equal(again, whole)
    two = answers[3:5]
    own = documents[3:5]
    scores = fitted.scores_many(two * 2, own * 2)
    np.testing.assert_allclose(scores, np.tile(whole[3:5], 2))
    unfitted = measure().scores_many(two, own)
    assert unfitted[0] != pytest.approx(whole[3])


def test_all_documents_twice_change_no_weight_of_what_they_hold():
    _, documents = made_up(2, 30)
    # Only an n-gram of no document weighs more.
    known = [given[0] for given in documents[1:] + documents[:1]]
    once = measure().scores_many(known, documents)
    twice = measure().scores_many(known * 2, documents * 2)
    assert twice == pytest.approx(np.tile(once, 2))


def test_the_identity_names_the_documents():
    assert measure().identity()["documents"] == "the references scored together"
    fitted = measure()
    fitted.fit([["a"], ["b"]])
    assert str(fitted.identity()["documents"]).startswith("sha256:")
    other = measure()
    other.fit([["a"], ["x"]])
    assert other.identity() != fitted.identity()
