"""Hierarchical selective classification: where a confidence is known for every node on an image's way down the tree.

An image whose node is not sure enough *climbs* to the deepest node on its way that is, instead of being rejected. The
*coverage* of a node v is the share of the leaves' information that it tells, 1 - H(v) / H(root) with H(v) = log2 of the
number of leaves at or below v: 0 at the root, 1 at a leaf. The *risk* is the share of images whose node is not on the
path of the truth. A threshold swept from the surest down draws the hierarchical risk–coverage curve, and the area below
it is hAURC (Goren, Galil and El-Yaniv 2024, "Hierarchical selective classification", NeurIPS, §2 and §3). Beside this
0/1 loss there is 1 - hP, which counts how wrong a node is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.confidence import aurc, calibration_error, risk_at_coverage
from taxtune.metrics.ranks import rank_of
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["ClimbingCurve", "RankCalibration", "Selective", "climbing_curve", "rank_calibration", "selective_scores"]

IntArray = NDArray[np.int64]

_POINTS = 200  # of a curve that are kept, evenly spaced among its steps


@dataclass(frozen=True, slots=True)
class ClimbingCurve:
    """The hierarchical risk–coverage curve, from answering the root always to the deepest nodes; at most 200 points.

    Attributes:
        share: The share that a node needs at each point, in (0, 1], falling; None for answering the root always.
        coverage: Mean coverage of the nodes, in [0, 1]; it never falls along the curve.
        risk: Share of the images whose node is not on the path of the truth, in [0, 1].
        hp: Mean hP, in (0, 1].
        hr: Mean hR, in (0, 1]; it never falls along the curve.
        area: hAURC: the area below the risk, by trapezoids over all points, divided by the largest coverage (which is 1
            where every way ends at a leaf); in [0, 1], smaller is better.
        loss_area: The same of 1 - hP.
    """

    share: tuple[float | None, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]
    hp: tuple[float, ...]
    hr: tuple[float, ...]
    area: float
    loss_area: float


@dataclass(frozen=True, slots=True)
class RankCalibration:
    """How far the confidence of the nodes of a rank is from the share that is right.

    Attributes:
        rank: The rank, or "level 2" for nodes without one.
        n: Nodes of this rank on the ways down.
        calibration_error: See `confidence.calibration_error`, in [0, 1].
        brier: Mean of (confidence - right)², right being 0 or 1, in [0, 1]. (Of two classes at a rank the multi-class
            score, a sum over both, is twice this.)
    """

    rank: str
    n: int
    calibration_error: float
    brier: float


@dataclass(frozen=True, slots=True)
class Selective:
    """What the confidence of placements is worth; smaller is better throughout.

    Attributes:
        aurc: Area under the risk–coverage curve of the loss 1 - hP, in [0, 1].
        risks: The mean of 1 - hP at each of `confidence.COVERAGES`.
        calibration_error: Of the confidence that the node is on the path of the truth; None, like those below, where
            the confidence is no such probability, as that of a single answer's placement, which says nothing of images.
        brier: Mean of (confidence - right)².
        ranks: The same at each rank, the broadest first.
        curve: The hierarchical risk–coverage curve.
    """

    aurc: float
    risks: tuple[float, ...]
    calibration_error: float | None = None
    brier: float | None = None
    ranks: tuple[RankCalibration, ...] = ()
    curve: ClimbingCurve | None = field(default=None, repr=False)


def selective_scores(
    confidence: ArrayLike,
    hp: ArrayLike,
    right: ArrayLike | None = None,
    *,
    ranks: Sequence[RankCalibration] = (),
    curve: ClimbingCurve | None = None,
) -> Selective:
    """Returns the measures of a confidence of placements.

    Args:
        confidence: Of each placement, shape (n,), n ≥ 1, larger is surer.
        hp: Its hP, shape (n,).
        right: Whether its node is on the path of the truth, where the confidence is the probability of that.
        ranks: See `rank_calibration`.
        curve: See `climbing_curve`.

    Raises:
        ValueError: If the shapes do not fit, there is no placement, or a confidence is NaN.
    """
    error, brier = (None, None) if right is None else (calibration_error(confidence, right), _brier(confidence, right))
    risks = tuple(risk_at_coverage(confidence, hp))
    return Selective(aurc(confidence, hp), risks, error, brier, tuple(ranks), curve)


def rank_calibration(
    taxonomy: Taxonomy, path: ArrayLike, shares: ArrayLike, target: ArrayLike
) -> tuple[RankCalibration, ...]:
    """Returns the calibration at each rank that a way down reaches, the broadest rank first, without the root.

    Args:
        taxonomy: The label tree.
        path: The nodes on each image's way from the root (column 0), -1 below its end, shape (n, height + 1).
        shares: The confidence of each, same shape; what stands below the end is not read.
        target: Node numbers, shape (n,).
    """
    path, shares, right = _steps(taxonomy, path, shares, target)
    there = path[:, 1:] >= 0
    nodes, sure, right = path[:, 1:][there], shares[:, 1:][there], right[:, 1:][there]
    kinds = np.array([rank_of(taxonomy, node) for node in nodes.tolist()], dtype=object)
    found = []
    for kind in sorted(set(kinds), key=lambda kind: float(taxonomy.depth[nodes[kinds == kind]].mean())):
        of = kinds == kind
        error, brier = calibration_error(sure[of], right[of]), _brier(sure[of], right[of])
        found.append(RankCalibration(str(kind), int(of.sum()), error, brier))
    return tuple(found)


def climbing_curve(taxonomy: Taxonomy, path: ArrayLike, shares: ArrayLike, target: ArrayLike) -> ClimbingCurve:
    """Returns the curve of placing each image at the deepest node on its way whose share is at least a threshold.

    Args:
        taxonomy: The label tree.
        path: As for `rank_calibration`, n ≥ 1.
        shares: As for `rank_calibration`; they never rise on the way down.
        target: Node numbers, shape (n,).

    Raises:
        ValueError: If a share rises on the way down.
    """
    path, shares, right = _steps(taxonomy, path, shares, target)
    n, there = len(path), path[:, 1:] >= 0
    if (np.diff(shares, axis=1)[there] > 1e-9).any():
        raise ValueError("shares must not rise on the way down")
    depth = np.arange(path.shape[1])
    shared = right.cumsum(axis=1)
    everything = np.log2(taxonomy.leaves_below(taxonomy.root))
    told = 1 - np.log2(taxonomy.leaves_below(np.maximum(path, taxonomy.root))) / (everything or 1.0)
    of_truth = taxonomy.depth[np.asarray(target)][:, np.newaxis] + 1
    values = np.stack([told, 1.0 - right, shared / (depth + 1), shared / of_truth])
    # As the threshold falls below a node's share, its image goes one step down; those of equal shares go at once.
    order = np.argsort(-shares[:, 1:][there], kind="stable")
    sure = shares[:, 1:][there][order]
    steps = np.diff(values, axis=2)[:, there][:, order].cumsum(axis=1) / n
    ends = np.flatnonzero(np.append(np.diff(sure) < 0, True))[: len(sure)]
    curve = values[:, :, 0].mean(axis=1, keepdims=True) + np.column_stack([np.zeros(4), steps[:, ends]])
    coverage, risk, hp, _ = curve.clip(0, 1)
    widths = np.diff(coverage) / (coverage[-1] or 1.0)
    areas = [float((widths * (loss[1:] + loss[:-1])).sum() / 2) for loss in (risk, 1 - hp)]
    kept = np.unique(np.linspace(0, len(coverage) - 1, _POINTS).round().astype(int))
    covered, wrong, precision, recall = (tuple(column.tolist()) for column in curve.clip(0, 1)[:, kept])
    thresholds = [None, *sure[ends].tolist()]
    return ClimbingCurve(tuple(thresholds[i] for i in kept), covered, wrong, precision, recall, *areas)


def _steps(
    taxonomy: Taxonomy, path: ArrayLike, shares: ArrayLike, target: ArrayLike
) -> tuple[IntArray, NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the ways, their shares, and which of their nodes are on the path of the truth."""
    path = np.asarray(path, dtype=np.int64)
    truth = taxonomy.lineage[np.asarray(target, dtype=np.int64)]
    return path, np.asarray(shares, dtype=np.float64), (path >= 0) & (path == truth)


def _brier(confidence: ArrayLike, right: ArrayLike) -> float:
    return float(((np.asarray(confidence, dtype=np.float64) - np.asarray(right, dtype=np.float64)) ** 2).mean())
