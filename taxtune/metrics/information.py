"""Information-weighted precision, recall and F, misinformation and remaining uncertainty, in bits.

With p(v) the probability that an example belongs to v or below it, the *information content* of v
(Resnik 1995, §2) and its *information accretion* (Clark and Radivojac 2013, §2.1) are

    IC(v) = −log2 p(v),        w(v) = IC(v) − IC(parent(v)),        w(root) = 0,

and with the deepest common node c of answer and truth (Clark and Radivojac 2013, §2.2)

    ihP = IC(c) / IC(answer)       ihR = IC(c) / IC(truth)
    remaining uncertainty = IC(truth) − IC(c)       misinformation = IC(answer) − IC(c).

ihF is the harmonic mean of the two *means*, as hF is. A quotient 0/0 is 1. An answer off the tree
(see `hierarchical`) has ihP and ihR 0, and weighs as much as a child of the root does on average
(`off_tree_weight`).

Resnik, P. (1995): Using information content to evaluate semantic similarity in a taxonomy. IJCAI.
Clark, W. T. and Radivojac, P. (2013): Information-theoretic evaluation of predicted ontological
annotations. Bioinformatics 29, i53-i61.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import DataError
from taxtune.metrics.hierarchical import check_nodes, flags, harmonic_mean
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "Information",
    "InformationScores",
    "frequency_information",
    "information_scores",
    "information_values",
    "leaf_information",
    "off_tree_weight",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_NAMED = 3


class Information:
    """The weight of each node of a tree.

    Args:
        taxonomy: The tree.
        weight: Bits that each node adds to its parent, shape (nodes,), at least 0. (With 1
            throughout, ihP is hP.)
        off_tree: The weight of an answer off the tree; above 0.
        source: Source of p(v) for records: "leaves", "targets", "counts.csv".
        smoothing: Number that was added to each leaf's frequency.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        weight: ArrayLike,
        *,
        off_tree: float,
        source: str = "given",
        smoothing: float = 0.0,
    ) -> None:
        self.taxonomy = taxonomy
        #: What each node adds, shape (nodes,).
        self.weight: FloatArray = np.array(weight, dtype=np.float64)
        self.off_tree = float(off_tree)
        self.source = source
        self.smoothing = smoothing
        #: The sum of the weights over each node's ancestors and itself, shape (nodes,): IC(v), in
        #: bits.
        self.content: FloatArray = self.weight.copy()
        for nodes in _levels(taxonomy):
            self.content[nodes] += self.content[taxonomy.parents[nodes]]
        self.weight.flags.writeable = False
        self.content.flags.writeable = False

    def as_dict(self) -> dict[str, str | float]:
        """Returns the source of the weights, for records."""
        return {"p": self.source, "smoothing": self.smoothing, "off_tree_bits": self.off_tree}

    @property
    def counted(self) -> str:
        """The source of p(v) in words: "all leaves equally likely", "by x.csv, smoothed by 1"."""
        if self.source == "leaves":
            return "all leaves equally likely"
        smoothed = f", smoothed by {self.smoothing:g}" if self.smoothing else ""
        return f"by {self.source}{smoothed}"


@dataclass(frozen=True, slots=True)
class InformationScores:
    """Information-weighted scores of a set of examples.

    Attributes:
        ihp: Mean ihP, in [0, 1].
        ihr: Mean ihR, in [0, 1].
        ihf: Harmonic mean of the two *means*, in [0, 1].
        remaining_uncertainty: Mean bits of the truth that are not said, at least 0; smaller is
            better.
        misinformation: Mean bits said that are not true, at least 0; smaller is better.
        target_bits: Mean information content of the targets, in bits.
    """

    ihp: float
    ihr: float
    ihf: float
    remaining_uncertainty: float
    misinformation: float
    target_bits: float

    def as_dict(self) -> dict[str, float]:
        """Returns the scores by name."""
        return asdict(self)


def leaf_information(taxonomy: Taxonomy) -> Information:
    """Returns the information of nodes where all leaves are equally likely.

    p(v) is the share of leaves at or below v. w(v) depends on v and its parent alone, so that a
    node weighs the same on a tree and on a part of it.
    """
    leaves = taxonomy.leaves_below(np.arange(len(taxonomy)))
    return _from_masses(taxonomy, leaves, source="leaves")


