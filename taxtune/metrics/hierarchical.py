"""Hierarchical precision, recall and F: the score of a placed answer (paper 1, §3, eqs. 2 and 3)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.taxonomy.tree import Taxonomy

__all__ = ["HierarchicalScores", "harmonic_mean", "precision_recall", "score"]

FloatArray = NDArray[np.float64]


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


def precision_recall(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Returns per-example hP and hR.

    Args:
        taxonomy: The tree; ancestor sets include the node and the root.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).

    Returns:
        Two arrays of shape (n,) with values in (0, 1]: the root is always shared.
    """
    predicted, target = np.asarray(predicted, dtype=np.int64), np.asarray(target, dtype=np.int64)
    if predicted.shape != target.shape:
        raise ValueError(f"predicted has shape {predicted.shape}, target {target.shape}; they must agree")
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
        ValueError: If there is no example: a mean over nothing is not zero.
    """
    predicted, target = np.asarray(predicted, dtype=np.int64), np.asarray(target, dtype=np.int64)
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
