"""How many images it takes to prove a mean, by the bound that decides which template wins."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from taxtune.metrics.bounds import ASSUMED_LOSS, poisson_bound
from taxtune.tuning.objective import OBJECTIVES, Objective

if TYPE_CHECKING:
    from taxtune.tuning.records import TemplateScores

__all__ = [
    "PowerAnalysis",
    "analyse_power",
    "ceiling_reached",
    "highest_provable",
    "images_needed",
    "images_to_certify",
]

_MOST_LABELLED = 2**17  # more images than these are no advice


@dataclass(frozen=True, slots=True)
class PowerAnalysis:
    """What the tuning images can prove of a score that an objective holds with a confidence.

    Attributes:
        measure: The score.
        goal: The mean that is demanded.
        confidence: The confidence with which it is demanded, in (0.5, 1).
        images: Tuning images.
        provable: The highest mean that they can prove, if no answer loses anything.
        needed: How many images without an error it takes to prove the goal.
    """

    measure: str
    goal: float
    confidence: float
    images: int
    provable: float
    needed: int


def analyse_power(objective: Objective, images: int) -> tuple[PowerAnalysis, ...]:
    """Returns the bound that so many images can prove of each score held with a confidence."""
    return tuple(
        PowerAnalysis(
            *(held.measure, held.least, held.confidence, images),
            provable=highest_provable(images, held.confidence),
            needed=images_needed(held.least, held.confidence),
        )
        for held in objective.constraints
        if held.confidence > 0.5 and held.of is None and held.least < 1
    )


def images_needed(least: float, confidence: float) -> int:
    """Returns the number of images without an error that prove a mean in [0, 1), by `poisson_bound`."""
    return max(1, math.ceil(-ASSUMED_LOSS * math.log(1 - confidence) / (1 - least)))


def highest_provable(images: int, confidence: float) -> float:
    """Returns the highest mean that `images` images without an error prove: the inverse of `images_needed`."""
    return max(0.0, 1 + ASSUMED_LOSS * math.log(1 - confidence) / images)


def images_to_certify(losses: ArrayLike, least: float, confidence: float, *, typical: float) -> int | None:
    """Returns about how many images would prove that a template reaches a mean, if it goes on losing as before.

    Args:
        losses: Its losses so far, shape (n,), n ≥ 1, each in [0, 1].
        least: The mean that is to be reached, in [0, 1).
        confidence: In (0, 1).
        typical: Size of the loss that may come next, in (0, 1]; see `taxtune.metrics.bounds.poisson_bound`.

    Returns:
        The number of images; None where its mean loss is too high, or too close to the limit, for any number.
    """
    if 1 - np.asarray(losses, dtype=np.float64).mean() <= least:
        return None

    def proven(images: int) -> bool:
        return poisson_bound(losses, confidence, typical=typical, images=images) <= 1 - least

    enough = bisect_left(range(_MOST_LABELLED + 1), True, lo=1, key=proven)
    return enough if enough <= _MOST_LABELLED else None


def ceiling_reached(objective: Objective, scores: TemplateScores) -> bool:
    """Tells whether scores are those of always giving the exact label, so that a built-in objective cannot grow."""
    if objective.name not in OBJECTIVES or not objective.feasible(scores, scores):
        return False
    top = replace(scores, hp=1.0, hr=1.0, hf=1.0, accuracy=1.0, ihp=1.0, ihr=1.0, ihf=1.0)
    return objective.aimed(scores) >= objective.aimed(top) - 1e-9
