"""What hangs on the placements that the mapper doubts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.hierarchical import flags
from taxtune.metrics.table import Predictions

__all__ = ["Doubt", "influence_of_doubt"]


@dataclass(frozen=True, slots=True)
class Doubt:
    """What hangs on doubtful placements.

    Attributes:
        n: Number of doubtful placements.
        wrong: hP and hR, by "hp" and "hr", if all of them are wrong.
        without: hP and hR of the others; None where there are none.
    """

    n: int
    wrong: dict[str, float] = field(hash=False)
    without: dict[str, float] | None = field(default=None, hash=False)


def influence_of_doubt(predictions: Predictions, doubtful: Sequence[bool | None]) -> Doubt | None:
    """Returns hP and hR with the doubtful placements wrong, and without them.

    A wrong one counts as a child of the root that is never right, and as it is where that is less.
    The result is None unless it is known of every placement whether it is doubtful.

    Args:
        predictions: The placements of n answers, n ≥ 1.
        doubtful: Which of them are doubtful, shape (n,). None stands for not known.
    """
    if any(value is None for value in doubtful):
        return None
    n = len(predictions.nodes)
    unsure = flags(np.asarray(doubtful, dtype=bool), n)
    all_off = replace(predictions, off_tree=np.ones(n, dtype=bool))
    plain = np.stack([predictions.hp, predictions.hr])
    lowest = np.stack([all_off.hp, all_off.hr])
    wrong = np.where(unsure, np.minimum(plain, lowest), plain)
    without = None
    if not unsure.all():
        without = _means(plain[:, ~unsure])
    n_doubtful = int(unsure.sum())
    return Doubt(n=n_doubtful, wrong=_means(wrong), without=without)


def _means(scores: NDArray[np.float64]) -> dict[str, float]:
    hp, hr = scores
    return {"hp": float(hp.mean()), "hr": float(hr.mean())}
