"""Pairs of a leaf and another node, against a search of the tree."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.errors import TaxonomyError
from taxtune.studies.pairs import PairSampler
from taxtune.taxonomy import Taxonomy
from tests.trees import trees

#: a is 1, aa 2, ab 3, aba 4, abb 5 and b 6: leaves 2, 4, 5 and 6.
LOPSIDED = Taxonomy.from_paths(["root/a/aa", "root/a/ab/aba", "root/a/ab/abb", "root/b"])


def all_distances(taxonomy):
    """The edges between all nodes, by a search that shares nothing with what is tested."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(taxonomy)))
    graph.add_edges_from(enumerate(taxonomy.parents[1:].tolist(), 1))
    return np.asarray(nx.floyd_warshall_numpy(graph))


@settings(max_examples=30, deadline=None)
@given(trees(max_nodes=25), st.integers(0, 3), st.integers(0), st.sampled_from(["nodes", "steps"]))
def test_nodes_are_counted_and_drawn_at_their_distance(taxonomy, nearest, seed, draw):
    sampler, distances = PairSampler(taxonomy), all_distances(taxonomy)
    for distance in range(9):
        counts = sampler.count(np.arange(len(taxonomy)), distance)
        assert counts.tolist() == (distances == distance).sum(axis=1).tolist()
    rng = np.random.default_rng(seed)
    of_leaves = distances[taxonomy.leaves]
    if not ((of_leaves >= nearest) & (of_leaves <= 7)).any(axis=1).all():
        with pytest.raises(TaxonomyError, match="no node at a distance"):
            sampler.sample(1000, rng, nearest=nearest)
        return
    pairs = sampler.sample(1000, rng, nearest=nearest, draw=draw)
    assert pairs["leaf"].isin(taxonomy.leaves).all()
    assert (distances[pairs["leaf"], pairs["node"]] == pairs["distance"]).all()
    assert pairs["distance"].between(nearest, 7).all()


def test_distances_are_uniform_for_each_leaf_and_nodes_at_each_distance():
    n = 200_000
    pairs = PairSampler(LOPSIDED).sample(n, np.random.default_rng(0))
    distances = all_distances(LOPSIDED)
    expected = np.zeros((7, 7))
    for leaf in LOPSIDED.leaves.tolist():
        possible, counts = np.unique(distances[leaf], return_counts=True)
        for distance, count in zip(possible[1:], counts[1:], strict=True):
            nodes = distances[leaf] == distance
            expected[leaf, nodes] = 1 / 4 / (len(possible) - 1) / count
    drawn = np.zeros((7, 7))
    np.add.at(drawn, (pairs["leaf"], pairs["node"]), 1 / n)
    assert expected.sum() == pytest.approx(1)
    # Four standard errors of the largest share.
    np.testing.assert_allclose(drawn, expected, atol=4 * np.sqrt(expected.max() / n))


# From aba two steps lead up to a, and one up and one down to abb; from aa to the root and to ab. From b three steps:
# one way up to the root, two down to aa or ab.
@pytest.mark.parametrize(
    ("leaf", "distance", "nodes"), [(4, 2, [1, 5]), (2, 2, [0, 3]), (6, 3, [2, 3])]
)
def test_steps_up_are_uniform_where_they_are_drawn_first(leaf, distance, nodes):
    pairs = PairSampler(LOPSIDED).sample(100_000, np.random.default_rng(0), draw="steps")
    drawn = pairs[(pairs["leaf"] == leaf) & (pairs["distance"] == distance)]["node"]
    shares = drawn.value_counts(normalize=True)
    assert sorted(shares.index) == nodes
    np.testing.assert_allclose(shares, 0.5, atol=0.03)


def test_ancestors_only_and_up_to_the_root():
    sampler = PairSampler(LOPSIDED)
    pairs = sampler.sample(30_000, np.random.default_rng(1), ancestors=True)
    leaves, nodes = pairs["leaf"], pairs["node"]
    assert LOPSIDED.is_ancestor(nodes, leaves).all()
    # From a leaf to its ancestor it is as far as one is deeper than the other.
    depth = LOPSIDED.depth
    assert (pairs["distance"] == depth[leaves] - depth[nodes]).all()
    deep = pairs.loc[leaves == 4, "distance"].value_counts(normalize=True)
    np.testing.assert_allclose(deep[[1, 2, 3]], 1 / 3, atol=0.03)
    more = sampler.sample(3000, np.random.default_rng(1), ancestors=True, nearest=0)
    same = more[more["distance"] == 0]
    assert len(same)
    assert (same["node"] == same["leaf"]).all()


def test_a_seed_makes_a_sample_and_a_root_alone_has_no_pair():
    sampler = PairSampler(LOPSIDED)
    first = sampler.sample(50, np.random.default_rng(3))
    assert first.equals(sampler.sample(50, np.random.default_rng(3)))
    assert not first.equals(sampler.sample(50, np.random.default_rng(4)))
    with pytest.raises(TaxonomyError, match=r"no node at a distance of 1 to 7.*'life'"):
        PairSampler(Taxonomy(["life"], [-1])).sample(5, np.random.default_rng(0))
