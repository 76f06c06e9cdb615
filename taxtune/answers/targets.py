"""The node that a target in a file of answers means, and how often the nodes of a tree occur.

Published answer files name their targets loosely; a target is looked for as labels of images are
(`data.labels`). A list of labels without the tree's root, or from another tree, goes by its last
name ("Aves", "Suliformes", …, "Phalacrocorax auritus" on a tree that classes the species
otherwise), if one node alone has that name.

Where a study is on a part of a taxonomy, a target that is elsewhere on the whole of it is
*outside*: it cannot be scored on the part. One that the whole does not have is *off the tree*.

Information can be weighed by a CSV with the columns `node` (a label, alias or path) and `count`; a
node that is not in it occurs 0 times. An occurrence of a node counts for every node above it, so
that a count is one of the node *itself*: the counts of a list of labels, not sums over subtrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.data.labels import OUTSIDE, LabelFinder, label_references, label_text
from taxtune.errors import DataError, TaxonomyError
from taxtune.metrics.information import Information, frequency_information, leaf_information
from taxtune.progress import note
from taxtune.settings import LabelWords
from taxtune.tables import read_rows
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "TARGETS",
    "Target",
    "make_information",
    "read_frequencies",
    "rows_error",
    "target_finder",
]

#: Instead of a file of frequencies: how often each node is a target.
TARGETS = "targets"
_LISTED = 5


class Target(NamedTuple):
    """The node that a cell of a file means.

    Attributes:
        text: The cell's text.
        node: The node, None outside the part or off the tree.
        problem: Why there is no node, "" where there is one or it is outside.
        moved: Whether it was found by the last name of its path.
        is_leaf: Whether a group above has the name, too.
        phrase: For a note, of a label that names nothing.
    """

    text: str
    node: int | None = None
    problem: str = ""
    moved: bool = False
    is_leaf: bool = False
    phrase: str = ""

    @property
    def outside(self) -> bool:
        """Whether it is on the whole taxonomy, outside the part that counts."""
        return bool(self.text) and self.node is None and not self.problem

    @property
    def problem_after(self) -> str:
        """The problem as it is said after the name of the column."""
        return f": {self.problem}" if self.text else f" is {self.problem}"


def target_finder(
    taxonomy: Taxonomy,
    part: Domain | None = None,
    suggest: int = 20,
    words: LabelWords | None = None,
) -> Callable[[object], Target]:
    """Returns a function from a cell of a file to the target that it means.

    Each cell is looked up once.

    Args:
        taxonomy: The label tree.
        part: What it is a part of. None for the whole.
        suggest: The number of targets off the tree whose problem names what is spelt alike, which
            takes long.
        words: What labels say that no tree has; None for the words that are usual.
    """
    known: dict[object, Target] = {}
    left = suggest
    finder = LabelFinder(taxonomy, part, words)
    whole = taxonomy if part is None else part.full

    def find(value: object) -> Target:
        nonlocal left
        if isinstance(value, list):
            if value and all(isinstance(label, str) and label.strip() for label in value):
                value = tuple(value)
        elif value is None or (isinstance(value, str) and not value.strip()):
            return Target("", problem="missing")
        elif text := label_text(value):
            value = text
        if not isinstance(value, str | tuple):
            return Target("", problem=f"not a label or a path: {value!r}")
        if value not in known:
            known[value] = _find(finder, value, whole if left > 0 else None)
            left -= bool(known[value].problem)
        return known[value]

    return find


def _find(finder: LabelFinder, value: str | tuple[str, ...], whole: Taxonomy | None) -> Target:
    """Returns the target that a label or a path means.

    Where it is none, the problem names what `whole` has that is spelt alike.
    """
    text = value if isinstance(value, str) else "/".join(value)
    last = value if isinstance(value, str) else value[-1]
    is_path = not isinstance(value, str) and len(value) > 1
    if is_path and (node := finder.node([value])) is not None:
        return Target(text, None if node == OUTSIDE else node)
    problem = f"{last!r} is not on the taxonomy."
    try:
        if (node := finder.node(label_references(last))) is not None:
            found = None if node == OUTSIDE else node
            return Target(text, found, moved=is_path, is_leaf=last in finder.leaves)
        if (unnamed := finder.unnamed(last)) is not None:
            _, node, phrase = unnamed
            return Target(text, None if node == OUTSIDE else node, phrase=phrase)
        if whole is not None:
            name = last if whole.led(last) else last.rsplit("/", 1)[-1]
            problem = f"{problem} {whole.suggest(name)}"
    except TaxonomyError as error:  # several nodes of that name
        problem = f"{error.message} {error.remedy or ''}".strip()
    if is_path:
        problem = f"no node has the path {text!r}, and {problem}"
    return Target(text, problem=problem)


def rows_error(
    problems: Sequence[tuple[int, str]], file: str, total: int, *, remedy: str
) -> DataError:
    """Returns one error for the bad rows of a file.

    Args:
        problems: The row and its problem.
        file: The file.
        total: The number of all rows.
        remedy: What to do.
    """
    # One line for all rows that have the same problem: a species that the tree lacks has many
    # photos.
    rows: dict[str, list[str]] = {}
    for line, problem in problems:
        rows.setdefault(problem[:300], []).append(str(line))
    bad = len({line for line, _ in problems})
    message = f"{bad:,} of {total:,} rows cannot be used:"
    for problem, numbers in list(rows.items())[:_LISTED]:
        more = f" and {len(numbers) - _LISTED:,} more" if len(numbers) > _LISTED else ""
        plural = "s" if len(numbers) > 1 else ""
        message += f"\n  row{plural} {', '.join(numbers[:_LISTED])}{more}: {problem}"
    if len(rows) > _LISTED:
        unlisted = sum(map(len, list(rows.values())[_LISTED:]))
        message += f"\n  and {unlisted:,} more rows"
    return DataError(message, file=file, remedy=f"\n{remedy}")


def read_frequencies(
    path: str | Path, taxonomy: Taxonomy, *, part: Domain | None = None
) -> tuple[NDArray[np.float64], int]:
    """Reads the count of each node itself from a CSV.

    Args:
        path: The file.
        taxonomy: The label tree.
        part: What it is a part of. None for the whole.

    Returns:
        The counts, shape (nodes,), and the number of rows that name a node outside the part.

    Raises:
        DataError: If the file cannot be read, lacks a column, or has rows that cannot be used: a
            node that is not on the tree or is named twice, or a count that is negative or no
            number.
    """
    remedy = "It needs the columns node and count."
    rows = read_rows(Path(path), ("node", "count"), what="frequencies", remedy=remedy)
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
        elif target.node is not None:
            earlier = first.setdefault(target.node, line)
            counts[target.node] = count
            if earlier != line:
                problem = f"{cells['node']!r} already has a count, in row {earlier}"
                problems.append((line, problem))
    if problems:
        raise rows_error(problems, str(path), len(rows), remedy="Correct or remove these rows.")
    if not counts.any():
        where = "" if part is None else f" below {part.label!r}"
        raise DataError(
            f"No node{where} has a count above 0, so all are equally likely.", file=path
        )
    return counts, len(rows) - len(first)


def make_information(
    taxonomy: Taxonomy,
    frequencies: str | Path | None = None,
    *,
    smoothing: float = 0.0,
    targets: ArrayLike = (),
    part: Domain | None = None,
) -> Information:
    """Returns the weights of the nodes of a tree, from a user's settings.

    Args:
        taxonomy: The tree.
        frequencies: A file for `read_frequencies`, "targets" (by the `targets`' node numbers), or
            None for leaves.
        smoothing: Added to each leaf's frequency, at least 0.
        targets: The targets' node numbers.
        part: What `taxonomy` is a part of.

    Raises:
        DataError: If the file cannot be used, a node has no occurrences at or below it and there is
            no smoothing, or there is smoothing without frequencies.
    """
    if frequencies is None:
        if smoothing:
            remedy = f"Also give frequencies (a file, or {TARGETS!r}), or remove the smoothing."
            raise DataError(
                "Smoothing applies only to given frequencies.", value=smoothing, remedy=remedy
            )
        return leaf_information(taxonomy)
    if frequencies == TARGETS:
        nodes = np.asarray(targets, dtype=np.int64)
        counts = np.bincount(nodes, minlength=len(taxonomy)).astype(np.float64)
    else:
        counts, outside = read_frequencies(frequencies, taxonomy, part=part)
        if outside and part is not None:
            note(
                f"{outside:,} rows of {frequencies} name nodes outside {part.label!r} and are left out."
            )
    return frequency_information(taxonomy, counts, smoothing=smoothing, source=str(frequencies))
