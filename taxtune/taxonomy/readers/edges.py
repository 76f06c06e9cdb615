"""Reader of CSV edge lists: one row a node, with its parent.

Columns: `child` (an id), `parent` (the id of the parent; empty for the root), and optionally `label` (the node's name,
the id if left out), `aliases` (other names, separated by ";" or "|", the preferred one first), `leads` (names that lead
an answer to the node and do not identify it), `rank`, and `node_id` (which id each node has, where child and parent are
none). The root may have a row of its own with an empty parent; if no row has one, the root is the one parent that is no
child.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from taxtune.errors import TaxonomyError
from taxtune.tables import Table, other_names
from taxtune.taxonomy.raw import RawNode, RawTaxonomy

__all__ = ["is_edge_table", "parse_edges"]


def is_edge_table(header: tuple[str, ...]) -> bool:
    """Tells whether a CSV header is that of an edge list."""
    return {"child", "parent"} <= set(header)


def parse_edges(table: Table) -> RawTaxonomy:
    """Returns the nodes of an edge list.

    Raises:
        TaxonomyError: If the columns child and parent are not there.
    """
    if not is_edge_table(table.header):
        raise TaxonomyError(
            "An edge list needs a header with the columns child and parent.",
            file=table.file,
            row=table.header_line,
            value=",".join(table.header),
        )
    child, parent = table.header.index("child"), table.header.index("parent")
    label, aliases, rank = table.column("label", "name"), table.column("aliases", "alias"), table.column("rank")
    leads, node_id = table.column("leads", "lead"), table.column("node_id")
    raw = RawTaxonomy(table.file, "edges")
    ids: dict[str, str] = {}
    stated: dict[tuple[str, str], tuple[int, RawNode]] = {}
    for row in table.rows:
        if raw.ragged(row, table):
            continue
        key, above = row.cell(child), row.cell(parent)
        if len(row.cells) <= max(child, parent):
            message = f"The row has {len(row.cells)} cells, the header {len(table.header)}."
            remedy = "Put a comma after the child, and leave the parent of the root empty."
            raw.flaw("ragged row", message, row.line, ",".join(row.cells), remedy)
            continue
        if not key:
            remedy = "Fill in the child, or remove the row."
            raw.flaw("empty name", "The row has no child.", row.line, ",".join(row.cells), remedy)
            continue
        name = row.cell(label) if label is not None else key
        if not name:
            raw.flaw("empty name", "The node has no label.", row.line, key, "Fill in the label.")
            name = key
        if identity := row.cell(node_id):
            ids[key] = identity
        others, led = other_names(row.cell(aliases), name), other_names(row.cell(leads), name)
        node = RawNode(key, above or None, name, others, row.cell(rank) or None, row.line, led)
        if (key, above) not in stated:
            stated[key, above] = (row.line, node)
            raw.nodes.append(node)
            continue
        first, earlier = stated[key, above]
        same = replace(node, row=earlier.row) == earlier
        shown = f"{key} under {above}" if above else key
        raw.repeated("edge", first, row.line, shown, same=same)
    _add_root(raw)
    if node_id is not None:
        _name_by_ids(raw, ids)
    return raw


def _name_by_ids(raw: RawTaxonomy, ids: Mapping[str, str]) -> None:
    """Makes the column `node_id` say which nodes have ids: child and parent then only tie the rows together."""
    owners: dict[str, list[str]] = {}
    for key, identity in ids.items():
        owners.setdefault(identity, []).append(key)
    for identity, keys in owners.items():
        if len(keys) > 1:
            message = f"{len(keys)} nodes have this id: {', '.join(keys[:5])}."
            raw.flaw("conflicting rows", message, None, identity, "Give every node a unique id, or no id.")

    def known_by(key: Hashable | None) -> Hashable | None:
        return None if key is None else ids.get(str(key), (key,))

    raw.nodes = [replace(node, key=known_by(node.key), parent=known_by(node.parent)) for node in raw.nodes]


def _add_root(raw: RawTaxonomy) -> None:
    """Adds the parents that are no child as roots where no row states a root: one is the root, several are a defect."""
    if any(node.parent is None for node in raw.nodes):
        return
    known = {node.key for node in raw.nodes}
    roots = []
    for node in raw.nodes:
        if node.parent is not None and node.parent not in known:
            known.add(node.parent)
            roots.append(RawNode(node.parent, None, str(node.parent), row=node.row))
    raw.nodes[:0] = roots
