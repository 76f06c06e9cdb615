"""Hierarchical precision, recall and F: the score of a placed answer (paper 1, §3, eqs. 2 and 3)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.taxonomy.tree import Taxonomy

__all__ = ["HierarchicalScores", "check_nodes", "harmonic_mean", "precision_recall", "score"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HierarchicalScores:
    """Scores of a set of examples; all but `depth` and `n` lie in [0, 1].

    Attributes:
        hp: Mean over examples of |anc(pred) ∩ anc(gt)| / |anc(pred)| (eq. 2a).
        hr: Mean over examples of |anc(pred) ∩ anc(gt)| / |anc(gt)| (eq. 2b).
        hf: Harmonic mean of the two *means* (eq. 3), not the mean of per-example values.
        accuracy: Share of examples placed on exactly the target node.
        depth: Mean depth of the predicted nodes in edges from the root.
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


def check_nodes(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike) -> tuple[IntArray, IntArray]:
    """Returns predicted and target nodes as integer arrays that can be scored.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).

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
            raise ValueError(f"{name} holds a number that is no node of {taxonomy!r}")
        arrays.append(array.astype(np.int64, copy=False))
    if arrays[0].shape != arrays[1].shape:
        raise ValueError(f"predicted has shape {arrays[0].shape}, target {arrays[1].shape}; they must agree")
    return arrays[0], arrays[1]


def precision_recall(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Returns per-example hP and hR.

    Args:
        taxonomy: The tree; ancestor sets include the node and the root.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).

    Returns:
        Two arrays of shape (n,) with values in (0, 1]: the root is always shared.

    Raises:
        ValueError: If the shapes differ or a number is no node of the tree.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    shared = taxonomy.shared(predicted, target).astype(np.float64)
    return shared / (taxonomy.depth[predicted] + 1), shared / (taxonomy.depth[target] + 1)


def harmonic_mean(hp: float, hr: float) -> float:
    """Returns hF of a mean hP and a mean hR (eq. 3); 0 where both are 0."""
    return 0.0 if hp + hr == 0 else 2 * hp * hr / (hp + hr)


def score(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike) -> HierarchicalScores:
    """Returns the scores of a set of placed examples.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).

    Raises:
        ValueError: If there is no example (a mean over nothing is not zero), the shapes differ, or a number is no
            node of the tree.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    if predicted.size == 0:
        raise ValueError("there are no examples to score")
    p, r = precision_recall(taxonomy, predicted, target)
    hp, hr = float(p.mean()), float(r.mean())
    return HierarchicalScores(
        hp=hp,
        hr=hr,
        hf=harmonic_mean(hp, hr),
        accuracy=float((predicted == target).mean()),
        depth=float(taxonomy.depth[predicted].mean()),
        n=int(predicted.size),
    )
