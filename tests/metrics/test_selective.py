"""The risk–coverage curve and calibration by rank, against loops, scikit-learn and hiclass."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc

from taxtune.metrics import precision_recall
from taxtune.metrics.confidence import COVERAGES
from taxtune.metrics.selective import climbing_curve, rank_calibration, selective_scores
from taxtune.policies import SelfConsistency, weighted_paths
from taxtune.taxonomy import Taxonomy
from tests.trees import ancestor_sets, trees


@st.composite
def voted(draw):
    """A tree, the nodes of five answers about each of some images, and the truths."""
    tree = draw(trees())
    node = st.integers(0, len(tree) - 1)
    n = draw(st.integers(1, 8))
    answers = st.lists(node, min_size=5, max_size=5)
    votes = draw(st.lists(answers, min_size=n, max_size=n))
    target = draw(st.lists(node, min_size=n, max_size=n))
    return tree, np.array(votes), np.array(target)


def climbed(tree, votes, target, threshold):
    """Coverage, risk, hP and hR of the images as the policy places them, by the definitions."""
    nodes = [tree.root] * len(votes)
    if threshold is not None:
        majority, _ = SelfConsistency(5, threshold).majority(tree, votes)
        nodes = majority.tolist()
    ancestors = ancestor_sets(tree)
    leaves = tree.leaves.tolist()
    most = math.log2(len(leaves)) or 1.0
    coverage = []
    wrong = []
    for node, truth in zip(nodes, target.tolist(), strict=True):
        below = sum(node in ancestors[leaf] for leaf in leaves)
        coverage.append(1 - math.log2(below) / most)
        wrong.append(node not in ancestors[truth])
    hp, hr = precision_recall(tree, nodes, target)
    return np.mean([coverage, wrong, hp, hr], axis=1)


@given(voted())
@settings(max_examples=60)
def test_the_curve_is_that_of_the_policy_at_every_threshold(case):
    tree, votes, target = case
    paths = weighted_paths(tree, votes)
    curve = climbing_curve(tree, paths.nodes, paths.shares, target)
    assert curve.threshold[0] is None
    points = np.column_stack([curve.coverage, curve.risk, curve.hp, curve.hr])
    for threshold, point in zip(curve.threshold, points, strict=True):
        placed = climbed(tree, votes, target, threshold)
        assert point == pytest.approx(placed, abs=1e-9)
    # Thresholds between those of the curve give nothing new.
    for step in range(1, 21):
        placed = climbed(tree, votes, target, step / 20)
        is_placed = np.isclose(points, placed, atol=1e-9)
        assert is_placed.all(axis=1).any()
    assert (np.diff(curve.coverage) >= -1e-12).all()
    assert (np.diff(curve.hr) >= -1e-12).all()
    largest = curve.coverage[-1]
    if len(points) > 1 and largest > 0:
        loss = 1 - np.array(curve.hp)
        assert curve.area == pytest.approx(auc(curve.coverage, curve.risk) / largest)
        assert curve.loss_area == pytest.approx(auc(curve.coverage, loss) / largest)
    assert 0 <= curve.loss_area <= curve.area + 1e-9 <= 1 + 2e-9


def test_a_long_curve_is_thinned_and_its_area_is_not():
    rng = np.random.default_rng(2)
    tree = Taxonomy(["all", *"abcd"], [-1, 0, 0, 0, 0])
    n = 900
    nodes = rng.integers(1, 5, n)
    sure = rng.random(n)
    path = np.column_stack([np.zeros_like(nodes), nodes])
    shares = np.column_stack([np.ones(n), sure])
    target = np.where(rng.random(n) < sure, nodes, rng.integers(1, 5, n))
    curve = climbing_curve(tree, path, shares, target)
    assert len(curve.coverage) == 200
    assert curve.coverage[0] == 0
    assert curve.coverage[-1] == 1
    ranked = np.argsort(-sure)
    wrong = nodes[ranked] != target[ranked]
    risk = np.append(0, np.cumsum(wrong)) / n
    coverage = np.arange(n + 1) / n
    assert curve.area == pytest.approx(auc(coverage, risk), abs=1e-9)
    with pytest.raises(ValueError, match="must not rise"):
        climbing_curve(tree, path, 2 - shares, target)


def families(classes):
    """Families with a genus each: the tree, and the labels by level, shape (classes, 2)."""
    names = np.array([[f"f{i:02}", f"g{i:02}"] for i in range(classes)])
    parents = [-1, *[0] * classes, *range(1, classes + 1)]
    ranks = ["", *["family"] * classes, *["genus"] * classes]
    tree = Taxonomy(["all", *names.T.ravel()], parents, ranks=ranks)
    return tree, names


@pytest.mark.parametrize("classes", [2, 12])
def test_calibration_at_each_rank_is_hiclasss(classes):
    pytest.importorskip("hiclass.metrics", exc_type=ImportError)
    from hiclass import LocalClassifierPerLevel
    from hiclass.metrics import expected_calibration_error, multiclass_brier_score

    rng = np.random.default_rng(11)
    n = 400
    # As many confidences in each tenth, so that its bins of equal width are ours of equal mass.
    tenths = np.arange(n) % 10
    sure = rng.permutation((tenths + rng.uniform(0.9, 0.99, n)) / 10)
    said = rng.integers(0, classes, n)
    is_right = rng.random(n) < sure**1.3
    truth = np.where(is_right, said, (said + 1) % classes)
    tree, names = families(classes)
    path = np.column_stack([np.zeros_like(said), said + 1, said + 1 + classes])
    shares = np.column_stack([np.ones(n), sure, sure])
    found = rank_calibration(tree, path, shares, truth + 1 + classes)
    assert [of_rank.rank for of_rank in found] == ["family", "genus"]
    assert {of_rank.n for of_rank in found} == {n}
    numbers = np.arange(classes)
    model = LocalClassifierPerLevel().fit(numbers[:, np.newaxis], names)
    others = (1 - sure) / (classes - 1)
    is_said = numbers == said[:, np.newaxis]
    probabilities = np.where(is_said, sure[:, np.newaxis], others[:, np.newaxis])
    for level, of_rank in enumerate(found):
        if classes == 2:  # its Brier score is a sum over classes
            theirs = multiclass_brier_score(model, names[truth], probabilities, level=level)
            assert of_rank.brier == pytest.approx(theirs / 2, abs=1e-6)
        else:  # its confidence is the largest probability
            theirs = expected_calibration_error(
                model, names[truth], probabilities, names[said], level=level
            )
            assert of_rank.calibration_error == pytest.approx(theirs, abs=1e-6)


def test_ranks_have_the_images_that_reach_them(birds):
    rng = np.random.default_rng(4)
    votes = rng.integers(0, len(birds), (60, 8))
    target = rng.integers(0, len(birds), 60)
    paths = weighted_paths(birds, votes)
    ancestors = ancestor_sets(birds)
    cells = defaultdict(list)
    for nodes, shares, truth in zip(paths.nodes, paths.shares, target, strict=True):
        for node, share in zip(nodes[1:], shares[1:], strict=True):
            if node >= 0:
                rank = birds.ranks[node] or f"level {birds.depth[node]}"
                cells[rank].append((share, node in ancestors[truth]))
    found = rank_calibration(birds, paths.nodes, paths.shares, target)
    assert {of_rank.rank for of_rank in found} == set(cells)
    for of_rank in found:
        sure, right = np.array(cells[of_rank.rank]).T
        assert of_rank.n == len(sure)
        assert of_rank.brier == pytest.approx(((sure - right) ** 2).mean())


def test_a_record_holds_what_the_confidence_says():
    sure = [0.9, 0.8, 0.1]
    hp = [1.0, 0.5, 1.0]
    plain = selective_scores(sure, hp)
    assert plain.aurc == pytest.approx((0 + 1 / 4 + 1 / 6) / 3)
    assert len(plain.risks) == len(COVERAGES)
    assert plain.risks[-1] == pytest.approx(1 / 6)
    assert plain.calibration_error is None
    assert plain.brier is None
    claimed = selective_scores(sure, hp, [1, 0, 1])
    assert claimed.brier == pytest.approx((0.1**2 + 0.8**2 + 0.9**2) / 3)
    assert claimed.calibration_error == pytest.approx((0.1 + 0.8 + 0.9) / 3)
