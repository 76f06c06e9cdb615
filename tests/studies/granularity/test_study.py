from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval
from taxtune.studies.granularity.propagation import from_leaves
from taxtune.studies.granularity.score_matrix import ScoreMatrix
from taxtune.studies.granularity.study import QUANTITIES, granularity, granularity_report, steps
from taxtune.taxonomy import Taxonomy
from tests.trees import trees

#: animal / feline (lion, tiger), canine (wolf, fox)
TREE = Taxonomy(["animal", "feline", "canine", "lion", "tiger", "wolf", "fox"], [-1, 0, 0, 1, 1, 2, 2])
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
    result = granularity(matrix(), TREE, resamples=0)
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
    result = granularity(matrix(), TREE, trivial="leave-out", resamples=0)
    assert result.intervals["Anc raw"].estimate == pytest.approx((0.75 + 0.5) / 2)
    assert result.ancestors.sum() == 2
    assert any("left out of the means" in note for note in result.notes)


def test_labels_without_images_are_left_out_and_counted_but_take_part() -> None:
    # No image of the tiger: its score still reaches the feline.
    result = granularity(matrix(SCORES[[0, 2, 3]], (3, 5, 6)), TREE, resamples=0)
    assert np.isnan(result.raw[4])
    assert result.leaves.sum() == 3
    assert any("1 of 7 labels left out" in note for note in result.notes)
    strong = SCORES[[0, 2, 3]].copy()
    strong[1, 4] = 2.0  # the wolf's image scores high as a tiger
    assert granularity(matrix(strong, (3, 5, 6)), TREE, resamples=0).leaf[1] < result.leaf[1]


@settings(max_examples=15, deadline=None)
@given(trees(max_nodes=12), st.integers(0, 10_000))
def test_against_brute_force(tree: Taxonomy, seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves = tree.leaves.tolist()
    targets = rng.choice(leaves, size=10)
    if len(set(targets.tolist())) < 2:
        return
    raw = rng.integers(0, 4, size=(10, len(tree))).astype(np.float32)  # few values: many ties
    result = granularity(matrix(raw, tuple(targets.tolist())), tree, resamples=0)

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
    first, second = (granularity(made, TREE, resamples=100, seed=2) for _ in range(2))
    assert first.intervals == second.intervals
    assert first.intervals != granularity(made, TREE, resamples=100, seed=3).intervals
    for name in QUANTITIES:
        interval = first.intervals[name]
        assert interval.low < interval.estimate < interval.high


def test_the_gap_is_paired() -> None:
    # Ancestors that score what their leaves score: the means vary from resample to resample, the gap never.
    rng = np.random.default_rng(6)
    targets = rng.choice([3, 4, 5, 6], size=40)
    made = matrix(from_leaves(rng.normal(size=(40, 7)), TREE), tuple(targets.tolist()))
    result = granularity(made, TREE, resamples=30)
    assert result.intervals["Anc raw"].high > result.intervals["Anc raw"].low
    assert result.intervals["Δ leaf"] == Interval(0.0, 0.0, 0.0)


def test_scores_that_are_all_equal_rank_nothing() -> None:
    result = granularity(matrix(np.ones((4, 7))), TREE, resamples=10)
    assert result.raw.tolist() == [1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    assert result.intervals["Δ leaf"].estimate == 0


def test_one_class_is_an_error() -> None:
    with pytest.raises(DataError, match="one class"):
        granularity(matrix(targets=(3, 3, 3, 3)), TREE)
    with pytest.raises(ValueError, match="trivial"):
        granularity(matrix(), TREE, trivial="drop")
    with pytest.raises(ValueError, match="resamples"):
        granularity(matrix(), TREE, resamples=-1)


def test_the_report() -> None:
    told: list[int] = []
    result = granularity(matrix(), TREE, resamples=5, on_progress=told.append)
    assert len(told) == steps(TREE, 5)
    report = granularity_report([result], TREE, {"seed": 0, "resamples": 5})
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
    two = granularity_report([result, result], TREE, {"seed": 0})
    assert set(two.figures) == {"granularity-levels-1", "granularity-levels-2"}


def test_labels_with_one_score_for_all_images_are_told() -> None:
    scores = SCORES.copy()
    scores[:, [2, 5]] = 0.5
    result = granularity(matrix(scores), TREE, resamples=0)
    assert result.raw[2] == pytest.approx(0.5)
    assert result.raw[5] == pytest.approx(0.25)
    (note,) = [note for note in result.notes if "one score" in note]
    assert note.startswith("2 of 7 labels have one score for all images (canine, wolf)")
    assert not any("one score" in note for note in granularity(matrix(), TREE, resamples=0).notes)
