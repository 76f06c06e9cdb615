from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

import taxtune
from taxtune.metrics import precision_recall, score
from taxtune.taxonomy import Taxonomy
from tests.trees import ancestor_sets, tree_and_nodes


def over_plain_sets(tree, predicted, target):
    """hP and hR of each answer by equations 2a and 2b."""
    ancestors = ancestor_sets(tree)
    hp = []
    hr = []
    for p, t in zip(predicted, target, strict=True):
        shared = len(ancestors[p] & ancestors[t])
        hp.append(shared / len(ancestors[p]))
        hr.append(shared / len(ancestors[t]))
    return hp, hr


@given(tree_and_nodes())
def test_equations_2_and_3_over_plain_sets(case):
    tree, (predicted, target) = case
    hp, hr = map(np.mean, over_plain_sets(tree, predicted, target))
    scores = score(tree, predicted, target)
    assert scores.hp == pytest.approx(hp)
    assert scores.hr == pytest.approx(hr)
    assert scores.hf == pytest.approx(2 * hp * hr / (hp + hr))
    is_right = np.array(predicted) == target
    depths = [len(tree.path(p)) - 1 for p in predicted]
    assert scores.accuracy == pytest.approx(is_right.mean())
    assert scores.depth == pytest.approx(np.mean(depths))
    assert scores.n == len(target)


def hiclass_rows(tree, nodes):
    """The root is in every row; "" fills up the rows of shallow nodes and is not counted."""
    rows = []
    for node in nodes.tolist():
        row = ["/".join(tree.path(i)) for i in tree.ancestors(node)]
        row += [""] * (tree.height + 1 - len(row))
        rows.append(row)
    return np.array(rows)


def test_parity_with_hiclass(birds):
    hiclass = pytest.importorskip("hiclass.metrics", exc_type=ImportError)
    rng = np.random.default_rng(3)
    predicted, target = rng.integers(0, len(birds), (2, 200))
    rows = hiclass_rows(birds, target), hiclass_rows(birds, predicted)
    scores = score(birds, predicted, target)
    assert scores.hp == pytest.approx(hiclass.precision(*rows, average="macro"))
    assert scores.hr == pytest.approx(hiclass.recall(*rows, average="macro"))
    # hiclass averages per-example F values; the paper's hF is that of the means, and they are not
    # the same.
    theirs = hiclass.f1(*rows, average="macro")
    hp, hr = precision_recall(birds, predicted, target)
    hf = 2 * hp * hr / (hp + hr)
    assert theirs == pytest.approx(hf.mean())
    assert scores.hf != pytest.approx(theirs, abs=1e-4)
    # The harmonic mean is concave: that of the means is never below the mean.
    assert scores.hf > theirs


def test_a_mean_over_nothing_is_not_zero(birds):
    with pytest.raises(ValueError, match="no examples"):
        score(birds, [], [])


@given(tree_and_nodes(), st.data())
def test_off_the_tree_is_a_child_of_the_root_that_is_never_right(case, data):
    """Recomputed on a tree that has such a child, over plain sets."""
    tree, (predicted, target) = case
    n = len(target)
    off = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    labels = [*tree.labels, "what the tree lacks"]
    wider = Taxonomy(labels, [*tree.parents.tolist(), 0])
    nowhere = wider.resolve(["root", "what the tree lacks"])
    paths = [list(tree.path(node)) for node in range(len(tree))]
    places = [wider.resolve(path) for path in paths]
    wanted = [places[t] for t in target]
    said = []
    for p, is_off in zip(predicted, off, strict=True):
        said.append(nowhere if is_off else places[p])
    expected = over_plain_sets(wider, said, wanted)
    found = precision_recall(tree, predicted, target, off_tree=off)
    np.testing.assert_allclose(found, expected)
    assert score(tree, predicted, target, off_tree=off) == score(wider, said, wanted)


@pytest.mark.parametrize("off", [[True], [[True, False]], ["yes", "no"], [0.5, 1.0], True])
def test_a_mask_that_fits_no_answers_is_refused(birds, off):
    with pytest.raises(ValueError, match="flags"):
        score(birds, [1, 2], [1, 2], off_tree=off)


@pytest.mark.parametrize(
    ("predicted", "target", "message"),
    [
        ([1, 2], [1], "must agree"),
        ([-1], [1], "not a node"),
        ([9], [1], "not a node"),
        ([1], [9], "not a node"),
        ([1.0], [1], "not float64"),
        ([None], [1], "not object"),
        ([[1]], [[1]], "one dimension"),
    ],
)
def test_what_cannot_be_scored_is_refused(birds, predicted, target, message):
    with pytest.raises(ValueError, match=message):
        precision_recall(birds, predicted, target)


def test_a_classifier_is_cross_validated(birds):
    labels = np.repeat(["Turdus merula", "Turdus migratorius", "Anas platyrhynchos"], 8)
    centres = np.repeat([[0.0, 0], [0.4, 0], [5, 5]], 8, axis=0)
    noise = np.random.default_rng(0).normal(0, 0.3, (24, 2))
    nearest = KNeighborsClassifier(1)

    def cross_validated(scoring):
        return cross_val_score(nearest, centres + noise, labels, scoring=scoring, cv=4)

    def hf_of(true, predicted):
        return taxtune.score(predicted, true, birds).hf

    hf = make_scorer(hf_of)
    exact = cross_validated("accuracy")
    # What is taken for the sister species still shares four of five nodes.
    assert cross_validated(hf) == pytest.approx(exact + (1 - exact) * 4 / 5)
    assert exact.min() < 1
