"""Upper bounds on a mean loss that a finite sample proves, whatever its distribution on [0, 1] is.

The bound is Waudby-Smith and Ramdas's by betting (2024, "Estimating means of bounded random
variables by betting", JRSS B 86(1), in the one-sided form of Bates et al. 2021, "Distribution-free,
risk-controlling prediction sets", Prop. 5): a bet against a mean of R or more turns a capital of 1
into 1/δ with probability at most δ (Ville's inequality), so that where it did, such a mean is
refuted at level δ. It holds for any number of images. On hierarchical losses (1 - hP), mostly 0 and
otherwise fractions, it is narrower than Hoeffding-Bentkus: .035 against .043 at n = 400, mean .025,
confidence .9.

Where a bound ranks and chooses but promises nothing, an approximate one is enough: `poisson_bound`.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ASSUMED_LOSS",
    "errorless_images",
    "highest_provable",
    "images_to_certify",
    "p_value",
    "poisson_bound",
    "upper_bound",
]

FloatArray = NDArray[np.float64]

#: Size of a loss in hP, for `poisson_bound`, as long as no wrong answer has been seen.
ASSUMED_LOSS = 0.5
_MOST_LABELLED = 2**17  # more images than these are no advice


def upper_bound(losses: ArrayLike, confidence: float, *, per: ArrayLike = 1.0) -> float:
    """Returns an upper confidence bound on a mean loss, in (0, 1].

    It is 1 where too few losses prove nothing.

    Args:
        losses: Independent losses of one distribution, shape (n,), n ≥ 1, each in [0, 1], in an
            order that does not depend on them: that in which the images were drawn.
        confidence: Probability with which the mean is at most the bound, between 0 and 1, both
            excluded.
        per: For a ratio of means what is below the line, shape (n,): from the loss to 1 each.

    Raises:
        ValueError: If there are no losses, one is not in [0, 1], or the confidence is out of range.
    """
    from scipy.optimize import brentq

    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
    level = 1 - confidence
    losses = _checked(losses)
    stakes = _stakes(losses, level)
    unit = np.asarray(per, dtype=np.float64)

    def excess(mean: float) -> float:
        return _log_capital(losses, stakes, mean * unit) + math.log(level)

    # The capital grows with the mean that is bet against, and at 0 nothing can be won.
    if excess(1.0) <= 0:
        return 1.0
    return float(brentq(excess, 0.0, 1.0))


def p_value(losses: ArrayLike, risk: float, *, level: float = 0.1) -> float:
    """Returns a p-value, in (0, 1], of the hypothesis that the mean loss is above `risk`.

    A small one refutes it. It is at most `level` exactly where `upper_bound(losses, 1 - level)` is
    at most `risk`, and valid at every level. Errors are those of `upper_bound`.
    """
    if not 0 <= risk <= 1:
        raise ValueError(f"risk must be between 0 and 1, not {risk}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, not {level}")
    losses = _checked(losses)
    stakes = _stakes(losses, level)
    capital = _log_capital(losses, stakes, risk)
    return float(np.exp(-capital))


def poisson_bound(
    losses: ArrayLike, confidence: float, *, typical: float, images: int | None = None
) -> float:
    """Returns an approximate upper confidence bound, in (0, 1], on a mean of few losses.

    Losses are taken for a weighted sum of Poisson counts, whose bound is a quantile of a gamma
    distribution of the same mean and variance (Fay and Feuer 1997, "Confidence intervals for
    directly standardized rates", Statistics in Medicine 16). Unlike a bound from the sample's own
    variance it is above 0 where nothing was lost.

    Args:
        losses: As for `upper_bound`.
        confidence: As for `upper_bound`.
        typical: Size of a loss where there is one, in (0, 1], for the next loss.
        images: Number of losses, distributed as these, that the bound is computed for; by default
            len(losses).
    """
    from scipy.stats import chi2

    if not 0 < confidence < 1 or not 0 < typical <= 1:
        raise ValueError(
            f"confidence and typical must be between 0 and 1, not {confidence} and {typical}"
        )
    losses = _checked(losses)
    n = images or len(losses)
    next_loss = typical / n
    squares = float((losses**2).sum())
    mean = float(losses.mean()) + next_loss
    variance = squares / (len(losses) * n) + next_loss**2
    quantile = float(chi2.ppf(confidence, 2 * mean**2 / variance))
    scale = variance / (2 * mean)
    return min(1.0, scale * quantile)


def errorless_images(least: float, confidence: float) -> int:
    """Returns the number of images without an error that prove a mean in [0, 1)."""
    losses = -ASSUMED_LOSS * math.log(1 - confidence)
    return max(1, math.ceil(losses / (1 - least)))


def highest_provable(images: int, confidence: float) -> float:
    """Returns the highest mean that images without an error prove, see `errorless_images`."""
    return max(0.0, 1 + ASSUMED_LOSS * math.log(1 - confidence) / images)


def images_to_certify(
    losses: ArrayLike, least: float, confidence: float, *, typical: float
) -> int | None:
    """Returns about how many images would prove a mean, if losses go on as before.

    It is None if the mean loss is too high, or too close to the limit, for any number.

    Args:
        losses: Losses so far, shape (n,), n ≥ 1, each in [0, 1].
        least: The mean that is to be reached, in [0, 1).
        confidence: In (0, 1).
        typical: Size of the loss that may come next, in (0, 1]; see `poisson_bound`.
    """
    mean = np.asarray(losses, dtype=np.float64).mean()
    if 1 - mean <= least:
        return None

    def is_proven(images: int) -> bool:
        bound = poisson_bound(losses, confidence, typical=typical, images=images)
        return bound <= 1 - least

    numbers = range(_MOST_LABELLED + 1)
    enough = bisect_left(numbers, True, lo=1, key=is_proven)
    return enough if enough in numbers else None


def _checked(losses: ArrayLike) -> FloatArray:
    checked = np.asarray(losses, dtype=np.float64)
    if checked.ndim != 1 or not checked.size:
        raise ValueError(
            f"losses must be one row of at least one number, not of shape {checked.shape}"
        )
    if not ((checked >= 0) & (checked <= 1)).all():
        raise ValueError(
            f"losses must lie between 0 and 1, not {checked.min():g} to {checked.max():g}"
        )
    return checked


def _stakes(losses: FloatArray, level: float) -> FloatArray:
    """Returns the bet on each loss, from the losses before it alone."""
    seen = np.arange(2, len(losses) + 2)
    means = (0.5 + np.cumsum(losses)) / seen
    variances = (0.25 + np.cumsum((losses - means) ** 2)) / seen
    known = np.concatenate([[0.25], variances[:-1]])
    squares = -2 * np.log(level) / (len(losses) * known)
    stakes: FloatArray = np.sqrt(squares)
    return np.minimum(1.0, stakes)


def _log_capital(losses: FloatArray, stakes: FloatArray, mean: float | FloatArray) -> float:
    """Returns the logarithm of the most that the capital, 1 at first, ever was."""
    # All is lost at a stake of 1 on a loss of 1 against a mean of 0.
    with np.errstate(divide="ignore"):
        gains = np.log1p(-stakes * (losses - mean))
    return max(0.0, float(np.cumsum(gains).max()))
