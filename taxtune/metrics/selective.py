"""Hierarchical selective classification: a confidence is known for every node on an image's path.

An image whose node is not sure enough *climbs* to the deepest node on its path that is, instead of
being rejected. The *coverage* of a node v is the share of the leaves' information that it tells,
1 - H(v) / H(root) with H(v) = log2 of the number of leaves at or below v. The *risk* is the share
of images whose node is not on the path of the truth. A threshold swept from 1 down draws the
hierarchical risk–coverage curve, and the area below it is hAURC (Goren, Galil and El-Yaniv 2024,
"Hierarchical selective classification", NeurIPS). Beside this 0/1 loss there is 1 - hP.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_POINTS = 200  # of a curve that are kept, evenly spaced among its steps


@dataclass(frozen=True, slots=True)
class ClimbingCurve:
    """The hierarchical risk–coverage curve, from always answering the root to the deepest nodes.

    It has at most 200 points.

    Attributes:
        threshold: The confidence that a node needs at each point, falling; None for answering the
            root always.
        coverage: Mean coverage of the nodes, in [0, 1]; like hR it never falls along the curve.
        risk: Share of the images whose node is not on the path of the truth.
        hp: Mean hP.
        hr: Mean hR.
        area: hAURC, in [0, 1]: the area below the risk, by trapezoids, divided by the largest
            coverage (1 where every path ends at a leaf, as in the paper).
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
    """The calibration of the `n` nodes of a rank.

    `brier` is the mean of (confidence - right)², right being 0 or 1: half the multi-class Brier
    score where a rank has two classes.
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
        calibration_error: Of the confidence that the node is on the path of the truth; None, as
            those below are empty, where it is not the probability of that. The confidence of a
            single answer's placement says nothing of this.
        brier: Its Brier score.
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
    confidence: ArrayLike, hp: ArrayLike, right: ArrayLike | None = None
) -> Selective:
    """Returns the measures of a confidence, without those at each rank and the curve.

    Args:
        confidence: The confidence of each answer, shape (n,).
        hp: The hP of each answer, shape (n,).
        right: Whether each node is on the truth's path, shape (n,); None where the confidence is
            not the probability of that.
    """
    aurc = float(aurc_parts(confidence, hp).mean())
    risks = tuple(risk_at_coverage(confidence, hp))
    selective = Selective(aurc=aurc, risks=risks)
    if right is None:
        return selective
    error = calibration_error(confidence, right)
    return replace(selective, calibration_error=error, brier=_brier(confidence, right))


def rank_calibration(
    taxonomy: Taxonomy, path: ArrayLike, shares: ArrayLike, target: ArrayLike
) -> tuple[RankCalibration, ...]:
    """Returns the calibration at each rank that a path reaches, without the root.

    The arguments are those of `climbing_curve`.
    """
    path = np.asarray(path)
    is_right = path == taxonomy.lineage[np.asarray(target)]
    on_path = path >= 0
    on_path[:, 0] = False
    nodes = path[on_path]
    sure = np.asarray(shares)[on_path]
    right = is_right[on_path]
    names = [rank_of(taxonomy, node) for node in nodes.tolist()]
    ranks, codes = np.unique(names, return_inverse=True)
    counts = np.bincount(codes)
    depths = np.bincount(codes, taxonomy.depth[nodes]) / counts
    calibrations = []
    for code in np.argsort(depths, kind="stable"):
        at_rank = codes == code
        confidences = sure[at_rank]
        calibration = RankCalibration(
            rank=str(ranks[code]),
            n=int(counts[code]),
            calibration_error=calibration_error(confidences, right[at_rank]),
            brier=_brier(confidences, right[at_rank]),
        )
        calibrations.append(calibration)
    return tuple(calibrations)


def climbing_curve(
    taxonomy: Taxonomy, path: ArrayLike, shares: ArrayLike, target: ArrayLike
) -> ClimbingCurve:
    """Returns the curve of placing each image at the deepest node that is sure enough.

    Args:
        taxonomy: The label tree.
        path: The nodes on each image's path from the root (column 0), -1 below its end, shape
            (n, height + 1), n ≥ 1.
        shares: The confidence of each, which never rises on the path, same shape; not read below
            the end.
        target: Node numbers, shape (n,).

    Raises:
        ValueError: If a share rises along the path.
    """
    path = np.asarray(path)
    shares = np.asarray(shares, dtype=np.float64)
    on_path = path[:, 1:] >= 0
    rises = np.diff(shares, axis=1)[on_path]
    if (rises > 1e-9).any():
        raise ValueError("shares must not rise along the path")
    values = _values_on_paths(taxonomy, path, np.asarray(target))
    # As the threshold falls below a node's share, its image goes one step down; those of equal
    # shares go at once.
    thresholds = shares[:, 1:][on_path]
    order = np.argsort(-thresholds, kind="stable")
    thresholds = thresholds[order]
    changes = np.diff(values, axis=2)[:, on_path]
    steps = changes[:, order].cumsum(axis=1) / len(path)
    falls = np.diff(thresholds) < 0
    is_last = np.append(falls, True)[: len(thresholds)]
    ends = np.flatnonzero(is_last)
    start = values[:, :, 0].mean(axis=1, keepdims=True)
    no_step = np.zeros(4)
    steps = np.column_stack([no_step, steps[:, ends]])
    coverage, risk, hp, hr = (start + steps).clip(0, 1)
    points = np.linspace(0, len(ends), _POINTS).round()
    kept = np.unique(points.astype(int))
    needed = [None, *thresholds[ends].tolist()]
    return ClimbingCurve(
        threshold=tuple(needed[i] for i in kept),
        coverage=tuple(coverage[kept].tolist()),
        risk=tuple(risk[kept].tolist()),
        hp=tuple(hp[kept].tolist()),
        hr=tuple(hr[kept].tolist()),
        area=_area(coverage, risk),
        loss_area=_area(coverage, 1 - hp),
    )


def _values_on_paths(taxonomy: Taxonomy, path: IntArray, target: IntArray) -> FloatArray:
    """Returns coverage, risk, hP and hR of each node on paths, shape (4, n, height + 1).

    What stands below the end of a path has no meaning.
    """
    right = (path >= 0) & (path == taxonomy.lineage[target])
    shared = right.cumsum(axis=1)
    root_bits = np.log2(taxonomy.leaves_below(taxonomy.root))
    nodes = np.maximum(path, taxonomy.root)
    bits = np.log2(taxonomy.leaves_below(nodes))
    coverage = 1 - bits / (root_bits or 1.0)
    lengths = np.arange(1, path.shape[1] + 1)
    target_lengths = taxonomy.depth[target] + 1
    hp = shared / lengths
    hr = shared / target_lengths[:, np.newaxis]
    return np.stack([coverage, 1.0 - right, hp, hr])


def _area(coverage: FloatArray, loss: FloatArray) -> float:
    """Returns the area below a loss, by trapezoids, divided by the largest coverage."""
    widths = np.diff(coverage) / (coverage[-1] or 1.0)
    heights = loss[1:] + loss[:-1]
    return float((widths * heights).sum() / 2)


def _brier(confidence: ArrayLike, right: ArrayLike) -> float:
    distance = np.asarray(confidence) - np.asarray(right)
    return float((distance**2).mean())
