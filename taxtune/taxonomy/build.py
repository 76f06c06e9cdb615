"""Makes a rooted tree of any graph of "subclass of" edges, as it is published (paper 1, §4.1).

A file of edges may be packed with gzip, bzip2 or xz. Its content tells its format:

- CSV or TSV with the columns child and parent, and perhaps label, aliases and leads (several names
  between ";");
- WordNet's own `data.noun` and `data.verb` (wndb(5WN)); an id is the part of speech and the offset,
  as in ImageNet;
- any other file that `taxtune.taxonomy.read_taxonomy` reads, such as SKOS, OWL and OBO, with all
  parents.

Edges that a depth-first search from the root finds to close a cycle are dropped, which cuts no node
off. Of several parents a node keeps the one on the longest path from the root; of several longest
*paths* each is equally likely, so a parent is drawn with a weight of the number of longest paths
through it. Everything that is dropped is counted.
"""

from __future__ import annotations

import difflib
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx

from taxtune import atomic
from taxtune.errors import TaxonomyError
from taxtune.tables import clean, csv_text, header_of, join_cell, parse_table, read_text, text_lines
from taxtune.taxonomy.raw import RawNode, split_names
from taxtune.taxonomy.read import parse_taxonomy

__all__ = ["BuiltTree", "build_tree", "read_graph", "read_leaves", "write_tree"]

#: What a line of WordNet's database begins with: offset, lexicographer's file, part of speech,
#: number of words.
_WORDNET = re.compile(r"\d{8} \d\d [nv] [0-9a-f]{2} ")
_LICENCE = "  "
#: WordNet's pointers to what a synset is a kind or an instance of.
_ABOVE = ("@", "@i")


# -- reading ---------------------------------------------------------------------------------------


def read_graph(
    paths: Sequence[Path],
    *,
    names: Sequence[Path] = (),
    format: str = "auto",
) -> nx.DiGraph:
    """Reads a graph from one or more files.

    Args:
        paths: Files with edges.
        names: Files of the same formats, or tables with the columns id, label and aliases, of which
            only the names of the graph's nodes are taken.
        format: The format of files that are read as trees are, one of `taxtune.taxonomy.FORMATS`.

    Returns:
        Edges from parent to child, each once, none from a node to itself. Nodes have the attributes
        `label`, `aliases` and `leads` if they have any; attributes of the graph count what was not
        taken.

    Raises:
        TaxonomyError: If a file cannot be read or is in none of the formats, or there is no node.
    """
    left_out: Counter[str] = Counter()
    graph = nx.DiGraph(**{"duplicate edge": 0, "self loop": 0, "left_out": left_out})
    for path in paths:
        for row in _rows(path, format, left_out):
            if row.parent in (None, row.key):
                graph.add_node(row.key)
                graph.graph["self loop"] += row.parent is not None
            else:
                graph.graph["duplicate edge"] += graph.has_edge(row.parent, row.key)
                graph.add_edge(row.parent, row.key)
            _name(graph, row)
    if not graph:
        files = ", ".join(map(str, paths))
        raise TaxonomyError("There is no edge.", file=files, remedy="Check the file.")
    for path in names:
        for row in _rows(path, format, left_out, names=True):
            if row.key in graph:
                _name(graph, row)
    return graph


def _name(graph: nx.DiGraph, row: RawNode) -> None:
    """Gives a node its names; the first of several labels stays, the others become aliases."""
    data = graph.nodes[row.key]
    aliases = row.aliases
    if row.label and row.label != data.setdefault("label", row.label):
        aliases = (row.label, *aliases)
    for kind, names in (("aliases", aliases), ("leads", row.leads)):
        if names:
            known = data.get(kind, ())
            data[kind] = tuple(dict.fromkeys((*known, *names)))


