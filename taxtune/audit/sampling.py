"""Drawing placements to be judged, and what the judged ones say about all.

The unit is a distinct answer, which is judged once however often it was said; the share that is estimated is one of all
answers. So an answer is drawn with a probability in proportion to how often it occurs (sampling without replacement
with probability proportional to size), one that occurs very often for certain.

The units are stratified by the stage that placed them and the depth of their node. A stratum gets draws in proportion
to the answers in it, but at least two where it has them, so that a stage that is rare and bad is seen; strata beyond
what the sample can serve are merged with the next depth of their stage, then with other stages. Within a stratum the
draw is systematic in random order (Madow 1949), which has the wanted inclusion probabilities π exactly.

A share is estimated as Σ (w/π) y / Σ (w/π) over the judged, w being how often an answer occurs and y whether it is
what is counted (Horvitz and Thompson 1952; the sum below is exactly the number of answers, so that over the whole file
the estimate is unbiased). Where a drawn answer has no verdict, the others of its stratum stand for it.

The interval is Wilson's with an effective sample size in place of n (Korn and Graubard 1998, Survey Methodology 24,
193-201; Franco, Little, Louis and Slud 2019, J. Survey Statistics and Methodology 7, 334-364): the smaller of what the
weights alone say, 1 / Σ b² (1 - π) with b the weights scaled to sum to one, which is never degenerate, and of
p (1 - p) / V with V the variance under the design after Hájek (1964), summed over the strata. So a sample in which all
is right has an interval as well. What was drawn for certain is known and has no part in it: a file that was judged
whole has an interval of no width.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LEAST", "Drawn", "Estimate", "draw", "estimate"]

FloatArray = NDArray[np.float64]
Cell = tuple[str, int]

#: Draws that every stratum gets, if it has as many answers: from two on its variance can be estimated.
LEAST = 2
_Z = 1.959963984540054  # the normal distribution's 97.5 % quantile
_CERTAIN = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Drawn:
    """A unit of the sample.

    Attributes:
        item: Its position among all units.
        stratum: The number of its stratum.
        inclusion: The probability with which it was drawn, in (0, 1].
    """

    item: int
    stratum: int
    inclusion: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share of all answers, with its 95 % interval.

    Attributes:
        share: The estimate, in [0, 1].
        low: Lower end of the interval.
        high: Upper end of the interval.
        judged: Units that it rests on.
        coverage: The share of the answers that it speaks for, in (0, 1]: less than 1 where strata have no verdict.
    """

    share: float
    low: float
    high: float
    judged: int
    coverage: float


def draw(cells: Sequence[Cell], counts: Sequence[int], n: int, seed: int) -> list[Drawn]:
    """Draws a stratified sample of units; in random order, so that what is judged first is a sample, too.

    Args:
        cells: Stage and depth of each unit.
        counts: How often each unit occurs, at least 1.
        n: Units to draw, at least 1; all where there are no more.
        seed: The same seed gives the same sample.

    Raises:
        ValueError: If the lengths differ, or `n` or a count is below 1.
    """
    if len(cells) != len(counts) or n < 1 or any(count < 1 for count in counts):
        raise ValueError("draw needs one cell a count, counts of at least 1 and n of at least 1")
    rng = np.random.default_rng(seed)
    weights = np.asarray(counts, dtype=np.float64)
    # What occurs so often that it is drawn for certain does not take up its stratum's draws.
    certain = _inclusion(weights, n) >= _CERTAIN
    rest = np.flatnonzero(~certain)
    left = n - int(certain.sum())
    groups = _strata([cells[i] for i in rest.tolist()], weights[rest], left)
    strata = [rest[np.array(group, dtype=np.int64)] for group in groups]
    inclusion = np.ones(len(weights))
    stratum_of = np.full(len(weights), len(strata))
    taken = certain.copy()
    for number, (members, size) in enumerate(
        zip(strata, _allocate([len(s) for s in strata], [weights[s].sum() for s in strata], left), strict=True)
    ):
        inclusion[members] = _inclusion(weights[members], size)
        stratum_of[members] = number
        taken[members[_systematic(inclusion[members], rng)]] = True
    chosen = rng.permutation(np.flatnonzero(taken))
    return [Drawn(int(i), int(stratum_of[i]), float(inclusion[i])) for i in chosen]


