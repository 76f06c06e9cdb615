"""What became of a graph on its way to a tree: counts, and a record of every node and edge that was dropped."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from taxtune import atomic
from taxtune.errors import TaxtuneError
from taxtune.taxonomy.building.build import BuiltTree, EdgeFate, NodeFate
from taxtune.taxonomy.building.edges import Statements
from taxtune.taxonomy.building.naming import Names
from taxtune.untrusted import spreadsheet_cell

__all__ = ["COLUMNS", "records", "summary", "write_report"]

#: The columns of a record.
COLUMNS = (
    "what",
    "child",
    "child_label",
    "parent",
    "parent_label",
    "why",
    "kept_parent",
    "depth",
    "kept_depth",
    "cycle",
    "file",
    "row",
)

_NODE_WHY = {
    NodeFate.LEFT_OUT: ("left-out class", "named by --leave-out"),
    NodeFate.NOT_ABOVE_A_LEAF: ("pruned node", "above none of the wanted leaves"),
    NodeFate.NOT_BELOW_THE_ROOT: ("unreachable node", "no path leads to it from the root"),
    NodeFate.BELOW_LEFT_OUT: ("unreachable node", "every path from the root passes through an excluded class"),
    NodeFate.CUT_OFF: ("unreachable node", "every path from the root passes through an edge dropped to break a cycle"),
}
_EDGE_WHY = {
    EdgeFate.LEFT_OUT: ("edge of a left-out class", "one of its ends was excluded"),
    EdgeFate.NOT_ABOVE_A_LEAF: ("pruned edge", "its child is above none of the wanted leaves"),
    EdgeFate.NOT_BELOW_THE_ROOT: ("unreachable edge", "its parent cannot be reached from the root"),
    EdgeFate.INTO_THE_ROOT: ("edge into the root", "the root has no parent"),
    EdgeFate.CYCLE: ("cycle edge", "breaks a cycle"),
    EdgeFate.EXTRA_PARENT: ("extra parent", ""),
}


def summary(built: BuiltTree, names: Names) -> dict[str, Any]:
    """Returns what there is to say about a tree and the graph it was made of, as plain values.

    Every node of the graph is on the tree or counted under `dropped.nodes`, and every stated edge is in the tree or
    counted under `dropped.edges`.
    """
    graph, options = built.graph, built.options
    parents = np.bincount(graph.edges.child, minlength=len(graph))
    node_counts = Counter(built.node_fate.tolist())
    edge_counts = Counter(built.edge_fate[: len(graph.edges)].tolist())
    depth = built.parents.depth[built.order]
    kept = built.kept_edges
    has_child = np.zeros(len(built.ids), dtype=bool)
    has_child[built.parent[kept]] = True
    several = np.isin(built.edge_fate, (EdgeFate.KEPT, EdgeFate.EXTRA_PARENT))
    nodes = Counter({"unreachable node": 0})
    for fate, (what, _) in _NODE_WHY.items():
        nodes[what] += node_counts[fate]
    return {
        "settings": {
            "root": options.root,
            "join_roots": options.join_roots,
            "leave_out": list(options.leave_out),
            "lift": options.lift,
            "cycles": options.cycles,
            "parents": options.parents,
            "leaves": None if options.leaves is None else len(options.leaves),
            "seed": options.seed,
        },
        "files": list(graph.files),
        "read": graph.notes,
        "graph": {
            "nodes": len(graph),
            "edges": len(graph.edges),
            "nodes_without_parent": int((parents == 0).sum()),
            "nodes_with_several_parents": int((parents > 1).sum()),
            "most_parents": int(parents.max(initial=0)),
            "labelled": len(graph.labels),
        },
        "root": _root(built, names),
        "tree": {
            "nodes": len(built.order),
            "edges": len(kept),
            "leaves": int((~has_child[built.order]).sum()),
            "height": int(depth.max()),
            "levels": np.bincount(depth).tolist(),
        },
        "dropped": {
            "edges": {
                "duplicate edge": len(graph.duplicates),
                "self loop": len(graph.self_loops),
                **{what: edge_counts[fate] for fate, (what, _) in _EDGE_WHY.items()},
            },
            "nodes": dict(nodes),
        },
        "added_edges": {"lifted": built.lifted, "to the new root": len(built.child) - len(graph.edges) - built.lifted},
        "cycles": {
            "knots": len(built.broken),
            "edges_dropped": sum(len(component.dropped) for component in built.broken),
            "proven_minimal": sum(component.proven for component in built.broken),
            "by_nodes": dict(sorted(Counter(component.nodes for component in built.broken).items())),
            "not_proven": [
                {
                    "nodes": component.nodes,
                    "edges": component.arcs,
                    "dropped": len(component.dropped),
                    "at_least": component.at_least,
                    "method": component.method,
                }
                for component in built.broken
                if not component.proven
            ],
        },
        "several_parents": {
            "nodes": int((np.bincount(built.child[several], minlength=len(built.ids)) > 1).sum()),
            "decided_by_lot": int((built.parents.tied[built.order] > 1).sum()),
        },
        "names": {
            "without_label": len(names.unlabelled),
            "label_with_id": len(names.renamed),
            "labels_of_several_nodes": names.shared_labels,
            "most_shared_label": None if names.most_shared is None else list(names.most_shared),
            "aliases_too_long": names.long_aliases,
        },
        "leaves": None
        if options.leaves is None
        else {
            "not_in_the_graph": list(built.missing_leaves),
            "not_on_the_tree": [built.ids[node] for node in built.lost_leaves],
        },
    }


def _root(built: BuiltTree, names: Names) -> dict[str, Any]:
    best = built.best_root
    if built.root >= len(built.graph):
        how = "added above all nodes without a parent"
    elif built.options.root is not None:
        how = "named"
    else:
        narrowed = built.options.leaves is not None or built.options.leave_out
        how = "the only node without parents" + (" that is left" if narrowed else "")
        if best is not None and best.candidates > 1:
            how = "the node that reaches the most nodes"
    reached = len(built.order) + int((built.node_fate == NodeFate.CUT_OFF).sum())
    return {
        "id": built.ids[built.root],
        "label": names.labels[built.root],
        "how": how,
        "reaches": reached,
        "candidates": None if best is None else best.candidates,
        "next_best_reaches": None if best is None else best.runner_up,
    }


def records(built: BuiltTree, names: Names) -> Iterator[dict[str, Any]]:
    """Yields a record of every node and edge that is not in the tree, and of every node whose label was made up.

    A record has those of `COLUMNS` that apply. Depths are edges from the root: `depth` that which the dropped parent
    would have given the node, `kept_depth` that which it has.
    """
    graph, depth = built.graph, built.parents.depth
    yield from _statements(built, "duplicate edge", graph.duplicates, "already stated")
    yield from _statements(built, "self loop", graph.self_loops, "a class is not a subclass of itself")
    cycles = {
        arc: [built.ids[node] for node in cycle]
        for component in built.broken
        for arc, cycle in zip(component.dropped, component.cycles, strict=True)
    }
    proven = {arc: component.proven for component in built.broken for arc in component.dropped}
    fates, stated = built.edge_fate.tolist(), len(graph.edges)
    for edge in np.flatnonzero(built.edge_fate != EdgeFate.KEPT).tolist():
        fate = EdgeFate(fates[edge])
        what, why = _EDGE_WHY[fate]
        child, parent = int(built.child[edge]), int(built.parent[edge])
        record = _edge(built, what, child, parent)
        if fate is EdgeFate.CYCLE:
            record["why"] = why + ("; proven minimal" if proven[edge] else "")
            record["cycle"] = cycles[edge]
        elif fate is EdgeFate.EXTRA_PARENT:
            tie = depth[parent] + 1 == depth[child]
            record["why"] = "an equally long path, chosen at random" if tie else "a shorter path from the root"
            record["kept_parent"] = built.ids[built.parent_of(child)]
            record["depth"], record["kept_depth"] = int(depth[parent]) + 1, int(depth[child])
        else:
            record["why"] = why
        if edge < stated:
            record["file"] = graph.files[int(graph.edges.file[edge])]
            record["row"] = int(graph.edges.row[edge])
        else:
            record["why"] += "; added by lifting"
        yield record
    for node in np.flatnonzero(built.node_fate != NodeFate.KEPT).tolist():
        what, why = _NODE_WHY[NodeFate(int(built.node_fate[node]))]
        yield {"what": what, "child": built.ids[node], "child_label": built.label(node), "why": why}
    for node in names.unlabelled:
        yield {"what": "no label", "child": built.ids[node], "why": "the id is the label"}
    for node in names.renamed:
        label = names.labels[node]
        yield {"what": "label with id", "child": built.ids[node], "child_label": label, "why": "siblings share a label"}
    for key in built.missing_leaves:
        yield {"what": "wanted leaf", "child": key, "why": "not in the graph"}
    for node in built.lost_leaves:
        label = built.label(node)
        yield {"what": "wanted leaf", "child": built.ids[node], "child_label": label, "why": "not on the tree"}


def _edge(built: BuiltTree, what: str, child: int, parent: int) -> dict[str, Any]:
    return {
        "what": what,
        "child": built.ids[child],
        "child_label": built.label(child),
        "parent": built.ids[parent],
        "parent_label": built.label(parent),
        "why": "",
    }


def _statements(built: BuiltTree, what: str, edges: Statements, why: str) -> Iterator[dict[str, Any]]:
    columns = (edges.child, edges.parent, edges.file, edges.row)
    for child, parent, file, row in zip(*(column.tolist() for column in columns), strict=True):
        record = _edge(built, what, child, parent)
        yield record | {"why": why, "file": built.graph.files[file], "row": row}


def write_report(path: Path, built: BuiltTree, names: Names) -> int:
    """Writes the records as JSON lines or, if the file's name ends in .csv, as CSV; returns how many there are.

    Raises:
        TaxtuneError: If the name ends in neither .jsonl nor .csv, or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in (".jsonl", ".ndjson", ".csv"):
        raise TaxtuneError("The report must be a .jsonl or .csv file.", file=path, remedy="Rename it.")
    text = io.StringIO(newline="")
    count = 0
    if suffix == ".csv":
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        for record in records(built, names):
            row = record | {"cycle": " ".join(record.get("cycle", ()))}
            table.writerow({key: spreadsheet_cell(value) for key, value in row.items()})
            count += 1
    else:
        for record in records(built, names):
            text.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    atomic.write_text(path, text.getvalue())
    return count
