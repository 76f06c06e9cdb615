"""Tables of results from data frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from taxtune.report.output import Table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame_table"]


def frame_table(
    name: str, title: str, frame: pd.DataFrame, *notes: str, digits: Mapping[str, int] | None = None
) -> Table:
    """Returns a frame's columns and rows as a `Table`; NaN and None are shown as a dash.

    Args:
        name: The stem of the table's files.
        title: Its title.
        frame: Its cells, in order; the index is left out.
        *notes: What stands below it.
        digits: Decimals by column, where they are not three.
    """
    rows = tuple(frame.itertuples(index=False, name=None))
    return Table(name, title, tuple(map(str, frame.columns)), rows, digits or {}, notes)
