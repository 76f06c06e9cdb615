"""Types of errors, and the cost of each in hP and hR.

From the *placements*: an answer is correct, too general, too specific, a sibling of the truth, in the wrong branch, off
the tree, an abstention, or one whose placement is itself doubtful. From the *measures*, as paper 2 does without a tree
and under its names: an inclusion verdict and a concept similarity that disagree tell a generic answer, and an image
with several labels, from a wrong answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from taxtune.metrics.hierarchical import check_nodes, flags, precision_recall
from taxtune.metrics.ranks import rank_of
from taxtune.metrics.statistics import Sample, bootstrap
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "COUNTERPARTS",
    "ErrorRegion",
    "ErrorType",
    "MeasuredType",
    "TypeCost",
    "classify",
    "classify_by_measures",
    "costs",
    "worst_regions",
    "wrong_from",
]


class ErrorType(StrEnum):
    """Relation of an answer's placement to its target."""

    CORRECT = "correct"
    TOO_GENERAL = "too general"
    TOO_SPECIFIC = "too specific"
    SIBLING = "sibling"
    WRONG_BRANCH = "wrong branch"
    DOUBTFUL = "mapper doubtful"
    OFF_TREE = "off the tree"
    ABSTAINED = "abstained"


class MeasuredType(StrEnum):
    """Type of an answer by two measures, under paper 2's own names (error analysis)."""

    CORRECT = "correct"
    GRANULARITY = "granularity error"
    AMBIGUITY = "annotation ambiguity or multi-label"
    DISCRIMINATION = "fine-grained discrimination failure"
    UNSCORED = "unscored"


#: The types of the two views that mean the same. Abstentions and answers finer than the label are unknown to paper 2, a
#: doubtful placement may be anything, and annotation ambiguity has no counterpart, since a target is one node.
COUNTERPARTS = {
    ErrorType.CORRECT: MeasuredType.CORRECT,
    ErrorType.TOO_GENERAL: MeasuredType.GRANULARITY,
    ErrorType.SIBLING: MeasuredType.DISCRIMINATION,
    ErrorType.WRONG_BRANCH: MeasuredType.DISCRIMINATION,
    ErrorType.OFF_TREE: MeasuredType.DISCRIMINATION,
}


@dataclass(frozen=True, slots=True)
class TypeCost:
    """Answers of a type, their share and means (NaN without), and their cost with its 95 % bootstrap interval.

    `hp_cost` and `hr_cost`, in [0, 1], add up over all types to 1 − hP and 1 − hR.
    """

    type: str
    count: int
    share: float
    hp: float
    hr: float
    hp_cost: float
    hr_cost: float
    hp_low: float
    hp_high: float
    hr_low: float
    hr_high: float


@dataclass(frozen=True, slots=True)
class ErrorRegion:
    """A node of the tree and the answers whose target is at or below it.

    `hp` and `hr` are their means, `hp_cost` their loss of the mean hP of all answers, `worst` their most frequent type
    other than "correct" (or None), and `worst_count` the number of answers of that type.
    """

    node: int
    count: int
    hp: float
    hr: float
    hp_cost: float
    worst: str | None
    worst_count: int


def classify(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    abstained: ArrayLike | None = None,
    off_tree: ArrayLike | None = None,
    doubtful: ArrayLike | None = None,
) -> list[ErrorType]:
    """The type of each answer; the first of off the tree, abstained, correct, doubtful and the tree's types.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).
        abstained: Whether the answer declines or says nothing, shape (n,); by default none.
        off_tree: Whether the answer asserts something that the tree lacks, shape (n,); by default none.
        doubtful: Whether the mapper guessed, shape (n,), so that the mistake may be its own; by default never.

    Raises:
        ValueError: If shapes differ or a number is no node of the tree.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    off, silent, unsure = (flags(given, predicted.size) for given in (off_tree, abstained, doubtful))
    shared = taxonomy.shared(predicted, target)
    size, full = taxonomy.depth[predicted] + 1, taxonomy.depth[target] + 1
    # Each answer takes the first type whose condition holds.
    conditions = {
        ErrorType.OFF_TREE: off,
        ErrorType.ABSTAINED: silent,
        ErrorType.CORRECT: predicted == target,
        ErrorType.DOUBTFUL: unsure,
        ErrorType.TOO_GENERAL: shared == size,
        ErrorType.TOO_SPECIFIC: shared == full,
        ErrorType.SIBLING: (shared == size - 1) & (size == full),
    }
    kinds = [*conditions, ErrorType.WRONG_BRANCH]
    chosen = np.select(list(conditions.values()), range(len(conditions)), default=len(conditions))
    return [kinds[i] for i in chosen.tolist()]


def wrong_from(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike) -> list[str | None]:
    """The rank from which each placement is wrong: that of the target's first ancestor that it does not share.

    It is "level d" (edges from the root) where the tree names no rank, and None where nothing of the placement is wrong
    or it only goes on below the target. Arguments are those of `classify`.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    ranks: list[str | None] = []
    for node, truth, common in zip(predicted, target, taxonomy.shared(predicted, target).tolist(), strict=True):
        inside = common > min(taxonomy.depth[node], taxonomy.depth[truth])
        ranks.append(None if inside else rank_of(taxonomy, int(taxonomy.lineage[truth, common])))
    return ranks


