"""What may occur where and when: a user's checklist, and the deepest node above another that it allows.

A row allows a node, and all below it, at a place in some months; what is above is allowed, too. What no row of a place
allows cannot be there. A place that no row names is not known, and anything may be there. An image without a place, or
without a month, is held to the rows of any.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.targets import rows_error, target_finder
from taxtune.data.context import Value
from taxtune.errors import DataError
from taxtune.tables import clean, read_rows
from taxtune.taxonomy import Domain, Taxonomy

__all__ = ["Checklist", "Row", "read_checklist"]

#: A node's number, a place ("" is everywhere), and the first and last month, 1 to 12, which may span the new year.
Row = tuple[int, str, int, int]


class Checklist:
    """What may occur where and when on a tree; `variables` are those of an image that play a part: place, month."""

    def __init__(self, taxonomy: Taxonomy, rows: Sequence[Row]) -> None:
        self.taxonomy, self.rows = taxonomy, tuple(rows)
        self._places = {place for _, place, *_ in rows} - {""}
        seasons = any(months != [1, 12] for _, _, *months in rows)
        self.variables = ("place",) * bool(self._places) + ("month",) * seasons
        self._columns = [np.array(column) for column in zip(*rows, strict=True)]
        self._lift = lru_cache(256)(self._lifted)

    def groups(self, contexts: Sequence[Mapping[str, Value]]) -> Iterator[tuple[list[int], NDArray[np.int64]]]:
        """Yields the images of each place and month, by their place in the list, with what can be there and then.

        That is for each node the deepest one at or above it that can be, shape (nodes,); the root always can.

        Raises:
            DataError: If the month of an image is none.
        """
        found: dict[tuple[str, int], list[int]] = {}
        for i, context in enumerate(contexts):
            place, month = (context.get(name) if name in self.variables else None for name in ("place", "month"))
            found.setdefault((_place(place), _month(month)), []).append(i)
        for where, images in found.items():
            yield images, self._lift(*where)

    def _lifted(self, place: str, month: int) -> NDArray[np.int64]:
        line = self.taxonomy.lineage
        named, there = np.zeros(len(line), dtype=bool), line >= 0
        node, at, first, last = self._columns
        when = np.where(first <= last, (first <= month) & (month <= last), (first <= month) | (month <= last))
        named[node[((at == "") | (at == (place or at))) & (when | (month == 0))]] = True
        can = (named[line] & there).any(axis=1) | (bool(place) and place not in self._places)
        can[np.append(line[named][there[named]], self.taxonomy.root)] = True
        deepest = (can[line] & there).sum(axis=1) - 1  # what is above it can be as well
        return np.asarray(line[np.arange(len(line)), deepest], dtype=np.int64)

    def notes(self, targets: Sequence[int], contexts: Sequence[Mapping[str, Value]]) -> list[str]:
        """Returns notes on images whose truth is forbidden, and on those of a place that no row names."""
        found = defaultdict[str, Counter[str]](Counter)
        for group, lift in self.groups(contexts):
            for i in group:
                said = [f"{name} {contexts[i][name]}" for name in self.variables if contexts[i].get(name)]
                if lift[targets[i]] != targets[i]:
                    found["lacks the truth"][", ".join([self.taxonomy.labels[targets[i]], *said])] += 1
                elif self._places and _place(contexts[i].get("place")) not in {"", *self._places}:
                    found["does not name the place, and allows all,"][said[0]] += 1
        return [
            f"the checklist {lacks} of {images.total()} of {len(targets)} images: "
            + "; ".join(f"{name} ({n} image{'' if n == 1 else 's'})" for name, n in images.most_common(3))
            for lacks, images in found.items()
        ]


def _place(value: Value) -> str:
    """Returns a place as it is compared; "" where there is none, and 7 for 7.0."""
    return "" if value is None else clean(str(value)).casefold().removesuffix(".0")


def _month(value: Value) -> int:
    """Returns the number of a month; 0 where there is none."""
    text = _place(value)
    if text and text.removeprefix("0") not in map(str, range(1, 13)):
        raise DataError("This is no month.", value=value, remedy="Give its number, 1 to 12.")
    return int(text or 0)


def read_checklist(path: str | Path, taxonomy: Taxonomy, *, part: Domain | None = None) -> Checklist:
    """Reads a CSV with the column node (a label, alias, id or path), and any of place, from month and to month.

    An empty place is everywhere, no month the whole year, and one month without the other that month alone. Rows
    outside of `part`, which `taxonomy` is of the whole, are left out.

    Raises:
        DataError: If it cannot be read, or rows have no node of the tree or a month that is none; it lists them.
    """
    remedy, months = (
        "Its columns are node and, where wanted, place, from month and to month.",
        ("from_month", "to_month"),
    )
    table = read_rows(Path(path), ["node"], ["place", *months], what="checklist", remedy=remedy)
    find, problems, rows = target_finder(taxonomy, part), list[tuple[int, str]](), list[Row]()
    for line, cells in table:
        target = find(cells["node"])
        try:
            when = [month for name in months if (month := _month(cells[name]))] or [1, 12]
        except DataError as error:
            problems.append((line, str(error)))
            continue
        if target.problem:
            problems.append((line, f"node{target.problem_after}"))
        elif target.node is not None:
            rows.append((target.node, _place(cells["place"]), when[0], when[-1]))
    if problems or not rows:
        problems = problems or [(table[0][0], "like all others, its node is outside of the part that counts")]
        raise rows_error(problems, str(path), len(table), remedy="Correct or remove these rows.")
    return Checklist(taxonomy, rows)
