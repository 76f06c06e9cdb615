"""Trees from Python values: paths, edges and nested dictionaries, by the readers of files that say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.tables import Row, Table, join_cell
from taxtune.taxonomy.graph import tree_of
from taxtune.taxonomy.readers.edges import parse_edges
from taxtune.taxonomy.readers.nested_json import parse_nested_json
from taxtune.taxonomy.readers.paths import parse_paths
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["as_taxonomy", "from_dict", "from_edges", "from_paths"]

Aliases = Mapping[str, Sequence[str]]


def as_taxonomy(given: Taxonomy | str | Path | Mapping[str, object]) -> Taxonomy:
    """Returns a label tree as functions take it: a tree, a file that `read_taxonomy` reads, or nested dicts."""
    from taxtune.taxonomy.readers import read_taxonomy

    if isinstance(given, Taxonomy):
        return given
    return Taxonomy.from_dict(given) if isinstance(given, Mapping) else read_taxonomy(given)


def from_paths(paths: Iterable[Sequence[str] | str], root: str | None, aliases: Aliases | None) -> Taxonomy:
    """See `Taxonomy.from_paths`."""
    name = "Taxonomy.from_paths"
    rows = []
    for number, path in enumerate(_listed(paths, name), start=1):
        if not isinstance(path, str):
            names = _texts(path, "A path must be text with slashes or a sequence of names.", name, number)
            if not all(part.strip() for part in names):
                raise TaxonomyError("A name in the path is empty.", file=name, row=number, value=path)
            path = join_cell(names, "/")
        rows.append((path if root is None else f"{join_cell([root], '/')}/{path}",))
    return _named(tree_of(parse_paths(_table(name, ("path",), rows, "paths"))), aliases)


def from_edges(
    edges: Iterable[tuple[str, str | None]], labels: Mapping[str, str] | None, aliases: Aliases | None
) -> Taxonomy:
    """See `Taxonomy.from_edges`."""
    name = "Taxonomy.from_edges"
    rows = []
    for number, edge in enumerate(_listed(edges, name), start=1):
        message = "An edge must be a pair of texts: a child and its parent, or None for the root's parent."
        ends = ["" if end is None else end for end in edge] if isinstance(edge, (tuple, list)) else edge
        child, parent = _texts(ends, message, name, number, 2)
        rows.append((child, parent, (labels or {}).get(child, child)))
    unknown = set(labels or {}) - {end for row in rows for end in row[:2]}
    if unknown:
        raise TaxonomyError("A label is given for a node that is not in any edge.", file=name, value=min(unknown))
    raw = parse_edges(_table(name, ("child", "parent", "label"), rows, "edges"))
    for i, node in enumerate(raw.nodes):  # a root that only follows from the edges
        if labels and node.parent is None and node.key in labels:
            raw.nodes[i] = type(node)(node.key, None, labels[str(node.key)], row=node.row)
    return _named(tree_of(raw), aliases)


def from_dict(data: Mapping[str, object] | Sequence[object], root: str | None) -> Taxonomy:
    """See `Taxonomy.from_dict`."""
    name = "Taxonomy.from_dict"
    if not isinstance(data, (dict, list)) or not data:
        raise TaxonomyError(
            "Nested dictionaries or lists are needed.", file=name, value=data, remedy='Such as {"bird": {"finch": {}}}.'
        )
    return _named(tree_of(parse_nested_json(data, Path(), name, root)), None)


def _table(file: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], what: str) -> Table:
    if not rows:
        raise TaxonomyError(f"There are no {what}.", file=file)
    return Table(file, header, 0, tuple(Row(number, cells) for number, cells in enumerate(rows, start=1)))


def _listed(values: object, file: str) -> Iterable[object]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TaxonomyError(f"A list is needed, not a {type(values).__name__}.", file=file, value=values)
    return values


def _texts(values: object, message: str, file: str, row: int, count: int | None = None) -> list[str]:
    good = isinstance(values, (tuple, list)) and values and count in (None, len(values))
    if not good or not all(isinstance(value, str) for value in values):  # type: ignore[attr-defined]
        raise TaxonomyError(message, file=file, row=row, value=values)
    return list(values)  # type: ignore[call-overload, no-any-return]


def _named(tree: Taxonomy, aliases: Aliases | None) -> Taxonomy:
    tree.source = None  # what stood for a file in the messages above
    if not aliases:
        return tree
    names = [list(some) for some in tree.aliases]
    for reference, others in aliases.items():
        if isinstance(others, str):
            raise TaxonomyError("Aliases must be a list of names.", value=others, remedy=f"Write [{others!r}].")
        names[tree.resolve(reference)] += others
    return tree.with_names(aliases=names)
