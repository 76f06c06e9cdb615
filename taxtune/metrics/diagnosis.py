"""Types of errors, and the cost of each in hP and hR.

From the *placements*: an answer is correct, too general, too specific, a sibling of the truth, in
the wrong branch, off the tree, an abstention, or one whose placement is itself doubtful. From the
*measures*, as paper 2 does without a tree and under its names: an inclusion verdict and a concept
similarity that disagree tell a generic answer, and an image with several labels, from a wrong
answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from taxtune.metrics.hierarchical import check_nodes, flags, precision_recall
from taxtune.metrics.ranks import rank_of
from taxtune.metrics.statistics import Sample, bootstrap
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COUNTERPARTS",
    "ErrorType",
    "MeasuredType",
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


#: One child explains the loss of a node from this share of it on.
_EXPLAINED = 0.9
#: The types of the two views that mean the same. Abstentions and answers finer than the label are
#: unknown to paper 2, a doubtful placement may be anything, and annotation ambiguity has no
#: counterpart, since a target is one node.
COUNTERPARTS = {
    ErrorType.CORRECT: MeasuredType.CORRECT,
    ErrorType.TOO_GENERAL: MeasuredType.GRANULARITY,
    ErrorType.SIBLING: MeasuredType.DISCRIMINATION,
    ErrorType.WRONG_BRANCH: MeasuredType.DISCRIMINATION,
    ErrorType.OFF_TREE: MeasuredType.DISCRIMINATION,
}


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

    It is the first of off the tree, abstained, correct, doubtful and the tree's types.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,).
        target: Node numbers, shape (n,).
        abstained: Whether the answer declines or says nothing, shape (n,); by default none.
        off_tree: Whether the answer asserts something that the tree lacks, shape (n,); by default
            none.
        doubtful: Whether the mapper guessed, shape (n,), so that the mistake may be its own; by
            default never.

    Raises:
        ValueError: If shapes differ or a number is no node of the tree.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    n = predicted.size
    n_shared = taxonomy.shared(predicted, target)
    n_predicted = taxonomy.depth[predicted] + 1
    n_target = taxonomy.depth[target] + 1
    # Of the types that hold for an answer, the one that is set last stays.
    types = np.array([ErrorType.WRONG_BRANCH] * n, dtype=object)
    types[(n_shared == n_predicted - 1) & (n_predicted == n_target)] = ErrorType.SIBLING
    types[n_shared == n_target] = ErrorType.TOO_SPECIFIC
    types[n_shared == n_predicted] = ErrorType.TOO_GENERAL
    types[flags(doubtful, n)] = ErrorType.DOUBTFUL
    types[predicted == target] = ErrorType.CORRECT
    types[flags(abstained, n)] = ErrorType.ABSTAINED
    types[flags(off_tree, n)] = ErrorType.OFF_TREE
    result: list[ErrorType] = types.tolist()
    return result


def wrong_from(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike) -> list[str | None]:
    """Returns the rank from which each placement is wrong.

    It is that of the target's first ancestor that it does not share, "level d" (edges from the
    root) where the tree names no rank, and None where nothing of the placement is wrong or it only
    goes on below the target. Arguments are those of `classify`.
    """
    predicted, target = check_nodes(taxonomy, predicted, target)
    n_shared = taxonomy.shared(predicted, target)
    shallower = np.minimum(taxonomy.depth[predicted], taxonomy.depth[target])
    is_on_path = n_shared > shallower
    ranks: list[str | None] = [None] * len(target)
    for i in np.flatnonzero(~is_on_path):
        first_missed = taxonomy.lineage[target[i], n_shared[i]]
        ranks[i] = rank_of(taxonomy, int(first_missed))
    return ranks


def classify_by_measures(
    inclusion: ArrayLike, similarity: ArrayLike, *, high: float = 0.7
) -> list[MeasuredType]:
    """Returns the type of each answer by two measures, without a tree (paper 2).

    Both high is correct; high similarity alone a granularity error; inclusion alone annotation
    ambiguity, or an image with several labels; neither a failure of fine-grained discrimination.
    The threshold of the similarity is ours.

    Args:
        inclusion: Verdicts in [0, 1], shape (n,), yes from 0.5 on; NaN is unscored.
        similarity: Concept similarities, shape (n,); NaN is unscored.
        high: The least similarity that counts as high.
    """
    verdicts = np.asarray(inclusion, dtype=float)
    cosines = np.asarray(similarity, dtype=float)
    if verdicts.shape != cosines.shape or verdicts.ndim != 1:
        raise ValueError(
            f"inclusion has shape {verdicts.shape}, similarity {cosines.shape}; both must be (n,)"
        )
    is_included = verdicts >= 0.5
    is_similar = cosines >= high
    types = np.array([MeasuredType.DISCRIMINATION] * len(verdicts), dtype=object)
    types[is_included] = MeasuredType.AMBIGUITY
    types[is_similar] = MeasuredType.GRANULARITY
    types[is_included & is_similar] = MeasuredType.CORRECT
    types[np.isnan(verdicts) | np.isnan(cosines)] = MeasuredType.UNSCORED
    result: list[MeasuredType] = types.tolist()
    return result


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
) -> pd.DataFrame:
    """Returns the frequency of each type and its cost.

    The cost is the sum of its answers' losses over the number of *all* answers.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        types: The type of each answer, n of them.
        off_tree: As for `score`.
        order: The types to list, in this order; by default those that occur, as they first appear.
        resamples: Bootstrap resamples for the intervals.
        seed: Their seed.

    Returns:
        A row per type: type, count, share, the means hp and hr (NaN without answers), hp_cost and
        hr_cost, in [0, 1], which add up to 1 - hP and 1 - hR, and the ends of their 95 % intervals
        (hp_low, hp_high, hr_low, hr_high).

    Raises:
        ValueError: If there is no answer, shapes differ, or a type is not in `order`.
    """
    import pandas as pd

    hp, hr = precision_recall(taxonomy, predicted, target, off_tree=off_tree)
    answers = pd.DataFrame({"hp": hp, "hr": hr})
    answers["type"] = list(map(str, types))
    listed = list(map(str, order or dict.fromkeys(types)))
    unknown = set(answers["type"]) - {*listed}
    if unknown:
        raise ValueError(f"types that are not listed: {sorted(unknown)}")
    losses = {}
    for name in ("hp", "hr"):
        loss = 1 - answers[name]
        for kind in listed:
            own = loss.where(answers["type"] == kind, 0.0)
            losses[f"{name} {kind}"] = own.to_numpy()
    sample = Sample(parts=losses, keys=tuple(losses.values()))
    intervals = bootstrap(sample, resamples=resamples, seed=seed)
    by_type = answers.groupby("type")
    counts = by_type.size().reindex(listed, fill_value=0)
    table = counts.to_frame("count")
    table["share"] = table["count"] / len(answers)
    table[["hp", "hr"]] = by_type[["hp", "hr"]].mean()
    for name in ("hp", "hr"):
        of_types = [intervals[f"{name} {kind}"] for kind in listed]
        table[f"{name}_cost"] = [interval.estimate for interval in of_types]
        table[f"{name}_low"] = [interval.low for interval in of_types]
        table[f"{name}_high"] = [interval.high for interval in of_types]
    return table.rename_axis("type").reset_index()


def worst_regions(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    types: Sequence[str],
    *,
    off_tree: ArrayLike | None = None,
    least: int = 5,
    most: int = 10,
) -> pd.DataFrame:
    """Returns the nodes whose answers cost most of the mean hP.

    Each is as deep in the tree as its losses go: a node is left out where one child explains nearly
    all of its loss, and the child is listed. The same loss may count for a node and for one above
    it.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        types: The type of each answer, n of them, as `classify` returns them.
        off_tree: As for `score`.
        least: Fewest answers of a node.
        most: Most nodes to return.

    Returns:
        A row per node, the costliest first: node, count of the answers whose target is at or below
        it, their means hp and hr, hp_cost (their loss of the mean hP of all answers), and worst and
        worst_count, their most frequent type other than "correct".
    """
    import pandas as pd

    _, targets = check_nodes(taxonomy, predicted, target)
    hp, hr = precision_recall(taxonomy, predicted, target, off_tree=off_tree)
    answers = pd.DataFrame({"hp": hp, "hr": hr})
    answers["loss"] = (1 - hp) / len(hp)
    answers["type"] = list(map(str, types))
    lineages = [taxonomy.ancestors(node) for node in targets.tolist()]
    answers["node"] = pd.Series(lineages)
    answers = answers.explode("node").astype({"node": int})
    by_node = answers.groupby("node")
    nodes = by_node.size().to_frame("count")
    nodes[["hp", "hr"]] = by_node[["hp", "hr"]].mean()
    nodes["hp_cost"] = by_node["loss"].sum()
    nodes = nodes[nodes["count"] >= least]
    parents = np.asarray(taxonomy.parents)[nodes.index]
    costliest = nodes["hp_cost"].groupby(parents).max()
    of_child = costliest.reindex(nodes.index, fill_value=0)
    is_explained = of_child >= _EXPLAINED * nodes["hp_cost"]
    nodes = nodes[(nodes["hp_cost"] > 0) & ~is_explained]
    # Rounded, as equal losses that were added in another order differ in the last digits.
    rounded = nodes["hp_cost"].round(12)
    order = np.argsort(-rounded.to_numpy(), kind="stable")
    nodes = nodes.iloc[order[:most]]
    worst = []
    for node in nodes.index:
        own = by_node.get_group(node)["type"]
        worst += Counter(own[own != ErrorType.CORRECT]).most_common(1)
    nodes = nodes.reset_index()
    nodes["worst"] = [kind for kind, _ in worst]
    nodes["worst_count"] = [count for _, count in worst]
    return nodes