def _rows(
    path: Path,
    format: str,
    left_out: Counter[str],
    *,
    names: bool = False,
) -> Iterable[RawNode]:
    """Returns the statements of a file; those of a file of names alone have no parents."""
    text = ""
    if format == "auto" and not path.is_dir():
        text = read_text(path, what="graph")
    start = text[: 2**16].splitlines()
    lines = [line for line in start if line.strip() and not line.startswith(_LICENCE)]
    first = lines[0] if lines else ""
    if _WORDNET.match(first) or text.startswith("  1 This software and database"):
        return _wordnet(text, path)
    columns = set(header_of(first))
    if {"child", "parent"} <= columns or (names and columns & {"id", "child"}):
        return _edges(text, path)
    return _as_tree(path, format, left_out)


def _wordnet(text: str, path: Path) -> Iterator[RawNode]:
    """Yields synsets with their hypernyms; the first word is the label, the others are aliases."""
    for row, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(_LICENCE):
            continue
        try:
            yield from _synset(line)
        except (ValueError, IndexError):
            message = "The line is not a synset of WordNet's database."
            remedy = "Give data.noun or data.verb of WordNet as it is published."
            raise TaxonomyError(
                message, file=path, row=row, value=line[:80], remedy=remedy
            ) from None


def _synset(line: str) -> list[RawNode]:
    """Returns a statement for each hypernym of a synset, or one without."""
    if not _WORDNET.match(line):
        raise ValueError(line)
    fields = line.split(" | ")[0].split()
    # Two fields for each word, then the number of pointers, then four fields for each.
    start = 5 + 2 * int(fields[3], 16)
    stop = start + 4 * int(fields[start - 1])
    words = fields[4 : start - 1 : 2]
    label, *aliases = (word.replace("_", " ") for word in words)
    above: dict[str | None, None] = {}
    for i in range(start, stop, 4):
        symbol, offset, part, _ = fields[i : i + 4]
        if symbol in _ABOVE:
            above[part + offset] = None
    key = fields[2] + fields[0]
    return [RawNode(key, parent, label, tuple(aliases)) for parent in above or (None,)]


def _edges(text: str, path: Path) -> Iterator[RawNode]:
    """Yields the rows of an edge list or, if it has no column of parents, of a list of names."""
    table = parse_table(text, str(path))
    child = table.column("child", "id")
    parent = table.column("parent")
    label = table.column("label", "name")
    aliases = table.column("aliases", "alias")
    leads = table.column("leads")
    width = len(table.header)
    remedy = "Fill in the child, and put a name that contains the separator in double quotes."
    for row in table.rows:
        key = row.cell(child)
        message = "" if key else "The row has no child."
        if any(row.cells[width:]):
            message = f"The row has {len(row.cells)} cells, the header {width}."
        if message:
            cells = ",".join(row.cells)
            raise TaxonomyError(message, file=path, row=row.line, value=cells, remedy=remedy)
        yield RawNode(
            key=key,
            parent=row.cell(parent) or None,
            label=row.cell(label),
            aliases=split_names(row.cell(aliases)),
            leads=split_names(row.cell(leads)),
        )


def _as_tree(path: Path, format: str, left_out: Counter[str]) -> Iterator[RawNode]:
    """Yields the statements of a file that is read as a tree; a node may have several parents."""
    raw = parse_taxonomy(path, format=format)
    left_out.update(defect.message for defect in raw.defects)
    for node in raw.nodes:
        key = _as_text(node.key)
        label = "" if node.label == key else node.label
        yield node._replace(key=key, parent=_as_text(node.parent), label=label)


def _as_text(key: Any) -> Any:
    return join_cell(key, "/") if isinstance(key, tuple) else key


