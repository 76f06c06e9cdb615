"""From any graph of "subclass of" edges to a rooted tree (paper 1, §4.1).

Edges that a depth-first search from the root finds to close a cycle are dropped, which cuts no node off. Of several
parents a node keeps the one on the longest path from the root; of several longest *paths* each is equally likely, so a
parent is drawn with a weight of the number of longest paths through it. Everything that is dropped is counted.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import networkx as nx

from taxtune import atomic
from taxtune.errors import TaxonomyError
from taxtune.tables import csv_text, join_cell
from taxtune.taxonomy.raw import RawNode

__all__ = ["BuiltTree", "build_tree", "write_tree"]


@dataclass(frozen=True, slots=True)
class BuiltTree:
    """A rooted tree or graph, and counts of what it was made of.

    Attributes:
        graph: The edges that are kept, from parent to child: those of the tree or, with all parents, every edge below
            the root that closes no cycle.
        nodes: The nodes depth first, siblings by id, each with its parent on the longest path from the root and with
            names; siblings differ in their labels.
        counts: What became of the nodes, edges and names, as plain values for JSON.
    """

    graph: nx.DiGraph
    nodes: list[RawNode]
    counts: dict[str, Any]


def build_tree(
    whole: nx.DiGraph,
    *,
    root: str | None = None,
    join_roots: str | None = None,
    parents: Literal["longest-path", "all"] = "longest-path",
    leaves: Sequence[str] | None = None,
    seed: int = 0,
) -> BuiltTree:
    """Makes a rooted tree of a graph; the order in which its edges were read does not matter.

    Args:
        whole: Edges from parent to child, with names as `taxtune.taxonomy.sources.read_graph` gives them.
        root: Id or label of the root; by default the node that reaches the most nodes (of equals the one with the
            fewest parents, then the first id).
        join_roots: Label of a new root above all nodes without parents; excludes `root`.
        parents: "longest-path" keeps one parent of each node, which makes a tree; "all" keeps every one.
        leaves: Ids of the nodes that the tree is for: only they and what is above them stay. None for all.
        seed: Seed of the lots between longest paths; a node's lot depends on the seed and its id alone.

    Raises:
        TaxonomyError: If `root` names no node or several, or none of the leaves is below the root.
    """
    if root is not None and join_roots is not None:
        raise TaxonomyError("--root and --join-roots exclude each other.", remedy="Give one of them.")
    if parents not in ("longest-path", "all"):
        raise TaxonomyError("--parents takes longest-path or all.", value=parents)
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(whole))
    graph.add_edges_from(sorted(whole.edges))
    dropped = Counter({what: whole.graph.get(what, 0) for what in ("duplicate edge", "self loop")})
    wanted = set(whole if leaves is None else leaves).intersection(whole)
    if leaves is not None:
        _keep_above(graph, wanted)
    dropped["pruned node"] = len(whole) - len(graph)
    top: Any = None if root is None else _find(whole, root)
    if join_roots is not None:
        top = _add_root(graph, join_roots, whole)
    if len(graph):
        top = top or _best_root(graph)
    reached = {top} | nx.descendants(graph, top) if top in graph else set()
    if wanted.isdisjoint(reached):
        remedy = "List ids of the graph, or choose another root."
        raise TaxonomyError("None of the leaves is below the root.", value=next(iter(leaves or ()), top), remedy=remedy)

    joined = graph.out_degree(top) if top not in whole else 0
    dropped["unreachable node"] = len(graph) - len(reached)
    graph.remove_nodes_from(set(graph) - reached)
    dropped["edge of a dropped node"] = whole.number_of_edges() + joined - graph.number_of_edges()
    dropped["edge into the root"] = graph.in_degree(top)
    graph.remove_edges_from(list(graph.in_edges(top)))
    back = _back_edges(graph, top)
    dropped["cycle edge"] = len(back)
    graph.remove_edges_from(back)
    above, depth, tied = _longest_paths(graph, top, seed)
    kept = graph
    if parents == "longest-path":
        kept = nx.DiGraph((parent, node) for node, parent in above.items() if parent is not None)
        kept.add_node(top)
        if leaves is not None:
            _keep_above(kept, wanted & reached)
        into_kept = sum(degree for _, degree in graph.in_degree(kept))
        dropped["pruned node"] += len(graph) - len(kept)
        dropped["edge of a dropped node"] += graph.number_of_edges() - into_kept
        dropped["extra parent"] = into_kept - kept.number_of_edges()
    nodes = _named(whole, above, _depth_first(above, top, set(kept)), join_roots)
    levels = Counter(depth[str(node.key)] for node in nodes)
    degrees = [degree for _, degree in whole.in_degree()]
    labels = [(node.label, whole.nodes[node.key].get("label")) for node in nodes if node.key in whole]
    lost = {key: "not below the root" if key in whole else "unknown" for key in leaves or () if key not in kept}
    counts = {
        "graph": {
            "nodes": len(whole),
            "edges": whole.number_of_edges(),
            "nodes_without_parent": degrees.count(0),
            "nodes_with_several_parents": sum(degree > 1 for degree in degrees),
            "most_parents": max(degrees),
            "left_out": dict(whole.graph.get("left_out", {})),
        },
        "root": {"id": top, "label": nodes[0].label, "joins": joined},
        "dropped": {what: count for what, count in dropped.items() if count},
        "several_parents": sum(graph.in_degree(node.key) > 1 for node in nodes),
        "decided_by_lot": sum(node.key in tied for node in nodes),
        "without_label": sum(given is None for _, given in labels),
        "label_with_id": sum(given not in (None, label) for label, given in labels),
        "lost_leaves": lost,
        "tree": {
            "nodes": len(nodes),
            "edges": kept.number_of_edges(),
            "leaves": sum(degree == 0 for _, degree in kept.out_degree()),
            "height": max(levels),
            "levels": [levels[level] for level in range(len(levels))],
        },
    }
    return BuiltTree(kept, nodes, counts)


def _keep_above(graph: nx.DiGraph, nodes: Iterable[str]) -> None:
    """Leaves of a graph only some nodes and all that is above them."""
    layers = nx.bfs_layers(graph.reverse(copy=False), list(nodes))
    graph.remove_nodes_from(set(graph).difference(*layers))


def _tops(graph: nx.DiGraph) -> list[str]:
    """Returns the nodes without parents, and one of each group of nodes that have only each other above them."""
    groups = nx.strongly_connected_components(graph)
    entered = (group for group in groups if all(above in group for node in group for above in graph.pred[node]))
    return [min(group, key=lambda node: (graph.in_degree(node), node)) for group in entered]


def _best_root(graph: nx.DiGraph) -> str:
    tops = _tops(graph)
    return (
        tops[0]
        if len(tops) == 1
        else min(tops, key=lambda top: (-len(nx.descendants(graph, top)), graph.in_degree(top), top))
    )


def _add_root(graph: nx.DiGraph, label: str, whole: nx.DiGraph) -> str:
    """Puts the nodes without a parent under a new root, if there are several; returns the root."""
    tops = _tops(graph)
    if len(tops) == 1:
        return tops[0]
    while label in whole:
        label += " (root)"
    graph.add_edges_from((label, top) for top in sorted(tops))
    return label


def _find(graph: nx.DiGraph, reference: str) -> str:
    """Returns the node that an id, or a label that one node has, refers to."""
    found = [reference] if reference in graph else [v for v, label in graph.nodes(data="label") if label == reference]
    if len(found) == 1:
        return found[0]
    message = f"{len(found)} nodes have this label: {', '.join(sorted(found)[:10])}."
    names = [*graph, *(label for _, label in graph.nodes(data="label") if label)]
    near = difflib.get_close_matches(reference, names[:20_000])
    raise TaxonomyError(
        message if found else "--root is neither an id nor a label of the graph.",
        value=reference,
        remedy=f"Did you mean {', '.join(map(repr, near))}?" if near and not found else "Give an id to --root.",
    )


def _back_edges(graph: nx.DiGraph, root: str) -> list[tuple[str, str]]:
    """Returns the edges that close a cycle in a depth-first search; without them every node is still reached."""
    on_path: set[str] = set()
    back = []
    for parent, child, kind in nx.dfs_labeled_edges(graph, root):
        if kind == "forward":
            on_path.add(child)
        elif kind == "reverse":
            on_path.discard(child)
        elif child in on_path:
            back.append((parent, child))
    return back


def _longest_paths(graph: nx.DiGraph, root: str, seed: int) -> tuple[dict[str, str | None], dict[str, int], set[str]]:
    """Returns each node's parent on its longest path, the length of that path, and the nodes decided by lot."""
    secret = blake2b(f"{seed}\0parent".encode(), digest_size=32).digest()
    above: dict[str, str | None] = {root: None}
    depth, paths = {root: 0}, {root: 1}
    tied: set[str] = set()
    for node in nx.topological_sort(graph):
        if node == root:
            continue
        deepest = max(depth[parent] for parent in graph.pred[node])
        longest = sorted(parent for parent in graph.pred[node] if depth[parent] == deepest)
        depth[node] = deepest + 1
        paths[node] = sum(paths[parent] for parent in longest)
        above[node] = longest[0]
        if len(longest) > 1:
            tied.add(node)
            # A number from 0 to paths - 1: the path that is drawn.
            lot = int.from_bytes(blake2b(node.encode(), digest_size=8, key=secret).digest(), "big") >> 11
            drawn = lot * paths[node] >> 53
            for parent in longest:
                above[node] = parent
                drawn -= paths[parent]
                if drawn < 0:
                    break
    return above, depth, tied


