r"""Reads trees whose rows are paths or edges, from tables and from Python values.

Paths: a column `path` with the names from the root separated by "/" (in a name a slash is written
"\/" and a backslash before it "\\"), or one column per level: level1, level2, …, or, when the
format is asked for by name, columns of any other name, which are then the ranks. Edges: `child` and
`parent`, which are ids, and `label`; the root has no parent, or is the one parent that is no child;
two columns without a header are child and parent, too. Both have optional columns `rank`, `aliases`
and `leads` (separated by ";" or "|"), and paths have `id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from taxtune.errors import TaxonomyError
from taxtune.tables import (
    RawTable,
    Row,
    clean,
    csv_delimiter,
    first_line,
    join_cell,
    parse_table,
    split_cell,
)
from taxtune.taxonomy.raw import PathCollector, RawNode, RawTaxonomy, split_names

__all__ = [
    "has_levels",
    "is_pairs",
    "raw_from_edges",
    "raw_from_paths",
    "read_edges",
    "read_paths",
    "with_header",
]

_LEVEL = re.compile(r"level_?(\d+)")
_ALIASES = ("aliases", "alias", "common_name")
_LEADS = ("leads", "lead")
#: Columns of a table of paths that are no levels.
_OTHERS = (*_ALIASES, *_LEADS, "rank", "id", "")


# -- paths -----------------------------------------------------------------------------------------


def has_levels(header: tuple[str, ...]) -> bool:
    """Tells whether columns are a table of paths: `path`, or level1, level2, …."""
    return "path" in header or any(map(_LEVEL.fullmatch, header))


def read_paths(table: RawTable) -> RawTaxonomy:
    """Returns the nodes of a table of paths.

    Raises:
        TaxonomyError: If there is neither a column path nor a level, or a path has more than 250
            names.
    """
    path_column = table.column("path")
    ranks = _rank_of_level(table)
    if path_column is None and not ranks:
        message = "A table of paths needs a column path, or one column per level."
        raise _header_error(table, message)
    aliases = table.column(*_ALIASES)
    leads = table.column(*_LEADS)
    rank = table.column("rank")
    key = table.column("id")
    collector = PathCollector(table.file, "paths")
    for row in table.rows:
        if collector.raw.ragged(row, table):
            continue
        if path_column is None:
            names = [row.cell(level) for level in ranks]
            known = list(ranks.values())
        else:
            names = _without_root_slash(row.cell(path_column))
            known = [None] * len(names)
        while len(names) > 1 and not names[-1]:
            names.pop()
            known.pop()
        if not any(names):
            remedy = "Fill in the name, or remove the row."
            collector.raw.flaw("empty name", "The row names nothing.", row.line, None, remedy)
            continue
        label = names[-1]
        known[-1] = row.cell(rank) or known[-1]
        collector.add(
            row.line,
            names,
            known,
            aliases=split_names(row.cell(aliases), label),
            leads=split_names(row.cell(leads), label),
            key=row.cell(key) or None,
        )
    return collector.finish()


def _header_error(table: RawTable, message: str) -> TaxonomyError:
    columns = ",".join(table.header)
    return TaxonomyError(message, file=table.file, row=table.header_line, value=columns)


def _rank_of_level(table: RawTable) -> dict[int, str | None]:
    """Returns the columns of the levels from the root down, each with the rank that it names.

    Columns called level1, level2 say nothing about ranks; other names do.
    """
    number: dict[int, int] = {}
    for column, name in enumerate(table.header):
        level = _LEVEL.fullmatch(name)
        if level is not None:
            number[column] = int(level[1])
    if number:
        return dict.fromkeys(sorted(number, key=number.__getitem__))
    return {i: name for i, name in enumerate(table.header) if name not in _OTHERS}


def _without_root_slash(path: str) -> list[str]:
    """Returns the names of a path, which may begin with a slash."""
    names = [clean(name) for name in split_cell(path, "/")]
    while len(names) > 1 and not names[0]:
        names.pop(0)
    return names


# -- edges -----------------------------------------------------------------------------------------


def with_header(text: str, file: str) -> RawTable:
    """Returns the table of a text without a header whose lines are child and parent."""
    header = f"child{csv_delimiter(first_line(text))}parent"
    table = parse_table(f"{header}\n{text}", file)
    rows = [Row(row.line - 1, row.cells) for row in table.rows]
    return table._replace(header_line=0, rows=rows)


def is_pairs(table: RawTable) -> bool:
    """Tells whether lines without a header are child and parent.

    They have two cells each, and no first cell stands twice. The second cell of the first line
    stands again below: it is neither a header nor a child.
    """
    if any(len(row.cells) != 2 for row in table.rows):
        return False
    children, parents = zip(*(row.cells for row in table.rows), strict=True)
    return len(set(children)) == len(children) and parents[0] in parents[1:]


def read_edges(table: RawTable) -> RawTaxonomy:
    """Returns the nodes of an edge list.

    Raises:
        TaxonomyError: If the columns child and parent are not there.
    """
    child = table.column("child")
    parent = table.column("parent")
    if child is None or parent is None:
        message = "An edge list needs a header with the columns child and parent."
        raise _header_error(table, message)
    label = table.column("label", "name")
    aliases = table.column("aliases", "alias")
    rank = table.column("rank")
    leads = table.column(*_LEADS)
    raw = RawTaxonomy(table.file, "edges")
    nodes: dict[tuple[str, str], RawNode] = {}
    for row in table.rows:
        if raw.ragged(row, table):
            continue
        cells = ",".join(row.cells)
        if len(row.cells) <= max(child, parent):
            message = f"The row has {len(row.cells)} cells, the header {len(table.header)}."
            remedy = "Put a comma after the child, and leave the parent of the root empty."
            raw.flaw("ragged row", message, row.line, cells, remedy)
            continue
        key = row.cells[child]
        above = row.cells[parent]
        if not key:
            remedy = "Fill in the child, or remove the row."
            raw.flaw("empty name", "The row has no child.", row.line, cells, remedy)
            continue
        name = key if label is None else row.cell(label)
        if not name:
            raw.flaw("empty name", "The node has no label.", row.line, key, "Fill in the label.")
            name = key
        node = RawNode(
            key=key,
            parent=above or None,
            label=name,
            aliases=split_names(row.cell(aliases), name),
            rank=row.cell(rank) or None,
            row=row.line,
            leads=split_names(row.cell(leads), name),
        )
        if (key, above) in nodes:
            shown = f"{key} under {above}" if above else key
            node = raw.repeated("edge", nodes[key, above], node, shown)
        nodes[key, above] = node
    raw.nodes = list(nodes.values())
    _add_implied_roots(raw)
    return raw


def _add_implied_roots(raw: RawTaxonomy) -> None:
    """Adds a root for each parent that is no child, if no node is stated to be a root."""
    if any(node.parent is None for node in raw.nodes):
        return
    keys = {node.key for node in raw.nodes}
    roots = {}
    for node in raw.nodes:
        above = node.parent
        if above not in keys and above not in roots:
            roots[above] = RawNode(key=above, parent=None, label=str(above), row=node.row)
    raw.nodes[:0] = roots.values()


# -- Python values ---------------------------------------------------------------------------------


def raw_from_paths(paths: Iterable[Sequence[str] | str], root: str | None) -> RawTaxonomy:
    """Returns the nodes of paths; see `Taxonomy.from_paths`."""
    file = "Taxonomy.from_paths"
    rows = []
    for number, path in enumerate(_listed(paths, file), start=1):
        if not isinstance(path, str):
            message = "A path must be text with slashes or a sequence of names."
            names = _texts(path, message, file, number)
            if not any(name.strip() for name in names):
                raise TaxonomyError("The path has no name.", file=file, row=number, value=path)
            path = join_cell(names, "/")
        if root is not None:
            path = f"{join_cell([root], '/')}/{path}"
        rows.append(Row(number, [path]))
    if not rows:
        raise TaxonomyError("There are no paths.", file=file)
    return read_paths(RawTable(file, ("path",), 0, rows))


def raw_from_edges(
    edges: Iterable[tuple[str, str | None]],
    labels: Mapping[str, str] | None,
) -> RawTaxonomy:
    """Returns the nodes of edges; see `Taxonomy.from_edges`."""
    file = "Taxonomy.from_edges"
    message = (
        "An edge must be a pair of texts: a child and its parent, or None for the root's parent."
    )
    labels = labels or {}
    unknown = set(labels)
    rows = []
    for number, edge in enumerate(_listed(edges, file), start=1):
        if isinstance(edge, (tuple, list)):
            edge = ["" if end is None else end for end in edge]
        child, parent = _texts(edge, message, file, number, 2)
        unknown -= {child, parent}
        rows.append(Row(number, [child, parent, labels.get(child, child)]))
    if unknown:
        message = "A label is given for a node that is not in any edge."
        raise TaxonomyError(message, file=file, value=min(unknown))
    if not rows:
        raise TaxonomyError("There are no edges.", file=file)
    raw = read_edges(RawTable(file, ("child", "parent", "label"), 0, rows))
    for i, node in enumerate(raw.nodes):  # a root that only follows from the edges
        if node.parent is None and node.key in labels:
            raw.nodes[i] = node._replace(label=labels[str(node.key)])
    return raw


def _listed(values: object, file: str) -> Iterable[object]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        message = f"A list is needed, not a {type(values).__name__}."
        raise TaxonomyError(message, file=file, value=values)
    return values


def _texts(
    values: object,
    message: str,
    file: str,
    row: int,
    count: int | None = None,
) -> list[str]:
    """Returns a sequence of texts; raises a TaxonomyError with a message if it is none."""
    texts = list(values) if isinstance(values, (tuple, list)) else []
    has_others = any(not isinstance(text, str) for text in texts)
    if not texts or has_others or count not in (None, len(texts)):
        raise TaxonomyError(message, file=file, row=row, value=values)
    return texts
