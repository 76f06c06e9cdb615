"""Control of the risk of an error.

Risk control takes the least cautious of nested policies that keeps a guarantee, chosen on images of its own. Two
guarantees can be made, whatever the model, as long as the images are exchangeable:

- *In expectation*, by conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster 2022, "Conformal risk
  control", Thm. 1): averaged over draws of the calibration images and a new one, the loss is at most the risk. A policy
  is taken while (n · mean + B) / (n + 1) is at most the risk, B being the largest possible loss.
- *With a confidence*, by learn-then-test (Angelopoulos, Bates, Candès, Jordan and Lei 2021, "Learn then test"): the
  hypotheses that a policy's mean loss is above the risk are tested one after the other, each at the full level, until
  the first that is not refuted (fixed-sequence testing).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from taxtune.metrics.bounds import p_value, upper_bound
from taxtune.metrics.hierarchical import precision_recall, score
from taxtune.policies.placing import Paths
from taxtune.taxonomy import Taxonomy

__all__ = [
    "SHARES",
    "Level",
    "RiskGuarantee",
    "ShareLevel",
    "control_risk",
    "images_needed",
    "share_levels",
    "worst_loss",
]

_MOST_IMAGES = 1_000_000

#: Shares among which one is chosen where any may be: steps of 0.1 in the logit, the most cautious first. They are fixed
#: before an image is seen, as learn-then-test demands.
SHARES = tuple(1 / (1 + math.exp(-step / 10)) for step in range(250, -31, -1))


@dataclass(frozen=True, slots=True)
class Level:
    """Mean loss of a policy on the calibration images, its upper bound, and whether the guarantee holds for it."""

    loss: float
    bound: float
    kept: bool


def control_risk(
    losses: ArrayLike, risk: float, confidence: float | None = None, *, worst: float = 1.0
) -> tuple[Level, ...]:
    """Returns a level for each of several nested policies; the last that is kept is the one to choose.

    Args:
        losses: The loss of each policy on each image, shape (policies, n), the most cautious policy first; in
            [0, worst], no row below the one before it anywhere, the images in the order in which they were drawn.
        risk: The mean loss to keep, above 0.
        confidence: Between 0 and 1; None for in expectation.
        worst: The largest possible loss, above 0.
    """
    rows = np.minimum(np.asarray(losses, dtype=np.float64), worst)
    levels: list[Level] = []
    for row in rows:
        if confidence is None:
            bound = float((row.sum() + worst) / (row.size + 1))
        else:  # at most the risk just where the hypothesis of a larger mean has a p-value of at most 1 - confidence
            bound = worst * upper_bound(row / worst, confidence)
        kept = bound <= risk and all(level.kept for level in levels)
        levels.append(Level(float(row.mean()), bound, kept))
    return tuple(levels)


def images_needed(risk: float, confidence: float | None = None, *, worst: float = 1.0) -> int:
    """Returns the fewest calibration images that can keep a risk, that is, if no loss occurs on any of them.

    Arguments are those of `control_risk`. With a confidence it counts no further than about a million.
    """
    part = min(risk / worst, 1.0)
    if confidence is None:
        return max(1, math.ceil(1 / part - 1 - 1e-9))
    level = 1 - confidence

    def kept(images: int) -> bool:
        return p_value(np.zeros(images), part, level=level) <= level

    enough = 1
    while not kept(enough):
        enough *= 2
        if enough > _MOST_IMAGES:
            return enough
    return bisect_left(range(enough), True, lo=enough // 2 + 1, key=kept)


def worst_loss(taxonomy: Taxonomy) -> float:
    """Returns the largest 1 - hP on a tree: that of the deepest node where nothing but the root is right."""
    return max(taxonomy.height, 1) / (max(taxonomy.height, 1) + 1)


@dataclass(frozen=True, slots=True)
class RiskGuarantee:
    """The guarantee of a calibrated policy: on new images of the same kind the mean of 1 - hP is at most the risk.

    Attributes:
        risk: The mean of 1 - hP, in (0, 1).
        confidence_level: How often that holds, in (0, 1); None for in expectation.
        images: How many images the policy was calibrated on.
    """

    risk: float
    confidence_level: float | None
    images: int


@dataclass(frozen=True, slots=True)
class ShareLevel:
    """What the calibration images say of one share of the weight.

    Attributes:
        share: The share that a node needs; None for always the root.
        hp: Mean hP on the calibration images, and `hr` mean hR.
        accuracy: Share of the images that were placed on exactly the target, and `root` of those on the root.
        bound: Upper bound of 1 - hP: in expectation, or with the confidence.
        kept: Whether the guarantee holds at this share.
    """

    share: float | None
    hp: float
    hr: float
    accuracy: float
    root: float
    bound: float
    kept: bool


def share_levels(
    taxonomy: Taxonomy,
    paths: Paths,
    target: ArrayLike,
    risk: float,
    confidence: float | None = None,
    shares: Sequence[float] = SHARES,
) -> tuple[ShareLevel, ...]:
    """Tests shares on images, after always answering the root; the last level that is kept is to be chosen.

    Args:
        taxonomy: The label tree.
        paths: The ways that the images' answers lead, the images in the order in which they were drawn.
        target: Node numbers, shape (n,).
        risk: The mean of 1 - hP to keep, in (0, 1).
        confidence: With which confidence, in (0, 1); None for in expectation.
        shares: Shares in (0, 1], the largest first, chosen without a look at the images.
    """
    target = np.asarray(target, dtype=np.int64)
    placed = [paths.nodes[:, 0], *(paths.at(paths.depths(share))[0] for share in shares)]
    losses = np.array([1 - precision_recall(taxonomy, nodes, target)[0] for nodes in placed])
    # Of the root alone nothing needs to be tested: it has no loss on any image.
    tested = control_risk(losses[1:], risk, confidence, worst=worst_loss(taxonomy))
    levels = []
    for share, nodes, level in zip((None, *shares), placed, (Level(0.0, 0.0, True), *tested), strict=True):
        scores, root = score(taxonomy, nodes, target), float((nodes == taxonomy.root).mean())
        levels.append(ShareLevel(share, scores.hp, scores.hr, scores.accuracy, root, level.bound, level.kept))
    return tuple(levels)
