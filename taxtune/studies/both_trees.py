"""Studies on a part of a taxonomy: the same placements scored on the part and on the whole."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.metrics.hierarchical import flags, score
from taxtune.report.output import Cell, Table
from taxtune.taxonomy import Domain

__all__ = ["both_trees_table"]


def both_trees_table(
    part: Domain,
    placed: Mapping[str, tuple[ArrayLike, ArrayLike]],
    what: str = "model",
    *,
    off_tree: Mapping[str, ArrayLike] | None = None,
) -> Table:
    """Returns hP, hR and hF of the same placements on a part of a taxonomy and on the whole of it.

    Args:
        part: The part.
        placed: Nodes of answers and of their targets on the part by name, each of shape (n,); -1 is no answer.
        what: Heading of the names.
        off_tree: Which answers are scored as a child of the root that is never right, by name, each of shape (n,).
    """
    rows: list[tuple[Cell, ...]] = []
    for name, (nodes, targets) in placed.items():
        predicted: NDArray[np.int64] = np.asarray(nodes, dtype=np.int64)
        known = predicted >= 0
        predicted, truth = predicted[known], np.asarray(targets, dtype=np.int64)[known]
        if not len(predicted):
            rows.append((name, 0, *(None,) * 6))
            continue
        off = flags(None if off_tree is None else off_tree.get(name), len(known))[known]
        here = score(part.tree, predicted, truth, off_tree=off)
        there = score(part.full, part.on_full(predicted), part.on_full(truth), off_tree=off)
        rows.append((name, len(predicted), here.hp, here.hr, here.hf, there.hp, there.hr, there.hf))
    columns = [f"{metric} on {label}" for label in (part.label, part.full_label) for metric in ("hP", "hR", "hF")]
    return Table(
        "both-trees",
        f"The same placements on {part.label} and on the whole taxonomy",
        (what, "answers", *columns),
        tuple(rows),
        notes=(
            f"In all other tables, hP, hR and hF are counted from {part.label}; counted from {part.full_label}, every "
            "path also includes the nodes above it, which all placements share.",
        ),
    )
