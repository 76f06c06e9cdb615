"""The hierarchical risk–coverage curve and calibration by rank, against plain loops, scikit-learn and hiclass."""

from __future__ import annotations

import math

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
from tests.trees import trees


@st.composite
def voted(draw: st.DrawFn) -> tuple[Taxonomy, np.ndarray, np.ndarray]:
    """A tree, the nodes of five answers about each of some images, and the truths."""
    tree = draw(trees())
    node = st.integers(0, len(tree) - 1)
    n = draw(st.integers(1, 8))
    votes = [draw(st.lists(node, min_size=5, max_size=5)) for _ in range(n)]
    return tree, np.array(votes), np.array(draw(st.lists(node, min_size=n, max_size=n)))


def climbed(
    tree: Taxonomy, votes: np.ndarray, target: np.ndarray, threshold: float
) -> tuple[float, float, float, float]:
    """Coverage, risk, hP and hR of the images placed by the policy, by the paper's definitions, image by image."""
    nodes = (
        [tree.root] * len(votes)
        if threshold > 1
        else SelfConsistency(5, threshold).majority(tree, votes)[0].tolist()
    )
    told, wrong = [], []
    for node, truth in zip(nodes, target.tolist(), strict=True):
        leaves, everything = len(tree.leaves), tree.leaves.tolist()
        below = sum(node in tree.ancestors(leaf) or node == leaf for leaf in everything)
        told.append(1 - (math.log2(below) / math.log2(leaves) if leaves > 1 else 0.0))
        wrong.append(node != truth and node not in tree.ancestors(truth))
    hp, hr = precision_recall(tree, nodes, target)
    return float(np.mean(told)), float(np.mean(wrong)), hp.mean(), hr.mean()


@given(voted())
@settings(max_examples=60)
def test_the_curve_is_that_of_the_policy_at_every_threshold(case) -> None:
    tree, votes, target = case
    paths = weighted_paths(tree, votes)
    path, shares = paths.nodes, paths.shares
    curve = climbing_curve(tree, path, shares, target)
    assert curve.threshold[0] is None
    points = list(zip(curve.coverage, curve.risk, curve.hp, curve.hr, strict=True))
    for threshold, point in zip(curve.threshold, points, strict=True):
        assert point == pytest.approx(
            climbed(tree, votes, target, 2.0 if threshold is None else threshold)
        )
    # Thresholds between those of the curve give nothing new.
    expected = {
        tuple(np.round(climbed(tree, votes, target, step / 20), 9)) for step in range(1, 21)
    }
    assert expected <= {tuple(np.round(point, 9)) for point in points}
    assert (np.diff(curve.coverage) >= -1e-12).all()
    assert (np.diff(curve.hr) >= -1e-12).all()
    if len(points) > 1 and curve.coverage[-1] > 0:
        assert curve.area == pytest.approx(auc(curve.coverage, curve.risk) / curve.coverage[-1])
        assert curve.loss_area == pytest.approx(
            auc(curve.coverage, 1 - np.array(curve.hp)) / curve.coverage[-1]
        )
    assert 0 <= curve.loss_area <= curve.area + 1e-9 <= 1 + 2e-9


def test_a_long_curve_is_thinned_and_its_area_is_not() -> None:
    rng = np.random.default_rng(2)
    tree = Taxonomy(["all", *"abcd"], [-1, 0, 0, 0, 0])
    path = np.column_stack([np.zeros(900, dtype=int), rng.integers(1, 5, 900)])
    shares = np.column_stack([np.ones(900), rng.random(900)])
    target = np.where(rng.random(900) < shares[:, 1], path[:, 1], rng.integers(1, 5, 900))
    curve = climbing_curve(tree, path, shares, target)
    assert len(curve.coverage) == 200
    assert (curve.coverage[0], curve.coverage[-1]) == (0, 1)
    order = np.argsort(-shares[:, 1])
    wrong = np.append(0, np.cumsum((path[:, 1] != target)[order])) / 900
    assert curve.area == pytest.approx(auc(np.arange(901) / 900, wrong), abs=1e-9)
    with pytest.raises(ValueError, match="must not rise"):
        climbing_curve(tree, path, 2 - shares, target)


