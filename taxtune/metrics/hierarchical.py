"""Hierarchical precision, recall and F: the score of a placed answer (paper 1, §3, eqs. 2 and 3).

An answer that asserts something the tree does not have ("a bicycle" on a tree of dishes) is *off
the tree*. On the root it would have hP 1, as an answer that says nothing; instead it is scored as a
child of the root that is never right: hP is 1/2, hR that of the root. All functions that score take
a mask `off_tree` of those answers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "HierarchicalScores",
    "check_nodes",
    "flags",
    "harmonic_mean",
    "is_exact",
    "overlap",
    "precision_recall",
    "score",
]

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HierarchicalScores:
    """Scores of a set of examples; all but `depth` and `n` lie in [0, 1].

    Attributes:
        hp: Mean over examples of |anc(pred) ∩ anc(gt)| / |anc(pred)| (eq. 2a).
        hr: Mean over examples of |anc(pred) ∩ anc(gt)| / |anc(gt)| (eq. 2b).
        hf: Harmonic mean of the two *means* (eq. 3), not the mean of per-example values.
        accuracy: Share of examples placed on exactly the target node; an answer off the tree never
            is.
        depth: Mean depth of the predicted nodes in edges from the root; 1 for an answer that is off
            the tree.
        n: Number of examples.
    """

    hp: float
    hr: float
    hf: float
    accuracy: float
    depth: float
    n: int

    def as_dict(self) -> dict[str, float]:
        """Returns the scores by name."""
        return asdict(self)


def check_nodes(
    taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike
) -> tuple[IntArray, IntArray]:
    """Returns predicted and target node numbers, shape (n,) each, as integer arrays.

    Raises:
        ValueError: If the shapes are not one and the same (n,), or a number is no node of the tree;
            -1, which NumPy would take for the last node, included.
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
        raise ValueError(
            f"predicted has shape {arrays[0].shape}, target {arrays[1].shape}; they must agree"
        )
    return arrays[0], arrays[1]


def flags(given: ArrayLike | None, n: int) -> BoolArray:
    """Returns flags of `n` answers as an array; all False where None is given.

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
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> tuple[IntArray, IntArray, IntArray]:
    """Returns the sizes |anc(pred)|, |anc(pred) ∩ anc(gt)| and |anc(gt)|, shape (n,) each.

    They are at least 1, and equal where the answer is exact.

    Args:
        taxonomy: The tree; ancestor sets include the node and the root.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).
        off_tree: Which answers count as a child of the root that is never right, shape (n,); none
            where left out.

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
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Returns the hP and hR of each example, shape (n,) each, in (0, 1]; see `overlap`."""
    n_predicted, n_shared, n_target = overlap(taxonomy, predicted, target, off_tree=off_tree)
    return n_shared / n_predicted, n_shared / n_target


def is_exact(hp: Any, hr: Any) -> Any:
    """Tells of each hP and hR whether the answer is exactly the target.

    Then nothing of it is wrong and nothing is left out. An answer on the root is exact where the
    target is the root; one off the tree, as a child of the root, never is.
    """
    return (hp == 1) & (hr == 1)


def harmonic_mean(hp: float, hr: float) -> float:
    """Returns the hF of a mean hP and a mean hR (eq. 3); 0 where both are 0."""
    return 0.0 if hp + hr == 0 else 2 * hp * hr / (hp + hr)


def score(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> HierarchicalScores:
    """Returns the scores of a set of placed examples; the arguments are those of `overlap`.

    Raises:
        ValueError: If there is no example (a mean over nothing is not zero), the shapes differ, or
            a number is no node of the tree.
    """
    n_predicted, n_shared, n_target = overlap(taxonomy, predicted, target, off_tree=off_tree)
    if n_predicted.size == 0:
        raise ValueError("there are no examples to score")
    precision, recall = n_shared / n_predicted, n_shared / n_target
    hp, hr = float(precision.mean()), float(recall.mean())
    return HierarchicalScores(
        hp=hp,
        hr=hr,
        hf=harmonic_mean(hp, hr),
        accuracy=float(is_exact(precision, recall).mean()),
        depth=float((n_predicted - 1).mean()),
        n=int(n_predicted.size),
    )
