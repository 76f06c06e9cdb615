from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval
from taxtune.studies.granularity import GranularitySettings
from taxtune.studies.granularity.frequency import mean_of_leaves
from taxtune.studies.granularity.scores import ScoreMatrix, matched
from taxtune.studies.granularity.study import (
    QUANTITIES,
    from_children,
    from_leaves,
    hierarchy,
    hierarchy_report,
    positives,
)
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph
from tests.displays import Recorder
from tests.label_graphs import acyclic_edges, as_networkx, read_edges
from tests.trees import trees

#: animal / feline (lion, tiger), canine (wolf, fox)
TREE = LabelGraph.of(Taxonomy(["animal", "feline", "canine", "lion", "tiger", "wolf", "fox"], [-1, 0, 0, 1, 1, 2, 2]))
#: Four images, one a leaf; columns animal, feline, canine, lion, tiger, wolf, fox.
SCORES = np.array(
    [
        [0.1, 0.2, 0.6, 0.9, 0.3, 0.1, 0.2],  # lion
        [0.1, 0.5, 0.4, 0.8, 0.4, 0.2, 0.1],  # tiger
        [0.1, 0.4, 0.1, 0.1, 0.1, 0.7, 0.3],  # wolf
        [0.1, 0.3, 0.5, 0.2, 0.2, 0.6, 0.5],  # fox
    ],
    dtype=np.float32,
)


def matrix(scores: np.ndarray = SCORES, targets: tuple[int, ...] = (3, 4, 5, 6)) -> ScoreMatrix:
    return ScoreMatrix("made", tuple(f"i{i}" for i in range(len(scores))), np.array(targets), scores.astype(np.float32))


def test_a_case_by_hand() -> None:
    result = hierarchy(matrix(), TREE, resamples=0)
    # Leaves: each ranks its own image first, but lion and tiger: tiger's column ranks tiger (0.4) first too.
    assert result.raw[3:].tolist() == [1, 1, 1, 1]
    # feline raw, descending: tiger +, wolf −, fox −, lion + -> (1/1 + 2/4) / 2; canine: lion −, fox +, tiger −, wolf +.
    assert result.raw[1] == pytest.approx(0.75)
    assert result.raw[2] == pytest.approx((1 / 2 + 2 / 4) / 2)
    # feline by its leaves: max(lion, tiger) = 0.9, 0.8, 0.1, 0.2 -> perfect; canine 0.2, 0.2, 0.7, 0.6 -> perfect.
    assert result.leaf[1] == result.leaf[2] == 1
    # The root is positive everywhere: 1 by any scores. Its children's raw scores are what eq. 2 gives it.
    assert result.raw[0] == result.child[0] == result.leaf[0] == 1
    # Children of feline and canine are leaves, so that eqs. 2 and 3 agree below the root.
    assert result.child[1:].tolist() == result.leaf[1:].tolist()
    value = {name: interval.estimate for name, interval in result.intervals.items()}
    assert value["Leaves"] == 1
    assert value["Anc raw"] == pytest.approx((1 + 0.75 + 0.5) / 3)
    assert value["Anc leaf"] == 1
    assert value["Δ leaf"] == value["Δ child"] == pytest.approx(1 - 0.75)
    assert any("animal" in note and "kept" in note for note in result.notes)


def test_the_root_can_be_left_out() -> None:
    result = hierarchy(matrix(), TREE, trivial="leave-out", resamples=0)
    assert result.intervals["Anc raw"].estimate == pytest.approx((0.75 + 0.5) / 2)
    assert result.ancestors.sum() == 2
    assert any("left out of the means" in note for note in result.notes)


def test_labels_without_images_are_left_out_and_counted_but_take_part() -> None:
    # No image of the tiger: its score still reaches the feline.
    result = hierarchy(matrix(SCORES[[0, 2, 3]], (3, 5, 6)), TREE, resamples=0)
    assert np.isnan(result.raw[4])
    assert result.leaves.sum() == 3
    assert any("1 of 7 labels left out" in note for note in result.notes)
    strong = SCORES[[0, 2, 3]].copy()
    strong[1, 4] = 2.0  # the wolf's image scores high as a tiger
    assert hierarchy(matrix(strong, (3, 5, 6)), TREE, resamples=0).leaf[1] < result.leaf[1]


