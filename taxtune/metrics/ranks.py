"""Precision and recall at each rank.

An answer on a node names that node and every one above it. At a rank r ("order", "family", ...),
with anc_r(v) the nodes of anc(v) that have it,

    precision(r) = Σ |anc_r(answer) ∩ anc_r(truth)| / Σ |anc_r(answer)|
    recall(r)    = Σ |anc_r(answer) ∩ anc_r(truth)| / Σ |anc_r(truth)|

with sums over examples: shares of answers where a path has one node of a rank, else ("clade") of
nodes. A node without a rank belongs to its depth: "level 2" is two edges below the root. The root,
which is always right, is left out. An answer off the tree names nothing at any rank; those answers
have a row of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import TaxtuneError
from taxtune.metrics.groups import Groups
from taxtune.metrics.hierarchical import check_nodes, flags
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "OFF_TREE_RANK",
    "RankIntervals",
    "RankScores",
    "bootstrap_ranks",
    "nodes_at",
    "nodes_from",
    "rank_of",
    "rank_scores",
]

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

#: The row of answers that assert something the tree lacks.
OFF_TREE_RANK = "off the tree"


@dataclass(frozen=True, slots=True)
class RankScores:
    """Counts at a rank.

    Attributes:
        rank: The rank, or "level 2" for nodes without one, or `OFF_TREE_RANK`.
        n_predicted: Nodes of this rank that the answers name.
        n_relevant: Nodes of this rank on the targets' paths.
        right: Nodes in both.
    """

    rank: str
    n_predicted: int
    n_relevant: int
    right: int

    @property
    def precision(self) -> float | None:
        """Share of the predicted nodes that are right, in [0, 1]; None where there are none."""
        return self.right / self.n_predicted if self.n_predicted else None

    @property
    def recall(self) -> float | None:
        """Share of the relevant nodes that are predicted, in [0, 1]; None where there are none."""
        return self.right / self.n_relevant if self.n_relevant else None


@dataclass(frozen=True, slots=True)
class RankIntervals:
    """The scores at a rank with bootstrap intervals, which are None where the scores' are."""

    scores: RankScores
    precision: Interval | None
    recall: Interval | None


@dataclass(frozen=True, slots=True)
class _Counts:
    """The number of nodes of a rank for each example, shape (n,) each.

    Attributes:
        rank: The rank.
        predicted: Nodes that the answer names.
        relevant: Nodes on the target's path.
        right: Nodes in both.
    """

    rank: str
    predicted: IntArray
    relevant: IntArray
    right: IntArray

    @property
    def scores(self) -> RankScores:
        """The counts over all examples."""
        return RankScores(
            rank=self.rank,
            n_predicted=int(self.predicted.sum()),
            n_relevant=int(self.relevant.sum()),
            right=int(self.right.sum()),
        )


def rank_of(taxonomy: Taxonomy, node: int) -> str:
    """Returns the rank of a node; "level d", d edges below the root, where it has none."""
    return taxonomy.ranks[node] or f"level {int(taxonomy.depth[node])}"


def nodes_at(taxonomy: Taxonomy, rank: str) -> BoolArray:
    """Tells which nodes have a rank, or are at a depth below the root such as "2", shape (nodes,).

    Raises:
        TaxtuneError: If there are none.
    """
    depth = int(rank) if rank.isdecimal() else 0
    if 0 < depth <= taxonomy.height:
        return np.asarray(taxonomy.depth == depth)
    wanted = rank.casefold()
    ranks_of_nodes = [each or "" for each in taxonomy.ranks]
    has_rank = np.array([each.casefold() == wanted for each in ranks_of_nodes])
    if not has_rank.any():
        named = filter(None, ranks_of_nodes)
        ranks = ", ".join(dict.fromkeys(named)) or "none"
        raise TaxtuneError(
            "The tree has no such rank.",
            value=rank,
            remedy=f"Its ranks: {ranks}; or give a depth, 1 to {taxonomy.height}.",
        )
    return has_rank


def nodes_from(taxonomy: Taxonomy, rank: str) -> BoolArray:
    """Tells which nodes are at a rank, or a depth below the root, or deeper; see `nodes_at`."""
    above = taxonomy.lineage
    is_below = (above >= 0) & nodes_at(taxonomy, rank)[above]
    return np.asarray(is_below.any(axis=1))