def read_leaves(path: Path) -> tuple[str, ...]:
    """Returns the ids that a file lists, each once.

    It has an id a line, or is ImageNet's `imagenet_class_index.json`. What follows a tab or a comma
    on a line is ignored, and so are lines that begin with #.

    Raises:
        TaxonomyError: If it lists none, or the JSON is not {"0": ["n01440764", "tench"], ...}.
    """
    text = read_text(path, what="leaves")
    if text.lstrip().startswith("{"):
        try:
            keys = [str(key) for key, _ in json.loads(text).values()]
        except (ValueError, TypeError):
            message = "The file is not an index of classes."
            remedy = 'It must be {"0": ["n01440764", "tench"], …}, or text with an id a line.'
            raise TaxonomyError(message, file=path, remedy=remedy) from None
    else:
        lines = [line for line in text_lines(text) if not line.startswith("#")]
        keys = [clean(re.split(r"[\t,]", line)[0]) for line in lines]
    leaves = tuple(dict.fromkeys(filter(None, keys)))
    if not leaves:
        raise TaxonomyError("The file lists no ids.", file=path)
    return leaves


# -- the tree --------------------------------------------------------------------------------------


class BuiltTree(NamedTuple):
    """A rooted tree, and counts of what it was made of.

    Attributes:
        nodes: The nodes depth first, siblings by id, with names; siblings differ in their labels.
        counts: The fate of the graph's nodes, edges and names in numbers, as plain values for JSON.
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
        root: Id or label of the root; by default the node that reaches the most nodes (of equals
            the one with the fewest parents, then the first id).
        join_roots: Label of a new root above all nodes without parents; excludes `root`.
        leaves: Ids of the nodes that the tree is for: only they and what is above them stay. None
            for all.
        seed: Seed of the lots between longest paths; a node's lot depends on the seed and its id
            alone.

    Raises:
        TaxonomyError: If `root` names no node or several, or none of the leaves is below the root.
    """
    if root is not None and join_roots is not None:
        remedy = "Give one of them."
        raise TaxonomyError("--root and --join-roots exclude each other.", remedy=remedy)
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(whole))
    graph.add_edges_from(sorted(whole.edges))
    wanted = set(whole)
    if leaves is not None:
        wanted.intersection_update(leaves)
        _keep_above(graph, wanted)
    top = _root(whole, graph, root, join_roots)
    reached = {top} | nx.descendants(graph, top) if top in graph else set()
    if top is None or wanted.isdisjoint(reached):
        value = next(iter(leaves or ()), top)
        remedy = "List ids of the graph, or choose another root."
        raise TaxonomyError("None of the leaves is below the root.", value=value, remedy=remedy)
    dropped: Counter[str] = Counter()
    for what in ("duplicate edge", "self loop"):
        dropped[what] = whole.graph.get(what, 0)
    dropped["pruned node"] = len(whole.nodes - graph.nodes)
    dropped["unreachable node"] = len(graph) - len(reached)
    joined = graph.out_degree(top) if top not in whole else 0
    graph.remove_nodes_from(set(graph) - reached)
    dropped["edge of a dropped node"] = whole.number_of_edges() + joined - graph.number_of_edges()
    dropped["edge into the root"] = graph.in_degree(top)
    graph.remove_edges_from(list(graph.in_edges(top)))
    back_edges = _back_edges(graph, top)
    dropped["cycle edge"] = len(back_edges)
    graph.remove_edges_from(back_edges)
    paths = _longest_paths(graph, top, seed)
    edges = [(parent, node) for node, parent in paths.parents.items()]
    tree = nx.DiGraph(sorted(edges))
    tree.add_node(top)
    if leaves is not None:
        _keep_above(tree, wanted & reached)
    into_kept = sum(degree for _, degree in graph.in_degree(tree))
    dropped["pruned node"] += len(graph) - len(tree)
    dropped["edge of a dropped node"] += graph.number_of_edges() - into_kept
    dropped["extra parent"] = into_kept - tree.number_of_edges()
    order = list(nx.dfs_preorder_nodes(tree, top))
    nodes = _named(whole, paths.parents, order, join_roots)
    lost = {}
    for leaf in leaves or ():
        if leaf not in tree:
            lost[leaf] = "not below the root" if leaf in whole else "unknown"
    several = sum(degree > 1 for _, degree in graph.in_degree(tree))
    at_random = len(paths.tied.intersection(tree))
    counts = {
        "graph": _counts_of_graph(whole),
        "root": {"id": top, "label": nodes[0].label, "joins": joined},
        "dropped": {what: count for what, count in dropped.items() if count},
        "lost": lost,
        "parents": {"several": several, "chosen at random": at_random},
        "labels": _counts_of_labels(whole, nodes),
        "tree": _counts_of_tree(tree, top),
    }
    return BuiltTree(nodes, counts)


