"""Precision and recall at each rank.

An answer on a node names that node and every one above it. At a rank r ("order", "family", ...), with anc_r(v) the
nodes of anc(v) that have it,

    precision(r) = Σ |anc_r(answer) ∩ anc_r(truth)| / Σ |anc_r(answer)|
    recall(r)    = Σ |anc_r(answer) ∩ anc_r(truth)| / Σ |anc_r(truth)|

with sums over examples. A path has one node of a rank on most trees, and these are shares of answers; where a rank
occurs several times on a path ("clade"), they are shares of nodes. A node without a rank belongs to its depth: "level
2" is two edges below the root. The root, which every answer names and which is always right, is left out. An answer off
the tree names nothing at any rank of it; those answers have a row of their own.
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
    "nodes_at_ranks",
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
        said: Nodes of this rank that the answers name.
        due: Nodes of this rank on the targets' paths.
        right: Nodes in both.
    """

    rank: str
    said: int
    due: int
    right: int

    @property
    def precision(self) -> float | None:
        """Share of the predicted nodes that are right, in [0, 1]; None where there are none."""
        return self.right / self.said if self.said else None

    @property
    def recall(self) -> float | None:
        """Share of the relevant nodes that are predicted, in [0, 1]; None where there are none."""
        return self.right / self.due if self.due else None


@dataclass(frozen=True, slots=True)
class RankIntervals:
    """The scores at a rank with bootstrap intervals; `precision` and `recall` are None where the scores' are."""

    scores: RankScores
    precision: Interval | None
    recall: Interval | None


def rank_of(taxonomy: Taxonomy, node: int) -> str:
    """Returns the rank of a node; "level d", d edges below the root, where it has none."""
    return taxonomy.ranks[node] or f"level {int(taxonomy.depth[node])}"


def nodes_at_ranks(taxonomy: Taxonomy, nodes: ArrayLike) -> list[tuple[str, IntArray]]:
    """Returns each rank on the paths to some nodes, the broadest first, with the ancestor of each node at that rank.

    Where a path has no node of a rank it is the nearest broader one, in the end the root; where it has several, the
    lowest.

    Args:
        taxonomy: The tree.
        nodes: Node numbers, shape (n,), n ≥ 1.

    Returns:
        The ranks, each with nodes of shape (n,).
    """
    path = taxonomy.lineage[np.asarray(nodes, dtype=np.int64)]
    ranks, columns = _ordered_ranks(taxonomy, path[:, 1:])
    place = np.where(path >= 0, np.append(columns, len(ranks))[path], len(ranks))
    place[:, 0] = -1  # the root is broader than every rank
    levels = np.arange(path.shape[1])
    lowest = [np.where(place <= i, levels, -1).max(axis=1) for i in range(len(ranks))]
    return [(rank, path[np.arange(len(path)), level]) for rank, level in zip(ranks, lowest, strict=True)]


def rank_scores(
    taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike, *, off_tree: ArrayLike | None = None
) -> list[RankScores]:
    """Returns the counts at each rank that an answer or a target has, the broadest rank first.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        off_tree: Which answers are off the tree, shape (n,); none where left out.

    Raises:
        ValueError: If there is no example, the shapes differ, or a number is no node of the tree.
    """
    ranks, *tables = _tables(taxonomy, predicted, target, off_tree)
    return [RankScores(*row) for row in zip(ranks, *(table.sum(axis=0).tolist() for table in tables), strict=True)]


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
    """Returns the scores at each rank with percentile bootstrap intervals over examples.

    Arguments and errors are those of `rank_scores` and, for the resampling, of `statistics.bootstrap`.
    """
    ranks, said, due, right = _tables(taxonomy, predicted, target, off_tree)
    if not ranks:  # a tree of its root alone
        return []
    parts, wholes = np.concatenate([right, right], axis=1).T, np.concatenate([said, due], axis=1).T
    sample = Sample(
        {str(i): row.astype(np.float64) for i, row in enumerate(parts)},
        {str(i): row.astype(np.float64) for i, row in enumerate(wholes)},
        keys=(*parts, *wholes),
    )
    found = bootstrap(sample, resamples=resamples, confidence=confidence, seed=seed)
    intervals = [_within_range(interval) for interval in found.values()]
    scores = rank_scores(taxonomy, predicted, target, off_tree=off_tree)
    return list(map(RankIntervals, scores, intervals[: len(ranks)], intervals[len(ranks) :]))


