"""Risk control: the least cautious of nested policies that keeps a guarantee, chosen on images of its own.

No image's loss falls from one policy to the next. Two guarantees can be made, whatever the model, as long as the images
are exchangeable:

- *In expectation*, by conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster 2022, "Conformal risk
  control", Thm. 1): averaged over draws of the calibration images and a new one, the loss is at most the risk. A policy
  is taken while (n · mean + B) / (n + 1) is at most the risk, B being the largest possible loss.
- *With a confidence*, by learn-then-test (Angelopoulos, Bates, Candès, Jordan and Lei 2021, "Learn then test"): the
  hypotheses that a policy's mean loss is above the risk are tested one after the other, each at the full level, until
  the first that is not refuted (fixed-sequence testing).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from taxtune.metrics.bounds import p_value, upper_bound
from taxtune.taxonomy import Taxonomy

__all__ = ["Level", "control_risk", "images_needed", "worst_loss"]

_MOST_IMAGES = 10_000_000
_ROUNDING = 1e-12  # 1 - 1/3 is more than 2/3


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

    Raises:
        ValueError: If a number is out of range, or the losses are not in order.
    """
    rows = np.asarray(losses, dtype=np.float64)
    if not risk > 0:
        raise ValueError(f"the risk must be above 0, not {risk}")
    if rows.ndim != 2 or not rows.size or not ((rows >= 0) & (rows <= worst + _ROUNDING)).all():
        raise ValueError(f"losses must be rows of numbers from 0 to {worst:g}")
    rows = np.minimum(rows, worst)
    if (np.diff(rows, axis=0) < 0).any():
        raise ValueError("a policy has a smaller loss than a more cautious one")
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

    Arguments are those of `control_risk`.
    """
    part = min(risk / worst, 1.0)
    if confidence is None:
        return max(1, math.ceil(1 / part - 1 - 1e-9))
    level = 1 - confidence
    low, high = 0, 1
    while p_value(np.zeros(high), part, level=level) > level:
        low, high = high, 2 * high
        if high > _MOST_IMAGES:
            return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if p_value(np.zeros(middle), part, level=level) <= level else (middle, high)
    return high


def worst_loss(taxonomy: Taxonomy) -> float:
    """Returns the largest 1 - hP on a tree: that of the deepest node where nothing but the root is right."""
    return max(taxonomy.height, 1) / (max(taxonomy.height, 1) + 1)