def classify_by_measures(inclusion: ArrayLike, similarity: ArrayLike, *, high: float = 0.7) -> list[MeasuredType]:
    """The type of each answer by an inclusion verdict and a concept similarity, without a tree (paper 2).

    Both high is correct; high similarity alone a granularity error; inclusion alone annotation ambiguity, or an image
    with several labels; neither a failure of fine-grained discrimination. The threshold of the similarity is ours.

    Args:
        inclusion: Verdicts in [0, 1], shape (n,), yes from 0.5 on; NaN is unscored.
        similarity: Concept similarities, shape (n,); NaN is unscored.
        high: The least similarity that counts as high.
    """
    verdict, cosine = np.asarray(inclusion, dtype=float), np.asarray(similarity, dtype=float)
    if verdict.shape != cosine.shape or verdict.ndim != 1:
        raise ValueError(f"inclusion has shape {verdict.shape}, similarity {cosine.shape}; both must be (n,)")
    named = {
        (True, True): MeasuredType.CORRECT,
        (False, True): MeasuredType.GRANULARITY,
        (True, False): MeasuredType.AMBIGUITY,
        (False, False): MeasuredType.DISCRIMINATION,
    }
    return [
        MeasuredType.UNSCORED if np.isnan(yes) or np.isnan(score) else named[yes >= 0.5, score >= high]
        for yes, score in zip(verdict.tolist(), cosine.tolist(), strict=True)
    ]


def costs(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    types: Sequence[str],
    *,
    off_tree: ArrayLike | None = None,
    order: Sequence[str] | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> list[TypeCost]:
    """The frequency of each type and its cost: the sum of its answers' losses over the number of *all* answers.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        types: The type of each answer, n of them.
        off_tree: As for `score`.
        order: The types to list, in this order; by default those that occur, as they first appear.
        resamples: Bootstrap resamples for the intervals.
        seed: Their seed.

    Raises:
        ValueError: If there is no answer, shapes differ, or a type is not in `order`.
    """
    hp, hr = precision_recall(taxonomy, predicted, target, off_tree=off_tree)
    n = hp.size
    if n == 0:
        raise ValueError("there are no answers to diagnose")
    if len(types) != n:
        raise ValueError(f"{len(types)} types for {n} answers")
    listed = [str(kind) for kind in (order or dict.fromkeys(types))]
    unknown = set(map(str, types)) - set(listed)
    if unknown:
        raise ValueError(f"types that are not listed: {sorted(unknown)}")
    index = np.array([listed.index(str(kind)) for kind in types])
    losses = {
        f"{name} {i}": np.where(index == i, 1 - values, 0.0)
        for name, values in (("hp", hp), ("hr", hr))
        for i in range(len(listed))
    }
    cost = bootstrap(Sample(losses, keys=tuple(losses.values())), resamples=resamples, seed=seed)
    result = []
    for i, kind in enumerate(listed):
        hit = index == i
        hp_mean, hr_mean = (float(values[hit].mean()) if hit.any() else float("nan") for values in (hp, hr))
        of_hp, of_hr = cost[f"hp {i}"], cost[f"hr {i}"]
        ends = (of_hp.low, of_hp.high, of_hr.low, of_hr.high)
        count = int(hit.sum())
        result.append(TypeCost(kind, count, count / n, hp_mean, hr_mean, of_hp.estimate, of_hr.estimate, *ends))
    return result


def worst_regions(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    types: Sequence[str],
    *,
    off_tree: ArrayLike | None = None,
    least: int = 5,
    most: int = 10,
    explained: float = 0.9,
) -> list[ErrorRegion]:
    """The nodes whose answers cost most of the mean hP, each as deep in the tree as its losses go.

    A node is left out where one child explains nearly all of its loss: the child is listed. The same loss may count for
    a node and for one above it.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).
        types: The type of each answer, n of them.
        off_tree: As for `score`.
        least: Fewest answers of a node.
        most: Most nodes to return.
        explained: The share of a node's loss from which on one child explains it.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    if len(types) != predicted.size:
        raise ValueError(f"{len(types)} types for {predicted.size} answers")
    hp, hr = precision_recall(taxonomy, predicted, target, off_tree=off_tree)
    count, loss = np.zeros(len(taxonomy)), np.zeros(len(taxonomy))
    np.add.at(count, target, 1)
    np.add.at(loss, target, 1 - hp)
    parents = np.asarray(taxonomy.parents)
    largest = np.zeros(len(taxonomy))
    # Children hand their sums up before their parents do.
    for node in np.argsort(-taxonomy.depth, kind="stable").tolist():
        parent = int(parents[node])
        if parent >= 0:
            count[parent] += count[node]
            loss[parent] += loss[node]
            if count[node] >= least:
                largest[parent] = max(largest[parent], loss[node])
    wanted = (count >= least) & (loss > 0) & (largest < explained * loss)
    nodes = sorted(np.flatnonzero(wanted).tolist(), key=lambda node: (-loss[node], node))[:most]
    regions = []
    for node in nodes:
        below = np.flatnonzero(taxonomy.is_ancestor(np.full(target.size, node), target))
        kinds = Counter(str(types[i]) for i in below.tolist() if types[i] != ErrorType.CORRECT)
        worst, worst_count = kinds.most_common(1)[0] if kinds else (None, 0)
        hp_cost = float((1 - hp[below]).sum() / target.size)
        means = float(hp[below].mean()), float(hr[below].mean())
        regions.append(ErrorRegion(node, below.size, *means, hp_cost, worst, worst_count))
    return regions
