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
from taxtune.studies.granularity.hierarchy import (
    QUANTITIES,
    from_children,
    from_leaves,
    hierarchy,
    hierarchy_report,
)
from taxtune.studies.granularity.matrices import ScoreMatrix, matched
from taxtune.taxonomy import Taxonomy

#: animal / feline (lion, tiger), canine (wolf, fox)
TREE = Taxonomy(
    ["animal", "feline", "canine", "lion", "tiger", "wolf", "fox"], [-1, 0, 0, 1, 1, 2, 2]
)
#: Four images, one per leaf; columns animal, feline, canine, lion, tiger, wolf, fox.
SCORES = np.array(
    [
        [0.1, 0.2, 0.6, 0.9, 0.3, 0.1, 0.2],  # lion
        [0.1, 0.5, 0.4, 0.8, 0.4, 0.2, 0.1],  # tiger
        [0.1, 0.4, 0.1, 0.1, 0.1, 0.7, 0.3],  # wolf
        [0.1, 0.3, 0.5, 0.2, 0.2, 0.6, 0.5],  # fox
    ],
    dtype=np.float32,
)


def matrix(scores: np.ndarray = SCORES, targets: Sequence[int] = (3, 4, 5, 6)) -> ScoreMatrix:
    return ScoreMatrix("made", np.array(targets), scores.astype(np.float32))


def test_a_case_by_hand() -> None:
    result = hierarchy(matrix(), TREE, resamples=0)
    labels = result.labels
    # Leaves: each column ranks its own image first.
    assert labels["raw"][3:].tolist() == [1, 1, 1, 1]
    # feline raw, descending: tiger +, wolf −, fox −, lion + -> (1/1 + 2/4) / 2; canine: lion −, fox +, tiger −, wolf +.
    assert labels["raw"][:3].tolist() == pytest.approx([1, 0.75, (1 / 2 + 2 / 4) / 2])
    # feline by its leaves: max(lion, tiger) = 0.9, 0.8, 0.1, 0.2 -> perfect; canine 0.2, 0.2, 0.7, 0.6 -> perfect.
    assert labels["leaf"][:3].tolist() == [1, 1, 1]
    # The root is positive everywhere: 1 by any scores. Children of feline and canine are leaves: eqs. 2 and 3 agree.
    assert labels["child"].tolist() == labels["leaf"].tolist()
    value = {name: interval.estimate for name, interval in result.intervals.items()}
    assert value["Leaves"] == value["Anc leaf"] == 1
    assert value["Anc raw"] == pytest.approx((1 + 0.75 + 0.5) / 3)
    assert value["Δ leaf"] == value["Δ child"] == pytest.approx(1 - 0.75)
    assert any("every image shows" in note and "kept" in note for note in result.notes)
    less = hierarchy(matrix(), TREE, trivial="leave-out", resamples=0)
    assert less.intervals["Anc raw"].estimate == pytest.approx((0.75 + 0.5) / 2)


def test_labels_without_images_are_left_out_and_counted_but_take_part() -> None:
    # No image of the tiger: its score still reaches the feline.
    result = hierarchy(matrix(SCORES[[0, 2, 3]], (3, 5, 6)), TREE, resamples=0)
    assert np.isnan(result.labels["raw"][4])
    assert (result.averaged()["kind"] == "leaf").sum() == 3
    assert any("1 of 7 labels left out" in note for note in result.notes)
    strong = SCORES[[0, 2, 3]].copy()
    strong[1, 4] = 2.0  # the wolf's image scores high as a tiger
    assert (
        hierarchy(matrix(strong, (3, 5, 6)), TREE, resamples=0).labels["leaf"][1]
        < result.labels["leaf"][1]
    )


def test_scores_that_are_all_equal_rank_nothing_and_are_told() -> None:
    result = hierarchy(matrix(np.ones((4, 7))), TREE, resamples=10)
    assert result.labels["raw"].tolist() == [1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    assert result.intervals["Δ leaf"].estimate == 0
    assert any(note.startswith("6 of 7 labels have the same score") for note in result.notes)


def test_intervals_follow_the_seed_and_gaps_are_paired() -> None:
    rng = np.random.default_rng(5)
    targets = rng.choice([3, 4, 5, 6], size=120)
    scores = rng.normal(size=(120, 7))
    scores[np.arange(120), targets] += 1.0
    made = matrix(scores, targets)
    first, second = (hierarchy(made, TREE, resamples=100, seed=2) for _ in range(2))
    assert first.intervals == second.intervals
    assert first.intervals != hierarchy(made, TREE, resamples=100, seed=3).intervals
    for name in QUANTITIES:
        interval = first.intervals[name]
        assert interval.low < interval.estimate < interval.high
    # Ancestors that score what their leaves score: the means vary from resample to resample, the gap never.
    paired = hierarchy(matrix(from_leaves(scores, TREE), targets), TREE, resamples=30)
    assert paired.intervals["Anc raw"].high > paired.intervals["Anc raw"].low
    assert paired.intervals["Δ leaf"] == Interval(0.0, 0.0, 0.0)


def test_the_report() -> None:
    result = hierarchy(matrix(), TREE, resamples=5)
    report = hierarchy_report([result], {"seed": 0, "resamples": 5})
    summary, intervals, levels = report.tables
    row = summary.records()[0]
    assert (row["images"], row["n leaves"], row["n anc"], row["improved"]) == (4, 4, 3, 2)
    assert row["Anc raw"] == pytest.approx(75)
    assert [r["quantity"] for r in intervals.records()] == list(QUANTITIES)
    assert [(r["level"], r["n leaves"], r["n anc"]) for r in levels.records()] == [
        (0, 0, 1),
        (1, 0, 2),
        (2, 4, 0),
    ]
    assert levels.records()[1]["Δ leaf"] == pytest.approx(37.5)
    assert levels.records()[2]["Anc raw"] is None
    assert report.as_json()["labels"]["made"][1]["path"] == "animal/feline"
    (axes,) = report.figures["granularity-levels"]().axes
    marks = {bars.get_label(): bars.lines[0].get_ydata().tolist() for bars in axes.containers}
    assert marks == {"leaves": [100], "ancestors": [100, 62.5], "ancestors, by leaves": [100, 100]}
    flat = Taxonomy(["animal", "lion", "wolf"], [-1, 0, 0])
    bare = hierarchy(matrix(SCORES[:2, :3], (1, 2)), flat, trivial="leave-out", resamples=5)
    (axes,) = hierarchy_report([bare], {}).figures["granularity-levels"]().axes
    assert [bars.get_label() for bars in axes.containers] == ["leaves"]


def test_one_class_is_an_error() -> None:
    with pytest.raises(DataError, match="do not show two leaves"):
        hierarchy(matrix(targets=(3, 3, 3, 3)), TREE)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 10), min_size=2, max_size=11), st.integers(0, 10_000))