def _depth_first(above: dict[str, str | None], root: str, kept: set[str]) -> list[str]:
    children: dict[str | None, list[str]] = defaultdict(list)
    for node in sorted(kept, reverse=True):
        children[above[node]].append(node)
    order, stack = [], [root]
    while stack:
        order.append(stack.pop())
        stack += children[order[-1]]
    return order


def _named(whole: nx.DiGraph, above: dict[str, str | None], order: list[str], joined: str | None) -> list[RawNode]:
    """Returns nodes with names; of siblings with one label each gets its id behind it, and the label as an alias."""
    data = {node: whole.nodes.get(node, {"label": joined}) for node in order}
    labels = {node: data[node].get("label", node) for node in order}
    taken = Counter((above[node], label) for node, label in labels.items())
    nodes = []
    for node, label in labels.items():
        aliases = data[node].get("aliases", ())
        if taken[above[node], label] > 1:
            aliases = (label, *aliases)
            while taken[above[node], label]:
                label = f"{label} ({node})"
            taken[above[node], label] = 1
        others = tuple(name for name in dict.fromkeys(aliases) if name.casefold() != label.casefold())
        nodes.append(RawNode(node, above[node], label, others, leads=data[node].get("leads", ())))
    return nodes


def write_tree(path: Path, built: BuiltTree) -> Path:
    """Writes a tree as CSV with the columns child, parent, label, aliases and perhaps leads, depth first.

    A node with several parents has a row for each, that on its longest path first. `read_taxonomy` reads a tree,
    `taxtune.taxonomy.label_graph` a graph.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    columns = ["child", "parent", "label", "aliases", *(["leads"] if any(node.leads for node in built.nodes) else [])]
    rows = []
    for node in built.nodes:
        names = (node.label, join_cell(node.aliases, ";|"), join_cell(node.leads, ";|"))
        parents = sorted(built.graph.pred[node.key], key=lambda parent: (parent != node.parent, parent))
        rows += [(node.key, parent, *names)[: len(columns)] for parent in parents or [""]]
    return atomic.write_text(path, csv_text(columns, rows))
