"""Hierarchical precision, recall and F: the score of a placed answer (paper 1, §3, eqs. 2 and 3).

An answer that asserts something the tree does not have ("a bicycle" on a tree of dishes) is *off the tree*. On the root
it would have hP 1, as an answer that says nothing; instead it is scored as a child of the root that is never right: hP
is 1/2, hR that of the root. All functions that score take a mask `off_tree` of those answers.

The second half has the scores in scikit-learn's conventions, for any classifier over a taxonomy's labels:

    scorer = make_scorer(hierarchical_f1_score, taxonomy=tree)
    cross_val_score(classifier, features, labels, scoring=scorer)
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "HierarchicalScores",
    "check_nodes",
    "flags",
    "harmonic_mean",
    "hierarchical_f1_score",
    "hierarchical_precision_score",
    "hierarchical_recall_score",
    "overlap",
    "precision_recall",
    "score",
]

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Labels = Iterable[int | str | Sequence[str]]


@dataclass(frozen=True, slots=True)
class HierarchicalScores:
    """Scores of a set of examples; all but `depth` and `n` lie in [0, 1].

    Attributes:
        hp: Mean over examples of |anc(pred) ∩ anc(gt)| / |anc(pred)| (eq. 2a).
        hr: Mean over examples of |anc(pred) ∩ anc(gt)| / |anc(gt)| (eq. 2b).
        hf: Harmonic mean of the two *means* (eq. 3), not the mean of per-example values.
        accuracy: Share of examples placed on exactly the target node; an answer off the tree never is.
        depth: Mean depth of the predicted nodes in edges from the root; 1 for an answer that is off the tree.
        n: Number of examples.
    """

    hp: float
    hr: float
    hf: float
    accuracy: float
    depth: float
    n: int

    def as_dict(self) -> dict[str, float]:
        """The scores by name."""
        return asdict(self)


def check_nodes(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike) -> tuple[IntArray, IntArray]:
    """Predicted and target node numbers, shape (n,) each, as integer arrays.

    Raises:
        ValueError: If the shapes are not one and the same (n,), or a number is no node of the tree; -1, which NumPy
            would take for the last node, included.
    """
    arrays = []
    for name, given in (("predicted", predicted), ("target", target)):
        array = np.asarray(given)
        if array.ndim != 1:
            raise ValueError(f"{name} must have one dimension, not shape {array.shape}")
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"{name} must hold node numbers, not {array.dtype}")
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < len(taxonomy):
            raise ValueError(f"{name} contains a number that is not a node of {taxonomy!r}")
        arrays.append(array.astype(np.int64, copy=False))
    if arrays[0].shape != arrays[1].shape:
        raise ValueError(f"predicted has shape {arrays[0].shape}, target {arrays[1].shape}; they must agree")
    return arrays[0], arrays[1]


def flags(given: ArrayLike | None, n: int) -> BoolArray:
    """Flags of `n` answers as an array; all False where None is given.

    Raises:
        ValueError: If they do not have the shape (n,), or are neither booleans nor 0 and 1.
    """
    if given is None:
        return np.zeros(n, dtype=bool)
    array = np.asarray(given)
    if array.shape != (n,):
        raise ValueError(f"flags have shape {array.shape}; there are {n} answers")
    if not np.isin(array, (False, True)).all():
        raise ValueError(f"flags must be booleans, not {array.dtype}")
    return array.astype(bool)


def overlap(
    taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike, *, off_tree: ArrayLike | None = None
) -> tuple[IntArray, IntArray, IntArray]:
    """The sizes |anc(pred)|, |anc(pred) ∩ anc(gt)| and |anc(gt)|, shape (n,) each, at least 1: equal where exact.

    Args:
        taxonomy: The tree; ancestor sets include the node and the root.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).
        off_tree: Which answers count as a child of the root that is never right, shape (n,); none where left out.

    Raises:
        ValueError: If the shapes differ or a number is no node of the tree.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    n_predicted, n_shared = taxonomy.depth[predicted] + 1, taxonomy.shared(predicted, target)
    if off_tree is not None:
        off = flags(off_tree, predicted.size)
        n_predicted[off], n_shared[off] = 2, 1
    return n_predicted, n_shared, taxonomy.depth[target] + 1


