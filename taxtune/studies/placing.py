"""Placing the answers of several models, each distinct text once, and sentences on the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from taxtune.answers import AnswerRow
from taxtune.answers.scores import as_child
from taxtune.metrics.hierarchical import score
from taxtune.progress import track
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement

__all__ = ["COUNTS", "PlacedAnswers", "missing_note", "place_rows", "place_texts", "trivial_answer"]

Key = TypeVar("Key")

#: The columns that count a model's answers.
COUNTS = ("answers", "missing", "abstained", "off the tree")

# Answers placed between two updates of the progress bar.
_STEP = 256


@dataclass(frozen=True, slots=True)
class PlacedAnswers:
    """One model's answers under one prompt, placed.

    Attributes:
        nodes: The node of each example's answer, shape (n,); -1 where there is no answer.
        as_child: Which answers are scored as a child of the root that is never right, shape (n,).
        abstained: Number of answers that decline or say nothing; they are on the root.
        off_tree: Number of answers that assert something that the tree lacks.
    """

    nodes: NDArray[np.int64]
    as_child: NDArray[np.bool_]
    abstained: int
    off_tree: int

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which examples have an answer, an empty one included."""
        return self.nodes >= 0

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The values of `COUNTS`."""
        known = int(self.known.sum())
        return known, len(self.nodes) - known, self.abstained, self.off_tree


def place_rows(mapper: Mapper, rows: Mapping[Key, Sequence[AnswerRow]]) -> dict[Key, PlacedAnswers]:
    """Places the answers of several models or prompts, each distinct text once."""
    placements = place_texts(mapper, (row.answer for some in rows.values() for row in some if row.answer is not None))
    placed = {}
    for key, some in rows.items():
        own = [None if row.answer is None else placements[row.answer] for row in some]
        placed[key] = PlacedAnswers(
            np.array([-1 if one is None else one.node for one in own], dtype=np.int64),
            as_child(mapper, own),
            sum(one is not None and one.abstained for one in own),
            sum(one is not None and one.off_tree for one in own),
        )
    return placed


def place_texts(mapper: Mapper, texts: Iterable[str]) -> dict[str, Placement]:
    """Returns the placement of each distinct text.

    Raises:
        MapperError: If the mapper's similarity needs images.
    """
    # Sorted, so that batches, and with them the last digits of an encoder's scores, do not depend on the order.
    distinct = sorted(set(texts))
    placed: dict[str, Placement] = {}
    with track("answers placed", len(distinct)) as task:
        for start in range(0, len(distinct), _STEP):
            batch = distinct[start : start + _STEP]
            placed.update(zip(batch, mapper.place(batch), strict=True))
            task.advance(len(batch))
    return placed


def missing_note(missing: int, scored: str) -> list[str]:
    """Returns a sentence on missing answers and what the scores are over instead; none if all answers are there."""
    count = f"{missing:,} answer{' is' if missing == 1 else 's are'} missing (a failed call, or no such guess)."
    return [f"{count} Missing answers do not count as zero: {scored}."] if missing else []


def trivial_answer(taxonomy: Taxonomy, targets: NDArray[np.int64], name: str | None = None) -> str:
    """Returns a sentence on the scores of always answering the targets' lowest common ancestor.

    That answer is never wrong and needs no picture, so every hP and hF must be compared with it.

    Args:
        taxonomy: The tree.
        targets: The target nodes, shape (n,), n ≥ 1.
        name: The data set of the targets, where there are several.
    """
    node = taxonomy.common_ancestor(np.unique(targets).tolist())
    scores = score(taxonomy, np.full(len(targets), node), targets)
    return (
        f"{'' if name is None else f'{name}: '}Always answering {taxonomy.labels[node]!r}, the lowest node above all "
        f"targets, would have hP {scores.hp:.3f}, hR {scores.hr:.3f}, hF {scores.hf:.3f}."
    )