@settings(max_examples=15, deadline=None)
@given(trees(max_nodes=12), st.integers(0, 10_000))
def test_against_brute_force(tree: Taxonomy, seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves = tree.leaves.tolist()
    targets = rng.choice(leaves, size=10)
    if len(set(targets.tolist())) < 2:
        return
    raw = rng.integers(0, 4, size=(10, len(tree))).astype(np.float32)  # few values: many ties
    result = hierarchy(matrix(raw, tuple(targets.tolist())), LabelGraph.of(tree), resamples=0)

    def score(node: int, rule: str) -> np.ndarray:
        children = tree.children(node).tolist()
        if rule == "raw" or not children:
            return raw[:, node]
        return np.max([raw[:, c] if rule == "child" else score(c, rule) for c in children], axis=0)

    means: dict[tuple[str, bool], list[float]] = {}
    for node in range(len(tree)):
        truth = [node in tree.ancestors(t).tolist() for t in targets.tolist()]
        if any(truth):
            for rule in ("raw", "child", "leaf"):
                expected = average_precision_score(truth, score(node, rule))
                assert getattr(result, rule)[node] == pytest.approx(expected)
                means.setdefault((rule, node in leaves), []).append(expected)
    value = {name: interval.estimate for name, interval in result.intervals.items()}
    assert value["Leaves"] == pytest.approx(np.mean(means["raw", True]))
    for rule in ("raw", "child", "leaf"):
        assert value[f"Anc {rule}"] == pytest.approx(np.mean(means[rule, False]))
    assert value["Δ child"] == pytest.approx(value["Anc child"] - value["Anc raw"])


def test_intervals_follow_the_seed_and_hold_the_estimate() -> None:
    rng = np.random.default_rng(5)
    targets = rng.choice([3, 4, 5, 6], size=120)
    scores = rng.normal(size=(120, 7))
    scores[np.arange(120), targets] += 1.0
    made = matrix(scores, tuple(targets.tolist()))
    first, second = (hierarchy(made, TREE, resamples=100, seed=2) for _ in range(2))
    assert first.intervals == second.intervals
    assert first.intervals != hierarchy(made, TREE, resamples=100, seed=3).intervals
    for name in QUANTITIES:
        interval = first.intervals[name]
        assert interval.low < interval.estimate < interval.high


def test_the_gap_is_paired() -> None:
    # Ancestors that score what their leaves score: the means vary from resample to resample, the gap never.
    rng = np.random.default_rng(6)
    targets = rng.choice([3, 4, 5, 6], size=40)
    made = matrix(from_leaves(rng.normal(size=(40, 7)), TREE), tuple(targets.tolist()))
    result = hierarchy(made, TREE, resamples=30)
    assert result.intervals["Anc raw"].high > result.intervals["Anc raw"].low
    assert result.intervals["Δ leaf"] == Interval(0.0, 0.0, 0.0)


def test_scores_that_are_all_equal_rank_nothing() -> None:
    result = hierarchy(matrix(np.ones((4, 7))), TREE, resamples=10)
    assert result.raw.tolist() == [1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    assert result.intervals["Δ leaf"].estimate == 0


def test_one_class_is_an_error() -> None:
    with pytest.raises(DataError, match="the same class"):
        hierarchy(matrix(targets=(3, 3, 3, 3)), TREE)
    for wrong in ({"trivial": "drop"}, {"resamples": -1}):
        with pytest.raises(DataError, match=f"--{next(iter(wrong))}"):
            GranularitySettings(taxonomy=TREE.tree, scores="s.csv", **wrong)


def test_the_report(recorder: Recorder) -> None:
    result = hierarchy(matrix(), TREE, resamples=5)
    assert recorder.of("labels")[0][0] == 0
    assert recorder.of("labels")[-1] == (3, 3)
    report = hierarchy_report([result], TREE, {"seed": 0, "resamples": 5})
    summary, intervals, levels = report.tables
    row = summary.records()[0]
    assert (row["images"], row["n leaves"], row["n anc"]) == (4, 4, 3)
    assert row["Anc raw"] == pytest.approx(75)
    assert row["improved"] == 2
    assert [r["quantity"] for r in intervals.records()] == list(QUANTITIES)
    assert [(r["level"], r["n leaves"], r["n anc"]) for r in levels.records()] == [(0, 0, 1), (1, 0, 2), (2, 4, 0)]
    assert levels.records()[1]["Δ leaf"] == pytest.approx(37.5)
    assert levels.records()[2]["Anc raw"] is None
    labels = report.as_json()["labels"]["made"]
    assert labels[1]["path"] == "animal/feline"
    assert labels[1]["raw"] == pytest.approx(0.75)
    two = hierarchy_report([result, result], TREE, {"seed": 0})
    assert set(two.figures) == {"granularity-levels-1", "granularity-levels-2"}


def test_labels_with_one_score_for_all_images_are_told() -> None:
    scores = SCORES.copy()
    scores[:, [2, 5]] = 0.5
    result = hierarchy(matrix(scores), TREE, resamples=0)
    assert result.raw[2] == pytest.approx(0.5)
    assert result.raw[5] == pytest.approx(0.25)
    (note,) = [note for note in result.notes if "same score" in note]
    assert note.startswith("2 of 7 labels have the same score for all images (canine, wolf)")
    assert not any("same score" in note for note in hierarchy(matrix(), TREE, resamples=0).notes)


# -- propagation -----------------------------------------------------------------------------------------------------

#: A tree in the manner of paper 3, Figure 2: five leaves below two inner nodes and a root.
ANIMALS = LabelGraph.of(
    Taxonomy(["animal", "feline", "canine", "lion", "tiger", "wolf", "fox", "dog"], [-1, 0, 0, 1, 1, 2, 2, 2])
)
RAW = np.array([[0.05, 0.17, 0.35, 0.16, 0.10, 0.13, 0.48, 0.31]])


def test_from_children_takes_raw_scores_only() -> None:
    # The root gets max(0.17, 0.35), the raw scores of its children, though a leaf has 0.48.
    assert from_children(RAW, ANIMALS).tolist() == [[0.35, 0.16, 0.48, 0.16, 0.10, 0.13, 0.48, 0.31]]


def test_from_leaves_reaches_the_root() -> None:
    # The root gets max(0.16, 0.10, 0.13, 0.48, 0.31).
    assert from_leaves(RAW, ANIMALS).tolist() == [[0.48, 0.16, 0.48, 0.16, 0.10, 0.13, 0.48, 0.31]]


def test_the_scores_given_are_left_alone() -> None:
    raw = RAW.copy()
    from_children(raw, ANIMALS)
    from_leaves(raw, ANIMALS)
    assert np.array_equal(raw, RAW)


@settings(max_examples=60, deadline=None)
@given(trees(), st.integers(0, 1000))
def test_against_the_definitions(tree: Taxonomy, seed: int) -> None:
    raw = np.random.default_rng(seed).normal(size=(3, len(tree)))
    graph = LabelGraph.of(tree)
    by_child, by_leaf = from_children(raw, graph), from_leaves(raw, graph)
    leaves = set(tree.leaves.tolist())
    for node in range(len(tree)):
        children = tree.children(node).tolist()
        below = [v for v in tree.descendants(node).tolist() if v in leaves]
        assert np.array_equal(by_leaf[:, node], raw[:, below].max(axis=1))
        assert np.array_equal(by_child[:, node], raw[:, children].max(axis=1) if children else raw[:, node])


@settings(max_examples=40, deadline=None)
@given(trees())
def test_positives_are_the_ancestors(tree: Taxonomy) -> None:
    shown = positives(LabelGraph.of(tree), tree.leaves)
    for row, leaf in zip(shown, tree.leaves.tolist(), strict=True):
        assert np.flatnonzero(row).tolist() == tree.ancestors(leaf).tolist()


# -- labels with several parents --------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(acyclic_edges(), st.integers(0, 10_000))
def test_a_graph_against_networkx_and_scikit_learn(edges: list[tuple[str, str]], seed: int) -> None:
    graph, expected = read_edges(edges), as_networkx(edges)
    if len(graph.leaves) < 2:
        return
    labels, rng = graph.tree.labels, np.random.default_rng(seed)
    targets = np.r_[graph.leaves[:2], rng.choice(graph.leaves, size=8)]
    raw = rng.integers(0, 4, size=(10, len(graph))).astype(np.float32)  # few values: many ties
    result = hierarchy(matrix(raw, tuple(targets.tolist())), graph, resamples=0)
    column = {label: i for i, label in enumerate(labels)}
    leaves = {labels[v] for v in graph.leaves}
    for node, label in enumerate(labels):
        below = nx.descendants(expected, label)
        truth = [label == labels[t] or labels[t] in below for t in targets]
        if not any(truth):
            assert np.isnan(result.raw[node])
            continue
        sources = {"raw": [label], "child": [*expected.successors(label)], "leaf": sorted(below & leaves)}
        for rule, names in sources.items():
            scores = raw[:, [column[name] for name in names or [label]]].max(axis=1)
            assert getattr(result, rule)[node] == pytest.approx(average_precision_score(truth, scores))


def test_a_leaf_that_two_paths_lead_to_is_positive_for_both_and_counted_once() -> None:
    # r / (a / (x, y), b / (y, z)), and a under b: y is below b by two paths.
    graph = read_edges([("a", "b"), ("b", "r"), ("x", "a"), ("y", "a"), ("y", "b"), ("z", "b"), ("w", "r")])
    place = {label: i for i, label in enumerate(graph.tree.labels)}
    shown = positives(graph, np.array([place["y"], place["z"]]))
    assert {label for label, i in place.items() if shown[0, i]} == {"y", "a", "b", "r"}
    assert {label for label, i in place.items() if shown[1, i]} == {"z", "b", "r"}
    counts = np.zeros(len(graph), dtype=np.int64)
    counts[place["y"]] = 6
    assert mean_of_leaves(graph, counts)[place["b"]] == pytest.approx(6 / 3)


# -- float noise ------------------------------------------------------------------------------------------------------


class _Noisy:
    """An encoder whose vectors differ in the last digits from batch to batch, as a network's do."""

    name = "noisy"
    identity: ClassVar[dict[str, str | int | None]] = {}

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        rows = []
        for i, text in enumerate(texts):
            # Upper and lower case are one text to it.
            vector = np.random.default_rng(len(text) * 1000 + sum(map(ord, text.lower()))).normal(size=8)
            noise = np.random.default_rng([i // self.batch, self.batch]).uniform(-3e-7, 3e-7, size=8)
            rows.append(vector / np.linalg.norm(vector) + noise)
        return np.array(rows, dtype=np.float32)

    stored = texts


def test_equal_texts_are_ties_whatever_batch_they_were_encoded_in() -> None:
    texts = ["Lion", "lion", "LION", "tiger", "Tiger", "wolf", "a fox", "A fox", "FOX", "WOLF"]
    targets = [3, 4, 3, 4, 4, 5, 6, 5, 6, 5]
    labels = _Noisy(99).texts(list(TREE.tree.labels))
    precisions = []
    for batch, order in ((1, range(10)), (3, range(10)), (99, range(9, -1, -1)), (4, [7, 2, 9, 0, 4, 1, 8, 3, 6, 5])):
        shuffled = list(order)
        queries = _Noisy(batch).texts([texts[i] for i in shuffled])
        made = matched(_Noisy(batch), texts, [targets[i] for i in shuffled], queries, labels, "texts")
        folded = np.array([texts[i].lower() for i in shuffled])
        noise = 0.0
        for text in set(folded):
            assert (np.ptp(made.scores[folded == text], axis=0) == 0).all()
            noise = max(noise, float(np.ptp((queries @ labels.T)[folded == text], axis=0).max()))
        assert noise > 0 or batch == 99  # unrounded, it would part them
        result = hierarchy(made, TREE, resamples=0)
        truth = positives(TREE, made.targets)
        for node in range(len(TREE)):
            expected = average_precision_score(truth[:, node], made.scores[:, node])
            assert result.raw[node] == pytest.approx(expected)
        precisions.append(np.array([result.raw, result.child, result.leaf]))
    for other in precisions[1:]:
        np.testing.assert_allclose(other, precisions[0], rtol=1e-12)
