r"""Trees whose rows are paths or edges: read from tables and from Python values, and written as paths.

Paths: a column `path` with the names from the root parted by "/" (in a name a slash is written "\/" and a backslash
before it "\\"), or one column per level: level1, level2, …, or, when the format is asked for by name, columns of any
other name, which are then the ranks. Edges: `child` and `parent`, which are ids, and `label`; the root has no parent,
or is the one parent that is no child; two columns without a header are child and parent, too. Both have optional
columns `rank`, `aliases` and `leads` (parted by ";" or "|"), and paths have `id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from taxtune import atomic
from taxtune.errors import TaxonomyError
from taxtune.tables import (
    RawTable,
    Row,
    clean,
    csv_delimiter,
    csv_text,
    first_line,
    join_cell,
    parse_table,
    split_cell,
)
from taxtune.taxonomy.raw import PathCollector, RawNode, RawTaxonomy, split_names

if TYPE_CHECKING:
    from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "has_levels",
    "is_pairs",
    "paths_csv",
    "raw_from_edges",
    "raw_from_paths",
    "read_edges",
    "read_paths",
]
__all__ += ["with_header", "write_taxonomy"]

_LEVEL = re.compile(r"level_?\d+")
_ALIASES = ("aliases", "alias", "common_name")
_LEADS = ("leads", "lead")


def has_levels(header: tuple[str, ...]) -> bool:
    """Tells whether columns are a table of paths: `path`, or level1, level2, …."""
    return "path" in header or any(map(_LEVEL.fullmatch, header))


def read_paths(table: RawTable) -> RawTaxonomy:
    """Returns the nodes of a table of paths.

    Raises:
        TaxonomyError: If there is neither a column path nor a level, or a path has more than 250 names.
    """
    others = (*_ALIASES, *_LEADS, "rank", "id", "")
    whole, aliases, leads = table.column("path"), table.column(*_ALIASES), table.column(*_LEADS)
    rank, key = table.column("rank"), table.column("id")
    numbered = [i for i, name in enumerate(table.header) if _LEVEL.fullmatch(name)]
    levels = sorted(numbered, key=lambda i: int(re.sub(r"\D", "", table.header[i])))
    levels = levels or [i for i, name in enumerate(table.header) if name not in others]
    if not levels and whole is None:
        message, value = (
            "A table of paths needs a column path, or one column per level.",
            ",".join(table.header),
        )
        raise TaxonomyError(message, file=table.file, row=table.header_line, value=value)
    # Columns called level1, level2 say nothing about ranks; other names do.
    known: list[str | None] = [
        None if numbered or whole is not None else table.header[i] for i in levels
    ]
    collector = PathCollector(table.file, "paths")
    for row in table.rows:
        if collector.raw.ragged(row, table):
            continue
        names = [row.cell(i) for i in levels]
        if whole is not None:
            names = [clean(name) for name in split_cell(row.cell(whole), "/")]
            while len(names) > 1 and not names[0]:
                names.pop(0)
        while len(names) > 1 and not names[-1]:
            names.pop()
        if not any(names):
            remedy = "Fill in the name, or remove the row."
            collector.raw.flaw("empty name", "The row names nothing.", row.line, None, remedy)
            continue
        ranks: list[str | None] = [None] * len(names) if whole is not None else known[: len(names)]
        ranks[-1] = row.cell(rank) or ranks[-1]
        given = split_names(row.cell(aliases), names[-1]), split_names(row.cell(leads), names[-1])
        collector.add(row.line, names, ranks, *given, key=row.cell(key) or None)
    return collector.finish()


def with_header(text: str, file: str) -> RawTable:
    """Returns the table of a text without a header whose lines are child and parent."""
    table = parse_table(f"child{csv_delimiter(first_line(text))}parent\n{text}", file)
    return table._replace(header_line=0, rows=[Row(row.line - 1, row.cells) for row in table.rows])


def is_pairs(table: RawTable) -> bool:
    """Tells whether lines without a header are child and parent: two cells each, and no first cell stands twice.

    The second cell of the first line stands again below, too: it is neither a header nor a child.
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
    child, parent = table.column("child"), table.column("parent")
    if child is None or parent is None:
        message, value = (
            "An edge list needs a header with the columns child and parent.",
            ",".join(table.header),
        )
        raise TaxonomyError(message, file=table.file, row=table.header_line, value=value)
    label, aliases, rank = (
        table.column("label", "name"),
        table.column("aliases", "alias"),
        table.column("rank"),
    )
    leads = table.column(*_LEADS)
    raw = RawTaxonomy(table.file, "edges")
    stated: dict[tuple[str, str], int] = {}
    for row in table.rows:
        if raw.ragged(row, table):
            continue
        if len(row.cells) <= max(child, parent):
            message = f"The row has {len(row.cells)} cells, the header {len(table.header)}."
            remedy = "Put a comma after the child, and leave the parent of the root empty."
            raw.flaw("ragged row", message, row.line, ",".join(row.cells), remedy)
            continue
        key, above = row.cells[child], row.cells[parent]
        if not key:
            remedy = "Fill in the child, or remove the row."
            raw.flaw("empty name", "The row has no child.", row.line, ",".join(row.cells), remedy)
            continue
        name = key if label is None else row.cell(label)
        if not name:
            raw.flaw("empty name", "The node has no label.", row.line, key, "Fill in the label.")
            name = key
        given = split_names(row.cell(aliases), name), split_names(row.cell(leads), name)
        node = RawNode(
            key, above or None, name, given[0], row.cell(rank) or None, row.line, given[1]
        )
        at = stated.setdefault((key, above), len(raw.nodes))
        if at == len(raw.nodes):
            raw.nodes.append(node)
        else:
            shown = f"{key} under {above}" if above else key
            raw.nodes[at] = raw.repeated("edge", raw.nodes[at], node, shown)
    if all(
        node.parent is not None for node in raw.nodes
    ):  # then a parent that is no child is a root
        known = {node.key for node in raw.nodes}
        tops: dict[object, int | None] = {}
        for node in raw.nodes:
            if node.parent not in known:
                tops.setdefault(node.parent, node.row)
        raw.nodes[:0] = [RawNode(key, None, str(key), row=row) for key, row in tops.items()]
    return raw


