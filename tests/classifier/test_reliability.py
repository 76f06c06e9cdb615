"""How sure a single answer is: counted on judged answers, checked on others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.landscapes.landscape import FIELDGUIDE
from taxtune.classifier import Reliability
from taxtune.taxonomy import Taxonomy
from tests.trees import trees


def test_a_case_worked_out_by_hand():
    tree = Taxonomy.from_paths(["life/bird/finch", "life/bird/duck", "life/fish/cod"])
    names = ("life", "bird", "finch", "duck", "fish", "cod")
    life, bird, finch, duck, fish, cod = map(tree.resolve, names)
    nodes = [finch, finch, finch, cod, bird, fish, life]
    targets = [finch, finch, duck, finch, duck, cod, cod]
    found = Reliability.of(tree, nodes, targets)
    assert found.counts == ((1,), (2, 2), (4, 3, 2))
    assert found.answers == 7
    assert found.confidences(0).tolist() == [1]
    # At depth 1 five of six answers are right, at depth 2 two of four.
    sure = [1, (2 + 5 * 6 / 8) / 7]
    assert found.confidences(1).tolist() == pytest.approx(sure)
    deep = [1, (3 + 5 * 6 / 8) / 9, (2 + 5 * 3 / 6) / 9]
    assert found.confidences(2).tolist() == pytest.approx(deep)


@given(trees(), st.data())
def test_confidences_are_shares_that_never_rise(tree, data):
    nodes = st.integers(0, len(tree) - 1)
    pairs = data.draw(st.lists(st.tuples(nodes, nodes), min_size=1, max_size=30))
    found = Reliability.of(tree, *zip(*pairs, strict=True))
    assert found.answers == len(pairs)
    for depth in range(tree.height + 1):
        sure = found.confidences(depth)
        assert sure.shape == (depth + 1,)
        assert sure[0] == 1
        assert ((sure > 0) & (sure <= 1)).all()
        assert (np.diff(sure) <= 0).all()


def replayed(held_out):
    """Returns the confidences that some images give, and whether the others are right.

    The answers are those of 329 recorded prompts.
    """
    recorded = np.load(FIELDGUIDE)
    tree = Taxonomy(recorded["labels"].tolist(), recorded["parents"].astype(np.int64))
    target = recorded["targets"].astype(np.int64)
    rng = np.random.default_rng(0)
    sure = []
    right = []
    for nodes, off in zip(recorded["nodes"].astype(np.int64), recorded["off_tree"], strict=True):
        images = rng.permutation(len(target))
        counted, checked = images[:held_out], images[held_out:]
        counted = counted[~off[counted]]
        checked = checked[~off[checked]]
        found = Reliability.of(tree, nodes[counted], target[counted])
        for depth in range(1, tree.height + 1):
            rows = checked[tree.depth[nodes[checked]] == depth]
            hits = tree.lineage[nodes[rows]] == tree.lineage[target[rows]]
            hits = hits[:, 1 : depth + 1]
            said = np.broadcast_to(found.confidences(depth)[1:], hits.shape)
            right.append(hits.ravel())
            sure.append(said.ravel())
    return np.concatenate(sure), np.concatenate(right)


def test_what_is_counted_on_some_images_holds_on_others():
    said, was = replayed(200)
    assert said.mean() == pytest.approx(was.mean(), abs=0.005)
    edges = np.quantile(said, [0, 0.1, 0.25, 0.5, 0.75, 1])
    for low, high in pairwise(edges):
        inside = (said >= low) & (said <= high)
        right = was[inside].mean()
        assert said[inside].mean() == pytest.approx(right, abs=0.03), (low, high)


def test_spotless_images_prove_no_more_than_one_error_among_them_would():
    tree = Taxonomy.from_paths(["life/bird/duck"])
    for n in (1, 30, 1000):
        found = Reliability.of(tree, [2] * n, [2] * n)
        sure = found.confidences(2)[-1]
        assert sure < 1
        expected = (2 * n + 1) / (2 * n + 2)
        assert sure == pytest.approx(expected, abs=1e-12) or n < 5
