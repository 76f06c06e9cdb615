"""What kind of mistake an answer is, and what each kind costs in hP and hR.

Two views. From the *placements*, since there is a tree: an answer is correct, too general, too specific, a sibling of
the truth, in the wrong branch (and from which rank on), off the tree, an abstention, or one whose placement is itself
doubtful. From the *measures*, as paper 2 does without a tree, and under its names: an inclusion verdict and a concept
similarity that disagree tell an answer that is too generic, and an image with several labels, from a wrong answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import check_nodes, flags, precision_recall
from taxtune.metrics.ranks import rank_of
from taxtune.metrics.statistics import Sample, bootstrap
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "COUNTERPARTS",
    "Clade",
    "ErrorType",
    "MeasuredType",
    "TypeCost",
    "classify",
    "classify_by_measures",
    "costs",
    "worst_clades",
    "wrong_from",
]

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


class ErrorType(StrEnum):
    """What an answer's placement is to its target."""

    CORRECT = "correct"
    TOO_GENERAL = "too general"
    TOO_SPECIFIC = "too specific"
    SIBLING = "sibling"
    WRONG_BRANCH = "wrong branch"
    DOUBTFUL = "mapper doubtful"
    OFF_TREE = "off the tree"
    ABSTAINED = "abstained"


class MeasuredType(StrEnum):
    """What two measures together say of an answer, under paper 2's own names (error analysis)."""

    CORRECT = "correct"
    GRANULARITY = "granularity error"
    AMBIGUITY = "annotation ambiguity or multi-label"
    DISCRIMINATION = "fine-grained discrimination failure"
    UNSCORED = "unscored"


#: What each placement should look like to the measures: where the two views mean the same. Those that are left out have
#: no counterpart: paper 2 knows nothing of abstentions and of what is finer than the label, and a doubtful placement
#: may be anything. Annotation ambiguity has none here, since a target is one node.
COUNTERPARTS = {
    ErrorType.CORRECT: MeasuredType.CORRECT,
    ErrorType.TOO_GENERAL: MeasuredType.GRANULARITY,
    ErrorType.SIBLING: MeasuredType.DISCRIMINATION,
    ErrorType.WRONG_BRANCH: MeasuredType.DISCRIMINATION,
    ErrorType.OFF_TREE: MeasuredType.DISCRIMINATION,
}


@dataclass(frozen=True, slots=True)
class TypeCost:
    """How often a type occurs and what it costs.

    Attributes:
        type: The type, as text.
        count: Answers of this type.
        share: Of all answers, in [0, 1].
        hp: Mean hP of its answers; NaN where there is none.
        hr: Mean hR of its answers; NaN where there is none.
        hp_cost: What it takes from the mean hP of all answers, in [0, 1]; the costs of all types add up to 1 − hP.
        hr_cost: What it takes from the mean hR.
        hp_low: Lower end of the 95 % bootstrap interval of `hp_cost`.
        hp_high: Its upper end.
        hr_low: Lower end of the interval of `hr_cost`.
        hr_high: Its upper end.
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
class Clade:
    """A node of the tree and how the answers about what is below it fare.

    Attributes:
        node: The node.
        count: Answers whose target is this node or below it.
        hp: Their mean hP.
        hr: Their mean hR.
        hp_cost: What they take from the mean hP of all answers.
        worst: Their most frequent type other than "correct", or None.
        worst_count: How many have it.
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
    """Returns the type of each answer.

    An answer off the tree and an abstention are ones whatever the target is. Otherwise a placement on the target is
    correct, whatever led there, then a doubtful placement is one: the mistake may be the mapper's and not the model's.
    What remains is distinguished by the tree.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).
        abstained: Whether the answer declines or says nothing, shape (n,); none does where it is left out.
        off_tree: Whether the answer asserts something that the tree lacks, shape (n,); none does where it is left out.
        doubtful: Whether the mapper guessed (n-grams, vote, similarity), shape (n,); never where it is left out.

    Raises:
        ValueError: If shapes differ or a number is no node of the tree.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    silent, off, unsure = (flags(given, predicted.size) for given in (abstained, off_tree, doubtful))
    shared = taxonomy.shared(predicted, target)
    size, full = taxonomy.depth[predicted] + 1, taxonomy.depth[target] + 1
    # Each answer takes the first type whose condition holds.
    conditions: list[tuple[ErrorType, BoolArray]] = [
        (ErrorType.OFF_TREE, off),
        (ErrorType.ABSTAINED, silent),
        (ErrorType.CORRECT, predicted == target),
        (ErrorType.DOUBTFUL, unsure),
        (ErrorType.TOO_GENERAL, shared == size),
        (ErrorType.TOO_SPECIFIC, shared == full),
        (ErrorType.SIBLING, (shared == size - 1) & (size == full)),
        (ErrorType.WRONG_BRANCH, np.ones(predicted.size, dtype=bool)),
    ]
    kinds = list(ErrorType)
    chosen = np.select([hit for _, hit in conditions], [kinds.index(kind) for kind, _ in conditions])
    return [kinds[i] for i in chosen.tolist()]


def wrong_from(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike) -> list[str | None]:
    """Returns the rank from which each placement is wrong: that of the target's first ancestor that it does not share.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).

    Returns:
        The rank, or "level d" (edges from the root) where the tree names none; None where nothing of the placement is
        wrong or it only goes on below the target.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    shared = taxonomy.shared(predicted, target).tolist()
    found: list[str | None] = []
    for node, truth, common in zip(predicted.tolist(), target.tolist(), shared, strict=True):
        if common > min(taxonomy.depth[node], taxonomy.depth[truth]):
            found.append(None)
            continue
        first = int(taxonomy.lineage[truth, common])
        found.append(rank_of(taxonomy, first))
    return found


