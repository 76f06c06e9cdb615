"""Reading the tables of a report."""

from __future__ import annotations

from taxtune.report.drawing import save_figure

__all__ = ["assert_drawn", "cells", "marks", "records", "rows_by"]


def records(report, table):
    """Returns the rows of a table."""
    return report.table(table).records()


def rows_by(report, table, *columns):
    """Returns the rows of a table by the cell of a column, or by those of several."""
    rows = {}
    for row in records(report, table):
        key = cells(row, *columns)
        rows[key[0] if len(columns) == 1 else key] = row
    return rows


def cells(row, *columns):
    """Returns some cells of a row."""
    return tuple(row[column] for column in columns)


def marks(axes):
    """Returns the heights of the marks of each series of a figure's axes."""
    return {bars.get_label(): bars.lines[0].get_ydata().tolist() for bars in axes.containers}


def assert_drawn(report, folder, least=1000):
    """Asserts that every figure of a report can be written and holds something."""
    for stem, draw in report.figures.items():
        for path in save_figure(draw, folder / stem):
            assert path.stat().st_size > least
