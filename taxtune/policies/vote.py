"""Backing off by evidence: several answers, and the deepest node that enough of them agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import TaxtuneError
from taxtune.models.base import Request
from taxtune.policies.base import BoolArray, IntArray, Places
from taxtune.taxonomy import Taxonomy

__all__ = ["Vote", "vote_paths"]

_MOST = 100  # answers per image: beyond, shares hardly change and a comma was meant
_EDGE = 1e-9  # 0.7 of 10 answers is 7 of them, whatever 0.7 * 10 is


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
        if not 2 <= self.samples <= _MOST:
            raise TaxtuneError(f"A vote takes 2 to {_MOST} answers per image.", value=self.samples)
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
    # At most as many steps as the deepest answer; an answer that says nothing is one that says the root.
    levels = taxonomy.lineage[np.maximum(nodes, taxonomy.root)]
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