def test_it_is_what_networkx_and_scikit_learn_say(above: list[int], seed: int) -> None:
    parents = [-1, *(min(parent, child) for child, parent in enumerate(above))]
    tree = Taxonomy([f"n{i}" for i in range(len(parents))], parents)
    if len(tree.leaves) < 2:
        return
    labels, rng = tree.labels, np.random.default_rng(seed)
    expected = nx.DiGraph(
        (labels[parent], labels[child]) for child, parent in enumerate(parents) if child
    )
    targets = np.r_[tree.leaves[:2], rng.choice(tree.leaves, size=8)]
    raw = rng.integers(0, 4, size=(10, len(tree))).astype(np.float32)  # few values: many ties
    before = raw.copy()
    result = hierarchy(matrix(raw, targets.tolist()), tree, resamples=0)
    rules = {"raw": raw, "child": from_children(raw, tree), "leaf": from_leaves(raw, tree)}
    assert np.array_equal(raw, before)
    column = {label: i for i, label in enumerate(labels)}
    leaves = {labels[v] for v in tree.leaves}
    means: dict[tuple[str, bool], list[float]] = {}
    for node, label in enumerate(labels):
        below = nx.descendants(expected, label)
        truth = [label == labels[t] or labels[t] in below for t in targets]
        sources = {
            "raw": [label],
            "child": [*expected.successors(label)],
            "leaf": sorted(below & leaves),
        }
        for rule, names in sources.items():
            scores = raw[:, [column[name] for name in names or [label]]].max(axis=1)
            assert np.array_equal(rules[rule][:, node], scores)
            if not any(truth):
                assert np.isnan(result.labels[rule][node])
                continue
            precision = average_precision_score(truth, scores)
            assert result.labels[rule][node] == pytest.approx(precision)
            means.setdefault((rule, label in leaves), []).append(precision)
    assert result.intervals["Leaves"].estimate == pytest.approx(np.mean(means["raw", True]))
    for rule in rules:
        assert result.intervals[f"Anc {rule}"].estimate == pytest.approx(
            np.mean(means[rule, False])
        )


# -- float noise ------------------------------------------------------------------------------------------------------


class Noisy:
    """An encoder whose vectors differ in the last digits from batch to batch, as a network's do."""

    name = "noisy"
    identity: ClassVar[dict[str, str | int | None]] = {}

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        rows = []
        for i, text in enumerate(texts):
            # Upper and lower case are one text to it.
            vector = np.random.default_rng(len(text) * 1000 + sum(map(ord, text.lower()))).normal(
                size=8
            )
            noise = np.random.default_rng([i // self.batch, self.batch]).uniform(
                -3e-7, 3e-7, size=8
            )
            rows.append(vector / np.linalg.norm(vector) + noise)
        return np.array(rows, dtype=np.float32)

    stored = texts


def test_equal_texts_are_ties_whatever_batch_they_were_encoded_in() -> None:
    texts = ["Lion", "lion", "LION", "tiger", "Tiger", "wolf", "a fox", "A fox", "FOX", "WOLF"]
    targets = [3, 4, 3, 4, 4, 5, 6, 5, 6, 5]
    labels = Noisy(99).texts(list(TREE.labels))
    precisions = []
    for batch, order in ((1, [*range(10)]), (3, [*range(10)]), (99, [*range(9, -1, -1)])):
        queries = Noisy(batch).texts([texts[i] for i in order])
        made = matched(Noisy(batch), [targets[i] for i in order], queries, labels)
        folded = np.array([texts[i].lower() for i in order])
        assert all((np.ptp(made.scores[folded == text], axis=0) == 0).all() for text in set(folded))
        # Unrounded, noise would part them.
        assert batch == 99 or any(
            np.ptp(queries[folded == text], axis=0).any() for text in set(folded)
        )
        precisions.append(
            hierarchy(made, TREE, resamples=0).labels[["raw", "child", "leaf"]].to_numpy()
        )
    for other in precisions[1:]:
        np.testing.assert_allclose(other, precisions[0], rtol=1e-12)
