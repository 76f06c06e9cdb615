"""Counts of labels that are wrong, right but general, or exact: the first figures of every result.

People label in these units. hP and hR say how wrong and how general; see `hierarchical.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from taxtune.metrics.statistics import Interval
from taxtune.taxonomy import Taxonomy

__all__ = [
    "ABSTAINED",
    "CALLED_EMPTY",
    "CALLED_SOMETHING",
    "EXACT",
    "GENERAL",
    "LABELS_WRONG",
    "MISSING",
    "OFF_TREE",
    "SHOWN",
    "STATES",
    "UNTRUE",
    "WRONG",
    "Outcomes",
    "confused_with_nothing",
]

#: The name of the first score: of the labels below the root, how many are wrong.
LABELS_WRONG = "labels given that are wrong"
WRONG = "wrong"
OFF_TREE = "off the tree"
ABSTAINED = "abstained"
GENERAL = "right, but general"
EXACT = "exact"
MISSING = "missing"
#: The states of answers, in the order in which they are shown.
STATES = (WRONG, OFF_TREE, ABSTAINED, GENERAL, EXACT, MISSING)
#: Where images show nothing their truth is the root; then these are counted, too.
CALLED_SOMETHING = "empty, called something"
CALLED_EMPTY = "something, called empty"
#: All that is counted, in the order in which it is shown.
SHOWN = (*STATES, CALLED_SOMETHING, CALLED_EMPTY)
#: The states of answers that say something that is not true.
UNTRUE = (WRONG, OFF_TREE)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What became of the answers about images.

    Attributes:
        counts: Images by the state of their answer, see `STATES`, and by `CALLED_SOMETHING` and
            `CALLED_EMPTY` where there are some that show nothing.
        labels: How many answers are a label: a node below the root.
        per_group: Images in each group, on average; 1 where no two belong together.
    """

    counts: dict[str, int] = field(default_factory=dict, hash=False)
    labels: int = 0
    per_group: float = 1.0

    @classmethod
    def of_nodes(
        cls, tree: Taxonomy, nodes: ArrayLike, target: ArrayLike, off_tree: ArrayLike = False
    ) -> Outcomes:
        """Counts the outcomes of nodes.

        Args:
            tree: The label tree.
            nodes: The node of each image, shape (n,).
            target: The node of each truth, shape (n,).
            off_tree: Whether each answer asserts something that the tree lacks, shape (n,).
        """
        placed = np.asarray(nodes, dtype=np.int64)
        truth = np.asarray(target, dtype=np.int64)
        outside = np.broadcast_to(np.asarray(off_tree, dtype=bool), placed.shape)
        right = tree.is_ancestor(placed, truth) & ~outside
        exact = right & (placed == truth)
        counts = {
            WRONG: int((~right & ~outside).sum()),
            OFF_TREE: int(outside.sum()),
            GENERAL: int((right & ~exact).sum()),
            EXACT: int(exact.sum()),
        }
        labels = int(((placed != tree.root) & ~outside).sum())
        called_empty = (placed == tree.root) & ~outside
        counts |= confused_with_nothing(truth == tree.root, called_empty)
        return cls(counts=counts, labels=labels)

    def count(self, state: str) -> int:
        """Returns the number of answers in a state."""
        return self.counts.get(state, 0)

    @property
    def nothing(self) -> dict[str, int]:
        """How often nothing and something were confused; empty where no image shows nothing."""
        return {name: n for name, n in self.counts.items() if name not in STATES}

    @property
    def images(self) -> int:
        """How many images have an answer."""
        return sum(self.count(state) for state in STATES) - self.missing

    @property
    def missing(self) -> int:
        """How many images have none."""
        return self.count(MISSING)

    @property
    def wrong(self) -> int:
        """How many answers are wrong, those off the tree included."""
        return self.count(WRONG) + self.count(OFF_TREE)

    @property
    def general(self) -> int:
        """How many are right, but general, those that say nothing included."""
        return self.count(GENERAL) + self.count(ABSTAINED)

    @property
    def exact(self) -> int:
        """How many name exactly the truth."""
        return self.count(EXACT)

    @property
    def share_wrong(self) -> Interval | None:
        """The share of the labels that are wrong, with its 95 % interval; None without a label.

        An answer at the root, or off the tree, gives no label. The interval is Wilson's (1927), for
        as many labels as there are groups.
        """
        from scipy.stats import binomtest

        if self.labels == 0:
            return None
        wrong = self.count(WRONG)
        groups = max(1, round(self.labels / self.per_group))
        wrong_groups = round(wrong / self.per_group)
        ends = binomtest(wrong_groups, groups).proportion_ci(0.95, method="wilson")
        return Interval(wrong / self.labels, low=float(ends.low), high=float(ends.high))


def confused_with_nothing(is_empty: ArrayLike, called_empty: ArrayLike) -> dict[str, int]:
    """Counts how often nothing and something were confused; empty where no image shows nothing.

    Args:
        is_empty: Whether the truth of each image is the root, shape (n,).
        called_empty: Whether its answer is on the root, and not off the tree, shape (n,).
    """
    empty = np.asarray(is_empty, dtype=bool)
    called = np.asarray(called_empty, dtype=bool)
    if not empty.any():
        return {}
    named = int((empty & ~called).sum())
    missed = int((called & ~empty).sum())
    return {CALLED_SOMETHING: named, CALLED_EMPTY: missed}
