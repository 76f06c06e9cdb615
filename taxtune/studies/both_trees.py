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
        placed: By name, the nodes of answers and of their targets on the part, each of shape (n,); a node of -1, no
            answer, is left out.
        what: What the names are of.
        off_tree: By name, which answers are scored as a child of the root that is never right, each of shape (n,); of
            the root of the tree that is scored on, since what the part lacks may be anywhere outside of it.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, (nodes, targets) in placed.items():
        found: NDArray[np.int64] = np.asarray(nodes, dtype=np.int64)
        known = found >= 0
        found, wanted = found[known], np.asarray(targets, dtype=np.int64)[known]
        if not len(found):
            rows.append((name, 0, *(None,) * 6))
            continue
        off = flags(None if off_tree is None else off_tree.get(name), len(known))[known]
        here = score(part.tree, found, wanted, off_tree=off)
        there = score(part.full, part.on_full(found), part.on_full(wanted), off_tree=off)
        rows.append((name, len(found), here.hp, here.hr, here.hf, there.hp, there.hr, there.hf))
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
