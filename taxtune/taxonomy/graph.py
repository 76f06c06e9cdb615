"""From the statements of a file to the nodes of a rooted tree, with everything that stands in the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from taxtune.taxonomy.raw import Defect, RawNode, RawTaxonomy

__all__ = ["assemble"]

Nodes = Mapping[Hashable, RawNode]


def assemble(raw: RawTaxonomy, *, shared_names: bool = True) -> tuple[list[RawNode], list[Defect]]:
    """Returns the nodes of a file's tree, depth first with siblings in file order, and every defect of the file.

    Where a defect breaks the tree, the nodes are those that a root reaches.

    Args:
        raw: The statements.
        shared_names: Whether names that several nodes share are noted, too.
    """
    # The first statement about each node; further ones name other parents.
    nodes: dict[Hashable, RawNode] = {}
    for node in raw.nodes:
        nodes.setdefault(node.key, node)
    children: dict[Hashable, list[RawNode]] = defaultdict(list)
    for node in nodes.values():
        children[node.parent].append(node)
    order: list[RawNode] = []
    stack = children[None][::-1]
    while stack:
        order.append(stack.pop())
        if below := children.get(order[-1].key):
            stack += reversed(below)

    defects = [*_repeats_together(raw.defects), *_second_roots(children[None], raw.file)]
    if not len(order) == len(nodes) == len(raw.nodes):  # else every node is below a root by its only parent
        defects += [*_wrong_parents(raw, nodes), *_cycles(raw, nodes)]
    defects += _siblings(nodes, raw.file)
    if shared_names:
        defects += _shared_names(nodes, raw.file)
    defects.sort(key=lambda defect: (defect.row is None, defect.row or 0))
    return order, defects


def _repeats_together(defects: list[Defect]) -> list[Defect]:
    """Returns the defects with one for all rows that repeat others to the letter: a file may have thousands of them."""
    repeats = [defect for defect in defects if defect.kind == "duplicate row" and not defect.breaks]
    if len(repeats) < 2:
        return defects
    rows = ", ".join(str(defect.row) for defect in repeats[:5]) + (", …" if len(repeats) > 5 else "")
    together = replace(repeats[0], message=f"{len(repeats):,} rows repeat earlier ones: {rows}.", remedy="Remove them.")
    return [together, *(defect for defect in defects if defect.kind != "duplicate row" or defect.breaks)]


def _defect(kind: str, message: str, node: RawNode, file: str, remedy: str, *, breaks: bool = True) -> Defect:
    return Defect(kind, message, file, node.row, breaks, _shown(node), remedy)


def _wrong_parents(raw: RawTaxonomy, nodes: Nodes) -> Iterator[Defect]:
    """Yields nodes with several parents, and parents that are not in the file."""
    for node in raw.nodes:
        first = nodes[node.key]
        if node is not first:
            if node.parent is None or first.parent is None:
                message = f"{_stated(first)} gives this node as "
                message += "a root." if first.parent is None else "a child; here it is a root."
            else:
                here, there = ("", "") if node.row is None else (" here", f" in row {first.row}")
                message = f"The node is under {node.parent!r}{here} and under {first.parent!r}{there}."
            remedy = "Keep one parent, or let `taxtune taxonomy build` choose one."
            yield _defect("several parents", message, node, raw.file, remedy)
        if node.parent is not None and node.parent not in nodes:
            message, remedy = f"No row defines the parent {node.parent!r}.", f"Add a row for {node.parent!r}, or "
            yield _defect("dangling parent", message, node, raw.file, f"{remedy}correct its spelling.")


def _cycles(raw: RawTaxonomy, nodes: Nodes) -> Iterator[Defect]:
    """Yields one cycle of each group of nodes that are each other's ancestors."""
    import networkx as nx

    graph = nx.DiGraph(
        (node.key, node.parent) for node in raw.nodes if node.parent in nodes and node.parent is not None
    )
    for group in nx.strongly_connected_components(graph):
        first = min(group, key=lambda key: nodes[key].row or 0)
        if len(group) == 1 and not graph.has_edge(first, first):
            continue
        cycle = [child for child, _ in nx.find_cycle(graph.subgraph(group), first)]
        shown = " → ".join(map(str, [*cycle, cycle[0]] if len(cycle) <= 11 else [*cycle[:10], "…", cycle[0]]))
        rows = ", ".join(str(nodes[key].row) for key in cycle[:10] if nodes[key].row is not None)
        who = "A node is its own ancestor" if len(cycle) == 1 else f"{len(cycle)} nodes are their own ancestors"
        message = f"{who} (child → parent): {shown}{'; rows ' if rows else ''}{rows}."
        yield _defect("cycle", message, nodes[cycle[0]], raw.file, "Correct the parent in one of these rows.")


