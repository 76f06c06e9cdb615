from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.ranks import OFF_TREE_RANK, RankScores, bootstrap_ranks, rank_of, rank_scores
from taxtune.taxonomy import Taxonomy
from tests.trees import Case, tree_and_nodes

masks = st.lists(st.booleans(), min_size=12, max_size=12)


@given(tree_and_nodes(), masks, st.data())
def test_counts_over_plain_sets(case: Case, off: list[bool], data: st.DataObject) -> None:
    """Ranks at random: some nodes have none, and some occur several times on a path."""
    tree, (predicted, target) = case
    off = off[: len(target)]
    rank = st.sampled_from([None, "a", "b", "c"])
    ranks = data.draw(st.lists(rank, min_size=len(tree), max_size=len(tree)))
    tree = Taxonomy(tree.labels, tree.parents, ranks=ranks)

    def named(node: int) -> set[int]:
        return set(tree.ancestors(node).tolist()) - {0}

    said = [set() if is_off else named(p) for p, is_off in zip(predicted, off, strict=True)]
    due = [named(t) for t in target]
    expected = defaultdict(lambda: [0, 0, 0])
    if any(off):
        expected[OFF_TREE_RANK][0] = sum(off)
    for answer, truth in zip(said, due, strict=True):
        for position, nodes in enumerate((answer, truth, answer & truth)):
            for node in nodes:
                expected[rank_of(tree, node)][position] += 1
    found = rank_scores(tree, predicted, target, off_tree=off)
    counts = {row.rank: [row.n_predicted, row.n_relevant, row.right] for row in found}
    assert counts == expected
    assert len(counts) == len(found)
    for row in found:
        assert row.precision == (row.right / row.n_predicted if row.n_predicted else None)
        assert row.recall == (row.right / row.n_relevant if row.n_relevant else None)


def test_worked_out_by_hand(birds: Taxonomy) -> None:
    # The truth is Turdus merula four times: said are itself, its sister, a mallard and "bird".
    found = rank_scores(birds, [4, 5, 8, 1], [4, 4, 4, 4])
    assert found == [
        RankScores("class", n_predicted=4, n_relevant=4, right=4),
        RankScores("order", n_predicted=3, n_relevant=4, right=2),
        RankScores("family", n_predicted=3, n_relevant=4, right=2),
        RankScores("species", n_predicted=3, n_relevant=4, right=1),
    ]
    assert found[1].precision == pytest.approx(2 / 3)
    assert found[1].recall == 0.5


def test_ranks_are_in_the_order_of_the_paths_and_not_of_the_depths() -> None:
    """Mosses with few ranks and a variety, animals with many and none: it is still the last."""
    moss = ["kingdom", "genus", "species", "variety"]
    animal = ["kingdom", "class", "order", "family", "genus", "species"]
    labels = ["life", *(f"moss {rank}" for rank in moss), *(f"animal {rank}" for rank in animal)]
    tree = Taxonomy(labels, [-1, 0, 1, 2, 3, 0, 5, 6, 7, 8, 9], ranks=[None, *moss, *animal])
    found = [row.rank for row in rank_scores(tree, [4, 10], [10, 4])]
    assert found == [*animal, "variety"]


def test_intervals_are_those_of_drawing_examples(birds: Taxonomy) -> None:
    rng = np.random.default_rng(5)
    predicted, target = rng.integers(0, 9, (2, 80))
    drawn = defaultdict(list)
    for _ in range(1500):
        rows = rng.integers(0, 80, 80)
        for row in rank_scores(birds, predicted[rows], target[rows]):
            drawn[row.rank].append((row.precision, row.recall))
    found = bootstrap_ranks(birds, predicted, target, resamples=4000)
    assert {row.scores.rank for row in found} == set(drawn)
    for row in found:
        low, high = np.quantile(np.array(drawn[row.scores.rank]), [0.025, 0.975], axis=0)
        assert row.precision is not None
        assert row.recall is not None
        assert (row.precision.low, row.recall.low) == pytest.approx(tuple(low), abs=0.03)
        assert (row.precision.high, row.recall.high) == pytest.approx(tuple(high), abs=0.03)


@pytest.mark.parametrize("function", [rank_scores, bootstrap_ranks])
def test_a_set_without_examples_has_no_scores(function, birds: Taxonomy) -> None:
    with pytest.raises(ValueError, match="no examples"):
        function(birds, [], [])