def classify_by_measures(inclusion: ArrayLike, similarity: ArrayLike, *, high: float = 0.7) -> list[MeasuredType]:
    """Returns what paper 2 makes of an inclusion verdict and a concept similarity, without a tree.

    Both high is correct; high similarity without inclusion a granularity error (right but too generic); inclusion
    without high similarity annotation ambiguity, or an image with several labels; neither a failure of fine-grained
    discrimination (wrong but specific). The summary of the paper that we had names no thresholds; that of the
    similarity is ours.

    Args:
        inclusion: Verdicts in [0, 1], shape (n,), yes from 0.5 on; NaN is unscored.
        similarity: Concept similarities, shape (n,); NaN is unscored.
        high: Similarity from which on it counts as high.

    Raises:
        ValueError: If shapes differ.
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
    """Returns, for each type, how often it occurs and what it takes from the mean hP and hR.

    An answer's loss is 1 − hP and 1 − hR; a type's cost is the sum of its answers' losses over the number of *all*
    answers, so that the costs of all types add up to what is missing to a perfect score.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        types: The type of each answer, n of them.
        off_tree: Which answers are scored as a child of the root that is never right, shape (n,); see `score`.
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
    found = []
    for i, kind in enumerate(listed):
        hit = index == i
        count = int(hit.sum())
        of_hp, of_hr = cost[f"hp {i}"], cost[f"hr {i}"]
        found.append(
            TypeCost(
                type=kind,
                count=count,
                share=count / n,
                hp=float(hp[hit].mean()) if count else float("nan"),
                hr=float(hr[hit].mean()) if count else float("nan"),
                hp_cost=of_hp.estimate,
                hr_cost=of_hr.estimate,
                hp_low=of_hp.low,
                hp_high=of_hp.high,
                hr_low=of_hr.low,
                hr_high=of_hr.high,
            )
        )
    return found


def worst_clades(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    types: Sequence[str],
    *,
    off_tree: ArrayLike | None = None,
    least: int = 5,
    most: int = 10,
    explained: float = 0.9,
) -> list[Clade]:
    """Returns the clades that take most from the mean hP, each as deep in the tree as its losses go.

    A node is left out where one child of its explains nearly all of its loss: the child is listed. The same loss may
    count for a clade and for one above it.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).
        types: The type of each answer, n of them.
        off_tree: Which answers are scored as a child of the root that is never right, shape (n,); see `score`.
        least: Fewest answers of a clade.
        most: How many clades to return at most.
        explained: The share of a node's loss from which on one child explains it.

    Raises:
        ValueError: If shapes differ.
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
    return [_clade(taxonomy, node, target, hp, hr, types) for node in nodes]


def _clade(
    taxonomy: Taxonomy,
    node: int,
    target: IntArray,
    hp: NDArray[np.float64],
    hr: NDArray[np.float64],
    types: Sequence[str],
) -> Clade:
    below = np.flatnonzero(taxonomy.is_ancestor(np.full(target.size, node), target))
    kinds: dict[str, int] = {}
    for i in below.tolist():
        if types[i] != ErrorType.CORRECT:
            kinds[str(types[i])] = kinds.get(str(types[i]), 0) + 1
    worst = max(kinds, key=lambda kind: kinds[kind]) if kinds else None
    return Clade(
        node=node,
        count=below.size,
        hp=float(hp[below].mean()),
        hr=float(hr[below].mean()),
        hp_cost=float((1 - hp[below]).sum() / target.size),
        worst=worst,
        worst_count=kinds.get(worst, 0) if worst is not None else 0,
    )
