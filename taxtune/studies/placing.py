"""Placing the answers of several models: each distinct text once."""

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
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement

__all__ = ["COUNTS", "PlacedAnswers", "missing_note", "place_rows", "place_texts", "trivial_answer"]

Key = TypeVar("Key")

#: The columns of a table that says what became of the answers.
COUNTS = ("answers", "missing", "abstained", "off the tree")

# Answers placed between two signs of progress.
_STEP = 256


@dataclass(frozen=True, slots=True)
class PlacedAnswers:
    """One model's answers under one prompt, placed.

    Attributes:
        nodes: The node of each example's answer, shape (n,); -1 where there is no answer.
        as_child: Which are scored as a child of the root that is never right, shape (n,).
        abstained: How many of the answers decline or say nothing; they are on the root.
        off_tree: How many assert something that the tree lacks.
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
        """The numbers that stand under `COUNTS`."""
        known = int(self.known.sum())
        return known, len(self.nodes) - known, self.abstained, self.off_tree


def place_rows(mapper: Mapper, rows: Mapping[Key, Sequence[AnswerRow]]) -> dict[Key, PlacedAnswers]:
    """Places the answers of several models or prompts, each distinct text once.

    Args:
        mapper: Places answers on its tree.
        rows: The rows by model or prompt.
    """
    texts = {row.answer for some in rows.values() for row in some if row.answer is not None}
    placed = place_texts(mapper, texts)
    found = {}
    for key, some in rows.items():
        here = [None if row.answer is None else placed[row.answer] for row in some]
        found[key] = PlacedAnswers(
            np.array([-1 if one is None else one.node for one in here], dtype=np.int64),
            as_child(mapper, here),
            sum(one is not None and one.abstained for one in here),
            sum(one is not None and one.off_tree for one in here),
        )
    return found


def missing_note(missing: int, scored: str) -> list[str]:
    """Returns a sentence on how many answers are missing, or nothing where none is.

    Args:
        missing: How many.
        scored: What the scores and comparisons are over instead.
    """
    are = "answer is" if missing == 1 else "answers are"
    lost = (
        f"{missing:,} {are} missing (a failed call, or no such guess). Missing answers do not count as zero: {scored}."
    )
    return [lost] if missing else []


def place_texts(mapper: Mapper, texts: Iterable[str]) -> dict[str, Placement]:
    """Returns the placement of each distinct text.

    Args:
        mapper: The mapper.
        texts: Answers, in any order and as often as they come.

    Raises:
        MapperError: If the mapper's similarity needs images.
    """
    # Sorted, so that batches, and with them the last digits of an encoder's scores, do not depend on who said what.
    distinct = sorted(set(texts))
    placed: dict[str, Placement] = {}
    with track("answers placed", len(distinct)) as task:
        for start in range(0, len(distinct), _STEP):
            batch = distinct[start : start + _STEP]
            placed.update(zip(batch, mapper.place(batch), strict=True))
            task.advance(len(batch))
    return placed


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
        f"{whose}Always answering {taxonomy.labels[node]!r}, the lowest node above all targets, would have "
        f"hP {found.hp:.3f}, hR {found.hr:.3f}, hF {found.hf:.3f}."
    )
