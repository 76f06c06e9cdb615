"""Figures printed in the papers, one CSV per table, for comparison with ours."""

from __future__ import annotations

import csv
from importlib import resources

__all__ = ["published"]


def published(name: str) -> list[dict[str, str | float | None]]:
    """Returns the rows of a printed table; numbers as floats, empty cells as None.

    Args:
        name: The file's name without ".csv", such as "paper1-table1".

    Raises:
        FileNotFoundError: If there is no such table.
    """
    text = (resources.files(__package__) / f"{name}.csv").read_text("utf-8")
    return [{column: _value(cell) for column, cell in row.items()} for row in csv.DictReader(text.splitlines())]


def _value(cell: str) -> str | float | None:
    try:
        return float(cell)
    except ValueError:
        return cell or None
