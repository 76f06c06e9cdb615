from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nltk.translate.meteor_score import single_meteor_score

from taxtune.metrics.registry import make_measure
from taxtune.metrics.text import tokens
from taxtune.wordnet import ENVIRONMENT, find_wordnet
from tests.small_wordnet import write_wordnet

WORDS = st.sampled_from(["car", "cars", "automobile", "motorcar", "bird", "birds", "red", "on"])
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
SEVERAL = st.lists(TEXTS, min_size=1, max_size=4)


@pytest.fixture
def plain(monkeypatch):
    """METEOR without synonyms."""
    monkeypatch.setenv(ENVIRONMENT, "none")
    return make_measure("meteor")


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(answers=SEVERAL, references=SEVERAL)
def test_the_matrix_leaves_out_no_pair_that_matches(answers, references, tiny_wordnet):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(tiny_wordnet))
        measure = make_measure("meteor")
        found = find_wordnet()
    assert found is not None
    table = measure.matrix(answers, references)
    for i, answer in enumerate(answers):
        for j, reference in enumerate(references):
            words = answer.split()
            theirs = single_meteor_score(reference.split(), words, wordnet=found.reader)
            assert table[i, j] == theirs


def test_meteor_of_nltks_own_example(plain):
    answer = "It is a guide to action which ensures that the military always obeys the commands of the party"
    reference = (
        "It is a guide to action that ensures that the military will forever heed Party commands"
    )
    # nltk documents 0.6944 with WordNet; no synonym plays a part in it.
    assert plain.scores([answer], [reference]) == pytest.approx(0.6944, abs=5e-5)
    unlike = plain.scores(["non matching hypothesis"], ["this is a cat"])
    assert unlike.tolist() == [0]
    assert len(tokens(answer)) == 18


def test_with_wordnet_synonyms_count(tiny_wordnet, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(tiny_wordnet))
    measure = make_measure("meteor")
    assert measure.notes == ("METEOR's synonyms are from WordNet 3.0.",)
    assert measure.identity()["synonyms"] == "WordNet 3.0"
    # "car", the stem of "cars", has the synonym "motorcar"; one word of one scores a half. nltk
    # looks stems up, and "automobil" is no word of WordNet.
    scores = measure.scores(["cars", "red", "automobile"], ["motorcar"] * 3)
    assert scores.tolist() == [0.5, 0.0, 0.0]
    found = find_wordnet()
    assert found is not None
    assert single_meteor_score(["motorcar"], ["cars"], wordnet=found.reader) == 0.5
    table = measure.matrix(["cars", "red"], ["motorcar", "red", "bird"])
    assert table.tolist() == [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]


@pytest.fixture
def tiny_wordnet(tmp_path):
    """The folder of a WordNet of one noun."""
    car = ("car", ("car", "automobile", "motorcar"), "a motor vehicle", ())
    return write_wordnet(tmp_path / "wordnet", [car])


# -- the real WordNet ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reference", "with_synonyms", "without"),
    [
        ("two cars", "a car", 0.25, 0.25),  # the stem decides
        ("ladybugs", "ladybird", 0.5, 0.0),  # the synonym of the stem; one match of one is a half
        # P = 1/3, R = 1/2 and one chunk of one; "small" is a synonym of "little", but not of its
        # stem "littl".
        ("a small sofa", "little couch", (1 / 6) / (0.9 / 3 + 0.1 / 2) / 2, 0.0),
        (
            "grey seals",
            "gray seal",
            1 - 0.5 / 8,
            0.25,
        ),  # a chunk of two, where "seal" alone is one of two words
        ("automobile", "car", 0.0, 0.0),  # nltk looks up the stem "automobil", which is no word
        ("cougar", "mountain lion", 0.0, 0.0),  # synonyms of two words are left out
    ],
)
def test_which_stage_decides(
    answer,
    reference,
    with_synonyms,
    without,
    plain,
    wordnet,
):
    found = plain.scores([answer], [reference])
    assert found == pytest.approx([without])
    found = make_measure("meteor").scores([answer], [reference])
    assert found == pytest.approx([with_synonyms])
    assert wordnet.version.startswith("3.")
