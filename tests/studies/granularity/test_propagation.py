from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.studies.granularity.propagation import from_children, from_leaves, positives
from taxtune.taxonomy import Taxonomy
from tests.trees import trees

#: A tree in the manner of paper 3, Figure 2: five leaves below two inner nodes and a root.
ANIMALS = Taxonomy(["animal", "feline", "canine", "lion", "tiger", "wolf", "fox", "dog"], [-1, 0, 0, 1, 1, 2, 2, 2])
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
    by_child, by_leaf = from_children(raw, tree), from_leaves(raw, tree)
    leaves = set(tree.leaves.tolist())
    for node in range(len(tree)):
        children = tree.children(node).tolist()
        below = [v for v in tree.descendants(node).tolist() if v in leaves]
        assert np.array_equal(by_leaf[:, node], raw[:, below].max(axis=1))
        assert np.array_equal(by_child[:, node], raw[:, children].max(axis=1) if children else raw[:, node])


@settings(max_examples=40, deadline=None)
@given(trees())
def test_positives_are_the_ancestors(tree: Taxonomy) -> None:
    shown = positives(tree, tree.leaves)
    for row, leaf in zip(shown, tree.leaves.tolist(), strict=True):
        assert np.flatnonzero(row).tolist() == tree.ancestors(leaf).tolist()


def test_a_column_a_node_is_needed() -> None:
    with pytest.raises(ValueError, match="shape"):
        from_leaves(RAW[:, :3], ANIMALS)
    with pytest.raises(ValueError, match="shape"):
        from_children(RAW[0], ANIMALS)