def precision_recall(
    taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike, *, off_tree: ArrayLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """The hP and hR of each example, shape (n,) each, in (0, 1]: the root is always shared; see `overlap`."""
    n_predicted, n_shared, n_target = overlap(taxonomy, predicted, target, off_tree=off_tree)
    return n_shared / n_predicted, n_shared / n_target


def harmonic_mean(hp: float, hr: float) -> float:
    """The hF of a mean hP and a mean hR (eq. 3); 0 where both are 0."""
    return 0.0 if hp + hr == 0 else 2 * hp * hr / (hp + hr)


def score(
    taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike, *, off_tree: ArrayLike | None = None
) -> HierarchicalScores:
    """The scores of a set of placed examples; the arguments are those of `overlap`.

    Raises:
        ValueError: If there is no example (a mean over nothing is not zero), the shapes differ, or a number is no
            node of the tree.
    """
    n_predicted, n_shared, n_target = overlap(taxonomy, predicted, target, off_tree=off_tree)
    if n_predicted.size == 0:
        raise ValueError("there are no examples to score")
    hp, hr = float((n_shared / n_predicted).mean()), float((n_shared / n_target).mean())
    return HierarchicalScores(
        hp=hp,
        hr=hr,
        hf=harmonic_mean(hp, hr),
        accuracy=float(((n_predicted == n_shared) & (n_shared == n_target)).mean()),
        depth=float((n_predicted - 1).mean()),
        n=int(n_predicted.size),
    )


def hierarchical_precision_score(y_true: Labels, y_pred: Labels, *, taxonomy: Taxonomy) -> float:
    """The mean share of a prediction's path that the truth shares, in (0, 1]; paths include the root.

    Args:
        y_true: The true nodes, n ≥ 1 of them: each a label, an alias, a path as text ("life/Aves") or as a sequence of
            labels, or a node number. Rows of a 2-D array are paths, "" filling up the short ones, as in hiclass.
        y_pred: The predicted nodes, as many.
        taxonomy: The tree.

    Raises:
        TaxonomyError: If a label or number is not on the tree; the message gives its position and near names.
        ValueError: If there are no examples or the lengths differ.
    """
    return _score_labels(taxonomy, y_true, y_pred).hp


def hierarchical_recall_score(y_true: Labels, y_pred: Labels, *, taxonomy: Taxonomy) -> float:
    """The mean share of the truth's path that the prediction shares; see `hierarchical_precision_score`."""
    return _score_labels(taxonomy, y_true, y_pred).hr


def hierarchical_f1_score(y_true: Labels, y_pred: Labels, *, taxonomy: Taxonomy) -> float:
    """The harmonic mean of mean precision and mean recall, in (0, 1]; see `hierarchical_precision_score`."""
    return _score_labels(taxonomy, y_true, y_pred).hf


def _score_labels(taxonomy: Taxonomy, y_true: Labels, y_pred: Labels) -> HierarchicalScores:
    return score(taxonomy, _nodes(taxonomy, y_pred, "y_pred"), _nodes(taxonomy, y_true, "y_true"))


def _nodes(taxonomy: Taxonomy, labels: Labels, name: str) -> IntArray:
    if isinstance(labels, str):
        raise ValueError(f"{name} must be a list of labels, not one text")
    find = lru_cache(maxsize=None, typed=True)(partial(_node, taxonomy))  # 1, True and "1" are told apart
    nodes = []
    for i, label in enumerate(labels.tolist() if isinstance(labels, np.ndarray) else labels):
        try:
            nodes.append(find(label if isinstance(label, Hashable) else tuple(label)))
        except TaxonomyError as error:
            message = f"{name}[{i}]: {error.message}"
            raise TaxonomyError(message, file=error.file, value=error.value, remedy=error.remedy) from None
    return np.array(nodes, dtype=np.int64)


def _node(taxonomy: Taxonomy, label: Any) -> int:
    if isinstance(label, str):
        return taxonomy.resolve(label)
    if isinstance(label, tuple) and all(isinstance(part, str) for part in label):
        return taxonomy.resolve([part for part in label if part])
    is_number = isinstance(label, numbers.Integral) and not isinstance(label, bool)
    if is_number and 0 <= int(label) < len(taxonomy):
        return int(label)
    remedy = f"Node numbers are 0 to {len(taxonomy) - 1:,}."
    raise TaxonomyError("This is not a label, a path or the number of a node.", value=label, remedy=remedy)
