"""Average precisions of all labels: by hand, and against networkx and scikit-learn."""

from __future__ import annotations

from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval
from taxtune.studies.granularity.hierarchy import (
    QUANTITIES,
    from_children,
    from_leaves,
    hierarchy,
    hierarchy_report,
)
from taxtune.studies.granularity.matrices import ScoreMatrix, matched
from taxtune.taxonomy import Taxonomy
from tests.studies.reports import cells, marks, records
from tests.trees import outlined

Array = NDArray[Any]

TREE = outlined("animal: feline, canine", "feline: lion, tiger", "canine: wolf, fox")
#: Four images, one per leaf; columns animal, feline, canine, lion, tiger, wolf, fox.
LION = [0.1, 0.2, 0.6, 0.9, 0.3, 0.1, 0.2]
TIGER = [0.1, 0.5, 0.4, 0.8, 0.4, 0.2, 0.1]
WOLF = [0.1, 0.4, 0.1, 0.1, 0.1, 0.7, 0.3]
FOX = [0.1, 0.3, 0.5, 0.2, 0.2, 0.6, 0.5]
SCORES = np.array([LION, TIGER, WOLF, FOX])


def ranked(scores=SCORES, targets=(3, 4, 5, 6), tree=TREE, resamples=0, **more):
    matrix = ScoreMatrix("made", np.array(targets), scores.astype(np.float32))
    return hierarchy(matrix, tree, resamples=resamples, **more)


def estimates(result, *names):
    return [result.intervals[name].estimate for name in names]


def test_a_case_by_hand():
    result = ranked()
    labels = result.labels
    # Leaves: each column ranks its own image first.
    assert labels["raw"][3:].tolist() == [1, 1, 1, 1]
    # feline raw, descending: tiger +, wolf −, fox −, lion + -> (1/1 + 2/4) / 2; canine: lion −, fox +, tiger −, wolf +.
    assert labels["raw"][:3].tolist() == pytest.approx([1, 0.75, 0.5])
    # feline by its leaves: max(lion, tiger) = 0.9, 0.8, 0.1, 0.2 -> perfect; canine 0.2, 0.2, 0.7, 0.6 -> perfect.
    assert labels["leaf"][:3].tolist() == [1, 1, 1]
    # The root is positive everywhere: 1 by any scores. Children of feline and canine are leaves: eqs. 2 and 3 agree.
    assert labels["child"].tolist() == labels["leaf"].tolist()
    expected = [1, 1, (1 + 0.75 + 0.5) / 3, 0.25, 0.25]
    names = ("Leaves", "Anc leaf", "Anc raw", "Δ leaf", "Δ child")
    assert estimates(result, *names) == pytest.approx(expected)
    assert any("every image shows" in note and "kept" in note for note in result.notes)
    less = ranked(trivial="leave-out")
    assert estimates(less, "Anc raw") == pytest.approx([(0.75 + 0.5) / 2])


def test_labels_without_images_are_left_out_and_counted_but_take_part():
    # No image of the tiger: its score still reaches the feline.
    some = SCORES[[0, 2, 3]].copy()
    result = ranked(some, (3, 5, 6))
    assert np.isnan(result.labels["raw"][4])
    assert (result.averaged()["kind"] == "leaf").sum() == 3
    assert any("1 of 7 labels left out" in note for note in result.notes)
    some[1, 4] = 2.0  # the wolf's image scores high as a tiger
    assert ranked(some, (3, 5, 6)).labels["leaf"][1] < result.labels["leaf"][1]


def test_scores_that_are_all_equal_rank_nothing_and_are_told():
    result = ranked(np.ones((4, 7)), resamples=10)
    assert result.labels["raw"].tolist() == [1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    assert estimates(result, "Δ leaf") == [0]
    assert any(note.startswith("6 of 7 labels have the same score") for note in result.notes)


def test_intervals_follow_the_seed_and_gaps_are_paired():
    rng = np.random.default_rng(5)
    targets = rng.choice([3, 4, 5, 6], size=120)
    scores = rng.normal(size=(120, 7))
    scores[np.arange(120), targets] += 1.0
    first = ranked(scores, targets, resamples=100, seed=2).intervals
    assert ranked(scores, targets, resamples=100, seed=2).intervals == first
    assert ranked(scores, targets, resamples=100, seed=3).intervals != first
    assert list(first) == list(QUANTITIES)
    for interval in first.values():
        assert interval.low < interval.estimate < interval.high
    # Ancestors that score what their leaves score: the means vary from resample to resample, the gap never.
    paired = ranked(from_leaves(scores, TREE), targets, resamples=30).intervals
    assert paired["Anc raw"].high > paired["Anc raw"].low
    assert paired["Δ leaf"] == Interval(0.0, 0.0, 0.0)


def test_the_report():
    report = hierarchy_report([ranked(resamples=5)], {"seed": 0, "resamples": 5})
    (row,) = records(report, "granularity")
    assert cells(row, "images", "n leaves", "n anc", "improved") == (4, 4, 3, 2)
    assert row["Anc raw"] == pytest.approx(75)
    assert [row["quantity"] for row in records(report, "intervals")] == list(QUANTITIES)
    root, inner, leaves = records(report, "levels")
    counts = ("level", "n leaves", "n anc")
    assert cells(root, *counts) == (0, 0, 1)
    assert cells(inner, *counts, "Δ leaf") == pytest.approx((1, 0, 2, 37.5))
    assert cells(leaves, *counts, "Anc raw") == (2, 4, 0, None)
    assert report.as_json()["labels"]["made"][1]["path"] == "animal/feline"
    (axes,) = report.figures["granularity-levels"]().axes
    drawn = marks(axes)
    assert drawn.pop("leaves") == [100]
    assert drawn == {"ancestors": [100, 62.5], "ancestors, by leaves": [100, 100]}


def test_a_flat_tree_has_only_leaves_to_draw():
    flat = outlined("animal: lion, wolf")
    bare = ranked(SCORES[:2, :3], (1, 2), flat, trivial="leave-out", resamples=5)
    (axes,) = hierarchy_report([bare], {}).figures["granularity-levels"]().axes
    assert list(marks(axes)) == ["leaves"]


def test_one_class_is_an_error():
    with pytest.raises(DataError, match="do not show two leaves"):
        ranked(targets=(3, 3, 3, 3))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 10), min_size=2, max_size=11), st.integers(0, 10_000))
