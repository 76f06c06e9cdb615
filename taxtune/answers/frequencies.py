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
from taxtune.tables import parse_table, read_text

if TYPE_CHECKING:
    from taxtune.taxonomy.domain import Domain
    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["TARGETS", "make_information", "read_frequencies"]

#: In the place of a file: how often each node is a target.
TARGETS = "targets"

FloatArray = NDArray[np.float64]


def read_frequencies(path: str | Path, taxonomy: Taxonomy, *, part: Domain | None = None) -> tuple[FloatArray, int]:
    """Reads how often nodes occur.

    Args:
        path: A CSV file with the columns node and count.
        taxonomy: The tree that the nodes are on.
        part: What `taxonomy` is a part of. Nodes elsewhere on the whole tree are left out and counted.

    Returns:
        The count of each node itself, shape (nodes,), and how many rows name a node outside the part.

    Raises:
        DataError: If the file cannot be read, lacks a column, or has rows that cannot be used (a node that is not on
            the tree or is named twice, a count that is negative or no number); one message names them all, up to 20.
    """
    file = str(path)
    table = parse_table(read_text(Path(path), error=DataError, what="frequencies"), file, error=DataError)
    node, count = table.column("node"), table.column("count")
    if node is None or count is None:
        raise DataError(
            "The file needs the columns node and count.", file=file, row=table.header_line, value=list(table.header)
        )
    find = target_finder(taxonomy, part)
    counts = np.zeros(len(taxonomy))
    first: dict[int, int] = {}
    problems: list[tuple[int, str]] = []
    outside = 0
    for row in table.rows:
        name, written = row.cell(node), row.cell(count)
        found = find(name)
        number = _number(written)
        if found.problem:
            problems.append((row.line, f"node{found.problem_after}"))
        elif number is None:
            problems.append((row.line, f"count must be a number of at least 0, not {written!r}"))
        elif found.node is None:
            outside += 1
        elif found.node in first:
            problems.append((row.line, f"{name!r} already has a count, in row {first[found.node]}"))
        else:
            first[found.node] = row.line
            counts[found.node] = number
    if problems:
        raise rows_error(problems, file, len(table.rows), remedy="Correct or remove these rows.")
    if not counts.any():
        where = "" if part is None else f" below {part.label!r}"
        raise DataError(f"No node{where} has a count above 0, so all are equally likely.", file=file)
    return counts, outside


def make_information(
    taxonomy: Taxonomy,
    frequencies: str | Path | None = None,
    *,
    smoothing: float = 0.0,
    targets: ArrayLike = (),
    part: Domain | None = None,
) -> Information:
    """Returns what the nodes of a tree weigh, as a user says it.

    Args:
        taxonomy: The tree.
        frequencies: A file for `read_frequencies`, "targets" for how often each node is a target, or None for the
            share of leaves.
        smoothing: What is added to each leaf's frequency, at least 0.
        targets: The targets' node numbers, for "targets".
        part: What `taxonomy` is a part of.

    Raises:
        DataError: If the file cannot be used, a node has no occurrences at or below it and there is no smoothing, or
            there is smoothing without frequencies.
    """
    if not (math.isfinite(smoothing) and smoothing >= 0):
        raise DataError("The smoothing must be a number of at least 0.", value=smoothing)
    if frequencies is None:
        if smoothing:
            raise DataError(
                "Smoothing applies only to given frequencies.",
                value=smoothing,
                remedy=f"Also give frequencies (a file, or {TARGETS!r}), or remove the smoothing.",
            )
        return leaf_information(taxonomy)
    if frequencies == TARGETS:
        counts = np.bincount(np.asarray(targets, dtype=np.int64), minlength=len(taxonomy)).astype(np.float64)
    else:
        counts, outside = read_frequencies(frequencies, taxonomy, part=part)
        if outside and part is not None:
            note(f"{outside:,} rows of {frequencies} name nodes outside {part.label!r} and are left out.")
    return frequency_information(taxonomy, counts, smoothing=smoothing, source=str(frequencies))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