def frequency_information(
    taxonomy: Taxonomy,
    frequencies: ArrayLike,
    *,
    smoothing: float = 0.0,
    source: str = "frequencies",
) -> Information:
    """Returns the information of nodes from the frequency of each.

    p(v) is the share of all occurrences that belong to v or to a node below it (Resnik 1995, §2). A
    node that never occurs would have infinite information; additive smoothing (Laplace) adds the
    same number to every leaf.

    Args:
        taxonomy: The tree.
        frequencies: Occurrences of each node itself, shape (nodes,), finite and at least 0.
        smoothing: Number added to each leaf's frequency, at least 0.
        source: Name or file of the frequencies, for records and messages.

    Raises:
        DataError: If a node has no occurrences at or below it and there is no smoothing.
        ValueError: If a number is negative or not finite.
    """
    masses = np.zeros(len(taxonomy))
    masses += np.asarray(frequencies, dtype=np.float64)
    masses[taxonomy.leaves] += smoothing
    is_valid = np.isfinite(masses) & (masses >= 0)
    if not is_valid.all():
        raise ValueError("frequencies and smoothing must be finite and not negative")
    for nodes in reversed(_levels(taxonomy)):
        np.add.at(masses, taxonomy.parents[nodes], masses[nodes])
    unseen = np.flatnonzero(masses == 0)
    if unseen.size:
        some = unseen[:_NAMED].tolist()
        names = ", ".join("/".join(taxonomy.path(node)) for node in some)
        more = f" and {unseen.size - _NAMED:,} more" if unseen.size > _NAMED else ""
        raise DataError(
            f"{unseen.size:,} of {len(taxonomy):,} nodes never occur, so naming them would be "
            f"worth infinitely many bits: {names}{more}.",
            file=source,
            remedy="Give their frequencies, or use smoothing: a smoothing of 1 counts every leaf "
            "one more time.",
        )
    return _from_masses(taxonomy, masses, source=source, smoothing=smoothing)


def off_tree_weight(taxonomy: Taxonomy, weight: ArrayLike) -> float:
    """Returns the weight of an answer off the tree, above 0.

    It is the mean of `weight` over the children of the root. Where the root has one child, which
    weighs nothing, the children of the first node with several stand in for it. On a tree that
    never branches nothing weighs anything, and an answer off it weighs 1 bit.
    """
    weights = np.asarray(weight, dtype=np.float64)
    children = taxonomy.children(taxonomy.root)
    while len(children):
        if weights[children].any():
            return float(weights[children].mean())
        children = taxonomy.children(int(children[0]))
    return 1.0


def information_values(
    information: Information,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Returns ihP, ihR, remaining uncertainty and misinformation of each example, shape (n,) each.

    ihP and ihR lie in [0, 1]; the others are in bits, at least 0. Arguments and errors are those of
    `hierarchical.overlap`.
    """
    tree = information.taxonomy
    content = information.content
    predicted, target = check_nodes(tree, predicted, target)
    off = flags(off_tree, predicted.size)
    common = np.where(off, tree.root, tree.lca(predicted, target))
    of_off_tree = content[tree.root] + information.off_tree
    answered = np.where(off, of_off_tree, content[predicted])
    shared = content[common]
    true = content[target]
    ihp = _quotient(shared, answered)
    ihr = _quotient(shared, true)
    return ihp, ihr, true - shared, answered - shared


def information_scores(
    information: Information,
    predicted: ArrayLike,
    target: ArrayLike,
    *,
    off_tree: ArrayLike | None = None,
) -> InformationScores:
    """Returns the information-weighted scores of a set of placed examples.

    The arguments are those of `hierarchical.overlap`.

    Raises:
        ValueError: If there is no example, the shapes differ, or a number is no node of the tree.
    """
    values = information_values(information, predicted, target, off_tree=off_tree)
    if values[0].size == 0:
        raise ValueError("there are no examples to score")
    ihp, ihr, remaining, wrong = (float(column.mean()) for column in values)
    target_bits = information.content[np.asarray(target)]
    return InformationScores(
        ihp=ihp,
        ihr=ihr,
        ihf=harmonic_mean(ihp, ihr),
        remaining_uncertainty=remaining,
        misinformation=wrong,
        target_bits=float(target_bits.mean()),
    )


def _quotient(part: FloatArray, whole: FloatArray) -> FloatArray:
    ones = np.ones_like(whole)
    return np.divide(part, whole, out=ones, where=whole > 0)


def _levels(taxonomy: Taxonomy) -> list[IntArray]:
    """Returns the nodes of each depth below the root, the shallowest first."""
    depths = range(1, taxonomy.height + 1)
    return [np.flatnonzero(taxonomy.depth == depth) for depth in depths]


def _from_masses(
    taxonomy: Taxonomy, masses: FloatArray | IntArray, *, source: str, smoothing: float = 0.0
) -> Information:
    weight = np.zeros(len(taxonomy))
    of_parents = masses[taxonomy.parents[1:]]
    # The quotient of equal masses is exactly 1: an only child weighs exactly nothing.
    weight[1:] = np.log2(of_parents / masses[1:])
    off_tree = off_tree_weight(taxonomy, weight)
    return Information(taxonomy, weight, off_tree=off_tree, source=source, smoothing=smoothing)