# -- Python values -----------------------------------------------------------------------------------------------------


def raw_from_paths(paths: Iterable[Sequence[str] | str], root: str | None) -> RawTaxonomy:
    """Returns the nodes of paths; see `Taxonomy.from_paths`."""
    name = "Taxonomy.from_paths"
    rows = []
    for number, path in enumerate(_listed(paths, name), start=1):
        if not isinstance(path, str):
            names = _texts(
                path, "A path must be text with slashes or a sequence of names.", name, number
            )
            if not any(part.strip() for part in names):
                raise TaxonomyError("The path has no name.", file=name, row=number, value=path)
            path = join_cell(names, "/")
        rows.append((path if root is None else f"{join_cell([root], '/')}/{path}",))
    return read_paths(_table(name, ("path",), rows, "paths"))


def raw_from_edges(
    edges: Iterable[tuple[str, str | None]], labels: Mapping[str, str] | None
) -> RawTaxonomy:
    """Returns the nodes of edges; see `Taxonomy.from_edges`."""
    name = "Taxonomy.from_edges"
    rows = []
    for number, edge in enumerate(_listed(edges, name), start=1):
        message = "An edge must be a pair of texts: a child and its parent, or None for the root's parent."
        ends = (
            ["" if end is None else end for end in edge]
            if isinstance(edge, (tuple, list))
            else edge
        )
        child, parent = _texts(ends, message, name, number, 2)
        rows.append((child, parent, (labels or {}).get(child, child)))
    if unknown := set(labels or {}) - {end for row in rows for end in row[:2]}:
        raise TaxonomyError(
            "A label is given for a node that is not in any edge.", file=name, value=min(unknown)
        )
    raw = read_edges(_table(name, ("child", "parent", "label"), rows, "edges"))
    for i, node in enumerate(raw.nodes):  # a root that only follows from the edges
        if labels and node.parent is None and node.key in labels:
            raw.nodes[i] = node._replace(label=labels[str(node.key)])
    return raw


def _table(
    file: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], what: str
) -> RawTable:
    if not rows:
        raise TaxonomyError(f"There are no {what}.", file=file)
    return RawTable(
        file, header, 0, [Row(number, cells) for number, cells in enumerate(rows, start=1)]
    )


def _listed(values: object, file: str) -> Iterable[object]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TaxonomyError(
            f"A list is needed, not a {type(values).__name__}.", file=file, value=values
        )
    return values


def _texts(
    values: object, message: str, file: str, row: int, count: int | None = None
) -> list[str]:
    good = isinstance(values, (tuple, list)) and values and count in (None, len(values))
    if not good or not all(isinstance(value, str) for value in values):  # type: ignore[attr-defined]
        raise TaxonomyError(message, file=file, row=row, value=values)
    return list(values)  # type: ignore[call-overload, no-any-return]


# -- writing -----------------------------------------------------------------------------------------------------------


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
            "The file already exists; nothing was written.", file=target, remedy="Add --force."
        )
    return atomic.write_text(target, paths_csv(taxonomy))


def paths_csv(taxonomy: Taxonomy) -> str:
    """Returns a CSV of nodes: path, and rank, aliases, leads and id where any node has one."""
    columns: dict[str, Sequence[str]] = {
        "path": [join_cell(taxonomy.path(v), "/") for v in range(len(taxonomy))],
        "rank": [rank or "" for rank in taxonomy.ranks],
        "aliases": [join_cell(names, ";|") for names in taxonomy.aliases],
        "leads": [join_cell(names, ";|") for names in taxonomy.leads],
        "id": [key or "" for key in taxonomy.ids],
    }
    used = {name: cells for name, cells in columns.items() if any(cells)}
    return csv_text(list(used), zip(*used.values(), strict=True))