def test_it_is_what_networkx_and_scikit_learn_say(above, seed):
    parents = [-1, *(min(parent, child) for child, parent in enumerate(above))]
    tree = Taxonomy([f"n{i}" for i in range(len(parents))], parents)
    if len(tree.leaves) < 2:
        return
    rng = np.random.default_rng(seed)
    graph = nx.DiGraph((parent, child) for child, parent in enumerate(parents) if child)
    targets = np.r_[tree.leaves[:2], rng.choice(tree.leaves, size=8)].tolist()
    raw = rng.integers(0, 4, size=(10, len(tree))).astype(np.float32)  # few values: many ties
    before = raw.copy()
    result = ranked(raw, targets, tree)
    rules = {"raw": raw, "child": from_children(raw, tree), "leaf": from_leaves(raw, tree)}
    assert np.array_equal(raw, before)
    leaves = set(tree.leaves.tolist())
    means = {}
    for node in graph:
        below = nx.descendants(graph, node)
        truth = [target == node or target in below for target in targets]
        children = list(graph.successors(node))
        sources = {"raw": [node], "child": children, "leaf": sorted(below & leaves)}
        for rule, columns in sources.items():
            scores = raw[:, columns or [node]].max(axis=1)
            assert np.array_equal(rules[rule][:, node], scores)
            if not any(truth):
                assert np.isnan(result.labels[rule][node])
                continue
            precision = average_precision_score(truth, scores)
            assert result.labels[rule][node] == pytest.approx(precision)
            means.setdefault((rule, node in leaves), []).append(precision)
    assert estimates(result, "Leaves") == pytest.approx([np.mean(means["raw", True])])
    for rule in rules:
        assert estimates(result, f"Anc {rule}") == pytest.approx([np.mean(means[rule, False])])


# -- float noise ------------------------------------------------------------------------------------------------------


class Noisy:
    """An encoder whose vectors differ in the last digits from batch to batch, as a network's do."""

    name = "noisy"
    identity: ClassVar[dict[str, str | int | None]] = {}

    def __init__(self, batch):
        self.batch = batch

    def texts(self, texts):
        return np.array([self._vector(i, text) for i, text in enumerate(texts)], dtype=np.float32)

    def _vector(self, i, text):
        # Upper and lower case are one text to it.
        seed = len(text) * 1000 + sum(map(ord, text.lower()))
        vector = np.random.default_rng(seed).normal(size=8)
        rng = np.random.default_rng([i // self.batch, self.batch])
        return vector / np.linalg.norm(vector) + rng.uniform(-3e-7, 3e-7, size=8)

    stored = texts


def test_equal_texts_are_ties_whatever_batch_they_were_encoded_in():
    texts = np.array(
        ["Lion", "lion", "LION", "tiger", "Tiger", "wolf", "fox", "Fox", "FOX", "WOLF"]
    )
    targets = np.array([3, 4, 3, 4, 4, 5, 6, 5, 6, 5])
    labels = Noisy(99).texts(TREE.labels)
    precisions = []
    forwards = np.arange(10)
    for batch, rows in ((1, forwards), (3, forwards), (99, forwards[::-1])):
        queries = Noisy(batch).texts(texts[rows])
        made = matched(Noisy(batch), targets[rows], queries, labels)
        folded = np.char.lower(texts[rows])
        groups = [folded == text for text in np.unique(folded)]
        assert not any(np.ptp(made.scores[group], axis=0).any() for group in groups)
        # Unrounded, noise would part them.
        assert batch == 99 or any(np.ptp(queries[group], axis=0).any() for group in groups)
        found = hierarchy(made, TREE, resamples=0).labels[["raw", "child", "leaf"]]
        precisions.append(found.to_numpy())
    first, *others = precisions
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-12)
