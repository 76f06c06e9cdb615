"""From any graph of "subclass of" edges, as it is published, to a rooted tree (paper 1, §4.1).

A file of edges may be packed with gzip, bzip2 or xz. What it is, is told by its content:

- CSV or TSV with the columns child and parent, and perhaps label, aliases and leads (several names between ";");
- WordNet's own `data.noun` and `data.verb` (wndb(5WN)); an id is the part of speech and the offset, as in ImageNet;
- any other file that `taxtune.taxonomy.read_taxonomy` reads, such as SKOS, OWL and OBO, with all parents.

Edges that a depth-first search from the root finds to close a cycle are dropped, which cuts no node off. Of several
parents a node keeps the one on the longest path from the root; of several longest *paths* each is equally likely, so a
parent is drawn with a weight of the number of longest paths through it. Everything that is dropped is counted.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx

from taxtune import atomic
from taxtune.errors import TaxonomyError
from taxtune.tables import clean, csv_text, header_of, join_cell, parse_table, read_text, text_lines
from taxtune.taxonomy.raw import RawNode, split_names
from taxtune.taxonomy.read import parse_taxonomy

__all__ = ["BuiltTree", "build_tree", "read_graph", "read_leaves", "write_tree"]

# Offset, lexicographer's file, part of speech, number of words: what a line of WordNet's database begins with.
_WORDNET = re.compile(r"\d{8} \d\d [nv] [0-9a-f]{2} ")
_LICENCE = "  "
_ABOVE = ("@", "@i")  # a kind of, an instance of


# -- reading -----------------------------------------------------------------------------------------------------------


def read_graph(
    paths: Sequence[Path], *, names: Sequence[Path] = (), format: str = "auto"
) -> nx.DiGraph:
    """Reads a graph from one or more files.

    Args:
        paths: Files with edges.
        names: Files of the same formats, or tables with the columns id, label and aliases, of which only the names of
            the graph's nodes are taken.
        format: The format of files that are read as trees are, one of `taxtune.taxonomy.FORMATS`.

    Returns:
        Edges from parent to child, each once, none from a node to itself. Nodes have the attributes `label`, `aliases`
        and `leads` where they have any; attributes of the graph count what was not taken.

    Raises:
        TaxonomyError: If a file cannot be read or is in none of the formats, or there is no node.
    """
    left_out: Counter[str] = Counter()
    graph = nx.DiGraph(**{"duplicate edge": 0, "self loop": 0, "left_out": left_out})
    for row in chain.from_iterable(_rows(path, format, left_out) for path in paths):
        if row.parent is None or row.parent == row.key:
            graph.graph["self loop"] += row.parent is not None
            graph.add_node(row.key)
        else:
            graph.graph["duplicate edge"] += graph.has_edge(row.parent, row.key)
            graph.add_edge(row.parent, row.key)
        _name(graph, row)
    if not graph:
        raise TaxonomyError(
            "There is no edge.", file=", ".join(map(str, paths)), remedy="Check the file."
        )
    for row in chain.from_iterable(_rows(path, format, left_out, names=True) for path in names):
        if row.key in graph:
            _name(graph, row)
    return graph


def _name(graph: nx.DiGraph, row: RawNode) -> None:
    """Gives a node its names; the first of several labels stays and the others become aliases."""
    data = graph.nodes[row.key]
    first = data.setdefault("label", row.label) if row.label else ""
    aliases = row.aliases if row.label == first else (row.label, *row.aliases)
    for kind, names in (("aliases", aliases), ("leads", row.leads)):
        if names:
            data[kind] = tuple(dict.fromkeys((*data.get(kind, ()), *names)))


def _rows(
    path: Path, format: str, left_out: Counter[str], names: bool = False
) -> Iterable[RawNode]:
    """Returns the statements of a file; without keys for parents where it holds names only."""
    text = read_text(path, what="graph") if format == "auto" and not path.is_dir() else ""
    lines = [
        line
        for line in text[: 2**16].splitlines()
        if line.strip() and not line.startswith(_LICENCE)
    ] or [""]
    columns = set(header_of(lines[0]))
    if _WORDNET.match(lines[0]) or text.startswith("  1 This software and database"):
        return _wordnet(text, path)
    if {"child", "parent"} <= columns or (names and columns & {"id", "child"}):
        return _edges(text, path)
    return _as_tree(path, format, left_out)


def _wordnet(text: str, path: Path) -> Iterator[RawNode]:
    """Yields synsets with their hypernyms; the first word is the label, the others are aliases."""
    for row, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(_LICENCE):
            continue
        try:
            if not _WORDNET.match(line):
                raise ValueError(line)
            fields = line.split(" | ")[0].split()
            start = 5 + 2 * int(fields[3], 16)
            words = [word.replace("_", " ") for word in fields[4 : start - 1 : 2]]
            pointers = [
                fields[i : i + 4] for i in range(start, start + 4 * int(fields[start - 1]), 4)
            ]
            above = dict.fromkeys(
                pos + offset for symbol, offset, pos, _ in pointers if symbol in _ABOVE
            )
        except (ValueError, IndexError):
            raise TaxonomyError(
                "The line is not a synset of WordNet's database.",
                file=path,
                row=row,
                value=line[:80],
                remedy="Give data.noun or data.verb of WordNet as it is published.",
            ) from None
        for parent in above or (None,):
            yield RawNode(fields[2] + fields[0], parent, words[0], tuple(words[1:]))


def _edges(text: str, path: Path) -> Iterator[RawNode]:
    """Yields the rows of an edge list or, where there is no column of parents, of a list of names."""
    table = parse_table(text, str(path))
    child, parent, label = (
        table.column("child", "id"),
        table.column("parent"),
        table.column("label", "name"),
    )
    aliases, leads = table.column("aliases", "alias"), table.column("leads")
    for row in table.rows:
        message = "" if row.cell(child) else "The row has no child."
        if any(row.cells[len(table.header) :]):
            message = f"The row has {len(row.cells)} cells, the header {len(table.header)}."
        if message:
            remedy = (
                "Fill in the child, and put a name that contains the separator in double quotes."
            )
            raise TaxonomyError(
                message, file=path, row=row.line, value=",".join(row.cells), remedy=remedy
            )
        others = split_names(row.cell(aliases)), split_names(row.cell(leads))
        yield RawNode(
            row.cell(child), row.cell(parent) or None, row.cell(label), others[0], leads=others[1]
        )


def _as_tree(path: Path, format: str, left_out: Counter[str]) -> Iterator[RawNode]:
    """Yields the statements of a file that is read as a tree is, in which a node may have several parents."""
    raw = parse_taxonomy(path, format=format)
    left_out.update(defect.message for defect in raw.defects)
    for node in raw.nodes:
        key, parent = (
            join_cell(some, "/") if isinstance(some, tuple) else some
            for some in (node.key, node.parent)
        )
        yield node._replace(key=key, parent=parent, label="" if node.label == key else node.label)


def read_leaves(path: Path) -> tuple[str, ...]:
    """Returns the ids that a file lists, each once: an id a line, or ImageNet's `imagenet_class_index.json`.

    What follows a tab or a comma on a line is ignored, and so are lines that begin with #.

    Raises:
        TaxonomyError: If it lists none, or the JSON is not {"0": ["n01440764", "tench"], ...}.
    """
    text = read_text(path, what="leaves")
    if text.lstrip().startswith("{"):
        try:
            keys = [str(key) for key, _ in json.loads(text).values()]
        except (ValueError, TypeError):
            remedy = 'It must be {"0": ["n01440764", "tench"], …}, or text with an id a line.'
            raise TaxonomyError(
                "The file is not an index of classes.", file=path, remedy=remedy
            ) from None
    else:
        keys = [
            clean(re.split(r"[\t,]", line)[0])
            for line in text_lines(text)
            if not line.startswith("#")
        ]
    leaves = tuple(dict.fromkeys(filter(None, keys)))
    if not leaves:
        raise TaxonomyError("The file lists no ids.", file=path)
    return leaves


# -- the tree ----------------------------------------------------------------------------------------------------------


class BuiltTree(NamedTuple):
    """A rooted tree, and counts of what it was made of.

    Attributes:
        nodes: The nodes depth first, siblings by id, with names; siblings differ in their labels.
        counts: What became of the nodes, edges and names, as plain values for JSON.
    """

    nodes: list[RawNode]
    counts: dict[str, Any]


def build_tree(
    whole: nx.DiGraph,
    *,
    root: str | None = None,
    join_roots: str | None = None,
    leaves: Sequence[str] | None = None,
    seed: int = 0,
) -> BuiltTree:
    """Makes a rooted tree of a graph; the order in which its edges were read does not matter.

    Args:
        whole: Edges from parent to child, with names as `read_graph` gives them.
        root: Id or label of the root; by default the node that reaches the most nodes (of equals the one with the
            fewest parents, then the first id).
        join_roots: Label of a new root above all nodes without parents; excludes `root`.
        leaves: Ids of the nodes that the tree is for: only they and what is above them stay. None for all.
        seed: Seed of the lots between longest paths; a node's lot depends on the seed and its id alone.

    Raises:
        TaxonomyError: If `root` names no node or several, or none of the leaves is below the root.
    """
    if root is not None and join_roots is not None:
        raise TaxonomyError(
            "--root and --join-roots exclude each other.", remedy="Give one of them."
        )
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
        raise TaxonomyError(
            "None of the leaves is below the root.",
            value=next(iter(leaves or ()), top),
            remedy=remedy,
        )

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
    kept = nx.DiGraph(
        sorted((parent, node) for node, parent in above.items() if parent is not None)
    )
    kept.add_node(top)
    if leaves is not None:
        _keep_above(kept, wanted & reached)
    into_kept = sum(degree for _, degree in graph.in_degree(kept))
    dropped["pruned node"] += len(graph) - len(kept)
    dropped["edge of a dropped node"] += graph.number_of_edges() - into_kept
    dropped["extra parent"] = into_kept - kept.number_of_edges()
    nodes = _named(whole, above, list(nx.dfs_preorder_nodes(kept, top)), join_roots)
    levels = Counter(depth[str(node.key)] for node in nodes)
    degrees = [degree for _, degree in whole.in_degree()]
    labels = [
        (node.label, whole.nodes[node.key].get("label")) for node in nodes if node.key in whole
    ]
    lost = {
        key: "not below the root" if key in whole else "unknown"
        for key in leaves or ()
        if key not in kept
    }
    counts = {
        "graph": {
            "nodes": len(whole),
            "edges": whole.number_of_edges(),
            "without parent": degrees.count(0),
            "with several parents": sum(degree > 1 for degree in degrees),
            "most parents": max(degrees),
            **whole.graph.get("left_out", {}),
        },
        "root": {"id": top, "label": nodes[0].label, "joins": joined},
        "dropped": {what: count for what, count in dropped.items() if count},
        "lost": lost,
        "parents": {
            "several": sum(graph.in_degree(node.key) > 1 for node in nodes),
            "chosen at random": sum(node.key in tied for node in nodes),
        },
        "labels": {
            "replaced by the id": sum(given is None for _, given in labels),
            "with the id added": sum(given not in (None, label) for label, given in labels),
        },
        "tree": {
            "nodes": len(nodes),
            "edges": kept.number_of_edges(),
            "leaves": sum(degree == 0 for _, degree in kept.out_degree()),
            "height": max(levels),
            "per level": [levels[level] for level in range(len(levels))],
        },
    }
    return BuiltTree(nodes, counts)


def _keep_above(graph: nx.DiGraph, nodes: Iterable[str]) -> None:
    """Leaves of a graph only some nodes and all that is above them."""
    layers = nx.bfs_layers(graph.reverse(copy=False), list(nodes))
    graph.remove_nodes_from(set(graph).difference(*layers))


def _tops(graph: nx.DiGraph) -> list[str]:
    """Returns the nodes without parents, and one of each group of nodes that have only each other above them."""
    groups = nx.strongly_connected_components(graph)
    entered = (
        group
        for group in groups
        if all(above in group for node in group for above in graph.pred[node])
    )
    return [min(group, key=lambda node: (graph.in_degree(node), node)) for group in entered]


def _best_root(graph: nx.DiGraph) -> str:
    tops = _tops(graph)
    if len(tops) == 1:
        return tops[0]
    return min(tops, key=lambda top: (-len(nx.descendants(graph, top)), graph.in_degree(top), top))


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
    found = (
        [reference]
        if reference in graph
        else [v for v, label in graph.nodes(data="label") if label == reference]
    )
    if len(found) == 1:
        return found[0]
    message = f"{len(found)} nodes have this label: {', '.join(sorted(found)[:10])}."
    names = [*graph, *(label for _, label in graph.nodes(data="label") if label)]
    near = difflib.get_close_matches(reference, names[:20_000])
    raise TaxonomyError(
        message if found else "--root is neither an id nor a label of the graph.",
        value=reference,
        remedy=f"Did you mean {', '.join(map(repr, near))}?"
        if near and not found
        else "Give an id to --root.",
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


def _longest_paths(
    graph: nx.DiGraph, root: str, seed: int
) -> tuple[dict[str, str | None], dict[str, int], set[str]]:
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
            lot = (
                int.from_bytes(blake2b(node.encode(), digest_size=8, key=secret).digest(), "big")
                >> 11
            )
            drawn = lot * paths[node] >> 53
            for parent in longest:
                above[node] = parent
                drawn -= paths[parent]
                if drawn < 0:
                    break
    return above, depth, tied


def _named(
    whole: nx.DiGraph, above: dict[str, str | None], order: list[str], joined: str | None
) -> list[RawNode]:
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
        others = tuple(
            name for name in dict.fromkeys(aliases) if name.casefold() != label.casefold()
        )
        nodes.append(RawNode(node, above[node], label, others, leads=data[node].get("leads", ())))
    return nodes


def write_tree(path: Path, built: BuiltTree) -> Path:
    """Writes a tree as CSV with the columns child, parent, label, aliases and perhaps leads, depth first.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    columns = [
        "child",
        "parent",
        "label",
        "aliases",
        *(["leads"] if any(node.leads for node in built.nodes) else []),
    ]
    rows = [
        (
            node.key,
            node.parent or "",
            node.label,
            join_cell(node.aliases, ";|"),
            join_cell(node.leads, ";|"),
        )
        for node in built.nodes
    ]
    return atomic.write_text(path, csv_text(columns, [row[: len(columns)] for row in rows]))