def rank_scores(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> list[RankScores]:
    """Returns counts at each rank that an answer or a target has, the broadest rank first.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        off_tree: Which answers are off the tree, shape (n,); none where left out.

    Raises:
        ValueError: If there is no example, the shapes differ, or a number is no node of the tree.
    """
    ranks = _count(taxonomy, predicted, target, off_tree)
    return [counts.scores for counts in ranks]


def bootstrap_ranks(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
    groups: Groups | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> list[RankIntervals]:
    """Returns scores at each rank with 95 % percentile bootstrap intervals over groups of examples.

    Each group counts once: of its numbers of nodes, the means over its examples. Without `groups`
    every example is one. Other arguments and errors are those of `rank_scores` and, for the
    resampling, of `statistics.bootstrap`.
    """
    ranks = _count(taxonomy, predicted, target, off_tree)
    if not ranks:  # a tree of its root alone
        return []
    if groups is None:
        every = np.arange(ranks[0].right.size)
        groups = Groups(every)
    parts = {}
    wholes = {}
    for i, counts in enumerate(ranks):
        right = groups.mean(counts.right)
        parts[f"precision {i}"] = right
        wholes[f"precision {i}"] = groups.mean(counts.predicted)
        parts[f"recall {i}"] = right
        wholes[f"recall {i}"] = groups.mean(counts.relevant)
    keys = [groups.mean(counts.right) for counts in ranks]
    keys += [groups.mean(counts.predicted) for counts in ranks]
    keys += [groups.mean(counts.relevant) for counts in ranks]
    sample = Sample(parts=parts, wholes=wholes, keys=keys)
    intervals = bootstrap(sample, resamples=resamples, seed=seed)
    result = []
    for i, counts in enumerate(ranks):
        precision = _within_range(intervals[f"precision {i}"])
        recall = _within_range(intervals[f"recall {i}"])
        result.append(RankIntervals(scores=counts.scores, precision=precision, recall=recall))
    return result


def _within_range(interval: Interval) -> Interval | None:
    """Returns an interval within [0, 1]; None where there is nothing to divide by."""
    if np.isnan(interval.estimate):
        return None
    if np.isnan(interval.low):
        # No resample has drawn one of the few examples that count: nothing is known of the spread.
        return Interval(estimate=interval.estimate, low=0.0, high=1.0)
    return interval


def _count(
    taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike, off_tree: ArrayLike | None
) -> list[_Counts]:
    """Returns the counts at each rank, the broadest first, answers off the tree last."""
    predicted, target = check_nodes(taxonomy, predicted, target)
    if predicted.size == 0:
        raise ValueError("there are no examples to score")
    off = flags(off_tree, predicted.size)
    placed = np.where(off, taxonomy.root, predicted)  # an answer off the tree names nothing on it
    on_paths = np.unique([placed, target])
    ranks, positions = _ordered_ranks(taxonomy, taxonomy.lineage[on_paths, 1:])
    # The nodes in both paths are those of the lowest common ancestor.
    common = taxonomy.lca(placed, target)
    nodes, index = np.unique([placed, target, common], return_inverse=True)
    paths = taxonomy.lineage[nodes, 1:]
    shape = (len(nodes), len(ranks))
    at_ranks = np.zeros(shape, dtype=np.int64)
    rows, levels = np.nonzero(paths >= 0)
    columns = positions[paths[rows, levels]]
    np.add.at(at_ranks, (rows, columns), 1)
    n_predicted, n_relevant, n_right = at_ranks[index.reshape(3, -1)]
    counts = []
    for i, rank in enumerate(ranks):
        at_rank = _Counts(
            rank=rank, predicted=n_predicted[:, i], relevant=n_relevant[:, i], right=n_right[:, i]
        )
        counts.append(at_rank)
    if off.any():
        none = np.zeros(off.size, dtype=np.int64)
        named = off.astype(np.int64)
        counts.append(_Counts(rank=OFF_TREE_RANK, predicted=named, relevant=none, right=none))
    return counts


def _ordered_ranks(taxonomy: Taxonomy, paths: IntArray) -> tuple[list[str], IntArray]:
    """Returns the ranks on some paths, the broadest first, and each node's position among them.

    A rank is broader than another that it stands above on more paths than below. Depths would not
    do where branches have different ranks: a species of birds is deeper than a variety of mosses.

    Args:
        taxonomy: The tree.
        paths: Nodes from below the root down, -1 after the last, shape (paths, levels).
    """
    nodes = np.unique(paths[paths >= 0])
    positions = np.full(len(taxonomy), -1)
    if not len(nodes):
        return [], positions
    names = [rank_of(taxonomy, node) for node in nodes.tolist()]
    ranks, codes = np.unique(names, return_inverse=True)
    code_of = np.full(len(taxonomy) + 1, -1)  # one more, for the -1 of short paths
    code_of[nodes] = codes
    broader = _broader(code_of[paths], len(ranks))
    depths = np.bincount(codes, taxonomy.depth[nodes])
    depth = depths / np.bincount(codes)
    order = np.lexsort((depth, broader.sum(axis=0)))
    positions[nodes] = np.argsort(order)[codes]
    return ranks[order].tolist(), positions


def _broader(paths: IntArray, n: int) -> BoolArray:
    """Returns whether each of n ranks is broader than each other one, shape (n, n).

    Args:
        paths: The ranks along paths, from the root down, -1 after the last, shape (paths, levels).
        n: The number of ranks.
    """
    above = np.zeros((n, n), dtype=np.int64)
    for upper in range(paths.shape[1]):
        for lower in range(upper + 1, paths.shape[1]):
            long_paths = paths[paths[:, lower] >= 0]
            pairs = (long_paths[:, upper], long_paths[:, lower])
            np.add.at(above, pairs, 1)
    broader: BoolArray = above > above.T
    # Transitive where paths do not contradict one another: then the number of broader ranks is the
    # order.
    for between in range(n):
        broader |= np.outer(broader[:, between], broader[between])
    return broader
