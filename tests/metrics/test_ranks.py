from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.ranks import OFF_TREE_RANK, RankScores, bootstrap_ranks, rank_of, rank_scores
from taxtune.taxonomy import Taxonomy
from tests.trees import tree_and_nodes

Case = tuple[Taxonomy, list[list[int]]]
masks = st.lists(st.booleans(), min_size=12, max_size=12)


def ranked(tree: Taxonomy, ranks: list[str | None]) -> Taxonomy:
    return Taxonomy(tree.labels, tree.parents, ranks=ranks)


@given(tree_and_nodes(), masks, st.data())
def test_counts_over_plain_sets(case: Case, off: list[bool], data: st.DataObject) -> None:
    """Ranks at random: some nodes have none, and some occur several times on a path."""
    tree, (predicted, target) = case
    off = off[: len(target)]
    ranks = data.draw(
        st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=len(tree), max_size=len(tree))
    )
    tree = ranked(tree, ranks)

    def on_path(node: int, rank: str) -> set[int]:
        return {v for v in tree.ancestors(node).tolist() if v != 0 and rank_of(tree, v) == rank}

    found = rank_scores(tree, predicted, target, off_tree=off)
    seen = set()
    for row in found:
        seen.add(row.rank)
        if row.rank == OFF_TREE_RANK:
            assert row == RankScores(OFF_TREE_RANK, n_predicted=sum(off), n_relevant=0, right=0)
            continue
        said = [
            set() if aside else on_path(p, row.rank)
            for p, aside in zip(predicted, off, strict=True)
        ]
        due = [on_path(t, row.rank) for t in target]
        assert row.n_predicted == sum(map(len, said))
        assert row.n_relevant == sum(map(len, due))
        assert row.right == sum(len(a & b) for a, b in zip(said, due, strict=True))
        assert row.n_predicted or row.n_relevant
        assert row.precision == (row.right / row.n_predicted if row.n_predicted else None)
        assert row.recall == (row.right / row.n_relevant if row.n_relevant else None)
    nodes = {
        v
        for p, aside in zip(predicted, off, strict=True)
        if not aside
        for v in tree.ancestors(p).tolist()
    }
    nodes |= {v for t in target for v in tree.ancestors(t).tolist()}
    assert seen == {rank_of(tree, v) for v in nodes - {0}} | (
        {OFF_TREE_RANK} if any(off) else set()
    )
    assert len(found) == len(seen)


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
    """Mosses with few ranks and a variety, animals with many and none: the variety is still the last."""
    labels = [
        "life",
        "moss",
        "genus m",
        "species m",
        "variety m",
        "animal",
        "class",
        "order",
        "family",
        "genus a",
        "s",
    ]
    ranks = [
        None,
        "kingdom",
        "genus",
        "species",
        "variety",
        "kingdom",
        "class",
        "order",
        "family",
        "genus",
        "species",
    ]
    tree = Taxonomy(labels, [-1, 0, 1, 2, 3, 0, 5, 6, 7, 8, 9], ranks=ranks)
    found = [row.rank for row in rank_scores(tree, [4, 10], [10, 4])]
    assert found == ["kingdom", "class", "order", "family", "genus", "species", "variety"]


def test_intervals_are_those_of_drawing_examples(birds: Taxonomy) -> None:
    rng = np.random.default_rng(5)
    predicted, target = rng.integers(0, 9, (2, 80))
    found = {
        row.scores.rank: row for row in bootstrap_ranks(birds, predicted, target, resamples=4000)
    }
    drawn: dict[str, list[tuple[float, float]]] = {rank: [] for rank in found}
    for _ in range(1500):
        rows = rng.integers(0, 80, 80)
        for row in rank_scores(birds, predicted[rows], target[rows]):
            assert row.precision is not None
            assert row.recall is not None
            drawn[row.rank].append((row.precision, row.recall))
    for rank, row in found.items():
        low, high = np.quantile(drawn[rank], [0.025, 0.975], axis=0)
        assert row.precision is not None
        assert row.recall is not None
        assert (row.precision.low, row.recall.low) == pytest.approx(tuple(low), abs=0.03)
        assert (row.precision.high, row.recall.high) == pytest.approx(tuple(high), abs=0.03)


def test_a_set_without_examples_has_no_scores(birds: Taxonomy) -> None:
    for function in (rank_scores, bootstrap_ranks):
        with pytest.raises(ValueError, match="no examples"):
            function(birds, [], [])
