"""Placing the answers of several models: each distinct text once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.metrics.hierarchical import score
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement

__all__ = ["as_child", "place_texts", "said", "trivial_answer"]

# Answers placed between two signs of progress.
_STEP = 256


def said(rows: Sequence[AnswerRow]) -> list[int]:
    """Returns the positions of the rows that have an answer, an empty one included."""
    return [i for i, row in enumerate(rows) if row.answer is not None]


def place_texts(
    mapper: Mapper, texts: Iterable[str], advance: Callable[[int], None] = lambda n: None
) -> dict[str, Placement]:
    """Returns the placement of each distinct text.

    Args:
        mapper: The mapper.
        texts: Answers, in any order and as often as they come.
        advance: Called with the number of texts placed since the last call.

    Raises:
        MapperError: If the mapper's similarity needs images.
    """
    # Sorted, so that batches, and with them the last digits of an encoder's scores, do not depend on who said what.
    distinct = sorted(set(texts))
    placed: dict[str, Placement] = {}
    for start in range(0, len(distinct), _STEP):
        batch = distinct[start : start + _STEP]
        placed.update(zip(batch, mapper.place(batch), strict=True))
        advance(len(batch))
    return placed


def as_child(mapper: Mapper, placements: Iterable[Placement | None]) -> NDArray[np.bool_]:
    """Returns which placements are scored as a child of the root that is never right.

    They are those off the tree, unless the mapper's settings (`MapperConfig.off_tree`) score these as the root.

    Args:
        mapper: What placed the answers.
        placements: The placements, n of them; None where there is no answer.

    Returns:
        A mask of shape (n,) for `off_tree` of all that scores.
    """
    scored = mapper.identity().get("off_tree") == "child"
    return np.array([scored and found is not None and found.off_tree for found in placements], dtype=bool)


def trivial_answer(taxonomy: Taxonomy, targets: NDArray[np.int64], name: str | None = None) -> str:
    """Returns a sentence on what always naming the targets' lowest common ancestor would score.

    It is right in all it says and needs no picture, so it is what every hP and hF must be seen beside.

    Args:
        taxonomy: The tree.
        targets: The target nodes, shape (n,), n ≥ 1.
        name: Whose examples these are, where there are several.
    """
    node = taxonomy.common_ancestor(np.unique(targets).tolist())
    found = score(taxonomy, np.full(len(targets), node), targets)
    whose = "" if name is None else f"{name}: "
    return (
        f"{whose}Always answering {taxonomy.labels[node]!r}, what all targets have in common, would have "
        f"hP {found.hp:.3f}, hR {found.hr:.3f}, hF {found.hf:.3f}."
    )