def estimate(
    drawn: Sequence[Drawn],
    counts: ArrayLike,
    values: Sequence[bool | None],
    inside: Sequence[bool] | None = None,
) -> Estimate | None:
    """Estimates the share of all answers for which something holds; None where nothing of them was judged.

    Args:
        drawn: The sample.
        counts: How often each unit of the sample occurs, shape (len(drawn),).
        values: Whether it holds for each unit; None where it was not judged.
        inside: Which units belong to the part of the answers that is asked about; None for all.
    """
    weights = np.asarray(counts, dtype=np.float64)
    judged = np.array([value is not None for value in values], dtype=bool)
    inclusion = np.array([unit.inclusion for unit in drawn], dtype=np.float64)
    strata = np.array([unit.stratum for unit in drawn], dtype=np.int64)
    part = np.ones(len(drawn), dtype=bool) if inside is None else np.asarray(inside, dtype=bool)
    whole = float((weights / inclusion)[part].sum())
    # The judged of a stratum stand for those without a verdict, as if they had been drawn so much more rarely.
    for stratum in np.unique(strata).tolist():
        members = strata == stratum
        heard = float((weights / inclusion)[members & judged].sum())
        if heard > 0:
            inclusion[members] *= heard / float((weights / inclusion)[members].sum())
    used = judged & part
    if not used.any():
        return None
    expanded = np.where(used, weights / inclusion, 0.0)
    scaled = expanded / expanded.sum()
    y = np.array([bool(value) for value in values], dtype=np.float64)
    share = min(1.0, float(scaled @ y))
    # What was drawn for certain is known; only the others stand for more than themselves.
    uncertain = used & (inclusion < _CERTAIN)
    known = float((scaled * y)[~uncertain].sum())
    rest = float(scaled[uncertain].sum())
    low, high = share, share
    if uncertain.any():
        others = scaled / rest
        inner = min(1.0, float((others * y)[uncertain].sum()))
        size = 1 / float((others**2 * (1 - inclusion))[uncertain].sum())
        variance = _variance(others * (y - inner), inclusion, strata, uncertain)
        if variance > 0 and 0 < inner < 1:
            size = min(size, inner * (1 - inner) / variance)
        ends = [known + rest * end for end in _wilson(inner, size)]
        low, high = min(share, ends[0]), min(1.0, max(share, ends[1]))  # in the last digits, too
    reached = np.isin(strata, strata[judged])
    coverage = float(np.where(part & reached, weights / np.array([u.inclusion for u in drawn]), 0.0).sum()) / whole
    return Estimate(share, low, high, int(used.sum()), min(1.0, coverage))


def _wilson(share: float, size: float) -> tuple[float, float]:
    middle = (share + _Z**2 / (2 * size)) / (1 + _Z**2 / size)
    half = _Z / (1 + _Z**2 / size) * math.sqrt(share * (1 - share) / size + _Z**2 / (4 * size**2))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def _variance(terms: FloatArray, inclusion: FloatArray, strata: NDArray[np.int64], among: NDArray[np.bool_]) -> float:
    """Returns Hájek's variance of the sum of the terms; a stratum with a single unit adds nothing to it."""
    variance = 0.0
    for stratum in np.unique(strata).tolist():
        members = among & (strata == stratum)
        n = int(members.sum())
        if n > 1:
            doubt = 1 - inclusion[members]
            middle = float(doubt @ terms[members]) / float(doubt.sum())
            variance += n / (n - 1) * float(doubt @ (terms[members] - middle) ** 2)
    return variance


def _inclusion(weights: FloatArray, n: int) -> FloatArray:
    """Returns the probabilities that are proportional to the weights, at most 1, and sum to n, or to all there are."""
    probability = np.ones(len(weights))
    if n >= len(weights):
        return probability
    order = np.argsort(-weights, kind="stable")
    rest = float(weights.sum())
    certain = 0
    while certain < n and weights[order[certain]] * (n - certain) >= rest * _CERTAIN:
        rest -= float(weights[order[certain]])
        certain += 1
    others = order[certain:]
    probability[others] = weights[others] * ((n - certain) / rest)
    return np.minimum(probability, 1.0)


def _systematic(inclusion: FloatArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draws systematically in random order: each position with exactly its probability, always the same number."""
    order = rng.permutation(len(inclusion))
    ends = np.cumsum(inclusion[order])
    if len(ends):
        ends[-1] = round(float(ends[-1]))  # the last digits must not cost a draw
    points = np.maximum(np.ceil(ends - rng.random()), 0)
    return order[np.flatnonzero(np.diff(points, prepend=0.0))]


def _allocate(sizes: Sequence[int], weights: Sequence[float], n: int) -> list[int]:
    """Returns draws by stratum: at least `LEAST`, the others in proportion to the weights (Sainte-Laguë)."""
    given = [min(LEAST, size) for size in sizes]
    while sum(given) > n:  # possible only where one stratum is left
        given[int(np.argmax(given))] -= 1
    for _ in range(n - sum(given)):
        open_ = [i for i, size in enumerate(sizes) if given[i] < size]
        if not open_:
            break
        given[max(open_, key=lambda i: (weights[i] / (2 * given[i] + 1), -i))] += 1
    return given


def _strata(cells: Sequence[Cell], weights: FloatArray, n: int) -> list[list[int]]:
    """Returns the positions by stratum, merged until each can have its least number of draws."""
    found: dict[Cell, list[int]] = defaultdict(list)
    for i, cell in enumerate(cells):
        found[cell].append(i)
    strata: list[tuple[frozenset[Cell], list[int]]] = [(frozenset([cell]), found[cell]) for cell in sorted(found)]
    while len(strata) > 1 and sum(min(LEAST, len(members)) for _, members in strata) > n:
        # A sum would hang on the order of its terms, and so the merging of strata of equal size.
        smallest = min(strata, key=lambda group: (math.fsum(weights[group[1]]), sorted(group[0])))
        others = [group for group in strata if group is not smallest]
        partner = min(
            others,
            key=lambda group: (*_distance(group[0], smallest[0]), math.fsum(weights[group[1]]), sorted(group[0])),
        )
        merged = (partner[0] | smallest[0], [*partner[1], *smallest[1]])
        strata = [merged if group is partner else group for group in others]
    return [members for _, members in strata]


def _distance(a: frozenset[Cell], b: frozenset[Cell]) -> tuple[bool, int]:
    """Returns whether strata are of different stages, and how many levels lie between them if not."""
    if {stage for stage, _ in a} != {stage for stage, _ in b}:
        return True, 0
    return False, min(abs(x - y) for _, x in a for _, y in b)
