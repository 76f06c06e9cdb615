"""What Python values say of a tree: paths, edges and nested dictionaries, by the readers of files that say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from taxtune.errors import TaxonomyError
from taxtune.tables import Row, Table, join_cell
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.readers.nested_json import read_nested
from taxtune.taxonomy.readers.rows import read_edges, read_paths

__all__ = ["raw_from_dict", "raw_from_edges", "raw_from_paths"]


def raw_from_paths(paths: Iterable[Sequence[str] | str], root: str | None) -> RawTaxonomy:
    """Returns the nodes of paths; see `Taxonomy.from_paths`."""
    name = "Taxonomy.from_paths"
    rows = []
    for number, path in enumerate(_listed(paths, name), start=1):
        if not isinstance(path, str):
            names = _texts(path, "A path must be text with slashes or a sequence of names.", name, number)
            if not all(part.strip() for part in names):
                raise TaxonomyError("A name in the path is empty.", file=name, row=number, value=path)
            path = join_cell(names, "/")
        rows.append((path if root is None else f"{join_cell([root], '/')}/{path}",))
    return read_paths(_table(name, ("path",), rows, "paths"))


def raw_from_edges(edges: Iterable[tuple[str, str | None]], labels: Mapping[str, str] | None) -> RawTaxonomy:
    """Returns the nodes of edges; see `Taxonomy.from_edges`."""
    name = "Taxonomy.from_edges"
    rows = []
    for number, edge in enumerate(_listed(edges, name), start=1):
        message = "An edge must be a pair of texts: a child and its parent, or None for the root's parent."
        ends = ["" if end is None else end for end in edge] if isinstance(edge, (tuple, list)) else edge
        child, parent = _texts(ends, message, name, number, 2)
        rows.append((child, parent, (labels or {}).get(child, child)))
    if unknown := set(labels or {}) - {end for row in rows for end in row[:2]}:
        raise TaxonomyError("A label is given for a node that is not in any edge.", file=name, value=min(unknown))
    raw = read_edges(_table(name, ("child", "parent", "label"), rows, "edges"))
    for i, node in enumerate(raw.nodes):  # a root that only follows from the edges
        if labels and node.parent is None and node.key in labels:
            raw.nodes[i] = node._replace(label=labels[str(node.key)])
    return raw


def raw_from_dict(data: Mapping[str, object] | Sequence[object], root: str | None) -> RawTaxonomy:
    """Returns the nodes of nested dictionaries; see `Taxonomy.from_dict`."""
    name = "Taxonomy.from_dict"
    if not isinstance(data, (dict, list)) or not data:
        message, remedy = "Nested dictionaries or lists are needed.", 'Such as {"bird": {"finch": {}}}.'
        raise TaxonomyError(message, file=name, value=data, remedy=remedy)
    return read_nested(data, name, root)


def _table(file: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], what: str) -> Table:
    if not rows:
        raise TaxonomyError(f"There are no {what}.", file=file)
    return Table(file, header, 0, [Row(number, cells) for number, cells in enumerate(rows, start=1)])


def _listed(values: object, file: str) -> Iterable[object]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TaxonomyError(f"A list is needed, not a {type(values).__name__}.", file=file, value=values)
    return values


def _texts(values: object, message: str, file: str, row: int, count: int | None = None) -> list[str]:
    good = isinstance(values, (tuple, list)) and values and count in (None, len(values))
    if not good or not all(isinstance(value, str) for value in values):  # type: ignore[attr-defined]
        raise TaxonomyError(message, file=file, row=row, value=values)
    return list(values)  # type: ignore[call-overload, no-any-return]
