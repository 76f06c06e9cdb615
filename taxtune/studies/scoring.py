"""Placing texts, the names that answers are compared with, and notes on answers and measures, for several studies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.scores import place_texts as answers_placed
from taxtune.metrics.hierarchical import score
from taxtune.metrics.registry import Measure
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper, Placement

__all__ = ["measure_notes", "missing_note", "place_texts", "target_names", "trivial_answer"]


def place_texts(mapper: Mapper, texts: Iterable[str]) -> dict[str, Placement]:
    """Returns the placement of each distinct text.

    Raises:
        MapperError: If the mapper's similarity needs images.
    """
    # Sorted, so that batches, and with them the last digits of an encoder's scores, do not depend on the order.
    distinct = sorted(set(texts))
    return dict(zip(distinct, answers_placed(mapper, distinct), strict=True))


def target_names(taxonomy: Taxonomy, target: int, reference: str) -> tuple[str, ...]:
    """Returns the names of a target that answers are compared with.

    Args:
        taxonomy: The tree.
        target: The node.
        reference: "common-name" for the preferred one, "label", or "any-name" for all.
    """
    if reference == "any-name":
        return tuple(taxonomy.names(target))
    return (taxonomy.common_name(target) if reference == "common-name" else taxonomy.labels[target],)


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


def measure_notes(measures: Iterable[Measure]) -> list[str]:
    """Returns the notes of measures, each with the heading of its measure in front."""
    return [
        note if note.startswith(measure.label) else f"{measure.label}: {note}"
        for measure in measures
        for note in measure.notes
    ]
