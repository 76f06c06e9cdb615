"""Cascades: a classifier's scores label what they can, a model is asked about the other images.

An image is done if the deepest node whose share of the scores reaches the first threshold is as deep
as wanted: that is its node u. Any other one is asked about, and has as u the deepest node with a
share of at least 0.9 as well: a low first threshold says what is done, and would else let in groups
that no answer can correct (benchmarks/cascade.py). Of the model's answer the deepest node s counts
whose share reaches the second threshold. Where u and s are on one path the deeper one is the label,
and where they contradict each other their deepest common ancestor.

Each source has a threshold of its own: shares of scores and of answers are no common scale, and one
threshold for both loses (benchmarks/cascade.py). Pairs of thresholds are tested by learn-then-test
(Angelopoulos, Bates, Candès, Jordan and Lei 2021). The first thresholds are fixed in advance, and
below each the second goes down by fixed-sequence testing, at a part of the level, so that all pairs
that are kept hold together and any of them may be chosen after a look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from taxtune.metrics.groups import Groups
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.ranks import nodes_from
from taxtune.policies.paths import BoolArray, FloatArray, IntArray, Paths
from taxtune.policies.risk import THRESHOLDS, Labelled, RiskGuarantee, Tested, ThresholdLevel
from taxtune.taxonomy import Taxonomy

__all__ = [
    "ABOVE",
    "FIRST",
    "PricePoint",
    "end_shares",
    "join_nodes",
    "known_first",
    "part_of",
    "price_list",
    "wanted_nodes",
]

#: The first thresholds, the cheapest first; None is the model alone. They are fixed before an image
#: is seen, and few, since each takes a part of the level.
FIRST: tuple[float | None, ...] = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, None)
#: The parts of the level: of the model alone, which all else is compared with, and of each other one.
PART_MODEL, PART = 0.3, 0.1
#: The share of the scores that a node needs at least where an image is asked about.
ABOVE = 0.9
#: The thresholds of the scores alone.
_ALONE = THRESHOLDS[::5]
#: Many, as each leaves out images that a promise needs.
_FOLDS = 20


@dataclass(frozen=True, slots=True)
class PricePoint:
    """A pair of thresholds: how many images are asked about, and what the labels are worth.

    Attributes:
        first: The share that a node needs of the scores; None for the model alone.
        second: The share that it needs of the model's answers; None for the scores alone.
        asked: Share of the images that are asked about, in [0, 1].
        hp: Mean hP, each group counted once, where thresholds are chosen on other images.
        hr: Mean hR, likewise; of nodes and truths as deep as wanted, and no deeper.
        wrong: Share of the labels that are wrong, likewise; None if there are none.
        level: What the images say of the thresholds, which were chosen on them.
        gains: How much hR is gained by asking, by the depth of u, from 0 on, where the likeliest
            leaf has no share; by least squares.
        slope: How much more is gained per share of the likeliest leaf.
    """

    first: float | None
    second: float | None
    asked: float
    hp: float
    hr: float
    wrong: float | None
    level: ThresholdLevel
    gains: tuple[float, ...] = ()
    slope: float = 0.0

    def gain(self, depth: int, share: float) -> float:
        """Returns the hR that asking gains on average.

        Args:
            depth: The depth of u.
            share: The share of the likeliest leaf, the end of the path of the scores.
        """
        return self.gains[depth] + self.slope * share

    @property
    def kept(self) -> bool:
        """Whether the promise is kept; the point is else the most cautious one of its first threshold."""
        return self.level.kept


def join_nodes(taxonomy: Taxonomy, first: ArrayLike, second: ArrayLike) -> IntArray:
    """Returns the deeper of two nodes on one path, else their deepest common ancestor.

    Args:
        taxonomy: The label tree.
        first: Nodes, shape (n,).
        second: Nodes, shape (n,).
    """
    one = np.asarray(first, dtype=np.int64)
    other = np.asarray(second, dtype=np.int64)
    lineage = taxonomy.lineage[one]
    is_common = (lineage == taxonomy.lineage[other]) & (lineage >= 0)
    # Where lineages part they do not meet again.
    depth = is_common.sum(axis=1) - 1
    common = lineage[np.arange(len(one)), depth]
    joined = np.where(depth == taxonomy.depth[one], other, common)
    return np.asarray(np.where(depth == taxonomy.depth[other], one, joined))


def price_list(
    taxonomy: Taxonomy,
    scores: Paths,
    answers: Paths,
    target: ArrayLike,
    promise: RiskGuarantee,
    groups: Groups,
    wanted: BoolArray,
    thresholds: Sequence[float],
) -> tuple[PricePoint, ...]:
    """Tests pairs of thresholds on images whose labels are known.

    Args:
        taxonomy: The label tree.
        scores: The paths of the classifier's scores, in the order in which the images were drawn.
        answers: The paths of the model's answers about the same images.
        target: The true nodes, shape (n,).
        promise: What is to be kept, with a confidence.
        groups: Which images belong together.
        wanted: Which nodes are as deep as wanted, shape (nodes,).
        thresholds: Second thresholds in (0, 1], the largest first, chosen without a look at the
            images.

    Returns:
        The scores alone, then a point for each first threshold, the cheapest first, to the model
        alone: the least cautious one that is kept, or the most cautious one, which is not.
    """
    truth = np.asarray(target, dtype=np.int64)
    each = part_of(promise, PART)
    point = partial(_point, ends=end_shares(scores), wanted=_as_wanted(taxonomy, wanted))
    alone = np.array([_at(scores, needed) for needed in _ALONE])
    labelled = Labelled(taxonomy, alone, truth, each, groups)
    nobody = np.zeros(len(truth), dtype=bool)
    points = [point(None, nobody, _ALONE, labelled)]
    supported = [_at(answers, needed) for needed in thresholds]
    for first in FIRST:
        known, asked = known_first(scores, first, wanted)
        pairs = []
        for said in supported:
            joined = join_nodes(taxonomy, known, said)
            pairs.append(np.where(asked, joined, known))
        labelled = replace(labelled, placed=np.array(pairs), instead=known)
        if first is None:
            labelled = replace(labelled, promise=part_of(promise, PART_MODEL))
        points.append(point(first, asked, thresholds, labelled))
    return tuple(points)


def wanted_nodes(taxonomy: Taxonomy, rank: str | None) -> BoolArray:
    """Tells which nodes say enough: those from a rank or depth on, if one is given, and leaves."""
    wanted = np.zeros(len(taxonomy), dtype=bool) if rank is None else nodes_from(taxonomy, rank)
    wanted[taxonomy.leaves] = True
    return wanted


def known_first(
    scores: Paths, first: float | None, wanted: BoolArray
) -> tuple[IntArray, BoolArray]:
    """Returns the node of each image by a first threshold, and whether it is asked about, (n,) each."""
    if first is None:
        return scores.nodes[:, 0], np.ones(len(scores.nodes), dtype=bool)
    nodes = _at(scores, first)
    asked = ~wanted[nodes]
    return np.where(asked, _at(scores, max(first, ABOVE)), nodes), asked


def part_of(promise: RiskGuarantee, part: float = PART_MODEL) -> RiskGuarantee:
    """Returns a promise at a part of its level, in (0, 1); by default the largest that any test has.

    Raises:
        ValueError: If the promise has no confidence.
    """
    if promise.confidence_level is None:
        raise ValueError("A choice among pairs of thresholds has no guarantee in expectation.")
    return replace(promise, confidence_level=1 - (1 - promise.confidence_level) * part)


def end_shares(scores: Paths) -> FloatArray:
    """Returns the share of the end of each path, the likeliest leaf where scores are of leaves, (n,)."""
    ends = (scores.nodes >= 0).sum(axis=1) - 1
    return scores.at(ends)[1]


def _point(
    first: float | None,
    asked: BoolArray,
    thresholds: Sequence[float],
    labelled: Labelled,
    ends: FloatArray,
    wanted: IntArray,
) -> PricePoint:
    """Returns the least cautious of pairs with one first threshold that keeps a promise.

    Args:
        first: The first threshold.
        asked: Which images are asked about, shape (n,).
        thresholds: The thresholds that vary: the second one, or of the scores alone their own.
        labelled: The labels at each; `instead` is None for the scores alone.
        ends: See `end_shares`.
        wanted: See `_as_wanted`.
    """
    tested = labelled.test()
    row = max(_last_kept(tested, labelled.promise), 0)
    needed = thresholds[row]
    is_alone = labelled.instead is None
    hp, hr, wrong = _cross_fitted(labelled, wanted)
    gains, slope = _gains(labelled, row, asked, ends, wanted)
    return PricePoint(
        first=needed if is_alone else first,
        second=None if is_alone else needed,
        asked=float(asked.mean()),
        hp=hp,
        hr=hr,
        wrong=wrong,
        level=labelled.level(row, needed, tested),
        gains=gains,
        slope=slope,
    )


def _last_kept(tested: Tested, promise: RiskGuarantee) -> int:
    """Returns the number of the last policy that is kept, -1 for none."""
    kept = [row for row, level in enumerate(tested.of(promise)) if level.kept]
    return max(kept, default=-1)


def _cross_fitted(labelled: Labelled, wanted: IntArray) -> tuple[float, float, float | None]:
    """Returns hP, hR and the share of wrong labels, the policy chosen on other images.

    The i-th group is in fold i modulo 20. Where nothing is kept, the images are on the root.

    Args:
        labelled: The labels of the policies.
        wanted: The node that each node counts as in hR, see `_as_wanted`.
    """
    groups = labelled.groups
    folds = groups.numbers % _FOLDS
    nodes = np.full(len(folds), labelled.taxonomy.root)
    for fold in range(_FOLDS):
        own = folds == fold
        row = _last_kept(labelled.part(~own).test(), labelled.promise)
        if row >= 0:
            nodes[own] = labelled.placed[row, own]
    chosen = replace(labelled, placed=nodes[np.newaxis])
    (hp,), _ = chosen.scores()
    hr = _recall(labelled, nodes, wanted)
    wrong, given = (groups.mean(values[0]).sum() for values in chosen.wrong())
    share = float(wrong / given) if given else None
    return float(groups.mean(hp).mean()), float(groups.mean(hr).mean()), share


def _as_wanted(taxonomy: Taxonomy, wanted: BoolArray) -> IntArray:
    """Returns for each node the first one on its path that is as deep as wanted, or itself, (nodes,)."""
    lineage = taxonomy.lineage
    is_enough = (lineage >= 0) & wanted[lineage]
    places = np.arange(len(lineage))
    first = lineage[places, is_enough.argmax(axis=1)]
    return np.where(is_enough.any(axis=1), first, places)


def _recall(labelled: Labelled, nodes: IntArray, wanted: IntArray) -> FloatArray:
    """Returns hR of nodes, each node and truth no deeper than wanted, shape (n,)."""
    return precision_recall(labelled.taxonomy, wanted[nodes], wanted[labelled.target])[1]


def _gains(
    labelled: Labelled, row: int, asked: BoolArray, ends: FloatArray, wanted: IntArray
) -> tuple[tuple[float, ...], float]:
    """Returns the gains and the slope of a policy by the likeliest leaves' shares."""
    tree = labelled.taxonomy
    depths = np.arange(tree.height + 1)
    before = labelled.instead
    if before is None or not asked.any():
        return (0.0,) * len(depths), 0.0
    hr_before = _recall(labelled, before, wanted)
    hr = _recall(labelled, labelled.placed[row], wanted)
    gain = (hr - hr_before)[asked]
    shares = ends[asked]
    is_depth = tree.depth[before[asked]][:, np.newaxis] == depths
    known = np.column_stack([is_depth, shares]).astype(np.float64)
    *gains, slope = np.linalg.lstsq(known, gain)[0].tolist()
    usual = float(gain.mean() - slope * shares.mean())
    seen = is_depth.any(axis=0)
    return tuple(np.where(seen, gains, usual).tolist()), slope


def _at(paths: Paths, needed: float) -> IntArray:
    """Returns the deepest node of each path whose share reaches a threshold, shape (n,)."""
    return paths.at(paths.depths(needed))[0]
