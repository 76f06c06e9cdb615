"""Hierarchical selective classification: a confidence is known for every node on an image's path down the tree.

An image whose node is not sure enough *climbs* to the deepest node on its path that is, instead of being rejected. The
*coverage* of a node v is the share of the leaves' information that it tells, 1 - H(v) / H(root) with H(v) = log2 of the
number of leaves at or below v. The *risk* is the share of images whose node is not on the path of the truth. A
threshold swept from 1 down draws the hierarchical risk–coverage curve, and the area below it is hAURC (Goren, Galil and
El-Yaniv 2024, "Hierarchical selective classification", NeurIPS). Beside this 0/1 loss there is 1 - hP.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from taxtune.metrics.confidence import aurc_parts, calibration_error, risk_at_coverage
from taxtune.metrics.ranks import rank_of
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "ClimbingCurve",
    "RankCalibration",
    "Selective",
    "climbing_curve",
    "rank_calibration",
    "selective_scores",
]

_POINTS = 200  # of a curve that are kept, evenly spaced among its steps


@dataclass(frozen=True, slots=True)
class ClimbingCurve:
    """The hierarchical risk–coverage curve, from answering the root always to the deepest nodes; at most 200 points.

    Attributes:
        threshold: The confidence that a node needs at each point, falling; None for answering the root always.
        coverage: Mean coverage of the nodes, in [0, 1]; like hR it never falls along the curve.
        risk: Share of the images whose node is not on the path of the truth.
        hp: Mean hP.
        hr: Mean hR.
        area: hAURC, in [0, 1]: the area below the risk, by trapezoids, divided by the largest coverage (1 where every
            path ends at a leaf, as in the paper).
        loss_area: The same of 1 - hP.
    """

    threshold: tuple[float | None, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]
    hp: tuple[float, ...]
    hr: tuple[float, ...]
    area: float
    loss_area: float


@dataclass(frozen=True, slots=True)
class RankCalibration:
    """The calibration error of the `n` nodes of a rank, and the mean of (confidence - right)², right being 0 or 1.

    That is half the multi-class Brier score where a rank has two classes.
    """

    rank: str
    n: int
    calibration_error: float
    brier: float


@dataclass(frozen=True, slots=True)
class Selective:
    """The worth of a confidence; smaller is better throughout.

    Attributes:
        aurc: Area under the risk–coverage curve of the loss 1 - hP, in [0, 1].
        risks: The mean of 1 - hP at each of `confidence.COVERAGES`.
        calibration_error: Of the confidence that the node is on the path of the truth; None, as those below are empty,
            where it is not the probability of that. The confidence of a single answer's placement says nothing of this.
        ranks: Calibration at each rank, the broadest first.
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
    ranks: tuple[RankCalibration, ...] = (),
    curve: ClimbingCurve | None = None,
) -> Selective:
    """Returns the measures of a confidence (n,), the hP of each answer, and whether its node is on the truth's path."""
    area, risks = float(aurc_parts(confidence, hp).mean()), tuple(risk_at_coverage(confidence, hp))
    if right is None:
        return Selective(area, risks)
    return Selective(
        area, risks, calibration_error(confidence, right), _brier(confidence, right), ranks, curve
    )


def rank_calibration(
    taxonomy: Taxonomy, path: ArrayLike, shares: ArrayLike, target: ArrayLike
) -> tuple[RankCalibration, ...]:
    """Returns the calibration at each rank that a path reaches, without the root; see `climbing_curve`."""
    path = np.asarray(path)
    there = path[:, 1:] >= 0
    right = (path == taxonomy.lineage[np.asarray(target)])[:, 1:][there]
    nodes, sure = path[:, 1:][there], np.asarray(shares)[:, 1:][there]
    kinds = np.array([rank_of(taxonomy, node) for node in nodes.tolist()], dtype=object)
    parts = {kind: kinds == kind for kind in set(kinds)}
    return tuple(
        RankCalibration(
            kind, int(of.sum()), calibration_error(sure[of], right[of]), _brier(sure[of], right[of])
        )
        for kind, of in sorted(
            parts.items(), key=lambda part: float(taxonomy.depth[nodes[part[1]]].mean())
        )
    )


def climbing_curve(
    taxonomy: Taxonomy, path: ArrayLike, shares: ArrayLike, target: ArrayLike
) -> ClimbingCurve:
    """Returns the curve of placing each image at the deepest node on its path whose share is at least a threshold.

    Args:
        taxonomy: The label tree.
        path: The nodes on each image's path from the root (column 0), -1 below its end, shape (n, height + 1), n ≥ 1.
        shares: The confidence of each, which never rises on the path, same shape; not read below the end.
        target: Node numbers, shape (n,).

    Raises:
        ValueError: If a share rises along the path.
    """
    path, shares, target = (
        np.asarray(path),
        np.asarray(shares, dtype=np.float64),
        np.asarray(target),
    )
    there, right = path[:, 1:] >= 0, (path >= 0) & (path == taxonomy.lineage[target])
    if (np.diff(shares, axis=1)[there] > 1e-9).any():
        raise ValueError("shares must not rise along the path")
    everything, shared = np.log2(taxonomy.leaves_below(taxonomy.root)), right.cumsum(axis=1)
    told = 1 - np.log2(taxonomy.leaves_below(np.maximum(path, taxonomy.root))) / (everything or 1.0)
    hp, hr = (
        shared / np.arange(1, path.shape[1] + 1),
        shared / (taxonomy.depth[target][:, np.newaxis] + 1),
    )
    values = np.stack([told, 1.0 - right, hp, hr])
    # As the threshold falls below a node's share, its image goes one step down; those of equal shares go at once.
    order = np.argsort(-shares[:, 1:][there], kind="stable")
    sure = shares[:, 1:][there][order]
    steps = np.diff(values, axis=2)[:, there][:, order].cumsum(axis=1) / len(path)
    ends = np.flatnonzero(np.append(np.diff(sure) < 0, True))[: len(sure)]
    curve = (
        values[:, :, 0].mean(axis=1, keepdims=True) + np.column_stack([np.zeros(4), steps[:, ends]])
    ).clip(0, 1)
    widths = np.diff(curve[0]) / (curve[0, -1] or 1.0)
    areas = [
        float((widths * (loss[1:] + loss[:-1])).sum() / 2) for loss in (curve[1], 1 - curve[2])
    ]
    kept = np.unique(np.linspace(0, len(ends), _POINTS).round().astype(int))
    thresholds = [None, *sure[ends].tolist()]
    coverage, risk, precision, recall = (tuple(column.tolist()) for column in curve[:, kept])
    return ClimbingCurve(
        tuple(thresholds[i] for i in kept), coverage, risk, precision, recall, *areas
    )


def _brier(confidence: ArrayLike, right: ArrayLike) -> float:
    return float(((np.asarray(confidence) - np.asarray(right)) ** 2).mean())
