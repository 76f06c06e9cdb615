"""What a tuning run can find out before it asks anything: what oracles score, what one image is worth, what n can tell.

A search on few images chases differences that the images cannot show. This module says how few are too few: what an
answer that needs no model scores at each level of the tree, by how much one image moves a mean, and which differences
between two templates n images can tell from chance. The dry run, the start of a run and the report show the same.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.bounds import ASSUMED_LOSS, poisson_bound
from taxtune.metrics.hierarchical import score
from taxtune.metrics.information import Information, information_scores
from taxtune.metrics.ranks import nodes_at_ranks
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.objective import OBJECTIVES, Constraint, Objective

if TYPE_CHECKING:
    from taxtune.tuning.records import IterationRecord, TemplateScores

__all__ = [
    "Aim",
    "Level",
    "Outlook",
    "Resolution",
    "ceiling_reached",
    "highest_provable",
    "images_needed",
    "images_to_certify",
    "make_outlook",
    "one_level_wrong",
    "rank_levels",
    "smallest_difference",
]

POWER, SIGNIFICANCE = 0.8, 0.05
# More images than these are no advice.
_MOST_LABELLED = 2**17
#: Before anything is asked: two templates place one image in seven differently, with 0.4 between the two scores of such
#: an image, or 1 where a score is 0 or 1. So it was, at the median, for 328 templates against the baseline on 1,200
#: images of the field guide: 15 % and 0.40 for hP.
ASSUMED_SHARE, ASSUMED_STEP = 0.15, 0.4
_GRADED = frozenset({"hp", "hr", "hf", "ihp", "ihr", "ihf"})


@dataclass(frozen=True, slots=True)
class Level:
    """What always giving the right answer of one rank scores: never wrong, and no more specific than that.

    Attributes:
        rank: The rank; None for always answering the domain's root.
        scores: Its scores by name: hp, hr, hf, accuracy, ihp, ihr, ihf, each in [0, 1].
    """

    rank: str | None
    scores: dict[str, float]


@dataclass(frozen=True, slots=True)
class Resolution:
    """How finely a score can be read from some images.

    Attributes:
        measure: The score.
        one_image: By how much the mean falls when one image's answer is one level wrong instead of right.
        spread: Standard deviation of the difference that is assumed between two templates on one image.
        source: Where the spread is from: "assumed" before anything was asked, "baseline" of the baseline's own scores,
            "templates" the median over the templates tried, each against the baseline.
        difference: The smallest difference between two templates that the images show with 80 % power at the
            two-sided 5 % level; None where not even 1 can be.
    """

    measure: str
    one_image: float
    spread: float
    source: Literal["assumed", "baseline", "templates"]
    difference: float | None


@dataclass(frozen=True, slots=True)
class Aim:
    """What is tuned for, without the function that computes it.

    Attributes:
        objective: The objective's name.
        measure: The score that it maximises, or minimises; None where it is computed from several.
        direction: "maximize" or "minimize".
        constraints: What a template must reach to count.
    """

    objective: str
    measure: str | None
    direction: Literal["maximize", "minimize"]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a tuning run can find out.

    Attributes:
        aims: What is tuned for, one run each.
        images: Images in the tuning split.
        levels: Answers to compare with: the domain's root, which is trivial, then each rank, the broadest first, for
            which it takes an oracle.
        resolutions: How finely each score that counts can be read.
        needed: By measure, about how many images without an error it takes at least to reach what the objective demands
            with the confidence that it demands; a constraint that takes the mean for granted needs none.
    """

    aims: tuple[Aim, ...]
    images: int
    levels: tuple[Level, ...]
    resolutions: tuple[Resolution, ...]
    needed: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Returns the outlook as plain values."""
        return asdict(self)

    def seen(self, *templates: IterationRecord) -> Outlook:
        """Returns the outlook with the spread of answers that were given.

        Args:
            *templates: The baseline, then other templates, which may have been asked about fewer images.
        """
        return replace(self, resolutions=tuple(_seen(each, self.images, templates) for each in self.resolutions))


def make_outlook(
    taxonomy: Taxonomy, domain: int, targets: ArrayLike, information: Information, objectives: Sequence[Objective]
) -> Outlook:
    """Returns what tuning for some objectives can find out on some images.

    Args:
        taxonomy: The tree.
        domain: The node of the trivial answer.
        targets: Nodes of the tuning images, shape (n,), n ≥ 1.
        information: What the nodes weigh.
        objectives: What is tuned for, one run each.
    """
    nodes = np.asarray(targets, dtype=np.int64)
    n = len(nodes)
    return Outlook(
        aims=tuple(Aim(o.name, next(iter(o.shown), None), o.direction, o.constraints) for o in objectives),
        images=n,
        levels=rank_levels(taxonomy, domain, nodes, information),
        resolutions=tuple(
            Resolution(
                measure,
                one_level_wrong(taxonomy, nodes, information, measure) / n,
                spread,
                "assumed",
                smallest_difference(n, spread),
            )
            for measure in dict.fromkeys(measure for each in objectives for measure in _measures(each))
            if (spread := math.sqrt(ASSUMED_SHARE) * (ASSUMED_STEP if measure in _GRADED else 1.0))
        ),
        needed={
            each.measure: images_needed(each.least, each.confidence)
            for objective in objectives
            for each in objective.constraints
            if each.confidence > 0.5 and each.of is None and each.least < 1
        },
    )


def rank_levels(taxonomy: Taxonomy, domain: int, targets: ArrayLike, information: Information) -> tuple[Level, ...]:
    """Returns what always giving the right answer of one rank scores, the domain's root first, then broad to narrow.

    An image whose label has no node of a rank gets the nearest broader one. Ranks at which no answer would be another
    than at the rank before are left out.

    Args:
        taxonomy: The tree.
        domain: The node of the trivial answer; ranks at or above it are left out.
        targets: Nodes of the images' labels, shape (n,), n ≥ 1.
        information: What the nodes weigh.
    """
    nodes = np.asarray(targets, dtype=np.int64)
    found = [Level(None, _scores(taxonomy, np.full_like(nodes, domain), nodes, information))]
    before = np.full_like(nodes, domain)
    for rank, at in nodes_at_ranks(taxonomy, nodes):
        # Never above the domain, which is what every image shows.
        answers = np.where(taxonomy.depth[at] > taxonomy.depth[before], at, before)
        if (answers != before).any():
            found.append(Level(rank, _scores(taxonomy, answers, nodes, information)))
        before = answers
    return tuple(found)


def _scores(
    taxonomy: Taxonomy, answers: NDArray[np.int64], targets: NDArray[np.int64], information: Information
) -> dict[str, float]:
    plain, bits = score(taxonomy, answers, targets), information_scores(information, answers, targets)
    return {key: float(getattr(plain, key)) for key in ("hp", "hr", "hf", "accuracy")} | {
        key: float(getattr(bits, key)) for key in ("ihp", "ihr", "ihf")
    }


def one_level_wrong(taxonomy: Taxonomy, targets: ArrayLike, information: Information, measure: str) -> float:
    """Returns what an answer loses that is wrong at its last level only, mean over the images: in hP 1/(depth + 1).

    The wrong node is taken to weigh what the right one does. Of a score that says nothing of levels it is 1, the most
    that there is to lose.

    Args:
        taxonomy: The tree.
        targets: Nodes of the images' labels, shape (n,), n ≥ 1.
        information: What the nodes weigh.
        measure: The score.
    """
    nodes = np.asarray(targets, dtype=np.int64)
    if measure in ("hp", "hr", "hf"):
        return float(np.mean(1 / (taxonomy.depth[nodes] + 1.0)))
    if measure in ("ihp", "ihr", "ihf"):
        whole, last = information.content[nodes], information.weight[nodes]
        return float(np.mean(np.divide(last, whole, out=np.zeros_like(whole), where=whole > 0)))
    return 1.0


def smallest_difference(n: int, spread: float) -> float | None:
    """Returns the smallest mean of paired differences that n images show: 80 % power, two-sided 5 % level.

    By the noncentral t distribution (Cohen 1988, chapter 2), for differences that are roughly normal on average.

    Args:
        n: How many images.
        spread: Standard deviation of the difference on one image, at least 0.

    Returns:
        A difference in [0, 1]; None where not even 1 shows.
    """
    from scipy import optimize, stats

    if n < 2:
        return None
    critical = stats.t.ppf(1 - SIGNIFICANCE / 2, n - 1)

    def lacking(shift: float) -> float:
        return float(stats.nct.sf(critical, n - 1, shift) - POWER)

    # The shift is the difference in standard errors; the other tail adds nothing that could be seen.
    shift = float(optimize.brentq(lacking, 0.0, critical + 60.0))
    found = shift * spread / math.sqrt(n)
    return found if found <= 1 else None


def images_needed(least: float, confidence: float) -> int:
    """Returns how many images without an error it takes at least for a mean to be certain to reach a number.

    By `taxtune.metrics.bounds.poisson_bound` of as many losses of 0, with the assumed size for the one that may come.

    Args:
        least: The mean that is to be reached, in [0, 1).
        confidence: With what confidence, in (0, 1).
    """
    return max(1, math.ceil(-ASSUMED_LOSS * math.log(1 - confidence) / (1 - least)))


def images_to_certify(losses: ArrayLike, least: float, confidence: float, *, typical: float) -> int | None:
    """Returns about how many images would prove that a template reaches a mean, if it goes on losing what it did.

    Args:
        losses: Its losses so far, shape (n,), n ≥ 1, each in [0, 1].
        least: The mean that is to be reached, in [0, 1).
        confidence: With what confidence, in (0, 1).
        typical: Size of the loss that may come next, in (0, 1]; see `taxtune.metrics.bounds.poisson_bound`.

    Returns:
        The number of images; None where it loses too much on average for any number that somebody labels to do.
    """
    if 1 - np.asarray(losses, dtype=np.float64).mean() <= least:
        return None

    def proven(images: int) -> bool:
        return poisson_bound(losses, confidence, typical=typical, images=images) <= 1 - least

    enough = 1
    while not proven(enough):
        if enough >= _MOST_LABELLED:
            return None
        enough *= 2
    return enough // 2 + bisect_left(range(enough // 2, enough), True, key=proven)


def highest_provable(images: int, confidence: float) -> float:
    """Returns the highest mean that a record without an error proves: the inverse of `images_needed`, in [0, 1).

    Args:
        images: How many images, at least 1.
        confidence: With what confidence, in (0, 1).
    """
    return max(0.0, 1 + ASSUMED_LOSS * math.log(1 - confidence) / images)


def ceiling_reached(objective: Objective, scores: TemplateScores) -> bool:
    """Tells whether a template's scores are those of always giving the exact label, as far as the objective looks.

    Then nothing is left to win on these images. Of an objective that is somebody's own nothing is known.
    """
    if objective.name not in OBJECTIVES or not objective.feasible(scores, scores):
        return False
    bits = None if scores.ihp is None else 1.0  # records of earlier versions have none
    top = replace(scores, hp=1.0, hr=1.0, hf=1.0, accuracy=1.0, ihp=bits, ihr=bits, ihf=bits)
    return objective.aimed(scores) >= objective.aimed(top) - 1e-9


def _measures(objective: Objective) -> tuple[str, ...]:
    """Returns the scores that an objective looks at, those that it maximises first."""
    held = (each.measure for each in objective.constraints)
    return tuple(dict.fromkeys((*(objective.shown or ("hp", "hr")), *held)))


def _seen(before: Resolution, n: int, templates: Sequence[IterationRecord]) -> Resolution:
    from taxtune.tuning.selection import values

    columns = [values(record, before.measure) for record in templates]
    # Rows of the same position are of the same image.
    pairs = [column[: len(columns[0])] - columns[0][: len(column)] for column in columns[1:]]
    spreads = [spread for pair in pairs if (spread := _deviation(pair)) is not None]
    source: Literal["baseline", "templates"] = "baseline"
    if len(spreads) > 1:
        spread, source = float(np.median(spreads)), "templates"
    else:
        # Two templates that agree on what is hard correlate by about one half: then the difference spreads as much as
        # either of them does.
        spread = (_deviation(columns[0]) or 0.0) if columns else 0.0
    if not spread:  # all alike: that says nothing of other templates
        return before
    return replace(before, spread=spread, source=source, difference=smallest_difference(n, spread))


def _deviation(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else None
