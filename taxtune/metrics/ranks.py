"""Precision and recall at each rank: said there, how often right; to be said there, how often said.

An answer on a node says that node and every one above it. At a rank r ("order", "family", ...), with anc_r(v) the nodes
of anc(v) that have it,

    precision(r) = Σ |anc_r(answer) ∩ anc_r(truth)| / Σ |anc_r(answer)|
    recall(r)    = Σ |anc_r(answer) ∩ anc_r(truth)| / Σ |anc_r(truth)|

with sums over examples. A path has one node of a rank on most trees, and these are shares of answers; where a rank
occurs several times on a path ("clade"), they are shares of nodes. A node without a rank belongs to its depth: "level
2" is two edges below the root. The root, which every answer says and which is always right, is left out. An answer off
the tree says nothing at any rank of it; those answers have a row of their own, so that they do not vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """What is said at a rank, and how much of it is right.

    Attributes:
        rank: The rank, or "level 2" for nodes without one, or `OFF_TREE_RANK`.
        said: Answers that name a node of this rank, or one below it.
        due: Targets that have a node of this rank on their path: what should have been said.
        right: Answers that say the target's own.
    """

    rank: str
    said: int
    due: int
    right: int

    @property
    def precision(self) -> float | None:
        """Of what is said at this rank the share that is right, in [0, 1]; None where nothing is said."""
        return self.right / self.said if self.said else None

    @property
    def recall(self) -> float | None:
        """Of what should be said at this rank the share that is, in [0, 1]; None where there is nothing to say."""
        return self.right / self.due if self.due else None


@dataclass(frozen=True, slots=True)
class RankIntervals:
    """The scores at a rank with bootstrap intervals.

    Attributes:
        scores: The scores.
        precision: The precision with its interval; None where nothing is said.
        recall: The recall with its interval; None where there is nothing to say.
    """

    scores: RankScores
    precision: Interval | None
    recall: Interval | None


def rank_of(taxonomy: Taxonomy, node: int) -> str:
    """Returns the rank of a node; "level d", d edges below the root, where it has none."""
    return taxonomy.ranks[node] or f"level {int(taxonomy.depth[node])}"


def nodes_at_ranks(taxonomy: Taxonomy, nodes: ArrayLike) -> list[tuple[str, IntArray]]:
    """Returns, for each rank on the way to some nodes, the broadest first, what is above each of them at that rank.

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
    """Returns what is said at each rank that an answer or a target has, the broadest rank first.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        off_tree: Which answers are off the tree, shape (n,); none where left out.

    Raises:
        ValueError: If there is no example, the shapes differ, or a number is no node of the tree.
    """
    return _summed(_counts(taxonomy, predicted, target, off_tree))


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
    """Returns the scores at each rank with percentile bootstrap intervals, over examples; see `rank_scores`.

    Args:
        taxonomy: The tree.
        predicted: Node numbers, shape (n,), n ≥ 1.
        target: Node numbers, shape (n,).
        off_tree: Which answers are off the tree, shape (n,); none where left out.
        resamples: Number of bootstrap resamples, at least 1.
        confidence: Coverage of the intervals, between 0 and 1, both excluded.
        seed: Seed of the resampling.

    Raises:
        ValueError: If there is no example, the shapes differ, a number is no node of the tree or a setting is out of
            range.
    """
    counted = _counts(taxonomy, predicted, target, off_tree)
    ranks = counted.ranks
    if not ranks:  # on a tree of its root alone nothing is said
        return []
    parts = np.concatenate([counted.right, counted.right], axis=1).T
    wholes = np.concatenate([counted.said, counted.due], axis=1).T
    sample = Sample(
        {str(i): row.astype(np.float64) for i, row in enumerate(parts)},
        {str(i): row.astype(np.float64) for i, row in enumerate(wholes)},
        keys=(*parts, *wholes),
        counts=counted.counts,
    )
    found = bootstrap(sample, resamples=resamples, confidence=confidence, seed=seed)
    intervals = [_known(interval) for interval in found.values()]
    precision, recall = intervals[: len(ranks)], intervals[len(ranks) :]
    return [RankIntervals(*row) for row in zip(_summed(counted), precision, recall, strict=True)]


def _known(found: Interval) -> Interval | None:
    """Returns an interval within [0, 1]; None where there is nothing to divide by."""
    if np.isnan(found.estimate):
        return None
    # Where few examples count, no resample may have drawn one: then nothing is known of the spread.
    return Interval(found.estimate, 0.0, 1.0) if np.isnan(found.low) else found


def _summed(counted: _Counted) -> list[RankScores]:
    totals = ((counted.counts @ table).tolist() for table in (counted.said, counted.due, counted.right))
    return [RankScores(*row) for row in zip(counted.ranks, *totals, strict=True)]


@dataclass(frozen=True, slots=True)
class _Counted:
    """How many nodes of each rank are said, due and right, for each kind of example.

    Examples with the same number of nodes at each rank are of one kind. There are few of these, however many examples.

    Attributes:
        ranks: The ranks in order.
        said: Nodes in the answer, shape (kinds, ranks).
        due: Nodes in the truth, shape (kinds, ranks).
        right: Nodes in both, shape (kinds, ranks).
        counts: How many examples are of each kind, shape (kinds,).
    """

    ranks: list[str]
    said: IntArray
    due: IntArray
    right: IntArray
    counts: IntArray


def _counts(taxonomy: Taxonomy, predicted: ArrayLike, target: ArrayLike, off_tree: ArrayLike | None) -> _Counted:
    predicted, target = check_nodes(taxonomy, predicted, target)
    if predicted.size == 0:
        raise ValueError("there are no examples to score")
    off = flags(off_tree, predicted.size)
    # What is off the tree says nothing on it.
    placed = np.where(off, taxonomy.root, predicted)
    # What is right is what is said of their lowest common ancestor.
    examples = (placed, target, taxonomy.lca(placed, target))
    ranks, columns = _ordered_ranks(taxonomy, taxonomy.lineage[_distinct(taxonomy, examples[:2]), 1:])
    nodes = _distinct(taxonomy, examples)
    levels = taxonomy.lineage[nodes, 1:]
    at_ranks = np.zeros((len(nodes), len(ranks)), dtype=np.int64)
    rows, depths = np.nonzero(levels >= 0)
    np.add.at(at_ranks, (rows, columns[levels[rows, depths]]), 1)
    kinds, kind = np.unique(at_ranks, axis=0, return_inverse=True)
    kind_of = np.zeros(len(taxonomy), dtype=np.int64)
    kind_of[nodes] = kind.reshape(-1)
    said, due, right = (kind_of[some] for some in examples)
    found, counts = np.unique(((said * len(kinds) + due) * len(kinds) + right) * 2 + off, return_counts=True)
    found, aside = np.divmod(found, 2)
    found, right = np.divmod(found, len(kinds))
    said, due = np.divmod(found, len(kinds))
    tables = [kinds[some] for some in (said, due, right)]
    if off.any():
        ranks = [*ranks, OFF_TREE_RANK]
        none = np.zeros((len(counts), 1), dtype=np.int64)
        tables = [np.concatenate([table, none], axis=1) for table in tables]
        tables[0][:, -1] = aside
    return _Counted(ranks, tables[0], tables[1], tables[2], counts)


def _distinct(taxonomy: Taxonomy, nodes: Sequence[IntArray]) -> IntArray:
    """Returns the nodes that occur in some arrays, ascending."""
    there = np.zeros(len(taxonomy), dtype=bool)
    for some in nodes:
        there[some] = True
    return np.flatnonzero(there)


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