def _second_roots(roots: Sequence[RawNode], file: str) -> Iterator[Defect]:
    """Yields every root but the first. Where there is none, the cycles say why."""
    for node in roots[1:]:
        where = "" if roots[0].row is None else f" (row {roots[0].row})"
        message = f"This is a second root beside {_shown(roots[0])!r}{where}."
        yield _defect("second root", message, node, file, "Give it a parent, or put all roots under one.")


def _siblings(nodes: Nodes, file: str) -> Iterator[Defect]:
    """Yields nodes that share label and parent, and, as notes, those whose labels differ in upper case only."""
    exact: dict[tuple[Hashable, str], RawNode] = {}
    folded: dict[tuple[Hashable, str], RawNode] = {}
    for node in nodes.values():
        first = exact.setdefault((node.parent, node.label), node)
        similar = folded.setdefault((node.parent, node.label.casefold()), node)
        if node.parent is None or similar is node:
            continue
        if first is not node:
            above = nodes[node.parent].label if node.parent in nodes else str(node.parent)
            message = f"{_stated(first)} already gives a node with this label under the same parent, {above!r}."
            yield _defect("duplicate sibling", message, node, file, "Merge them or rename one.")
        else:
            message = f"The label differs from that of its sibling {similar.label!r} ({_stated(similar, 'row')}) only "
            message, remedy = f"{message}in upper and lower case.", "Merge them if they are the same node."
            yield _defect("similar siblings", message, node, file, remedy, breaks=False)


def _shared_names(nodes: Nodes, file: str) -> Iterator[Defect]:
    """Yields, as notes, labels and aliases that several nodes share, upper and lower case alike."""
    table: dict[str, list[RawNode]] = defaultdict(list)
    for node in nodes.values():
        for name in dict.fromkeys(name.casefold() for name in (node.label, *node.aliases)):
            table[name].append(node)
    for name, some in table.items():
        if len(some) < 2:
            continue
        labels = sum(node.label.casefold() == name for node in some)
        if labels > 1 and len({(node.parent, node.label) for node in some}) < len(some):
            continue  # a duplicate sibling, reported as such
        shown = ", ".join(_path(node, nodes) for node in some[:4]) + (", …" if len(some) > 4 else "")
        yield Defect(
            kind="shared label" if labels == len(some) else "shared alias",
            message=f"{len(some)} nodes have this name: {shown}.",
            file=file,
            row=some[1].row,
            breaks=False,
            value=next(text for text in (some[0].label, *some[0].aliases) if text.casefold() == name),
            remedy="Refer to them by their paths.",
        )


def _path(node: RawNode, nodes: Nodes) -> str:
    labels, seen = [node.label], {node.key}
    while node.parent in nodes and node.parent not in seen:
        node = nodes[node.parent]
        seen.add(node.key)
        labels.append(node.label)
    return "/".join(reversed(labels))


def _stated(node: RawNode, row: str = "Row") -> str:
    """Returns where a node is stated: its row, or its key in a file without rows."""
    return _shown(node) if node.row is None else f"{row} {node.row}"


def _shown(node: RawNode) -> str:
    """Returns a node as messages show it: its path where that is its key, else its id, with the label if it differs."""
    if isinstance(node.key, tuple):
        return "/".join(map(str, node.key))
    key = str(node.key)
    return key if key == node.label else f"{key} ({node.label})"
