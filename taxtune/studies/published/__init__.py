"""Figures printed in the papers, one CSV per table, for comparison with ours."""

from __future__ import annotations

from importlib import resources

import pandas as pd

__all__ = ["published"]


def published(name: str) -> pd.DataFrame:
    """Returns a printed table; empty cells are NaN.

    Args:
        name: The file's name without ".csv", such as "paper1-table1".

    Raises:
        FileNotFoundError: If there is no such table.
    """
    with (resources.files(__package__) / f"{name}.csv").open(encoding="utf-8") as stream:
        return pd.read_csv(stream)
