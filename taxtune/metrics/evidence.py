"""Evidence on a promised mean loss, which may be looked at after every label, as often as one likes.

Bets are placed on every loss (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random
variables by betting", JRSS B 86(1)): some gain where losses are above the promise, some where they
are below. Their capital is 1 at first. As long as the mean of each next loss, whatever came before,
is on the other side of the promise, it ever reaches 1/δ with probability at most δ (Ville), so that
to look early or often costs nothing (Ramdas et al. 2023, "Game-theoretic statistics and safe
anytime-valid inference", Statistical Science 38(4)).

The bets against a promise that was kept for long would have lost most before it is broken. So they
are spread over all labels at which they may begin, with shares that add up to 1 (Shin, Ramdas and
Rinaldo 2024, "E-detectors", NEJSDS 2(2)): still one capital of 1, for which the same holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["HEAVIEST", "Evidence", "weigh_evidence"]

FloatArray = NDArray[np.float64]

#: The largest weight of a loss.
HEAVIEST = 4 / 3
# Stakes, as shares of those that could lose all. Each has an equal part of the capital.
_AGAINST = np.array([[1 / 4], [1 / 8], [1 / 16], [1 / 32]])
_FOR = np.array([[1.0], [0.5]])


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence after each of n labels: what the capital has become, as a power of ten.

    Attributes:
        loss: The mean loss, weighted.
        broken: The capital of the bets against the promise, shape (n,).
        holds: That of the bets on it.
        since: The label, from 0, from which on the bets against the promise gained most.
        gains: What the best stake of each gained per label.
    """

    loss: float
    broken: FloatArray
    holds: FloatArray
    since: int
    gains: Sequence[float]

    def verdict(self, level: float) -> str:
        """Returns "broken", which remains so, "holds", or how many labels it may still take.

        Each is wrong with a probability of at most the level, in (0, 1).
        """
        needed = -math.log10(level)
        if self.broken.max() >= needed:
            return "broken"
        if self.holds[-1] >= needed:
            return "holds"
        numbers = []
        for capital, gain in zip((self.broken, self.holds), self.gains, strict=True):
            if gain > 0:
                number = (needed - capital[-1]) / gain
                numbers.append(math.ceil(number))
        if not numbers:
            return "not known yet"
        return f"not known yet, about {min(numbers):,} more"


def weigh_evidence(
    losses: ArrayLike, weights: ArrayLike, risk: float, worst: float = 1.0
) -> Evidence:
    """Returns the evidence that losses give on a promised mean loss.

    Args:
        losses: In the order in which they were drawn, shape (n,), n ≥ 1, each in [0, worst].
        weights: What each counts, shape (n,), in [0, `HEAVIEST`] and in the mean 1.
        risk: The promise, in (0, worst).
        worst: The largest possible loss, at most 1.
    """
    weights = np.asarray(weights, dtype=np.float64)
    losses = np.asarray(losses, dtype=np.float64)
    excess = weights * (losses - risk) / HEAVIEST
    against = np.log1p(_AGAINST * excess / risk)
    with np.errstate(divide="ignore"):  # the largest stake can lose all
        kept = np.log1p(_FOR * -excess / (worst - risk))
    labels = np.arange(1, len(losses) + 1)
    # Shares of the starts that fall slowly, so that a late change is found nearly as soon.
    waiting = 1 / np.sqrt(labels + 1)  # the shares of all later starts
    shares = 1 / np.sqrt(labels) - waiting
    capital = np.cumsum(against, axis=1)
    before = capital - against
    weighed = np.log(shares) - before
    begun = np.logaddexp.accumulate(weighed, axis=1) + capital
    broken = np.logaddexp(_mixed(begun), np.log(waiting))
    last = int(broken.argmax())
    gained = _mixed(capital[:, [last]] - before[:, : last + 1])
    holds = _mixed(np.cumsum(kept, axis=1))
    loss = np.average(losses, weights=weights)
    ten = math.log(10)
    best = [gains.mean(axis=1).max() / ten for gains in (against, kept)]
    since = int(gained.argmax())
    return Evidence(float(loss), broken / ten, holds / ten, since, best)


def _mixed(capital: FloatArray) -> FloatArray:
    """Returns the mean over stakes of logarithms of capitals."""
    mixed: FloatArray = np.logaddexp.reduce(capital, axis=0) - math.log(len(capital))
    return mixed