def of_classes(
    classes: int, sure: np.ndarray, said: np.ndarray
) -> tuple[Taxonomy, np.ndarray, np.ndarray, np.ndarray]:
    """Families with a genus each: tree, labels by level, the paths with their shares, and all probabilities."""
    names = np.array([[f"f{i:02}", f"g{i:02}"] for i in range(classes)])
    parents = [-1, *[0] * classes, *range(1, classes + 1)]
    ranks = ["", *["family"] * classes, *["genus"] * classes]
    tree = Taxonomy(["all", *names[:, 0], *names[:, 1]], parents, ranks=ranks)
    path = np.column_stack([np.zeros_like(said), said + 1, said + 1 + classes])
    rest = ((1 - sure) / (classes - 1))[:, np.newaxis]
    return (
        tree,
        names,
        path,
        np.where(said[:, np.newaxis] == np.arange(classes), sure[:, np.newaxis], rest),
    )


@pytest.mark.parametrize("classes", [2, 12])
def test_calibration_at_each_rank_is_hiclasss(classes: int) -> None:
    pytest.importorskip("hiclass.metrics", exc_type=ImportError)
    from hiclass import LocalClassifierPerLevel
    from hiclass.metrics import expected_calibration_error, multiclass_brier_score

    rng, n = np.random.default_rng(11), 400
    # As many confidences in each tenth, so that its bins of equal width are ours of equal mass.
    sure = rng.permutation((np.arange(n) % 10 + rng.uniform(0.9, 0.99, n)) / 10)
    said = rng.integers(0, classes, n)
    truth = np.where(rng.random(n) < sure**1.3, said, (said + 1) % classes)
    tree, names, path, probabilities = of_classes(classes, sure, said)
    found = rank_calibration(
        tree, path, np.column_stack([np.ones(n), sure, sure]), truth + 1 + classes
    )
    assert [(one.rank, one.n) for one in found] == [("family", n), ("genus", n)]
    model = LocalClassifierPerLevel().fit(np.arange(classes)[:, np.newaxis], names)
    for level, one in enumerate(found):
        if classes == 2:  # its Brier score is a sum over classes
            theirs = multiclass_brier_score(model, names[truth], probabilities, level=level)
            assert one.brier == pytest.approx(theirs / 2, abs=1e-6)
        else:  # its confidence is the largest probability
            theirs = expected_calibration_error(
                model, names[truth], probabilities, names[said], level=level
            )
            assert one.calibration_error == pytest.approx(theirs, abs=1e-6)


def test_ranks_have_the_images_that_reach_them(birds: Taxonomy) -> None:
    rng = np.random.default_rng(4)
    votes, target = rng.integers(0, len(birds), (60, 8)), rng.integers(0, len(birds), 60)
    paths = weighted_paths(birds, votes)
    path, shares = paths.nodes, paths.shares
    cells: dict[str, list[tuple[float, float]]] = {}
    for nodes, sure, truth in zip(path.tolist(), shares.tolist(), target.tolist(), strict=True):
        for node, share in list(zip(nodes, sure, strict=True))[1:]:
            if node >= 0:
                rank = birds.ranks[node] or f"level {birds.depth[node]}"
                cells.setdefault(rank, []).append(
                    (share, node == truth or node in birds.ancestors(truth))
                )
    found = rank_calibration(birds, path, shares, target)
    assert {one.rank: one.n for one in found} == {rank: len(some) for rank, some in cells.items()}
    for one in found:
        sure, right = np.array(cells[one.rank]).T
        assert one.brier == pytest.approx(((sure - right) ** 2).mean())


def test_a_record_holds_what_the_confidence_says(birds: Taxonomy) -> None:
    sure, hp, right = [0.9, 0.8, 0.1], [1.0, 0.5, 1.0], [1, 0, 1]
    plain = selective_scores(sure, hp)
    assert plain.aurc == pytest.approx((0 + 1 / 4 + 1 / 6) / 3)
    assert (len(plain.risks), plain.risks[-1]) == (len(COVERAGES), pytest.approx(1 / 6))
    assert (plain.calibration_error, plain.brier) == (None, None)
    claimed = selective_scores(sure, hp, right)
    assert claimed.brier == pytest.approx((0.1**2 + 0.8**2 + 0.9**2) / 3)
    assert claimed.calibration_error == pytest.approx((0.1 + 0.8 + 0.9) / 3)
