"""Plain edge lists as CSV or TSV: a child and a parent a row, several rows for several parents; and lists of names."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.tables import column_key, csv_delimiter, split_aliases
from taxtune.taxonomy.building.edges import EdgeCollector, tidy
from taxtune.taxonomy.sources.lines import first_lines, lines
from taxtune.taxonomy.sources.synsets import Direction

__all__ = ["read_edge_list", "read_name_list"]

_LABEL = ("label", "name")
_ALIASES = ("aliases", "alias")


def read_edge_list(path: Path, into: EdgeCollector, *, direction: Direction | None = None) -> None:
    """Reads an edge list, its cells separated by commas, tabs or semicolons.

    With a header that has the columns child and parent, these are it, and the columns label (or name) and aliases name
    the child; a row without a parent only states a node. Without such a header the direction has to be given, and the
    first two cells of every row are an edge.

    Args:
        path: The file, packed or not.
        into: Where edges and names go.
        direction: Which comes first in a file without a header.

    Raises:
        TaxonomyError: If there is neither a header nor a direction, or a row lacks a cell or has one that no column
            names.
    """
    header = _header(path)
    by_name = {"child", "parent"} <= set(header)
    if not by_name and direction is None:
        raise TaxonomyError(
            "The first line does not have the columns child and parent.",
            file=path,
            row=1,
            value=first_lines(path, 1)[0],
            remedy="Add a header, or use --direction to say what the first two cells are.",
        )
    if by_name:
        child, parent = header.index("child"), header.index("parent")
    else:
        child, parent = (0, 1) if direction == "child-parent" else (1, 0)
    label, aliases = _column(header, _LABEL) if by_name else None, _column(header, _ALIASES) if by_name else None
    into.start(str(path))
    for row, cells in _rows(path, skip=1 if by_name else 0):
        if by_name:
            _check_width(cells, header, path, row)
        if len(cells) <= child or not (key := tidy(cells[child])):
            raise TaxonomyError("The row has no child.", file=path, row=row, value=",".join(cells))
        above = tidy(cells[parent]) if parent < len(cells) else ""
        if above:
            into.edge(key, above, row)
        elif by_name:
            into.node(key)
        else:
            raise TaxonomyError("The row has no parent.", file=path, row=row, value=",".join(cells))
        _name(into, key, cells, label, aliases)


def read_name_list(path: Path, into: EdgeCollector) -> None:
    """Reads names of nodes that are there already from a table with the columns id (or child), label and aliases.

    Raises:
        TaxonomyError: If there are no such columns, or a row has no id or a cell that no column names.
    """
    header = _header(path)
    key = _column(header, ("id", "child"))
    label, aliases = _column(header, _LABEL), _column(header, _ALIASES)
    if key is None or (label is None and aliases is None):
        raise TaxonomyError(
            "A list of names needs the columns id, and label or aliases.", file=path, row=1, value=",".join(header)
        )
    for row, cells in _rows(path, skip=1):
        _check_width(cells, header, path, row)
        if len(cells) <= key or not tidy(cells[key]):
            raise TaxonomyError("The row has no id.", file=path, row=row, value=",".join(cells))
        _name(into, tidy(cells[key]), cells, label, aliases)


def _name(into: EdgeCollector, key: str, cells: list[str], label: int | None, aliases: int | None) -> None:
    if label is not None and label < len(cells) and cells[label].strip():
        into.name(key, cells[label])
    if aliases is not None and aliases < len(cells):
        for alias in split_aliases(cells[aliases]):
            into.alias(key, alias)


def _check_width(cells: list[str], header: list[str], path: Path, row: int) -> None:
    if any(cell.strip() for cell in cells[len(header) :]):
        raise TaxonomyError(
            f"The row has {len(cells)} cells, the header {len(header)}.",
            file=path,
            row=row,
            value=",".join(cells),
            remedy="Put a name that contains the separator in double quotes.",
        )


def _header(path: Path) -> list[str]:
    first = first_lines(path, 1)[0]
    return [column_key(cell) for cell in next(csv.reader([first], delimiter=csv_delimiter(first)), [])]


def _column(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _rows(path: Path, *, skip: int) -> Iterator[tuple[int, list[str]]]:
    """Yields the line on which each record begins, and its cells; blank lines are no records."""
    delimiter = csv_delimiter(first_lines(path, 1)[0])
    reader = csv.reader((text + "\n" for _, text in lines(path)), delimiter=delimiter, strict=True)
    start = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if skip:
                    skip -= 1
                else:
                    yield start, cells
            start = reader.line_num + 1
    except csv.Error as problem:
        raise TaxonomyError(
            f"The row cannot be read as CSV: {problem}.",
            file=path,
            row=start,
            remedy="Close its quotes, and double any quote inside a name.",
        ) from None
