from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.ranks import OFF_TREE_RANK, RankScores, bootstrap_ranks, rank_of, rank_scores
from taxtune.taxonomy import Taxonomy
from tests.trees import tree_and_nodes

masks = st.lists(st.booleans(), min_size=12, max_size=12)


@given(tree_and_nodes(), masks, st.data())
def test_counts_over_plain_sets(case, off, data):
    """Ranks at random: some nodes have none, and some occur several times on a path."""
    tree, (predicted, target) = case
    off = off[: len(target)]
    rank = st.sampled_from([None, "a", "b", "c"])
    ranks = data.draw(st.lists(rank, min_size=len(tree), max_size=len(tree)))
    tree = Taxonomy(tree.labels, tree.parents, ranks=ranks)

    def named(node):
        return set(tree.ancestors(node).tolist()) - {0}

    said = Counter()
    due = Counter()
    both = Counter()
    for p, t, is_off in zip(predicted, target, off, strict=True):
        answer = set() if is_off else named(p)
        said.update(rank_of(tree, node) for node in answer)
        due.update(rank_of(tree, node) for node in named(t))
        both.update(rank_of(tree, node) for node in answer & named(t))
    said += Counter({OFF_TREE_RANK: sum(off)})
    found = rank_scores(tree, predicted, target, off_tree=off)
    ranks = {row.rank for row in found}
    assert ranks == {*said, *due}
    assert len(ranks) == len(found)
    for row in found:
        assert row.n_predicted == said[row.rank]
        assert row.n_relevant == due[row.rank]
        assert row.right == both[row.rank]
        if row.precision is None:
            assert row.n_predicted == 0
        else:
            assert row.precision == row.right / row.n_predicted
        if row.recall is None:
            assert row.n_relevant == 0
        else:
            assert row.recall == row.right / row.n_relevant


def test_worked_out_by_hand(birds):
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


def test_ranks_are_in_the_order_of_the_paths_and_not_of_the_depths():
    """Mosses with few ranks and a variety, animals with many and none: it is still the last."""
    moss = ["kingdom", "genus", "species", "variety"]
    animal = ["kingdom", "class", "order", "family", "genus", "species"]
    labels = ["life"]
    labels += [f"moss {rank}" for rank in moss]
    labels += [f"animal {rank}" for rank in animal]
    parents = [-1, 0, 1, 2, 3, 0, 5, 6, 7, 8, 9]
    tree = Taxonomy(labels, parents, ranks=[None, *moss, *animal])
    found = [row.rank for row in rank_scores(tree, [4, 10], [10, 4])]
    assert found == [*animal, "variety"]


def test_intervals_are_those_of_drawing_examples(birds):
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
        ends = np.quantile(drawn[row.scores.rank], [0.025, 0.975], axis=0)
        for interval, (low, high) in zip((row.precision, row.recall), ends.T, strict=True):
            assert interval.low == pytest.approx(low, abs=0.03)
            assert interval.high == pytest.approx(high, abs=0.03)


@pytest.mark.parametrize("function", [rank_scores, bootstrap_ranks])
def test_a_set_without_examples_has_no_scores(function, birds):
    with pytest.raises(ValueError, match="no examples"):
        function(birds, [], [])
