"""Placed answers, made up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from taxtune.studies.placing import PlacedAnswers

__all__ = ["placed"]


def placed(nodes: ArrayLike) -> PlacedAnswers:
    """Answers on some nodes, none of which abstains or is off the tree."""
    found = np.asarray(nodes, dtype=np.int64)
    return PlacedAnswers(found, np.zeros(len(found), dtype=bool), 0, 0)
