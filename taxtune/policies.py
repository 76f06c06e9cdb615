"""Policies: from one or more answers about an image to one node, how sure it is, and control of the risk of an error.

Risk control takes the least cautious of nested policies that keeps a guarantee, chosen on images of its own. Two
guarantees can be made, whatever the model, as long as the images are exchangeable:

- *In expectation*, by conformal risk control (Angelopoulos, Bates, Fisch, Lei and Schuster 2022, "Conformal risk
  control", Thm. 1): averaged over draws of the calibration images and a new one, the loss is at most the risk. A policy
  is taken while (n · mean + B) / (n + 1) is at most the risk, B being the largest possible loss.
- *With a confidence*, by learn-then-test (Angelopoulos, Bates, Candès, Jordan and Lei 2021, "Learn then test"): the
  hypotheses that a policy's mean loss is above the risk are tested one after the other, each at the full level, until
  the first that is not refuted (fixed-sequence testing).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import TaxtuneError
from taxtune.metrics.bounds import p_value, upper_bound
from taxtune.models.base import Request
from taxtune.taxonomy import Taxonomy

__all__ = [
    "DIRECT",
    "Level",
    "Reliability",
    "RiskGuarantee",
    "Vote",
    "control_risk",
    "images_needed",
    "vote_paths",
    "worst_loss",
]

IntArray = NDArray[np.int64]

_MOST_ANSWERS = 100  # per image: beyond, shares hardly change and a comma was meant
_MOST_IMAGES = 1_000_000
_EDGE = 1e-9  # 0.7 of 10 answers is 7 of them, whatever 0.7 * 10 is
_PRIOR = 5.0  # answers that the prior of a reliability counts as, at least


@dataclass(frozen=True)
class Vote:
    """How an image is asked about, and how the answers make one place: the deepest node that holds a share of them.

    An answer votes for its node and everything above it. From the root the image goes down to the child with most votes
    (of two alike, the first on the tree) as long as it has the share. So the place for a larger share lies on the way
    to that for a smaller one, and hP never falls as the share grows. Answers off the tree, and what a model refuses to
    say, are answers that vote for nothing but the root. A single answer is placed as it is.

    Attributes:
        samples: Answers per image: that many of one prompt, or one of each of as many prompts.
        share: The share of the answers that a node needs, in (0, 1].

    Raises:
        TaxtuneError: If a setting is out of range.
    """

    samples: int = 8
    share: float = 0.7

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= _MOST_ANSWERS:
            raise TaxtuneError(f"A vote takes 1 to {_MOST_ANSWERS} answers per image.", value=self.samples)
        if not 0 < self.share <= 1:
            raise TaxtuneError("The share that a node needs must be above 0 and at most 1.", value=self.share)

    def requests(self, prompts: Sequence[str], image: Path, sha256: str) -> list[Request]:
        """Returns the requests about an image (its file and SHA-256), the prompts in turn, each for the next answer."""
        turns = (divmod(i, len(prompts)) for i in range(self.samples))
        return [Request(prompts[which], image, sha256, sample) for sample, which in turns]

    def place(self, taxonomy: Taxonomy, nodes: IntArray) -> tuple[IntArray, NDArray[np.float64]]:
        """Returns the nodes that hold the share, and the shares that they hold, both of shape (n,).

        Args:
            taxonomy: The label tree.
            nodes: The node of each answer, shape (n, samples): the root for one off the tree, -1 for one refused.
        """
        path, shares = vote_paths(taxonomy, nodes)
        depth = (shares >= self.share - _EDGE).sum(axis=1) - 1
        rows = np.arange(len(path))
        return path[rows, depth], shares[rows, depth]

    def identity(self) -> Mapping[str, str | int | float | None]:
        """Returns the settings that play a part."""
        if self.samples == 1:
            return {"kind": "direct"}
        return {"kind": "vote", "samples": self.samples, "share": self.share}


DIRECT = Vote(samples=1)
"""One answer per image, placed as it is."""


def vote_paths(taxonomy: Taxonomy, nodes: IntArray) -> tuple[IntArray, NDArray[np.float64]]:
    """Returns the way down that the votes lead, and how many take each step.

    Args:
        taxonomy: The label tree.
        nodes: The node of each answer, shape (n, m), m ≥ 1; -1 for an answer that says nothing.

    Returns:
        The nodes on the way from the root (column 0), -1 below its end, and the share of all m answers that are at or
        below each, 0 below the end; both of shape (n, height + 1). Shares never rise on the way.
    """
    nodes = np.asarray(nodes, dtype=np.int64)
    n, m = nodes.shape
    path = np.full((n, taxonomy.height + 1), -1, dtype=np.int64)
    shares = np.zeros(path.shape)
    path[:, 0], shares[:, 0] = taxonomy.root, 1.0
    levels = taxonomy.lineage[np.maximum(nodes, taxonomy.root)]  # an answer that says nothing is one that says the root
    here = np.ones((n, m), dtype=bool)
    for depth in range(1, taxonomy.height + 1):
        voted = np.where(here, levels[:, :, depth], -1)
        votes = (voted[:, :, np.newaxis] == voted[:, np.newaxis, :]).sum(axis=2) * (voted >= 0)
        most = votes.max(axis=1, keepdims=True)
        winner = np.where((votes == most) & (voted >= 0), voted, len(taxonomy)).min(axis=1)
        going = most[:, 0] > 0
        path[going, depth], shares[going, depth] = winner[going], most[going, 0] / m
        here = voted == np.where(going, winner, -2)[:, np.newaxis]
    return path, shares


@dataclass(frozen=True, slots=True)
class Level:
    """Mean loss of a policy on the calibration images, its upper bound, and whether the guarantee holds for it."""

    loss: float
    bound: float
    kept: bool


def control_risk(
    losses: ArrayLike, risk: float, confidence: float | None = None, *, worst: float = 1.0
) -> tuple[Level, ...]:
    """Returns a level for each of several nested policies; the last that is kept is the one to choose.

    Args:
        losses: The loss of each policy on each image, shape (policies, n), the most cautious policy first; in
            [0, worst], no row below the one before it anywhere, the images in the order in which they were drawn.
        risk: The mean loss to keep, above 0.
        confidence: Between 0 and 1; None for in expectation.
        worst: The largest possible loss, above 0.
    """
    rows = np.minimum(np.asarray(losses, dtype=np.float64), worst)
    levels: list[Level] = []
    for row in rows:
        if confidence is None:
            bound = float((row.sum() + worst) / (row.size + 1))
        else:  # at most the risk just where the hypothesis of a larger mean has a p-value of at most 1 - confidence
            bound = worst * upper_bound(row / worst, confidence)
        kept = bound <= risk and all(level.kept for level in levels)
        levels.append(Level(float(row.mean()), bound, kept))
    return tuple(levels)


def images_needed(risk: float, confidence: float | None = None, *, worst: float = 1.0) -> int:
    """Returns the fewest calibration images that can keep a risk, that is, if no loss occurs on any of them.

    Arguments are those of `control_risk`. With a confidence it counts no further than about a million.
    """
    part = min(risk / worst, 1.0)
    if confidence is None:
        return max(1, math.ceil(1 / part - 1 - 1e-9))
    level = 1 - confidence

    def kept(images: int) -> bool:
        return p_value(np.zeros(images), part, level=level) <= level

    enough = 1
    while not kept(enough):
        enough *= 2
        if enough > _MOST_IMAGES:
            return enough
    return bisect_left(range(enough), True, lo=enough // 2 + 1, key=kept)


def worst_loss(taxonomy: Taxonomy) -> float:
    """Returns the largest 1 - hP on a tree: that of the deepest node where nothing but the root is right."""
    return max(taxonomy.height, 1) / (max(taxonomy.height, 1) + 1)


@dataclass(frozen=True)
class Reliability:
    """How often nodes on the way to an answer were right, counted on images whose labels are known.

    Attributes:
        counts: For each depth D from 0 on, how many of the answers at this depth were right at each depth d = 0, ...,
            D; at depth 0 all of them, since the root is always right.
    """

    counts: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy, nodes: ArrayLike, targets: ArrayLike) -> Reliability:
        """Counts on judged answers.

        Args:
            taxonomy: The label tree.
            nodes: The node of each answer, shape (n,); without answers off the tree, which are at no node.
            targets: The true node of each image, shape (n,).
        """
        nodes, targets = np.asarray(nodes, dtype=np.int64), np.asarray(targets, dtype=np.int64)
        right = taxonomy.lineage[nodes] == taxonomy.lineage[targets]
        counts = []
        for depth in range(taxonomy.height + 1):
            rows = right[taxonomy.depth[nodes] == depth, : depth + 1]
            counts.append(tuple(rows.sum(axis=0).tolist()))
        return cls(tuple(counts))

    @property
    def answers(self) -> int:
        """How many answers were counted."""
        return sum(row[0] for row in self.counts)

    def confidences(self, depth: int) -> NDArray[np.float64]:
        """How sure each node on the way to an answer is, from the root down, shape (depth + 1,), in (0, 1].

        Of n answers of this depth r were right at depth d: (r + s p) / (n + s), the mean of a Beta distribution. Its
        prior has the mean p = (r' + 1) / (n' + 2), the share of the answers of all depths that were right at d, under
        a uniform prior, and counts as s = max(5, 1 / (1 - p)) answers, so that at least one of them is wrong. The
        values never rise on the way down.

        Args:
            depth: Edges from the root to the answer's node.
        """
        own = np.array(self.counts[depth], dtype=np.float64)
        found = np.ones(depth + 1)
        for d in range(1, depth + 1):
            deep = self.counts[d:]  # all answers that reach so deep
            prior = (sum(row[d] for row in deep) + 1) / (sum(row[0] for row in deep) + 2)
            size = max(_PRIOR, 1 / (1 - prior))
            found[d] = (own[d] + size * prior) / (own[0] + size)
        return np.minimum.accumulate(found)


@dataclass(frozen=True, slots=True)
class RiskGuarantee:
    """The guarantee of a calibrated policy: on new images of the same kind the mean of 1 - hP is at most the risk.

    Attributes:
        risk: The mean of 1 - hP, in (0, 1).
        confidence_level: How often that holds, in (0, 1); None for in expectation.
        images: How many images the policy was calibrated on.
    """

    risk: float
    confidence_level: float | None
    images: int
