"""Weighted answers: the deepest node that a share of them holds.

A vote is answers of equal weight, token probabilities and a classifier's scores bring weights of their own; what is
unsaid is at the root. On the way down the weights divide: inside a node and below it, or outside of it. Both are sums
of what is there, so that shares next to 1, as overconfident models have them, do not end as 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import TaxtuneError
from taxtune.models.base import Request
from taxtune.taxonomy import Taxonomy

__all__ = ["DIRECT", "Paths", "Posterior", "Vote", "spread", "weighted_paths"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_MOST_ANSWERS = 100  # per image: beyond, shares hardly change and a comma was meant
_EDGE = 1e-9  # 0.7 of 10 answers is 7 of them, whatever 0.7 * 10 is
_AT_ONCE = 2**22  # cells of a table of images by nodes


class Paths(NamedTuple):
    """The way down that weighted answers lead, each array of shape (n, height + 1), column 0 the root.

    Attributes:
        nodes: The nodes on the way, -1 below its end.
        inside: Weight at or below each node, 0 below the end; it never rises on the way.
        outside: Weight elsewhere; infinite below the end.
    """

    nodes: IntArray
    inside: FloatArray
    outside: FloatArray

    @property
    def shares(self) -> FloatArray:
        """The share of the weight that is at or below each node, in [0, 1]."""
        shares: FloatArray = self.inside / (self.inside + self.outside)
        return shares

    def depths(self, share: float) -> IntArray:
        """Returns the depth of the deepest node that holds a share of the weight, in (0, 1], shape (n,)."""
        with np.errstate(divide="ignore"):
            held = np.log(self.inside) - np.log(self.outside)
        return np.asarray((held >= _logit(share) - _EDGE).sum(axis=1) - 1)

    def at(self, depths: IntArray) -> tuple[IntArray, FloatArray]:
        """Returns the nodes at depths on the ways, and their shares, both of shape (n,)."""
        rows = np.arange(len(depths))
        return self.nodes[rows, depths], self.shares[rows, depths]


def _logit(share: float) -> float:
    return math.inf if share >= 1 else math.log(share) - math.log1p(-share)


def _check_share(share: float) -> None:
    if not 0 < share <= 1:
        raise TaxtuneError("The share that a node needs must be above 0 and at most 1.", value=share)


def weighted_paths(taxonomy: Taxonomy, nodes: ArrayLike, weights: ArrayLike | None = None) -> Paths:
    """Returns the way down that answers lead: from the root to the child that holds most weight, as far as any does.

    Of two children with as much the way takes the first on the tree.

    Args:
        taxonomy: The label tree.
        nodes: The node of each answer, shape (n, m), or (m,) where it is the same for all images; -1 for what is
            unsaid, which is at the root.
        weights: How much each counts, at least 0, shape (n, m), m ≥ 1, with a sum above 0 per image; 1 each where left
            out.
    """
    nodes = np.asarray(nodes, dtype=np.int64)
    counts = np.ones(nodes.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    n, size = len(counts), len(taxonomy)
    nodes = np.broadcast_to(nodes, counts.shape)
    path = np.full((n, taxonomy.height + 1), -1, dtype=np.int64)
    inside, outside = np.zeros(path.shape), np.full(path.shape, np.inf)
    for start in range(0, n, step := max(1, _AT_ONCE // size)):
        part = slice(start, start + step)
        weight, at = counts[part], np.maximum(nodes[part], taxonomy.root)
        rows = np.arange(len(weight))
        going, cells = np.ones(len(weight), dtype=bool), rows[:, np.newaxis] * size
        path[part, 0], inside[part, 0], outside[part, 0] = taxonomy.root, weight.sum(axis=1), 0.0
        here, left = np.ones(weight.shape, dtype=bool), np.zeros(len(weight))
        for depth in range(1, taxonomy.height + 1):
            below = taxonomy.lineage[at, depth]
            there = here & (below >= 0)
            sums = np.bincount((cells + below)[there], weight[there], len(weight) * size).reshape(-1, size)
            winner = sums.argmax(axis=1)
            most = sums[rows, winner]
            going &= most > 0
            stays = there & (below == winner[:, np.newaxis])
            left = left + np.where(here & ~stays, weight, 0.0).sum(axis=1)
            here = stays
            for table, column in ((path, winner), (inside, most), (outside, left)):
                table[part, depth] = np.where(going, column, table[part, depth])
    return Paths(path, inside, outside)


def spread(
    taxonomy: Taxonomy, nodes: ArrayLike, weights: ArrayLike, *, giving: NDArray[np.bool_] | bool = True
) -> FloatArray:
    """Returns weights in which those of inner nodes have gone to the answers below them, in proportion to these.

    Who says "finch" says no less of the chaffinch, and no more of it against the bullfinch. Where nothing below an
    inner node has weight, its own stays. What is unsaid stays, too.

    Args:
        taxonomy: The label tree.
        nodes: The node of each answer, shape (m,); -1 for what is unsaid.
        weights: How much each counts, shape (n, m), at least 0.
        giving: Which answers give theirs, shape (m,); all where left out.
    """
    nodes = np.asarray(nodes, dtype=np.int64)
    weights = np.array(weights, dtype=np.float64)
    gifts = np.flatnonzero((nodes >= 0) & giving & weights.any(axis=0))
    for column in sorted(gifts, key=lambda column: taxonomy.depth[nodes[column]]):
        node = nodes[column]
        # From the root down: what comes to an inner node goes on from it.
        below = np.flatnonzero((nodes >= 0) & (nodes != node) & taxonomy.is_ancestor(node, np.maximum(nodes, 0)))
        total = weights[:, below].sum(axis=1)
        gives = total > 0
        weights[np.ix_(gives, below)] *= (1 + weights[gives, column] / total[gives])[:, np.newaxis]
        weights[gives, column] = 0.0
    return weights


@dataclass(frozen=True)
class Vote:
    """How an image is asked about, and how the answers make one place: the deepest node that holds a share of them.

    An answer votes for its node and everything above it. From the root the image goes down to the child with most votes
    (of two alike, the first on the tree) as long as it has the share. So the place for a larger share lies on the way
    to that for a smaller one, and hP never falls as the share grows. Answers off the tree, and what a model refuses to
    say, are answers that vote for nothing but the root. A single answer is placed as it is.

    Attributes:
        samples: Answers per image.
        share: The share of the answers that a node needs, in (0, 1].

    Raises:
        TaxtuneError: If a setting is out of range.
    """

    samples: int = 8
    share: float = 0.7

    def __post_init__(self) -> None:
        if not 1 <= self.samples <= _MOST_ANSWERS:
            raise TaxtuneError(f"A vote takes 1 to {_MOST_ANSWERS} answers per image.", value=self.samples)
        _check_share(self.share)

    def requests(self, prompt: str, image: Path, sha256: str) -> list[Request]:
        """Returns the requests about an image (its file and SHA-256), one for each answer."""
        return [Request(prompt, image, sha256, sample) for sample in range(self.samples)]

    def place(
        self, taxonomy: Taxonomy, nodes: ArrayLike, weights: ArrayLike | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Returns the nodes that hold the share, and the shares that they hold, both of shape (n,).

        Arguments are those of `weighted_paths`: the root for an answer off the tree, -1 for one refused.
        """
        paths = weighted_paths(taxonomy, nodes, weights)
        return paths.at(paths.depths(self.share))

    def identity(self) -> Mapping[str, str | int | float | None]:
        """Returns the settings that play a part."""
        if self.samples == 1:
            return {"kind": "direct"}
        return {"kind": "vote", "samples": self.samples, "share": self.share}


DIRECT = Vote(samples=1)
"""One answer per image, placed as it is."""


@dataclass(frozen=True)
class Posterior:
    """One call per image that gives the probabilities of the tree's names: the deepest node that holds a share of them.

    Names' probabilities are summed up the tree; what the model would say otherwise is at the root.

    Attributes:
        share: The share of the probability that a node needs, in (0, 1]; None where it is still to be chosen.
        names: Which names are weighed: "species" (label and preferred common name of each leaf), "all" (those of inner
            nodes as well, whose probability then goes to the leaves below them, see `spread`), or "aliases" (all, with
            every further alias). Of species alone the probabilities are taken as parts of what they hold together.
    """

    share: float | None = None
    names: Literal["species", "all", "aliases"] = "all"
    samples: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        if self.share is not None:
            _check_share(self.share)

    def requests(self, prompt: str, image: Path, sha256: str) -> list[Request]:
        """Returns the request about an image (its file and SHA-256), still without names."""
        return [Request(prompt, image, sha256)]

    def identity(self) -> Mapping[str, str | int | float | None]:
        """Returns the settings that play a part."""
        return {"kind": "posterior", "names": self.names, "share": self.share}
