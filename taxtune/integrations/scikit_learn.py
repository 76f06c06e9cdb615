"""Any scikit-learn classifier with a guarantee, in scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedGroupKFold, train_test_split
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from taxtune.answers.classifier_scores import Scores, array_scores, few
from taxtune.answers.targets import target_finder
from taxtune.classifier.scores import guaranteed
from taxtune.errors import DataError
from taxtune.metrics.hierarchical import score
from taxtune.policies import RiskGuarantee
from taxtune.taxonomy import Taxonomy, as_taxonomy

__all__ = ["Calibrated"]


class Calibrated(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that goes as deep on a label tree as a promised risk allows: the mean of 1 - hP on new examples.

    A classifier that is fitted already is used as it is, and calibrated on all examples that `fit`
    is given: give it others than those that it was fitted on, and wrap it in a `FrozenEstimator` if
    this estimator is cloned, as in cross-validation. Of one that is not, a clone is fitted on one
    half of the examples (stratified if each label has two) and calibrated on the other.

    Args:
        clf: A classifier with `predict_proba`, also a pipeline.
        tree: The label tree: a `Taxonomy`, a file or nested dicts. Labels are labels, aliases, paths
            or ids of it.
        risk: The mean of 1 - hP to keep, in (0, 1).
        confidence: How often that holds, in (0, 1); None for in expectation.
        by: A rank of the tree, or a depth: predicted groups of enough examples have a guarantee of
            their own.
        random_state: Seed of the halves.

    Attributes:
        classes_: The paths of all nodes, which `predict` returns and to which the columns of
            `predict_proba` belong.
        clf_: The fitted classifier.
        calibration_: What the calibration says; see `taxtune.calibrate_scores`.
    """

    def __init__(
        self,
        clf: Any,
        tree: Taxonomy | str | Path | Mapping[str, object],
        risk: float = 0.02,
        confidence: float | None = None,
        by: str | int | None = None,
        random_state: int | None = 0,
    ) -> None:
        self.clf = clf
        self.tree = tree
        self.risk = risk
        self.confidence = confidence
        self.by = by
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, groups: ArrayLike | None = None) -> Calibrated:  # noqa: N803
        """Fits the classifier, if need be, and chooses the threshold that a node needs.

        Args:
            X: The examples.
            y: Their labels.
            groups: The group of each example, shape (n,), such as its burst or patient: groups stay
                in one half, and each counts once.

        Raises:
            DataError: If a label is not on the tree, the classifier has no `predict_proba`, or there
                are too few examples for the guarantee.
        """
        labels = np.asarray(y)
        promise = RiskGuarantee.asked(self.risk, self.confidence)
        names = None
        if groups is not None:
            names = np.asarray(groups).astype(str)
            promise = replace(promise, unit="group")
        self.tree_ = as_taxonomy(self.tree)
        targets = self._targets(labels)
        if not hasattr(self.clf, "predict_proba"):
            raise DataError(
                "The classifier has no predict_proba.",
                value=type(self.clf).__name__,
                remedy="Wrap it in sklearn.calibration.CalibratedClassifierCV, which adds it.",
            )
        try:
            check_is_fitted(self.clf)
            self.clf_ = self.clf
        except NotFittedError:
            rows = np.arange(len(labels))
            seed = self.random_state
            if names is None:
                _, counts = np.unique(labels, return_counts=True)
                strata = labels if counts.min() > 1 else None
                fitting, rest = train_test_split(
                    rows, test_size=0.5, stratify=strata, random_state=seed
                )
            else:
                folds = StratifiedGroupKFold(2, shuffle=True, random_state=seed)
                fitting, rest = next(folds.split(rows, labels, names))
            self.clf_ = clone(self.clf).fit(_safe_indexing(X, fitting), labels[fitting])
            X = _safe_indexing(X, rest)  # noqa: N806
            targets = targets[rest]
            names = None if names is None else names[rest]
        scores = self._scores(X)
        self.calibration_ = guaranteed(self.tree_, scores, targets, promise, self.by, names)
        paths = list(self.calibration_.nodes)
        self.classes_ = np.array(paths, dtype=object)
        return self

    def predict(self, X: Any) -> NDArray[np.object_]:  # noqa: N803
        """Returns the paths of the nodes, labels from the root joined by "/", shape (n,)."""
        nodes = self._nodes(X)  # tells first that it is not fitted
        return self.classes_[nodes]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Returns the probability at or below each node, shape (n, nodes); 1 at the root."""
        check_is_fitted(self, "calibration_")
        scores = self._scores(X)
        lineage = self.tree_.lineage
        shares = np.zeros((len(scores.weights), len(self.tree_) + 1))
        nodes = np.maximum(scores.nodes[0], 0)  # the same for all
        for depth in range(self.tree_.height + 1):
            np.add.at(shares.T, lineage[nodes, depth], scores.weights.T)
        return shares[:, :-1]

    def score(self, X: Any, y: ArrayLike) -> float:  # noqa: N803
        """Returns the mean hR: how specific the predictions are while the risk is kept."""
        nodes = self._nodes(X)
        targets = self._targets(np.asarray(y))
        return score(self.tree_, nodes, targets).hr

    def _nodes(self, X: Any) -> NDArray[np.int64]:  # noqa: N803
        check_is_fitted(self, "calibration_")
        paths, depths = self.calibration_.place(self._scores(X))
        return paths.at(depths)[0]

    def _scores(self, X: Any) -> Scores:  # noqa: N803
        return array_scores(self.clf_.predict_proba(X), self.clf_.classes_, self.tree_)

    def _targets(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        find = target_finder(self.tree_)
        distinct, positions = np.unique(labels, return_inverse=True)
        targets = [find(str(label)) for label in distinct.tolist()]
        problems = [target.problem for target in targets if target.node is None]
        if problems:
            raise DataError(f"{len(problems):,} labels are not on the tree: {few(problems)}")
        nodes = np.array([target.node for target in targets], dtype=np.int64)
        return nodes[positions]