def _counts_of_graph(graph: nx.DiGraph) -> dict[str, int]:
    degrees = [degree for _, degree in graph.in_degree()]
    several = sum(degree > 1 for degree in degrees)
    return {
        "nodes": len(graph),
        "edges": graph.number_of_edges(),
        "without parent": degrees.count(0),
        "with several parents": several,
        "most parents": max(degrees),
        **graph.graph.get("left_out", {}),
    }


def _counts_of_labels(graph: nx.DiGraph, nodes: Sequence[RawNode]) -> dict[str, int]:
    counts = {"replaced by the id": 0, "with the id added": 0}
    for node in nodes:
        if node.key in graph:
            label = graph.nodes[node.key].get("label")
            counts["replaced by the id"] += label is None
            counts["with the id added"] += label not in (None, node.label)
    return counts


def _counts_of_tree(tree: nx.DiGraph, root: str) -> dict[str, Any]:
    sizes = [len(layer) for layer in nx.bfs_layers(tree, root)]
    leaves = sum(degree == 0 for _, degree in tree.out_degree())
    return {
        "nodes": len(tree),
        "edges": tree.number_of_edges(),
        "leaves": leaves,
        "height": len(sizes) - 1,
        "per level": sizes,
    }


# -- the root --------------------------------------------------------------------------------------


def _keep_above(graph: nx.DiGraph, nodes: Iterable[str]) -> None:
    """Removes all nodes but some and those above them."""
    layers = nx.bfs_layers(graph.reverse(copy=False), list(nodes))
    graph.remove_nodes_from(set(graph).difference(*layers))


def _tops(graph: nx.DiGraph) -> list[str]:
    """Returns the nodes without parents, and one of each group that has only itself above it."""
    tops = []
    for group in nx.strongly_connected_components(graph):
        if all(group.issuperset(graph.pred[node]) for node in group):
            first = min(group, key=lambda node: (graph.in_degree(node), node))
            tops.append(first)
    return tops


def _root(whole: nx.DiGraph, graph: nx.DiGraph, root: str | None, join: str | None) -> str | None:
    """Returns the root of the part of a graph that is left; None if nothing is.

    It is the node that is asked for, a new one above the nodes without a parent, or the best one.
    """
    if root is not None:
        return _find(whole, root)
    tops = _tops(graph)
    if len(tops) == 1:
        return tops[0]
    if join is not None:
        return _add_root(graph, join, whole, tops)
    return min(tops, key=partial(_rank_as_root, graph), default=None)


def _rank_as_root(graph: nx.DiGraph, top: str) -> tuple[int, int, str]:
    below = len(nx.descendants(graph, top))
    return -below, graph.in_degree(top), top


def _add_root(graph: nx.DiGraph, label: str, whole: nx.DiGraph, tops: Sequence[str]) -> str:
    """Puts nodes under a new root, and returns it."""
    while label in whole:
        label += " (root)"
    graph.add_edges_from((label, top) for top in sorted(tops))
    return label


def _find(graph: nx.DiGraph, reference: str) -> str:
    """Returns the node that an id, or a label that only one node has, refers to."""
    if reference in graph:
        return reference
    labels = dict(graph.nodes(data="label"))
    nodes = [node for node, label in labels.items() if label == reference]
    if len(nodes) == 1:
        return str(nodes[0])
    message = "--root is neither an id nor a label of the graph."
    remedy = "Give an id to --root."
    if nodes:
        message = f"{len(nodes)} nodes have this label: {', '.join(sorted(nodes)[:10])}."
    else:
        names = [*labels, *filter(None, labels.values())]
        similar = difflib.get_close_matches(reference, names[:20_000])
        if similar:
            remedy = f"Did you mean {', '.join(map(repr, similar))}?"
    raise TaxonomyError(message, value=reference, remedy=remedy)


