"""Writes trees as CSV files of paths, which are read as the same trees."""

from __future__ import annotations

from pathlib import Path

from taxtune import atomic
from taxtune.errors import TaxonomyError
from taxtune.tables import csv_text, join_cell
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["paths_csv", "write_taxonomy"]


def write_taxonomy(taxonomy: Taxonomy, path: str | Path, *, force: bool = False) -> Path:
    """Writes a tree as a CSV of paths, in one step; reading the file gives the same tree.

    Args:
        taxonomy: The tree.
        path: The file, which ends in .csv.
        force: Whether to write over a file that is there.

    Raises:
        TaxonomyError: If the file ends otherwise, or is there.
        TaxtuneError: If the file cannot be written whole.
    """
    target = Path(path)
    if target.suffix.lower() != ".csv":
        raise TaxonomyError(
            "A tree is written as CSV.",
            file=target,
            value=target.suffix,
            remedy="Name the file .csv.",
        )
    if target.exists() and not force:
        raise TaxonomyError(
            "The file already exists; nothing was written.",
            file=target,
            remedy="Add --force.",
        )
    return atomic.write_text(target, paths_csv(taxonomy))


def paths_csv(taxonomy: Taxonomy) -> str:
    """Returns a CSV of nodes: path, and rank, aliases, leads and id if any node has one."""
    columns = {
        "path": [join_cell(taxonomy.path(node), "/") for node in range(len(taxonomy))],
        "rank": [rank or "" for rank in taxonomy.ranks],
        "aliases": [join_cell(names, ";|") for names in taxonomy.aliases],
        "leads": [join_cell(names, ";|") for names in taxonomy.leads],
        "id": [key or "" for key in taxonomy.ids],
    }
    used = {name: cells for name, cells in columns.items() if any(cells)}
    return csv_text(list(used), zip(*used.values(), strict=True))
