"""How often mappers place the same answer on the same node (paper 1, Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["agreement_matrix"]


def agreement_matrix(placements: Mapping[str, ArrayLike]) -> NDArray[np.float64]:
    """Returns the share of answers that each two mappers place on the same node.

    Args:
        placements: The node of each answer by mapper, shape (answers,) each, in the same order; a negative number is
            an answer that the mapper left unplaced.

    Returns:
        Shape (mappers, mappers), in the mappers' order: symmetric, in [0, 1], 1 on the diagonal. An answer that one of
        two mappers left unplaced does not count for these two; NaN where that leaves none.

    Raises:
        ValueError: If the mappers have placed different numbers of answers.
    """
    nodes = [np.asarray(column) for column in placements.values()]
    if len({column.shape for column in nodes}) > 1:
        raise ValueError("every mapper must have placed the same answers")
    matrix = np.full((len(nodes), len(nodes)), np.nan)
    for i, a in enumerate(nodes):
        for j, b in enumerate(nodes[: i + 1]):
            both = (a >= 0) & (b >= 0)
            if both.any():
                matrix[i, j] = matrix[j, i] = float((a == b)[both].mean())
    return matrix
