"""Writing a tree as paths in CSV, or as nested JSON.

Everything that `Taxonomy` holds is written, so that reading the file gives the same tree: labels, parents, the order of
siblings, ranks, aliases, leads and ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taxtune import atomic
from taxtune.errors import TaxonomyError
from taxtune.tables import csv_text, join_cell
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["check_suffix", "paths_csv", "write_taxonomy"]

_ALIASES = ";|"
_SUFFIXES = (".csv", ".json")


def check_suffix(path: str | Path) -> None:
    """Checks that a tree can be written to a file of this name.

    Raises:
        TaxonomyError: If it ends neither in .csv nor in .json.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        remedy = f"Use one of {', '.join(_SUFFIXES)}."
        raise TaxonomyError("No format that can be written has this suffix.", file=path, value=suffix, remedy=remedy)


def write_taxonomy(taxonomy: Taxonomy, path: str | Path, *, force: bool = False) -> Path:
    """Writes a tree in one step, as paths (.csv) or nested JSON (.json); returns the file's path.

    Args:
        taxonomy: The tree.
        path: The file.
        force: Whether to write over a file that is there.

    Raises:
        TaxonomyError: If the file ends otherwise, or is there.
        TaxtuneError: If the file cannot be written whole.
    """
    target = Path(path)
    check_suffix(target)
    if target.exists() and not force:
        raise TaxonomyError("The file already exists; nothing was written.", file=target, remedy="Add --force.")
    return atomic.write_text(target, _nested(taxonomy) if target.suffix.lower() == ".json" else paths_csv(taxonomy))


def paths_csv(taxonomy: Taxonomy) -> str:
    """Returns a CSV of nodes: path, and rank, aliases, leads and id where any node has one.

    "/", ";" and "|" in names have a backslash in front.
    """
    columns: dict[str, Sequence[str]] = {
        "path": [join_cell(taxonomy.path(v), "/") for v in range(len(taxonomy))],
        "rank": [rank or "" for rank in taxonomy.ranks],
        "aliases": [join_cell(names, _ALIASES) for names in taxonomy.aliases],
        "leads": [join_cell(names, _ALIASES) for names in taxonomy.leads],
        "id": [key or "" for key in taxonomy.ids],
    }
    used = {name: cells for name, cells in columns.items() if any(cells)}
    return csv_text(list(used), zip(*used.values(), strict=True))


def _nested(taxonomy: Taxonomy) -> str:
    """Returns nested JSON: name, id, rank, aliases, leads and children, each where there is any."""
    entries: list[dict[str, Any]] = []
    for v, parent in enumerate(taxonomy.parents.tolist()):
        names = {"aliases": list(taxonomy.aliases[v]), "leads": list(taxonomy.leads[v])}
        others = {"id": taxonomy.ids[v], "rank": taxonomy.ranks[v]} | names
        entries.append({"name": taxonomy.labels[v]} | {key: value for key, value in others.items() if value})
        if v:
            entries[parent].setdefault("children", []).append(entries[-1])
    entries[0].setdefault("children", [])
    try:
        return json.dumps(entries[0], ensure_ascii=False, indent=1) + "\n"
    except RecursionError:
        message = f"The tree has {taxonomy.height:,} levels, too many for nested JSON."
        raise TaxonomyError(message, remedy="Write it as CSV.") from None
