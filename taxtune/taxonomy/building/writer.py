"""Writing a built tree as an edge list, which `read_taxonomy` reads."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from taxtune import atomic
from taxtune.tables import join_cell
from taxtune.taxonomy.building.build import BuiltTree
from taxtune.taxonomy.building.naming import Names

__all__ = ["write_tree"]


def write_tree(path: Path, built: BuiltTree, names: Names) -> Path:
    """Writes a tree as CSV with the columns child, parent, label, aliases and perhaps leads; returns the path.

    The rows are depth first. Of a graph in which nodes keep all their parents, a node has a row for each of them, that
    on its longest path first.

    Nodes are distinguished by their ids (the columns child and parent), so that any number may share a label.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    leads = built.graph.leads
    table.writerow(("child", "parent", "label", "aliases", *(["leads"] if leads else [])))
    parents: dict[int, list[int]] = {}
    for edge in built.kept_edges.tolist():
        parents.setdefault(int(built.child[edge]), []).append(int(built.parent[edge]))
    for node in built.order.tolist():
        first = built.parent_of(node)
        cells = [names.aliases.get(node, ()), *([leads.get(node, ())] if leads else [])]
        named = (names.labels[node], *(join_cell(some, ";|") for some in cells))
        for parent in sorted(parents.get(node, [-1]), key=lambda parent: (parent != first, parent)):
            table.writerow((built.ids[node], "" if parent < 0 else built.ids[parent], *named))
    return atomic.write_text(path, text.getvalue())
