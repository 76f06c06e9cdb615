"""The paper's presets against plain transcriptions of its listing (§11) and of its prose (§6)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.mapper import TRANSCRIPTIONS, PlainListing, texts_for
from taxtune.mapping import Mapper, MapperConfig, Stage
from taxtune.mapping.config import PAPER_PRESETS
from taxtune.mapping.paper import elect, top_k
from taxtune.taxonomy import Taxonomy

both = pytest.mark.parametrize("preset", PAPER_PRESETS)


def assert_same_places(mapper, texts, rows):
    """Places texts by their scores as the transcription does; returns the stages that decided."""
    reference = TRANSCRIPTIONS[mapper.config.preset](mapper.taxonomy, mapper.config)
    stages = set()
    for text, row in zip(texts, rows, strict=True):
        placement = mapper.place_scored(text, row)
        stages.add(placement.stage)
        assert placement.node == reference.place(text, row), text
    return stages


@both
@pytest.mark.parametrize("digits", [7, 2, 1])
def test_places_as_the_transcription_does_ties_included(nature, digits, preset):
    mapper = Mapper(nature, config=MapperConfig(preset=preset))
    texts = texts_for(nature, None, 300, seed=digits)
    rows = np.round(mapper.node_scores(texts), digits)
    stages = assert_same_places(mapper, texts, rows)
    assert {Stage.VERBATIM, Stage.SIMILARITY} <= stages


WORDS = ["an", "ant", "plant", "red", "owl", "sea", "lion", "of"]


def random_tree(rng, size=200):
    labels = ["root"]
    for i in range(size):
        name = " ".join(rng.choices(WORDS, k=rng.randint(3, 5)))
        labels.append(f"{name} {i}" if i % 3 == 0 else name)
    seen = set()
    parents = [-1]
    for i, name in enumerate(labels[1:], 1):
        parent = rng.randrange(i)
        while (parent, name) in seen:
            parent = rng.randrange(i)
        seen.add((parent, name))
        parents.append(parent)
    return Taxonomy(labels, parents)


@both
def test_places_random_words_as_the_transcription_does(preset):
    rng = random.Random(0)
    taxonomy = random_tree(rng)
    config = MapperConfig(preset=preset, thr_top2=0.05, thr_topk=0.05, thr_vote=2)
    texts = []
    rows = []
    for _ in range(400):
        words = " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))
        texts.append(rng.choice([words, "zebra quagga", "lion of nowhere", "x"]))
        row = np.array([rng.random() for _ in taxonomy.labels], dtype=np.float32)
        rows.append(np.round(row, rng.choice([1, 2, 7])))
    stages = assert_same_places(Mapper(taxonomy, config=config), texts, rows)
    assert stages >= {Stage.VERBATIM, Stage.NGRAM, Stage.VOTE}


@st.composite
def elections(draw):
    """A random tree, and scores of its nodes of which few are distinct."""
    rng = random.Random(draw(st.integers(0, 50)))
    distinct = draw(st.integers(1, 3))
    tree = random_tree(rng, 40)
    scores = [rng.randrange(distinct) / 1e4 for _ in tree.labels]
    return tree, np.array(scores, dtype=np.float32)


@settings(deadline=None)
@given(elections(), st.integers(2, 12), st.integers(1, 6))
def test_the_prose_elects_the_deepest_node_with_the_votes(election, k, least):
    tree, row = election
    top = top_k(row, k)
    elected = elect(tree, row, top, MapperConfig(preset="paper-prose", k=k, thr_vote=least))
    # The default mapper's vote is the prose's.
    assert elected == elect(tree, row, top, MapperConfig(k=k, thr_vote=least))
    if least > k:
        assert elected is None
        return
    votes = np.array([tree.is_ancestor(node, top).sum() for node in range(len(tree))])
    assert elected is not None  # the root always has k votes
    assert votes[elected] >= least
    assert max(tree.depth[votes >= least]) == tree.depth[elected]


@settings(deadline=None)
@given(elections(), st.integers(2, 12), st.integers(1, 6))
def test_the_listing_elects_the_root_or_nothing(election, k, least):
    tree, row = election
    config = MapperConfig(preset="paper-listing", k=k, thr_vote=least)
    placed = PlainListing(tree, config).place("xyzzy", row)
    top = top_k(row, k)
    most = np.bincount(tree.depth[top]).max()
    assert placed == (0 if most > least else top[0])


def test_where_listing_and_prose_part(nature):
    """Of ten equal species four are corvids: the prose has the family, the listing the root."""
    species = [v for v in nature.leaves.tolist() if nature.depth[v] == 6]

    def placed(preset, nodes):
        row = np.zeros(len(nature), dtype=np.float32)
        row[nodes] = 0.5
        placement = Mapper(nature, config=MapperConfig(preset=preset)).place_scored("xyzzy", row)
        assert placement.stage is Stage.VOTE
        return nature.labels[placement.node]

    assert placed("paper-listing", species[:10]) == "life"
    assert placed("paper-prose", species[:10]) == "Corvidae"
    # Three corvids are too few; their order has three more birds.
    jay = next(v for v in species if nature.labels[v] == "Cyanocitta cristata")
    assert placed("paper-prose", [v for v in species[:11] if v != jay]) == "Passeriformes"


def test_the_listing_s_quirks_are_kept(nature):
    for preset in PAPER_PRESETS:
        literal = Mapper(nature, config=MapperConfig(preset=preset))
        # It has "ant" as a raw substring.
        assert literal.place_one("elephant").path[-1] == "Formicidae"
        assert literal.config.off_tree == "root"
    assert Mapper(nature).place_one("elephant").off_tree


@both
def test_a_blank_answer_is_an_abstention(nature, preset):
    assert Mapper(nature, config=MapperConfig(preset=preset)).place_one(" - ").abstained


class Spy:
    """A similarity that keeps what it is given."""

    name = "spy"
    needs_images = False
    confident = 0.0

    def fit(self, names):
        self.names = list(names)

    def scores(self, answers, images=None):
        self.answers = list(answers)
        return np.zeros((len(self.answers), len(self.names)), dtype=np.float32)


@pytest.mark.parametrize(
    ("preset", "names", "answer"),
    [
        ("default", {"Steller's Jay", "Red-bellied Woodpecker"}, "A zyzzyva-like Thing!"),
        ("paper-listing", {"stellers jay", "red bellied woodpecker"}, "a zyzzyva like thing"),
        ("paper-prose", {"stellers jay", "red bellied woodpecker"}, "a zyzzyva like thing"),
    ],
)
def test_the_paper_s_similarities_compare_normalised_text(nature, preset, names, answer):
    spy = Spy()
    Mapper(nature, spy, MapperConfig(preset=preset)).node_scores(["A zyzzyva-like Thing!"])
    assert names <= set(spy.names)
    assert spy.answers == [answer]


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=3000), st.integers(1, 12))
def test_top_k_is_a_stable_sort(scores, k):
    row = np.array(scores, dtype=np.float32)
    assert top_k(row, k).tolist() == np.argsort(-row, kind="stable")[:k].tolist()
