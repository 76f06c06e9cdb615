"""Small operations on frames that several studies need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

__all__ = ["groups", "in_order", "records", "sorted_by"]


def groups(frame: pd.DataFrame, by: str | list[str]) -> dict[Any, pd.DataFrame]:
    """Returns the rows of each group by its key, in the order in which the keys first appear."""
    return dict(list(frame.groupby(by, sort=False)))


def in_order(values: pd.Series, order: Iterable[Any]) -> pd.Series[int]:
    """Returns the position of each value in an order."""
    return values.map({value: i for i, value in enumerate(order)})


def sorted_by(frame: pd.DataFrame, column: str, order: Iterable[Any]) -> pd.DataFrame:
    """Returns the rows in the order of a column's values, those of one value as they are."""
    positions = in_order(frame[column], order)
    return frame.iloc[positions.argsort(kind="stable")]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Returns a mapping per row."""
    return [{str(name): cell for name, cell in row.items()} for row in frame.to_dict("records")]
