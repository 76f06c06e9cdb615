"""How often the nodes of a tree occur: the file that information can be weighed by.

A CSV with the columns `node` (a label, alias or path) and `count`; a node that is not in it occurs 0 times. An
occurrence of a node counts for every node above it, so that a count is one of the node *itself*: the counts of a list
of labels, not sums over subtrees.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.answers.read import rows_error
from taxtune.answers.targets import target_finder
from taxtune.errors import DataError
from taxtune.metrics.information import Information, frequency_information, leaf_information
from taxtune.progress import note
from taxtune.tables import read_rows

if TYPE_CHECKING:
    from taxtune.taxonomy.domain import Domain
    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["TARGETS", "make_information", "read_frequencies"]

#: Instead of a file: how often each node is a target.
TARGETS = "targets"


def read_frequencies(
    path: str | Path, taxonomy: Taxonomy, *, part: Domain | None = None
) -> tuple[NDArray[np.float64], int]:
    """The count of each node itself, shape (nodes,), from a CSV, and how many rows name a node outside the part.

    Raises:
        DataError: If the file cannot be read, lacks a column, or has rows that cannot be used: a node that is not on
            the tree or is named twice, or a count that is negative or no number.
    """
    rows = read_rows(Path(path), ("node", "count"), what="frequencies", remedy="It needs the columns node and count.")
    find = target_finder(taxonomy, part)
    counts = np.zeros(len(taxonomy))
    first: dict[int, int] = {}
    problems: list[tuple[int, str]] = []
    for line, cells in rows:
        target = find(cells["node"])
        try:
            count = float(cells["count"])
        except ValueError:
            count = math.nan
        if target.problem:
            problems.append((line, f"node{target.problem_after}"))
        elif not 0 <= count < math.inf:
            problems.append((line, f"count must be a number of at least 0, not {cells['count']!r}"))
        elif target.node is not None and first.setdefault(target.node, line) != line:
            problems.append((line, f"{cells['node']!r} already has a count, in row {first[target.node]}"))
        elif target.node is not None:
            counts[target.node] = count
    if problems:
        raise rows_error(problems, str(path), len(rows), remedy="Correct or remove these rows.")
    if not counts.any():
        where = "" if part is None else f" below {part.label!r}"
        raise DataError(f"No node{where} has a count above 0, so all are equally likely.", file=path)
    return counts, len(rows) - len(first)


def make_information(
    taxonomy: Taxonomy,
    frequencies: str | Path | None = None,
    *,
    smoothing: float = 0.0,
    targets: ArrayLike = (),
    part: Domain | None = None,
) -> Information:
    """The weights of the nodes of a tree, from a user's settings.

    Args:
        taxonomy: The tree.
        frequencies: A file for `read_frequencies`, "targets" (by the `targets`' node numbers), or None for leaves.
        smoothing: Added to each leaf's frequency, at least 0.
        targets: The targets' node numbers.
        part: What `taxonomy` is a part of.

    Raises:
        DataError: If the file cannot be used, a node has no occurrences at or below it and there is no smoothing, or
            there is smoothing without frequencies.
    """
    if frequencies is None:
        if smoothing:
            remedy = f"Also give frequencies (a file, or {TARGETS!r}), or remove the smoothing."
            raise DataError("Smoothing applies only to given frequencies.", value=smoothing, remedy=remedy)
        return leaf_information(taxonomy)
    if frequencies == TARGETS:
        counts = np.bincount(np.asarray(targets, dtype=np.int64), minlength=len(taxonomy)).astype(np.float64)
    else:
        counts, outside = read_frequencies(frequencies, taxonomy, part=part)
        if outside and part is not None:
            note(f"{outside:,} rows of {frequencies} name nodes outside {part.label!r} and are left out.")
    return frequency_information(taxonomy, counts, smoothing=smoothing, source=str(frequencies))
