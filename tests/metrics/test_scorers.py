from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from taxtune.errors import TaxonomyError
from taxtune.metrics import (
    hierarchical_f1_score,
    hierarchical_precision_score,
    hierarchical_recall_score,
    score,
)
from taxtune.taxonomy import Taxonomy
from tests.trees import tree_and_nodes

SCORES: tuple[tuple[Callable[..., float], str], ...] = (
    (hierarchical_precision_score, "hp"),
    (hierarchical_recall_score, "hr"),
    (hierarchical_f1_score, "hf"),
)


@settings(max_examples=60)
@given(tree_and_nodes())
def test_parity_with_score(case: tuple[Taxonomy, list[list[int]]]) -> None:
    tree, (predicted, target) = case
    expected = score(tree, predicted, target).as_dict()
    for function, name in SCORES:
        assert function(target, predicted, taxonomy=tree) == pytest.approx(expected[name])
        paths = [[tree.path(node) for node in nodes] for nodes in (target, predicted)]
        assert function(*paths, taxonomy=tree) == pytest.approx(expected[name])


@pytest.mark.parametrize(
    ("true", "predicted"),
    [
        ([4, 4], [1, 5]),
        (np.array([4, 4]), np.array([1, 5])),
        (["Turdus merula", "blackbird"], ["bird", "life/Aves/Passeriformes/Turdidae/Turdus migratorius"]),
        (np.array(["Turdus merula"] * 2, dtype=object), np.array(["Aves", "American robin"])),
        ([("Aves", "Passeriformes", "Turdidae", "Turdus merula"), 4], [("life", "Aves"), "Turdus migratorius"]),
    ],
)
def test_labels_paths_and_numbers(birds: Taxonomy, true: Any, predicted: Any) -> None:
    assert hierarchical_precision_score(true, predicted, taxonomy=birds) == pytest.approx((1 + 4 / 5) / 2)
    assert hierarchical_recall_score(true, predicted, taxonomy=birds) == pytest.approx((2 / 5 + 4 / 5) / 2)


def test_a_classifier_is_cross_validated(birds: Taxonomy) -> None:
    labels = np.repeat(["Turdus merula", "Turdus migratorius", "Anas platyrhynchos"], 8)
    features = np.repeat([[0.0, 0], [0.4, 0], [5, 5]], 8, axis=0) + np.random.default_rng(0).normal(0, 0.3, (24, 2))
    classifier = KNeighborsClassifier(1)
    found = cross_val_score(
        classifier, features, labels, scoring=make_scorer(hierarchical_f1_score, taxonomy=birds), cv=4
    )
    exact = cross_val_score(classifier, features, labels, scoring="accuracy", cv=4)
    assert found.shape == (4,)
    # What is taken for the sister species still shares four of five nodes.
    assert found == pytest.approx(exact + (1 - exact) * 4 / 5)
    assert exact.min() < 1


@pytest.mark.parametrize(
    ("true", "predicted", "error", "said"),
    [
        (["Aves"], ["Avez"], TaxonomyError, r"y_pred\[0\].*'Avez' is not on the taxonomy.*Aves"),
        ([4, 9], [4, 4], TaxonomyError, r"y_true\[1\].*not a label.*9.*0 to 8"),
        ([4], [-1], TaxonomyError, r"y_pred\[0\]"),
        ([4], [True], TaxonomyError, r"y_pred\[0\]"),
        ([4], [4.0], TaxonomyError, r"y_pred\[0\]"),
        ([("life", "no such")], [4], TaxonomyError, r"y_true\[0\]: No node has this path"),
        ([4, 4], [4], ValueError, r"predicted has shape \(1,\), target \(2,\)"),
        ([], [], ValueError, "no examples"),
        ("Aves", ["Aves"], ValueError, "not one text"),
    ],
)
def test_what_cannot_be_scored(birds: Taxonomy, true: Any, predicted: Any, error: type[Exception], said: str) -> None:
    for function, _ in SCORES:
        with pytest.raises(error, match=said):
            function(true, predicted, taxonomy=birds)