# -- paths -----------------------------------------------------------------------------------------


def _back_edges(graph: nx.DiGraph, root: str) -> list[tuple[str, str]]:
    """Returns the edges that close a cycle in a depth-first search.

    Without them every node is still reached.
    """
    on_path: set[str] = set()
    back_edges = []
    for parent, child, kind in nx.dfs_labeled_edges(graph, root):
        if kind == "forward":
            on_path.add(child)
        elif kind == "reverse":
            on_path.discard(child)
        elif child in on_path:
            back_edges.append((parent, child))
    return back_edges


class _Paths(NamedTuple):
    """The longest path to each node.

    Attributes:
        parents: The parent of each node on its path, but for the root.
        tied: The nodes of which the path was drawn by lot.
    """

    parents: dict[str, str]
    tied: set[str]


def _longest_paths(graph: nx.DiGraph, root: str, seed: int) -> _Paths:
    """Returns the longest path from the root to each node of a graph without cycles."""
    secret = blake2b(f"{seed}\0parent".encode(), digest_size=32).digest()
    paths = _Paths(parents={}, tied=set())
    depth = {root: 0}
    #: The number of longest paths to each node.
    count = {root: 1}
    for node in nx.topological_sort(graph):
        if node == root:
            continue
        parents = graph.pred[node]
        deepest = max(depth[parent] for parent in parents)
        longest = sorted(parent for parent in parents if depth[parent] == deepest)
        depth[node] = deepest + 1
        ends = list(accumulate(count[parent] for parent in longest))
        count[node] = ends[-1]
        drawn = 0
        if len(longest) > 1:
            paths.tied.add(node)
            digest = blake2b(node.encode(), digest_size=8, key=secret).digest()
            lot = int.from_bytes(digest, "big") >> 11
            drawn = lot * count[node] >> 53  # a number from 0 to count - 1: the path
        paths.parents[node] = longest[bisect_right(ends, drawn)]
    return paths


# -- names -----------------------------------------------------------------------------------------


def _named(
    whole: nx.DiGraph,
    parents: dict[str, str],
    order: Sequence[str],
    root_label: str | None,
) -> list[RawNode]:
    """Returns nodes with names.

    Of siblings with one label each gets its id behind it, and the label as an alias.
    """
    data = {node: whole.nodes.get(node, {"label": root_label}) for node in order}
    labels = {node: data[node].get("label", node) for node in order}
    taken = Counter((parents.get(node), label) for node, label in labels.items())
    nodes = []
    for node, label in labels.items():
        parent = parents.get(node)
        aliases = data[node].get("aliases", ())
        if taken[parent, label] > 1:
            aliases = (label, *aliases)
            while taken[parent, label]:
                label = f"{label} ({node})"
            taken[parent, label] = 1
        folded = label.casefold()
        others = [alias for alias in aliases if alias.casefold() != folded]
        named = RawNode(
            key=node,
            parent=parent,
            label=label,
            aliases=tuple(dict.fromkeys(others)),
            leads=data[node].get("leads", ()),
        )
        nodes.append(named)
    return nodes


def write_tree(path: Path, built: BuiltTree) -> Path:
    """Writes a tree as CSV with the columns child, parent, label, aliases and perhaps leads.

    The nodes come depth first.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    columns = ["child", "parent", "label", "aliases"]
    has_leads = any(node.leads for node in built.nodes)
    if has_leads:
        columns.append("leads")
    rows = []
    for node in built.nodes:
        row = [node.key, node.parent or "", node.label, join_cell(node.aliases, ";|")]
        if has_leads:
            row.append(join_cell(node.leads, ";|"))
        rows.append(row)
    return atomic.write_text(path, csv_text(columns, rows))
