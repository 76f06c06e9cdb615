"""Policies: from one or more answers about an image to one node, and control of the risk that the node is wrong.

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
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import TaxtuneError
from taxtune.metrics.bounds import p_value, upper_bound
from taxtune.models.base import Request
from taxtune.taxonomy import Taxonomy

__all__ = [
    "DIRECT",
    "Direct",
    "Level",
    "Places",
    "Policy",
    "Vote",
    "control_risk",
    "images_needed",
    "vote_paths",
    "worst_loss",
]

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

_MOST_ANSWERS = 100  # per image: beyond, shares hardly change and a comma was meant
_MOST_IMAGES = 10_000_000
_EDGE = 1e-9  # 0.7 of 10 answers is 7 of them, whatever 0.7 * 10 is
_ROUNDING = 1e-12  # 1 - 1/3 is more than 2/3


class Places(NamedTuple):
    """Where a policy puts images.

    Attributes:
        nodes: Node numbers, shape (n,).
        off_tree: Which of them count as off the tree, shape (n,); their nodes then play no part.
        shares: The share of the answers that supports the node, in [0, 1], shape (n,); None where none is counted.
    """

    nodes: IntArray
    off_tree: BoolArray
    shares: NDArray[np.float64] | None = None


class Policy(Protocol):
    """How an image is asked about, and how the answers make one place; the same answers give the same place."""

    @property
    def calls(self) -> int:
        """Answers that it takes to place an image, at least 1."""
        ...

    def requests(self, prompts: Sequence[str], image: Path, sha256: str) -> list[Request]:
        """Returns as many requests about an image (its file and SHA-256) as `calls`, from one or more prompts."""
        ...

    def place(self, taxonomy: Taxonomy, nodes: IntArray, off_tree: BoolArray) -> Places:
        """Returns the places of images.

        Args:
            taxonomy: The label tree.
            nodes: The node of each answer, shape (n, calls); -1 where the model refused to answer.
            off_tree: Which answers assert something that the tree lacks, shape (n, calls); their nodes are the root.
        """
        ...

    def identity(self) -> Mapping[str, str | int | float | None]:
        """Returns everything that can change where an image goes, `kind` first."""
        ...


@dataclass(frozen=True)
class Direct:
    """One answer per image, placed as it is."""

    @property
    def calls(self) -> int:
        """One."""
        return 1

    def requests(self, prompts: Sequence[str], image: Path, sha256: str) -> list[Request]:
        """Returns the one request."""
        return [Request(prompts[0], image, sha256)]

    def place(self, taxonomy: Taxonomy, nodes: IntArray, off_tree: BoolArray) -> Places:
        """Returns the answers' own places."""
        return Places(nodes[:, 0], off_tree[:, 0])

    def identity(self) -> Mapping[str, str | int | float | None]:
        """Returns the kind."""
        return {"kind": "direct"}


DIRECT = Direct()


@dataclass(frozen=True)
class Vote:
    """The deepest node that holds a share of the answers.

    An answer votes for its node and everything above it. From the root the image goes down to the child with most votes
    (of two alike, the first on the tree) as long as it has the share. So the place for a larger share lies on the way
    to that for a smaller one, and hP never falls as the share grows. Answers off the tree, and what a model refuses to
    say, are answers that vote for nothing but the root.

    Attributes:
        samples: Answers per image: that many of one prompt, or one of each of as many prompts.
        share: The share of the answers that a node needs, in (0, 1].

    Raises:
        TaxtuneError: If a setting is out of range.
    """

    samples: int = 8
    share: float = 0.7

    def __post_init__(self) -> None:
        if not 2 <= self.samples <= _MOST_ANSWERS:
            raise TaxtuneError(f"A vote takes 2 to {_MOST_ANSWERS} answers per image.", value=self.samples)
        if not 0 < self.share <= 1:
            raise TaxtuneError("The share that a node needs must be above 0 and at most 1.", value=self.share)

    @property
    def calls(self) -> int:
        """Answers per image."""
        return self.samples

    def requests(self, prompts: Sequence[str], image: Path, sha256: str) -> list[Request]:
        """Returns the requests, the prompts in turn, each with the next answer wanted of it."""
        turns = (divmod(i, len(prompts)) for i in range(self.samples))
        return [Request(prompts[which], image, sha256, sample) for sample, which in turns]

    def place(self, taxonomy: Taxonomy, nodes: IntArray, off_tree: BoolArray) -> Places:
        """Returns the nodes that hold the share, none of them off the tree, and the shares that they hold."""
        path, shares = vote_paths(taxonomy, np.where(off_tree, taxonomy.root, nodes))
        depth = (shares >= self.share - _EDGE).sum(axis=1) - 1
        rows = np.arange(len(path))
        return Places(path[rows, depth], np.zeros(len(path), dtype=bool), shares[rows, depth])

    def identity(self) -> Mapping[str, str | int | float | None]:
        """Returns the settings."""
        return {"kind": "vote", "samples": self.samples, "share": self.share}


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

    Raises:
        ValueError: If a number is out of range, or the losses are not in order.
    """
    rows = np.asarray(losses, dtype=np.float64)
    if not risk > 0:
        raise ValueError(f"the risk must be above 0, not {risk}")
    if rows.ndim != 2 or not rows.size or not ((rows >= 0) & (rows <= worst + _ROUNDING)).all():
        raise ValueError(f"losses must be rows of numbers from 0 to {worst:g}")
    rows = np.minimum(rows, worst)
    if (np.diff(rows, axis=0) < 0).any():
        raise ValueError("a policy has a smaller loss than a more cautious one")
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

    Arguments are those of `control_risk`.
    """
    part = min(risk / worst, 1.0)
    if confidence is None:
        return max(1, math.ceil(1 / part - 1 - 1e-9))
    level = 1 - confidence

    def kept(images: int) -> bool:
        return p_value(np.zeros(images), part, level=level) <= level

    enough = 1
    while enough <= _MOST_IMAGES and not kept(enough):
        enough *= 2
    return bisect_left(range(enough), True, lo=enough // 2 + 1, key=kept) if enough <= _MOST_IMAGES else enough


def worst_loss(taxonomy: Taxonomy) -> float:
    """Returns the largest 1 - hP on a tree: that of the deepest node where nothing but the root is right."""
    return max(taxonomy.height, 1) / (max(taxonomy.height, 1) + 1)
