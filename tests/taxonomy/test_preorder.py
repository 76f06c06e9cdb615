from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.preorder import SharedAncestors
from tests.trees import trees


def counted(tree: Taxonomy, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many ancestors are in both rows of the table of ancestors."""
    return ((tree.lineage[a] == tree.lineage[b]) & (tree.lineage[a] >= 0)).sum(axis=1)


@given(trees(max_nodes=40))
def test_every_pair_of_nodes(tree: Taxonomy) -> None:
    a, b = np.divmod(np.arange(len(tree) ** 2), len(tree))
    shared = SharedAncestors(tree.places, tree.depth)
    assert shared.count(a, b).tolist() == counted(tree, a, b).tolist()


@pytest.mark.parametrize(
    "parents",
    [
        pytest.param(np.arange(-1, 599), id="a chain, deeper than a byte counts"),
        pytest.param(np.where(np.arange(600) > 0, 0, -1), id="a root with leaves"),
        pytest.param(np.arange(600) // 2 + (np.arange(600) % 2) - 1, id="two children a node"),
        pytest.param(np.concatenate([[-1], np.random.default_rng(3).integers(0, np.arange(1, 600))]), id="at random"),
    ],
)
def test_more_pairs_than_are_looked_up_at_once(parents: np.ndarray) -> None:
    tree = Taxonomy([str(i) for i in range(600)], parents)
    a, b = np.random.default_rng(0).integers(0, 600, (2, 200_000))
    assert (tree.shared(a, b) == counted(tree, a, b)).all()
