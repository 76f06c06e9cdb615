"""Writing a tree in the formats that others read: paths and edges as CSV, and nested JSON.

Everything that `Taxonomy` holds is written, so that reading the file gives the same tree: labels, parents, the order of
siblings, ranks, aliases, leads and ids.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from taxtune import atomic
from taxtune.errors import TaxonomyError
from taxtune.tables import join_cell
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["WRITERS", "write_taxonomy", "writer_of"]

_ALIASES = ";|"


def write_taxonomy(taxonomy: Taxonomy, path: str | Path, format: str | None = None, *, force: bool = False) -> Path:
    """Writes a tree in one step; returns the file's path.

    Args:
        taxonomy: The tree.
        path: The file.
        format: One of `WRITERS`; by default what the suffix says.
        force: Whether to write over a file that is there.

    Raises:
        TaxonomyError: If there is no such format, the suffix says none, or the file is there.
        TaxtuneError: If the file cannot be written whole.
    """
    target = Path(path)
    write = WRITERS[writer_of(target, format)]
    if target.exists() and not force:
        raise TaxonomyError("The file already exists; nothing was written.", file=target, remedy="Add --force.")
    return atomic.write_text(target, write(taxonomy))


def writer_of(path: Path, format: str | None = None) -> str:
    """Returns the format that a file is to be written in.

    Raises:
        TaxonomyError: If there is no such format, or the suffix says none.
    """
    if format is None:
        found = _SUFFIXES.get(path.suffix.lower())
        if found is None:
            message = "No format that can be written has this suffix."
            remedy = f"Use one of {', '.join(_SUFFIXES)}, or --to {', '.join(WRITERS)}."
            raise TaxonomyError(message, file=path, value=path.suffix, remedy=remedy)
        return found
    if format not in WRITERS:
        raise TaxonomyError("Unknown output format.", value=format, remedy=f"Use one of {', '.join(WRITERS)}.")
    return format


def _paths(taxonomy: Taxonomy) -> str:
    """A CSV of nodes: path, rank, aliases, leads, id. "/", ";" and "|" in names have a backslash."""
    others = _used(taxonomy)
    rows = ({"path": join_cell(taxonomy.path(v), "/"), **_others(taxonomy, v)} for v in range(len(taxonomy)))
    return _csv(["path", *others], rows)


def _edges(taxonomy: Taxonomy) -> str:
    """A CSV of nodes: child, parent, label, rank, aliases, leads; and node_id unless all have ids."""
    keys = taxonomy.ids if all(key is not None for key in taxonomy.ids) else [f"n{v}" for v in range(len(taxonomy))]
    others = [name for name in _used(taxonomy) if name != "id"]
    # Without the column the keys themselves would be taken for ids.
    columns = ["child", "parent", "label", *others, *([] if keys is taxonomy.ids else ["node_id"])]
    above = taxonomy.parents.tolist()
    rows = (
        {
            "child": keys[v],
            "parent": "" if v == 0 else keys[above[v]],
            "label": taxonomy.labels[v],
            "node_id": taxonomy.ids[v] or "",
            **_others(taxonomy, v),
        }
        for v in range(len(taxonomy))
    )
    return _csv(columns, rows)


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


def _used(taxonomy: Taxonomy) -> list[str]:
    """Returns the columns of rank, aliases, leads and id that are not empty throughout."""
    columns: Mapping[str, Sequence[object]] = {
        "rank": taxonomy.ranks,
        "aliases": taxonomy.aliases,
        "leads": taxonomy.leads,
        "id": taxonomy.ids,
    }
    return [name for name, values in columns.items() if any(values)]


def _others(taxonomy: Taxonomy, node: int) -> dict[str, str]:
    return {
        "rank": taxonomy.ranks[node] or "",
        "aliases": join_cell(taxonomy.aliases[node], _ALIASES),
        "leads": join_cell(taxonomy.leads[node], _ALIASES),
        "id": taxonomy.ids[node] or "",
    }


def _csv(columns: list[str], rows: Iterable[Mapping[str, object]]) -> str:
    stream = io.StringIO()
    table = csv.DictWriter(stream, columns, lineterminator="\n", extrasaction="ignore")
    table.writeheader()
    table.writerows(rows)
    return stream.getvalue()


#: What writes each format.
WRITERS: Mapping[str, Callable[[Taxonomy], str]] = {
    "paths": _paths,
    "edges": _edges,
    "nested-json": _nested,
}
_SUFFIXES = {".csv": "paths", ".json": "nested-json"}
