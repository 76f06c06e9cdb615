"""Precision and recall at each rank.

An answer on a node names that node and every one above it. At a rank r ("order", "family", ...), with anc_r(v) the
nodes of anc(v) that have it,

    precision(r) = Σ |anc_r(answer) ∩ anc_r(truth)| / Σ |anc_r(answer)|
    recall(r)    = Σ |anc_r(answer) ∩ anc_r(truth)| / Σ |anc_r(truth)|

with sums over examples: shares of answers where a path has one node of a rank, else ("clade") of nodes. A node without
a rank belongs to its depth: "level 2" is two edges below the root. The root, which is always right, is left out. An
answer off the tree names nothing at any rank; those answers have a row of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import check_nodes, flags
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "OFF_TREE_RANK",
    "RankIntervals",
    "RankScores",
    "bootstrap_ranks",
    "rank_of",
    "rank_scores",
]

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
    """The scores at a rank with bootstrap intervals; `precision` and `recall` are None where the scores' are."""

    scores: RankScores
    precision: Interval | None
    recall: Interval | None


def rank_of(taxonomy: Taxonomy, node: int) -> str:
    """The rank of a node; "level d", d edges below the root, where it has none."""
    return taxonomy.ranks[node] or f"level {int(taxonomy.depth[node])}"


def rank_scores(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> list[RankScores]:
    """Counts at each rank that an answer or a target has, the broadest rank first.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        off_tree: Which answers are off the tree, shape (n,); none where left out.

    Raises:
        ValueError: If there is no example, the shapes differ, or a number is no node of the tree.
    """
    ranks, *tables = _tables(taxonomy, predicted, target, off_tree)
    return [
        RankScores(*row)
        for row in zip(ranks, *(table.sum(axis=0).tolist() for table in tables), strict=True)
    ]


def bootstrap_ranks(
    taxonomy: Taxonomy,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[RankIntervals]:
    """Scores at each rank with percentile bootstrap intervals over examples.

    Arguments and errors are those of `rank_scores` and, for the resampling, of `statistics.bootstrap`.
    """
    ranks, n_predicted, n_relevant, right = _tables(taxonomy, predicted, target, off_tree)
    if not ranks:  # a tree of its root alone
        return []
    parts = np.concatenate([right, right], axis=1).T
    wholes = np.concatenate([n_predicted, n_relevant], axis=1).T
    sample = Sample(
        {str(i): row.astype(np.float64) for i, row in enumerate(parts)},
        {str(i): row.astype(np.float64) for i, row in enumerate(wholes)},
        keys=(*parts, *wholes),
    )
    drawn = bootstrap(sample, resamples=resamples, confidence=confidence, seed=seed)
    intervals = [_within_range(interval) for interval in drawn.values()]
    scores = rank_scores(taxonomy, predicted, target, off_tree=off_tree)
    return list(map(RankIntervals, scores, intervals[: len(ranks)], intervals[len(ranks) :]))


def _within_range(interval: Interval) -> Interval | None:
    """An interval within [0, 1]; None where there is nothing to divide by."""
    if np.isnan(interval.estimate):
        return None
    # Where few examples count, no resample may have drawn one: then nothing is known of the spread.
    return Interval(interval.estimate, 0.0, 1.0) if np.isnan(interval.low) else interval


def _tables(
    taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike, off_tree: ArrayLike | None
) -> tuple[list[str], IntArray, IntArray, IntArray]:
    """The ranks, and per example and rank the number of nodes predicted, relevant and both: (n, ranks) each."""
    predicted, target = check_nodes(taxonomy, predicted, target)
    if predicted.size == 0:
        raise ValueError("there are no examples to score")
    off = flags(off_tree, predicted.size)
    placed = np.where(off, taxonomy.root, predicted)  # an answer off the tree names nothing on it
    ranks, columns = _ordered_ranks(taxonomy, taxonomy.lineage[np.unique([placed, target]), 1:])
    # The nodes in both paths are those of the lowest common ancestor.
    nodes, index = np.unique([placed, target, taxonomy.lca(placed, target)], return_inverse=True)
    levels = taxonomy.lineage[nodes, 1:]
    at_ranks = np.zeros((len(nodes), len(ranks)), dtype=np.int64)
    rows, depths = np.nonzero(levels >= 0)
    np.add.at(at_ranks, (rows, columns[levels[rows, depths]]), 1)
    n_predicted, n_relevant, right = at_ranks[index.reshape(3, -1)]
    if off.any():
        ranks, none = [*ranks, OFF_TREE_RANK], np.zeros((off.size, 1), dtype=np.int64)
        pairs = ((n_predicted, off[:, None]), (n_relevant, none), (right, none))
        n_predicted, n_relevant, right = map(np.hstack, pairs)
    return ranks, n_predicted, n_relevant, right


def _ordered_ranks(taxonomy: Taxonomy, paths: IntArray) -> tuple[list[str], IntArray]:
    """The ranks on some paths, the broadest first, and the position of each node's rank among them.

    A rank is broader than another that it stands above on more paths than below. Depths would not do where branches
    have different ranks: a species of birds is deeper than a variety of mosses.

    Args:
        taxonomy: The tree.
        paths: Nodes from below the root down, -1 after the last, shape (paths, levels).
    """
    nodes = np.unique(paths[paths >= 0])
    names = [rank_of(taxonomy, node) for node in nodes.tolist()]
    known = list(dict.fromkeys(names))
    codes = np.full(len(taxonomy) + 1, -1, dtype=np.int64)  # one more, for the -1 of short paths
    codes[nodes] = [known.index(rank) for rank in names]
    ranked = codes[paths]
    above = np.zeros((len(known), len(known)), dtype=np.int64)
    for upper in range(ranked.shape[1]):
        for lower in range(upper + 1, ranked.shape[1]):
            pair = ranked[:, lower] >= 0
            np.add.at(above, (ranked[pair, upper], ranked[pair, lower]), 1)
    broader = above > above.T
    # Transitive where paths do not contradict one another: then the number of broader ranks is the order.
    for between in range(len(known)):
        broader |= np.outer(broader[:, between], broader[between])
    depth = [float(np.mean(taxonomy.depth[nodes[codes[nodes] == i]])) for i in range(len(known))]
    order = sorted(range(len(known)), key=lambda i: (int(broader[:, i].sum()), depth[i], known[i]))
    position = np.empty(len(known), dtype=np.int64)
    position[order] = np.arange(len(known))
    columns = np.where(codes[:-1] >= 0, position[codes[:-1]], -1) if known else codes[:-1]
    return [known[i] for i in order], columns
