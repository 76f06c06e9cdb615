"""Kendall's τ-b with its p-value and an interval, for a variable of few values such as hP and one of any."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LEAST_P", "Correlation", "kendall", "p_text"]

FloatArray = NDArray[np.float64]

#: p-values that a double cannot hold are given as this, never as 0.
LEAST_P = 1e-300

# The interval's time grows with the number of examples times that of different values of the variable with fewer.
_MOST_VALUES = 5000


@dataclass(frozen=True, slots=True)
class Correlation:
    """Kendall's τ-b of two variables.

    Attributes:
        tau: In [-1, 1]; NaN where a variable is constant, since then there is no order to agree with.
        low: Lower end of the 95 % interval; NaN where there is none.
        high: Upper end.
        p_value: Two-sided, of the hypothesis that τ = 0, at least `LEAST_P`; NaN where τ is.
        n: Number of examples.
    """

    tau: float
    low: float
    high: float
    p_value: float
    n: int


def kendall(x: ArrayLike, y: ArrayLike) -> Correlation:
    """Returns Kendall's τ-b, corrected for ties.

    τ and p are SciPy's. The interval is τ ± 1.96 standard errors, the error from each example's own share in τ (the
    delta method, as for other statistics of pairs); it supposes examples drawn independently.

    Args:
        x: Values, shape (n,), none of them NaN.
        y: As many values.

    Raises:
        ValueError: If the shapes differ or a value is NaN.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"x and y must have the same length, not shapes {x.shape} and {y.shape}")
    if np.isnan(x).any() or np.isnan(y).any():
        raise ValueError("x or y contains NaN; remove unscored pairs")
    n, nan = len(x), float("nan")
    if n < 2 or (x == x[0]).all() or (y == y[0]).all():
        return Correlation(nan, nan, nan, nan, n)
    from scipy.stats import kendalltau

    found = kendalltau(x, y, variant="b")
    tau = float(found.statistic)
    error = _standard_error(x, y)
    return Correlation(
        tau,
        max(-1.0, tau - 1.959964 * error),
        min(1.0, tau + 1.959964 * error),
        max(float(found.pvalue), LEAST_P),
        n,
    )


def _standard_error(x: FloatArray, y: FloatArray) -> float:
    """Returns the asymptotic standard error of τ-b; NaN where it would take too long."""
    n = len(x)
    x_values, x_place, x_counts = np.unique(x, return_inverse=True, return_counts=True)
    y_values, y_place, y_counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(x_values) > len(y_values):
        x_values, x_place, x_counts, y_values, y_place, y_counts = (
            y_values, y_place, y_counts, x_values, x_place, x_counts
        )  # fmt: skip
    if len(x_values) > _MOST_VALUES:
        return float("nan")
    # Of each example: how many examples it agrees with in order, less those it disagrees with.
    agreed = np.zeros(n)
    for value in range(len(x_values)):
        counts = np.bincount(y_place[x_place == value], minlength=len(y_values))
        up_to = counts.cumsum()
        less, greater = up_to - counts, counts.sum() - up_to
        agreed += np.sign(x_place - value) * (less - greater)[y_place]
    agreement = agreed / n
    apart_x, apart_y = 1 - x_counts[x_place] / n, 1 - y_counts[y_place] / n
    mean, mean_x, mean_y = agreement.mean(), apart_x.mean(), apart_y.mean()
    root = np.sqrt(mean_x * mean_y)
    share = 2 * (agreement - mean) / root - mean / root * ((apart_x - mean_x) / mean_x + (apart_y - mean_y) / mean_y)
    return float(np.sqrt((share**2).mean() / n))


def p_text(p_value: float) -> str | None:
    """Returns a p-value to print: "2.3e-07", "< 1e-300" where a double holds no less, None where there is none."""
    if np.isnan(p_value):
        return None
    return f"< {LEAST_P:.0e}" if p_value <= LEAST_P else f"{p_value:.1e}" if p_value < 0.001 else f"{p_value:.3f}"
