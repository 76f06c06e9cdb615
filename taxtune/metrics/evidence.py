"""Evidence on a promised mean loss, which may be looked at after every label, as often as one likes.

Bets are placed on every loss (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random
variables by betting", JRSS B 86(1)): some gain where losses are above the promise, some where they
are below. Their capital is 1 at first. As long as the mean of each next loss, whatever came before,
is on the other side of the promise, it ever reaches 1/δ with probability at most δ (Ville), so that
to look early or often costs nothing.

Bets against a promise that was kept for long would have lost most before it is broken. So they are
spread over all labels at which they may begin, with shares that add up to 1 (Shin, Ramdas and
Rinaldo 2024, "E-detectors", NEJSDS 2(2)): still one capital of 1, for which the same holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Evidence", "weigh_evidence"]

FloatArray = NDArray[np.float64]

# Stakes, each with an equal part of the capital. Those against the promise, per unit of loss, are
# near the best where the mean of losses of .2 to 1 has become 1.5 to 4 times what was promised;
# those on it are shares of what could be lost.
_AGAINST = np.array([[1.0], [2.0], [4.0]])
_FOR = np.array([[0.5], [1.0]])
# Shares of the starts fall slowly, so that a late change is found nearly as soon as an early one.
_DECAY = -0.25


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
                numbers.append(math.ceil((needed - capital[-1]) / gain))
        more = f", about {min(numbers):,} more" if numbers else ""
        return f"not known yet{more}"


def weigh_evidence(
    losses: ArrayLike, weights: ArrayLike, risk: float, worst: float = 1.0
) -> Evidence:
    """Returns the evidence that losses give on a promised mean loss.

    Args:
        losses: In the order in which they were drawn, shape (n,), n ≥ 1, each in [0, worst].
        weights: What each counts, shape (n,), in [0, 1].
        risk: The promise, in (0, worst).
        worst: The largest possible loss, at most 1.
    """
    weights = np.asarray(weights, dtype=np.float64)
    losses = np.asarray(losses, dtype=np.float64)
    excess = weights * (losses - risk)
    against = np.log1p(np.minimum(_AGAINST, 0.5 / risk) * excess)
    with np.errstate(divide="ignore"):  # the largest stake can lose all
        kept = np.log1p(-_FOR * excess / (worst - risk))
    labels = np.arange(1, len(losses) + 1)
    waiting = (labels + 1) ** _DECAY  # the shares of all later starts
    shares = labels**_DECAY - waiting
    capital = against.cumsum(axis=1)
    before = capital - against
    begun = np.logaddexp.accumulate(np.log(shares) - before, axis=1) + capital
    broken = np.logaddexp(_mean(begun), np.log(waiting))
    last = int(broken.argmax())
    gained = _mean(capital[:, [last]] - before[:, : last + 1])
    ten = math.log(10)
    return Evidence(
        loss=float(weights @ losses / max(weights.sum(), 1e-9)),
        broken=broken / ten,
        holds=_mean(kept.cumsum(axis=1)) / ten,
        since=int(gained.argmax()),
        gains=[gains.mean(axis=1).max() / ten for gains in (against, kept)],
    )


def _mean(capital: FloatArray) -> FloatArray:
    """Returns the mean over stakes, all as logarithms."""
    mean: FloatArray = np.logaddexp.reduce(capital, axis=0) - math.log(len(capital))
    return mean
