"""Counts of labels that are wrong, right but general, or exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.outcomes import CALLED_EMPTY, CALLED_SOMETHING, Outcomes
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["stone/quartz/agate", "stone/quartz/jasper", "stone/opal"])
NODES = st.integers(0, len(TREE) - 1)


@given(st.lists(st.tuples(NODES, NODES, st.booleans()), min_size=1, max_size=30))
def test_counts_agree_with_hp_and_hr(cases):
    nodes, target, off_tree = map(np.array, zip(*cases, strict=True))
    nodes = np.where(off_tree, TREE.root, nodes)
    found = Outcomes.of_nodes(TREE, nodes, target, off_tree)
    hp, hr = precision_recall(TREE, nodes, target, off_tree=off_tree)
    right = hp == 1
    assert found.images == len(cases)
    assert found.wrong == len(cases) - right.sum()
    assert found.exact == (right & (hr == 1)).sum()
    assert found.general == found.images - found.wrong - found.exact
    assert found.labels == ((nodes != TREE.root) & ~off_tree).sum()


def test_the_share_of_wrong_labels_is_of_those_below_the_root():
    node = {"/".join(TREE.path(i)): i for i in range(len(TREE))}
    agate = node["stone/quartz/agate"]
    nodes = [agate, node["stone/opal"], TREE.root, node["stone/quartz"], TREE.root]
    found = Outcomes.of_nodes(TREE, nodes, [agate] * 5, [False] * 4 + [True])
    assert (found.wrong, found.general, found.exact, found.labels) == (2, 2, 1, 3)
    share = found.share_wrong
    assert share is not None
    assert share.estimate == pytest.approx(1 / 3)
    assert share.low < 1 / 3 < share.high


def test_a_share_of_nothing_is_unknown():
    assert Outcomes().share_wrong is None


def test_no_error_among_few_leaves_room_for_some():
    # Wilson's interval by hand: z²/(n + z²) with z = 1.959964.
    share = Outcomes({"exact": 20}, labels=20).share_wrong
    assert share.low == 0
    assert share.high == pytest.approx(1.959964**2 / (20 + 1.959964**2))


@given(st.lists(st.tuples(NODES, NODES, st.booleans()), min_size=1, max_size=30))
def test_nothing_and_something_are_confused_where_some_show_nothing(cases):
    nodes, target, off_tree = map(np.array, zip(*cases, strict=True))
    nodes = np.where(off_tree, TREE.root, nodes)
    found = Outcomes.of_nodes(TREE, nodes, target, off_tree)
    if TREE.root not in target:
        assert found.nothing == {}
        return
    on_root = (nodes == TREE.root) & ~off_tree
    is_empty = target == TREE.root
    called_so = (is_empty & on_root).sum()
    named = is_empty.sum() - called_so
    missed = on_root.sum() - called_so
    assert list(found.nothing.items()) == [(CALLED_SOMETHING, named), (CALLED_EMPTY, missed)]
    right = Outcomes.of_nodes(TREE, [TREE.root], [TREE.root])
    assert (right.exact, right.labels, right.wrong) == (1, 0, 0)
