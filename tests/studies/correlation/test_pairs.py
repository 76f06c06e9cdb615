from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import DataError, TaxonomyError
from taxtune.studies.correlation.pairs import DRAWS, Draw, PairSampler
from taxtune.taxonomy import Taxonomy
from tests.trees import trees


def all_distances(taxonomy: Taxonomy) -> np.ndarray:
    """Breadth-first search from every node: shares nothing with what is tested."""
    n = len(taxonomy)
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for node, parent in enumerate(taxonomy.parents.tolist()):
        if parent >= 0:
            neighbours[node].append(parent)
            neighbours[parent].append(node)
    distances = np.full((n, n), -1)
    for start in range(n):
        front, steps = [start], 0
        while front:
            for node in front:
                distances[start, node] = steps
            front = [m for node in front for m in neighbours[node] if distances[start, m] < 0]
            steps += 1
    return distances


@settings(max_examples=150, deadline=None)
@given(trees(max_nodes=25))
def test_nodes_at_a_distance_are_counted_as_by_search(taxonomy: Taxonomy) -> None:
    sampler, distances = PairSampler(taxonomy), all_distances(taxonomy)
    nodes = np.arange(len(taxonomy))
    for distance in range(9):
        assert sampler.count(nodes, distance).tolist() == (distances == distance).sum(axis=1).tolist()


@settings(max_examples=60, deadline=None)
@given(trees(max_nodes=25), st.integers(0, 3), st.integers(0, 2**32), st.sampled_from(DRAWS))
def test_pairs_are_at_the_distance_that_they_say(taxonomy: Taxonomy, nearest: int, seed: int, draw: Draw) -> None:
    distances = all_distances(taxonomy)
    rng = np.random.default_rng(seed)
    there = [[d for d in range(nearest, 8) if d in row] for row in distances[taxonomy.leaves].tolist()]
    if not all(there):
        with pytest.raises(TaxonomyError, match="no node at a distance"):
            PairSampler(taxonomy).sample(1000, rng, nearest=nearest)
        return
    pairs = PairSampler(taxonomy).sample(1000, rng, nearest=nearest, draw=draw)
    assert np.isin(pairs.leaves, taxonomy.leaves).all()
    assert (distances[pairs.leaves, pairs.nodes] == pairs.distances).all()
    assert pairs.distances.min() >= nearest
    assert pairs.distances.max() <= 7


def lopsided() -> Taxonomy:
    """root(0) / a(1) / aa(2), ab(3) / aba(4), abb(5); root / b(6): leaves 2, 4, 5 and 6."""
    return Taxonomy(["root", "a", "aa", "ab", "aba", "abb", "b"], [-1, 0, 1, 1, 3, 3, 0])


def test_distances_are_uniform_for_each_leaf_and_nodes_at_each_distance() -> None:
    taxonomy, n = lopsided(), 200_000
    pairs = PairSampler(taxonomy).sample(n, np.random.default_rng(0))
    distances = all_distances(taxonomy)
    expected = np.zeros((7, 7))
    for leaf in taxonomy.leaves.tolist():
        there = sorted(set(distances[leaf].tolist()) - {0})
        for distance in there:
            nodes = np.flatnonzero(distances[leaf] == distance)
            expected[leaf, nodes] = 1 / 4 / len(there) / len(nodes)
    drawn = np.zeros((7, 7))
    np.add.at(drawn, (pairs.leaves, pairs.nodes), 1 / n)
    assert expected.sum() == pytest.approx(1)
    # Four standard errors of the largest share.
    np.testing.assert_allclose(drawn, expected, atol=4 * np.sqrt(expected.max() / n))


def test_steps_up_are_uniform_where_they_are_drawn_first() -> None:
    taxonomy, n = lopsided(), 100_000
    pairs = PairSampler(taxonomy).sample(n, np.random.default_rng(0), draw="steps")
    assert (taxonomy.distance(pairs.leaves, pairs.nodes) == pairs.distances).all()
    # From aba two steps lead up to a, and one up and one down to abb; from aa to the root and to ab.
    for leaf, nodes in ((4, [1, 5]), (2, [0, 3])):
        at_two = pairs.nodes[(pairs.leaves == leaf) & (pairs.distances == 2)]
        found, counts = np.unique(at_two, return_counts=True)
        assert found.tolist() == nodes
        np.testing.assert_allclose(counts / len(at_two), 0.5, atol=0.03)
    # From b three steps: one way up to the root, two down to aa or ab; no other.
    at_three = pairs.nodes[(pairs.leaves == 6) & (pairs.distances == 3)]
    np.testing.assert_allclose(np.bincount(at_three, minlength=7)[[2, 3]] / len(at_three), 0.5, atol=0.03)


def test_ancestors_only_and_up_to_the_root() -> None:
    taxonomy = lopsided()
    pairs = PairSampler(taxonomy).sample(30_000, np.random.default_rng(1), ancestors=True)
    assert taxonomy.is_ancestor(pairs.nodes, pairs.leaves).all()
    assert (pairs.distances == taxonomy.distance(pairs.leaves, pairs.nodes)).all()
    assert (pairs.distances >= 1).all()
    deep = pairs.distances[pairs.leaves == 4]
    np.testing.assert_allclose(np.bincount(deep, minlength=4)[1:] / len(deep), 1 / 3, atol=0.03)
    with_itself = PairSampler(taxonomy).sample(3000, np.random.default_rng(1), ancestors=True, nearest=0)
    assert (with_itself.nodes[with_itself.distances == 0] == with_itself.leaves[with_itself.distances == 0]).all()
    assert (with_itself.distances == 0).any()


def test_a_seed_makes_a_sample() -> None:
    sampler = PairSampler(lopsided())
    first, second, other = (sampler.sample(50, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert (first.nodes == second.nodes).all()
    assert (first.leaves == second.leaves).all()
    assert (first.nodes != other.nodes).any()


def test_no_pair_can_be_drawn_from_a_root_alone() -> None:
    with pytest.raises(TaxonomyError, match="no node at a distance of 1 to 7"):
        PairSampler(Taxonomy(["life"], [-1])).sample(5, np.random.default_rng(0))
    assert (
        PairSampler(Taxonomy(["life"], [-1])).sample(5, np.random.default_rng(0), nearest=0).nodes.tolist() == [0] * 5
    )


@pytest.mark.parametrize(("n", "nearest", "farthest"), [(0, 1, 7), (5, -1, 7), (5, 3, 2), (5, 0, 0)])
def test_settings_that_give_no_pairs_are_refused(n: int, nearest: int, farthest: int) -> None:
    with pytest.raises(DataError):
        PairSampler(lopsided()).sample(n, np.random.default_rng(0), nearest=nearest, farthest=farthest)


def test_distances_are_uniform_on_inat21(inat21: Taxonomy) -> None:
    sampler = PairSampler(inat21)
    for ancestors in (False, True):
        pairs = sampler.sample(70_000, np.random.default_rng(0), ancestors=ancestors)
        assert (inat21.distance(pairs.leaves, pairs.nodes) == pairs.distances).all()
        np.testing.assert_allclose(np.bincount(pairs.distances)[1:] / 70_000, 1 / 7, atol=0.006)