def _within_range(interval: Interval) -> Interval | None:
    """Returns an interval within [0, 1]; None where there is nothing to divide by."""
    if np.isnan(interval.estimate):
        return None
    # Where few examples count, no resample may have drawn one: then nothing is known of the spread.
    return Interval(interval.estimate, 0.0, 1.0) if np.isnan(interval.low) else interval


def _tables(
    taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike, off_tree: ArrayLike | None
) -> tuple[list[str], IntArray, IntArray, IntArray]:
    """Returns the ranks, and per example and rank the number of nodes predicted, relevant and both: (n, ranks) each."""
    predicted, target = check_nodes(taxonomy, predicted, target)
    if predicted.size == 0:
        raise ValueError("there are no examples to score")
    off = flags(off_tree, predicted.size)
    placed = np.where(off, taxonomy.root, predicted)  # an answer off the tree names nothing on it
    ranks, columns = _ordered_ranks(taxonomy, taxonomy.lineage[np.unique([placed, target]), 1:])
    # The nodes in both paths are those of the lowest common ancestor.
    nodes, place = np.unique([placed, target, taxonomy.lca(placed, target)], return_inverse=True)
    levels = taxonomy.lineage[nodes, 1:]
    at_ranks = np.zeros((len(nodes), len(ranks)), dtype=np.int64)
    rows, depths = np.nonzero(levels >= 0)
    np.add.at(at_ranks, (rows, columns[levels[rows, depths]]), 1)
    said, due, right = at_ranks[place.reshape(3, -1)]
    if off.any():
        ranks, none = [*ranks, OFF_TREE_RANK], np.zeros((off.size, 1), dtype=np.int64)
        said, due, right = (np.hstack(pair) for pair in ((said, off[:, None]), (due, none), (right, none)))
    return ranks, said, due, right


def _ordered_ranks(taxonomy: Taxonomy, paths: IntArray) -> tuple[list[str], IntArray]:
    """Returns the ranks on some paths, the broadest first, and the position of each node's rank among them.

    A rank is broader than another that it stands above on more paths than below. Depths would not do where branches
    have different ranks: a species of birds is deeper than a variety of mosses.

    Args:
        taxonomy: The tree.
        paths: Nodes from below the root down, -1 after the last, shape (paths, levels).
    """
    nodes = np.unique(paths[paths >= 0])
    names = {node: rank_of(taxonomy, node) for node in nodes.tolist()}
    found = list(dict.fromkeys(names.values()))
    position = {rank: i for i, rank in enumerate(found)}
    codes = np.full(len(taxonomy) + 1, -1, dtype=np.int64)  # one more, for the -1 of short paths
    for node, rank in names.items():
        codes[node] = position[rank]
    ranked = codes[paths]
    above = np.zeros((len(found), len(found)), dtype=np.int64)
    for upper in range(ranked.shape[1]):
        for lower in range(upper + 1, ranked.shape[1]):
            pair = ranked[:, lower] >= 0
            np.add.at(above, (ranked[pair, upper], ranked[pair, lower]), 1)
    broader = above > above.T
    # Transitive where paths do not contradict one another: then the number of broader ranks is the order.
    for between in range(len(found)):
        broader |= np.outer(broader[:, between], broader[between])
    depth = [float(np.mean(taxonomy.depth[nodes[codes[nodes] == i]])) for i in range(len(found))]
    order = sorted(range(len(found)), key=lambda i: (int(broader[:, i].sum()), depth[i], found[i]))
    place = np.empty(len(found), dtype=np.int64)
    place[order] = np.arange(len(found))
    columns = np.where(codes[:-1] >= 0, place[codes[:-1]], -1) if found else codes[:-1]
    return [found[i] for i in order], columns
