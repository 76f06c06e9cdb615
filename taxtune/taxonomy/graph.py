"""From the statements of a file to a rooted tree, with everything that stands in the way."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace

import numpy as np

from taxtune.progress import note
from taxtune.taxonomy.building.arcs import components
from taxtune.taxonomy.defects import Defect, DefectKind
from taxtune.taxonomy.raw import RawNode, RawTaxonomy
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["assemble", "tree_and_notes", "tree_of"]

# Notes that tell of something changed, left out or perhaps misread, which whoever reads the tree has to know.
_TOLD = frozenset({"added root", "left out", "ragged row", "renamed"})


def tree_of(raw: RawTaxonomy) -> Taxonomy:
    """Returns the tree of a file's statements, and tells what whoever uses it has to know.

    Raises:
        TaxonomyError: If a defect breaks the tree; the message names the first one and how many more there are.
    """
    taxonomy, notes = tree_and_notes(raw)
    for text in notes:
        note(text)
    return taxonomy


def tree_and_notes(raw: RawTaxonomy) -> tuple[Taxonomy, list[str]]:
    """Returns the tree of a file's statements, and what whoever uses it has to know.

    Args:
        raw: The statements.

    Raises:
        TaxonomyError: If a defect breaks the tree; the message names the first one and how many more there are.
    """
    taxonomy, defects = assemble(raw, shared_names=False)
    if taxonomy is None:
        breaking = [defect for defect in defects if defect.breaks]
        raise breaking[0].error(more=len(breaking) - 1)
    return taxonomy, [f"{defect.file}: {defect.message}" for defect in defects if defect.kind in _TOLD]


def assemble(raw: RawTaxonomy, *, shared_names: bool = True) -> tuple[Taxonomy | None, list[Defect]]:
    """Returns the tree and every defect of a file, those of its rows included; no tree where a defect breaks it.

    The nodes of the tree are numbered in depth-first order, siblings in file order.

    Args:
        raw: The statements.
        shared_names: Whether names that several nodes share are noted, too.
    """
    graph = _Graph(raw)
    defects = [
        *_repeats_together(raw.defects),
        *graph.parent_defects(),
        *graph.cycle_defects(),
        *graph.root_defects(),
        *graph.sibling_defects(),
        *(graph.name_notes() if shared_names else ()),
    ]
    defects.sort(key=lambda defect: (defect.row is None, defect.row or 0))
    if any(defect.breaks for defect in defects):
        return None, defects
    return graph.tree(), defects


def _repeats_together(defects: list[Defect]) -> list[Defect]:
    """Returns the defects with one for all rows that repeat others to the letter: a file may have thousands of them."""
    repeats = [defect for defect in defects if defect.kind == "duplicate row" and not defect.breaks]
    if len(repeats) < 2:
        return defects
    rows = ", ".join(str(defect.row) for defect in repeats[:5]) + (", …" if len(repeats) > 5 else "")
    together = replace(repeats[0], message=f"{len(repeats):,} rows repeat earlier ones: {rows}.", remedy="Remove them.")
    others = [defect for defect in defects if defect.kind != "duplicate row" or defect.breaks]
    return [together, *others]


class _Graph:
    def __init__(self, raw: RawTaxonomy) -> None:
        self.file = raw.file
        self.statements = raw.nodes
        #: The first statement about each node; further ones name other parents.
        self.nodes: dict[Hashable, RawNode] = {}
        for node in raw.nodes:
            self.nodes.setdefault(node.key, node)
        self.parents: dict[Hashable, list[Hashable]] = {key: [] for key in self.nodes}
        for node in raw.nodes:
            if node.parent is not None:
                self.parents[node.key].append(node.parent)

    def _defect(self, kind: DefectKind, message: str, node: RawNode, remedy: str, *, breaks: bool = True) -> Defect:
        return Defect(
            kind=kind,
            message=message,
            file=self.file,
            row=node.row,
            breaks=breaks,
            value=_shown(node),
            remedy=remedy,
        )

    def parent_defects(self) -> Iterator[Defect]:
        """Yields nodes with several parents, and parents that are not in the file."""
        for node in self.statements:
            first = self.nodes[node.key]
            if node is not first:
                if node.parent is None or first.parent is None:
                    message = f"{_stated(first)} gives this node as "
                    message += "a root." if first.parent is None else "a child; here it is a root."
                else:
                    where = ("", "") if node.row is None else (" here", f" in row {first.row}")
                    message = f"The node is under {node.parent!r}{where[0]} and under {first.parent!r}{where[1]}."
                remedy = "Keep one parent, or let `taxtune taxonomy build` choose one."
                yield self._defect("several parents", message, node, remedy)
            if node.parent is not None and node.parent not in self.nodes:
                yield self._defect(
                    "dangling parent",
                    f"No row defines the parent {node.parent!r}.",
                    node,
                    f"Add a row for {node.parent!r}, or correct its spelling.",
                )

    def cycle_defects(self) -> Iterator[Defect]:
        """Yields one cycle of each group of nodes that are each other's ancestors."""
        for group in self._cyclic_components():
            key = min(group, key=lambda key: self.nodes[key].row or 0)
            steps: dict[Hashable, None] = {}
            while key not in steps:
                steps[key] = None
                key = next(parent for parent in self.parents[key] if parent in group)
            walk = list(steps)
            cycle = [*walk[walk.index(key) :], key]
            shown = " → ".join(map(str, cycle if len(cycle) <= 12 else [*cycle[:10], "…", cycle[-1]]))
            rows = ", ".join(str(self.nodes[key].row) for key in cycle[:-1][:10] if self.nodes[key].row is not None)
            who = "A node is its own ancestor" if len(cycle) == 2 else f"{len(cycle) - 1} nodes are their own ancestors"
            yield self._defect(
                "cycle",
                f"{who} (child → parent): {shown}{'; rows ' if rows else ''}{rows}.",
                self.nodes[cycle[0]],
                "Correct the parent in one of these rows.",
            )

    def _cyclic_components(self) -> Iterator[set[Hashable]]:
        """Yields the strongly connected components that hold a cycle."""
        keys = list(self.nodes)
        number = {key: i for i, key in enumerate(keys)}
        above = [[number[parent] for parent in self.parents[key] if parent in number] for key in keys]
        # What nothing is below is on no cycle; most files have no cycle, and are done here.
        waiting = np.bincount([p for some in above for p in some], minlength=len(keys)).tolist()
        free = [i for i, count in enumerate(waiting) if not count]
        for i in free:
            for parent in above[i]:
                waiting[parent] -= 1
                if not waiting[parent]:
                    free.append(parent)
        if len(free) == len(keys):
            return
        child = np.repeat(np.arange(len(keys)), [len(some) for some in above])
        group = components(np.array([p for some in above for p in some]), child, len(keys)).tolist()
        members: dict[int, set[Hashable]] = {}
        for i, key in enumerate(keys):
            members.setdefault(group[i], set()).add(key)
        for keys_of in members.values():
            if len(keys_of) > 1 or any(key in self.parents[key] for key in keys_of):
                yield keys_of

    def root_defects(self) -> Iterator[Defect]:
        """Yields every root but the first. Where there is none, the cycles say why."""
        roots = [node for node in self.nodes.values() if node.parent is None]
        for node in roots[1:]:
            yield self._defect(
                "second root",
                f"This is a second root beside {_shown(roots[0])!r}"
                f"{'' if roots[0].row is None else f' (row {roots[0].row})'}.",
                node,
                "Give it a parent, or put all roots under one.",
            )

    def sibling_defects(self) -> Iterator[Defect]:
        """Yields nodes that share label and parent, and, as notes, those whose labels differ in upper case only."""
        exact: dict[tuple[Hashable, str], RawNode] = {}
        folded: dict[tuple[Hashable, str], RawNode] = {}
        for node in self.nodes.values():
            first = exact.setdefault((node.parent, node.label), node)
            similar = folded.setdefault((node.parent, node.label.casefold()), node)
            if node.parent is None:
                continue
            if first is not node:
                yield self._defect(
                    "duplicate sibling",
                    f"{_stated(first)} already gives a node with this label under the same parent, "
                    f"{self._label(node.parent)!r}.",
                    node,
                    "Merge them or rename one.",
                )
            elif similar is not node:
                yield self._defect(
                    "similar siblings",
                    f"The label differs from that of its sibling {similar.label!r} "
                    f"({_stated(similar, 'row')}) only in upper and lower case.",
                    node,
                    "Merge them if they are the same node.",
                    breaks=False,
                )

    def name_notes(self) -> Iterator[Defect]:
        """Yields, as notes, labels and aliases that several nodes share, upper and lower case alike."""
        table: dict[str, list[RawNode]] = {}
        for node in self.nodes.values():
            for name in dict.fromkeys(name.casefold() for name in (node.label, *node.aliases)):
                table.setdefault(name, []).append(node)
        for name, nodes in table.items():
            if len(nodes) < 2:
                continue
            labels = sum(node.label.casefold() == name for node in nodes)
            if labels > 1 and len({(node.parent, node.label) for node in nodes}) < len(nodes):
                continue  # a duplicate sibling, reported as such
            shown = ", ".join(self._path(node) for node in nodes[:4]) + (", …" if len(nodes) > 4 else "")
            yield Defect(
                kind="shared label" if labels == len(nodes) else "shared alias",
                message=f"{len(nodes)} nodes have this name: {shown}.",
                file=self.file,
                row=nodes[1].row,
                breaks=False,
                value=next(text for text in (nodes[0].label, *nodes[0].aliases) if text.casefold() == name),
                remedy="Refer to them by their paths.",
            )

    def _label(self, key: Hashable) -> str:
        return self.nodes[key].label if key in self.nodes else str(key)

    def _path(self, node: RawNode) -> str:
        labels = [node.label]
        seen = {node.key}
        while node.parent is not None and node.parent in self.nodes and node.parent not in seen:
            node = self.nodes[node.parent]
            seen.add(node.key)
            labels.append(node.label)
        return "/".join(reversed(labels))

    def tree(self) -> Taxonomy:
        """Returns the tree; the statements must have no breaking defect."""
        children: dict[Hashable, list[RawNode]] = {}
        for node in self.nodes.values():
            children.setdefault(node.parent, []).append(node)
        order: list[RawNode] = []
        number: dict[Hashable, int] = {}
        stack = list(children[None])
        while stack:
            node = stack.pop()
            number[node.key] = len(order)
            order.append(node)
            stack.extend(reversed(children.get(node.key, ())))
        return Taxonomy(
            [node.label for node in order],
            [-1 if node.parent is None else number[node.parent] for node in order],
            aliases=[node.aliases for node in order],
            ranks=[node.rank for node in order],
            source=self.file,
            ids=[node.key if isinstance(node.key, str) else None for node in order],
            leads=[node.leads for node in order],
        )


def _stated(node: RawNode, row: str = "Row") -> str:
    """Returns where a node is stated: its row, or its key in a file without rows."""
    return _shown(node) if node.row is None else f"{row} {node.row}"


def _shown(node: RawNode) -> str:
    """Returns a node as messages show it: its path where that is its key, else its id, with the label if it differs."""
    if isinstance(node.key, tuple):
        return "/".join(map(str, node.key))
    key = str(node.key)
    return key if key == node.label else f"{key} ({node.label})"
