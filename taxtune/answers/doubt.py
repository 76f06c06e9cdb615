"""Which placements are doubtful."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping.config import DOUBTFUL

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement

__all__ = ["find_doubtful"]


def find_doubtful(mapper: Mapper, placements: Sequence[Placement]) -> NDArray[np.bool_] | None:
    """Returns which placements have a confidence below `DOUBTFUL`, shape (n,).

    It is None under the paper's presets, whose confidence is a similarity and no probability.
    """
    if mapper.identity().get("preset") != "default":
        return None
    return np.array(
        [one.confidence is not None and one.confidence < DOUBTFUL for one in placements], dtype=bool
    )
