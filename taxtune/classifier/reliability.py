"""How sure a single answer is: how often the run's own answers were right, by how deep they went.

A model that is asked once does not say how sure it is. But the run knows what became of its answers to the held-out
images, on which neither the template nor anything else was chosen. Of an answer at depth D, its ancestor at depth d is
believed as often as the ancestors at depth d of such answers were right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.taxonomy import Taxonomy

__all__ = ["Reliability", "RiskGuarantee"]

#: At least so many answers the prior counts as.
_PRIOR = 5.0


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
