"""Reading the tables of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from taxtune.report.drawing import save_figure
from taxtune.report.output import StudyReport

__all__ = ["assert_drawn", "cells", "records", "rows_by"]


def records(report: StudyReport, table: str) -> list[dict[str, Any]]:
    """Returns the rows of a table."""
    return report.table(table).records()


def rows_by(report: StudyReport, table: str, *columns: str) -> dict[Any, dict[str, Any]]:
    """Returns the rows of a table by the cell of a column, or by those of several."""
    rows = {}
    for row in records(report, table):
        key = cells(row, *columns)
        rows[key[0] if len(columns) == 1 else key] = row
    return rows


def cells(row: dict[str, Any], *columns: str) -> tuple[Any, ...]:
    """Returns some cells of a row."""
    return tuple(row[column] for column in columns)


def assert_drawn(report: StudyReport, folder: Path, least: int = 1000) -> None:
    """Asserts that every figure of a report can be written and holds something."""
    for stem, draw in report.figures.items():
        for path in save_figure(draw, folder / stem):
            assert path.stat().st_size > least
