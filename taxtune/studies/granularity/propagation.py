"""Scores of ancestors made from the scores of the labels below them (paper 3, §4.1, eqs. 2 and 3, Figure 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taxtune.taxonomy.tree import Taxonomy

__all__ = ["from_children", "from_leaves", "positives"]

Scores = NDArray[np.floating]


def from_children(scores: Scores, taxonomy: Taxonomy) -> Scores:
    """Returns the scores with every ancestor's replaced by the largest *raw* score of its direct children (eq. 2).

    Args:
        scores: Raw scores, shape (images, nodes): column v is node v of the taxonomy.
        taxonomy: The tree.

    Returns:
        The same shape; the columns of leaves are as they were.

    Raises:
        ValueError: If there is not one column a node.
    """
    _check(scores, taxonomy)
    result = scores.copy()
    _raise_to_parents(scores, result, taxonomy, range(1, len(taxonomy)))
    return result


def from_leaves(scores: Scores, taxonomy: Taxonomy) -> Scores:
    """Returns the scores with every ancestor's replaced by the largest score of a leaf below it (eq. 3).

    The paper writes it as a recursion over the children; its solution is the maximum over all leaves below.

    Args:
        scores: Raw scores, shape (images, nodes): column v is node v of the taxonomy.
        taxonomy: The tree.

    Returns:
        The same shape; the columns of leaves are as they were.

    Raises:
        ValueError: If there is not one column a node.
    """
    _check(scores, taxonomy)
    result = scores.copy()
    # A parent's number is smaller than its children's: going down in number, every child is final before its parent.
    _raise_to_parents(result, result, taxonomy, range(len(taxonomy) - 1, 0, -1))
    return result


def positives(taxonomy: Taxonomy, targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which labels each image shows: its own node and every ancestor; shape (images, nodes)."""
    shown = np.zeros((len(targets), len(taxonomy)), dtype=bool)
    for above in taxonomy.lineage[targets].T:
        there = above >= 0
        shown[np.flatnonzero(there), above[there]] = True
    return shown


def _check(scores: Scores, taxonomy: Taxonomy) -> None:
    if scores.ndim != 2 or scores.shape[1] != len(taxonomy):
        raise ValueError(f"scores must have shape (images, {len(taxonomy)}), not {scores.shape}")


def _raise_to_parents(source: Scores, result: Scores, taxonomy: Taxonomy, order: range) -> None:
    """Writes to each parent's column of `result` the maximum over its children's columns of `source`."""
    parents = taxonomy.parents.tolist()
    begun = np.zeros(len(taxonomy), dtype=bool)
    for child in order:
        parent = parents[child]
        if begun[parent]:
            np.maximum(result[:, parent], source[:, child], out=result[:, parent])
        else:
            result[:, parent] = source[:, child]
            begun[parent] = True
