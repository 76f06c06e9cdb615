"""Statements of a file about nodes, as readers return them, and the rooted tree that they make, with every defect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from taxtune.errors import TaxonomyError
from taxtune.tables import RawTable, Row, clean, split_cell

__all__ = [
    "Defect",
    "PathCollector",
    "RawNode",
    "RawTaxonomy",
    "add_root",
    "assemble",
    "split_names",
]

#: The label of a root that is added above several nodes, in formats of no particular domain.
ROOT = "everything"
# The names of a path; each node is held as its whole path. Classifications have up to forty levels.
_MOST_LEVELS = 250


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong, or worth knowing, in a taxonomy file.

    Attributes:
        kind: The kind of defect, such as "cycle" or "second root".
        message: What is wrong, in one sentence.
        file: The file.
        row: The 1-based line of a text file, or position in a JSON list; None where no single row is to blame or there
            are none: in nested JSON the value is a JSON path, in RDF an IRI.
        breaks: Whether it keeps the file from being a rooted tree of named nodes; otherwise it is a note.
        value: The offending value, where there is one.
        remedy: What to do about it.
    """

    kind: str
    message: str
    file: str
    row: int | None
    breaks: bool
    value: str | None = None
    remedy: str | None = None

    def error(self, more: int = 0) -> TaxonomyError:
        """Returns the defect as an error, which says how many more defects break the same file."""
        others = "" if more == 0 else f" {more} more: see `taxtune taxonomy check`."
        remedy = (self.remedy or "") + others or None
        return TaxonomyError(
            self.message, file=self.file, row=self.row, value=self.value, remedy=remedy
        )


class RawNode(NamedTuple):
    """A statement of a file about a node; the same key may be stated more than once.

    Attributes:
        key: What identifies the node in the file: an id, or its path.
        parent: The parent's key, or None for a root.
        label: Its label.
        aliases: Its other names, the preferred one first.
        rank: Its rank, or None.
        row: Where in the file it is first stated; None for a node that only follows from the format.
        leads: Names that lead an answer to it and do not identify it.
    """

    key: Hashable
    parent: Hashable | None
    label: str
    aliases: tuple[str, ...] = ()
    rank: str | None = None
    row: int | None = None
    leads: tuple[str, ...] = ()

    def completed(self, other: RawNode) -> RawNode | None:
        """Returns this statement with what only another one about the node says; None where they contradict."""
        both = {}
        for name in ("label", "aliases", "rank", "leads"):
            mine, others = getattr(self, name), getattr(other, name)
            if mine and others and mine != others:
                return None
            both[name] = mine or others
        return self._replace(**both)


@dataclass(slots=True)
class RawTaxonomy:
    """The statements of a file, before anyone knows whether they make a tree.

    Attributes:
        file: The file, for messages.
        format: The format that it was read as.
        nodes: The statements, in file order.
        defects: Defects that the reader met itself: empty names, ragged, repeated and conflicting rows.
    """

    file: str
    format: str
    nodes: list[RawNode] = field(default_factory=list)
    defects: list[Defect] = field(default_factory=list)

    def note(
        self, kind: str, message: str, row: int | None = None, value: str | None = None
    ) -> None:
        """Adds a defect that does not break the tree."""
        self.defects.append(Defect(kind, message, self.file, row, False, value))

    def flaw(
        self, kind: str, message: str, row: int | None, value: str | None, remedy: str
    ) -> None:
        """Adds a defect that breaks the tree."""
        self.defects.append(Defect(kind, message, self.file, row, True, value, remedy))

    def repeated(self, what: str, first: RawNode, again: RawNode, value: str) -> RawNode:
        """Adds that a row states again what another states; returns what both say, the first where they contradict."""
        both = first.completed(again)
        message = f"Row {first.row} already gives this {what}" + (
            ", with other values." if both is None else "."
        )
        kind = "conflicting rows" if both is None else "duplicate row"
        remedy = "Remove one of the two rows."
        self.defects.append(
            Defect(kind, message, self.file, again.row, both is None, value, remedy)
        )
        return both or first

    def ragged(self, row: Row, table: RawTable) -> bool:
        """Tells whether a row of a table has cells that no column names, and adds that."""
        columns = len(table.header)
        if len(row.cells) <= columns or not any(row.cells[columns:]):
            return False
        message = f"The row has {len(row.cells)} cells, the header {columns}."
        remedy = "Put a name that contains a comma in double quotes."
        self.flaw("ragged row", message, row.line, row.cells[columns], remedy)
        return True


def add_root(raw: RawTaxonomy, label: str) -> None:
    """Puts the nodes without a parent under an added root, and notes it, where there are several."""
    tops = [i for i, node in enumerate(raw.nodes) if node.parent is None]
    if len(tops) < 2:
        return
    root = RawNode(("root", label), None, label)
    named = ", ".join(_shown(raw.nodes[i]) for i in tops[:3]) + (", …" if len(tops) > 3 else "")
    for i in tops:
        raw.nodes[i] = raw.nodes[i]._replace(parent=root.key)
    raw.nodes.insert(0, root)
    message = f"Nodes without a parent in the file, now under an added root {label!r}: {len(tops):,} nodes ({named})."
    raw.note("added root", message)


def split_names(cell: str, label: str = "") -> tuple[str, ...]:
    """Returns the names in a tidy cell, parted by ";" or "|", without repeats and without the label itself.

    In a name that holds a separator a backslash stands in front of it.
    """
    if not cell:
        return ()
    parts = (
        map(clean, split_cell(cell, ";|")) if "\\" in cell or ";" in cell or "|" in cell else [cell]
    )
    return tuple(dict.fromkeys(name for name in parts if name and name != label))


class PathCollector:
    """Gathers nodes that are stated as paths from the root; a node is its path, not its name.

    Args:
        file: The file, for messages.
        format: The format that it is read as.
        root: The label of a root that stands in front of every path, where the file leaves it out.
    """

    def __init__(self, file: str, format: str, root: str | None = None) -> None:
        self.raw = RawTaxonomy(file, format)
        self._root = () if root is None else (root,)
        self._nodes: dict[Hashable, RawNode] = (
            {} if root is None else {self._root: RawNode(self._root, None, root)}
        )
        self._stated: dict[Hashable, tuple[RawNode, str | None]] = {}
        self._by_id: dict[str, Hashable] = {}
        self._left_out: dict[str, dict[int, None]] = defaultdict(dict)

    def add(
        self,
        row: int,
        path: Sequence[str],
        ranks: Sequence[str | None] | None = None,
        aliases: tuple[str, ...] = (),
        leads: tuple[str, ...] = (),
        key: str | None = None,
    ) -> None:
        """Adds the node that a row states, and those above it that no row states.

        Args:
            row: The row.
            path: Its labels from the root down, without the root where the format supplies it; empty ones are left out.
            ranks: Ranks of the same length, None where unknown.
            aliases: Other names of the last node.
            leads: Names that lead an answer to the last node.
            key: Its id, if it has one.
        """
        ranks = [None] * len(path) if ranks is None else ranks
        for name, rank in zip(path, ranks, strict=True):
            if not name:
                self._left_out[rank or "step"][row] = None
        ranks = [
            *(None for _ in self._root),
            *(rank for name, rank in zip(path, ranks, strict=True) if name),
        ]
        full = (*self._root, *filter(None, path))
        if len(full) > _MOST_LEVELS:
            message, shown = (
                f"The path has more than {_MOST_LEVELS} names.",
                "/".join(full[:8]) + "/…",
            )
            remedy = "Give the tree as edges, with the columns child and parent."
            raise TaxonomyError(message, file=self.raw.file, row=row, value=shown, remedy=remedy)
        statement = RawNode(full, full[:-1] or None, full[-1], aliases, ranks[-1], row, leads)
        first, first_key = self._stated.get(full, (None, None))
        if first is not None:
            statement = self.raw.repeated("node", first, statement, "/".join(full))
            if key is not None and first_key not in (None, key):
                message = f"Row {first.row} gives this node another id."
                self.raw.flaw("conflicting rows", message, row, key, "Keep one of the two.")
            key = first_key or key
        self._stated[full] = statement, key
        if key is not None and (owner := self._by_id.setdefault(key, full)) != full:
            message = f"Row {self._stated[owner][0].row} gives this id to another node."
            self.raw.flaw(
                "conflicting rows", message, row, key, "Give every node a unique id, or no id."
            )
        level = len(full)
        while level and full[:level] not in self._nodes:
            level -= 1
        for end in range(level + 1, len(full) + 1):
            above, rank = full[: end - 1] or None, ranks[end - 1]
            self._nodes[full[:end]] = RawNode(full[:end], above, full[end - 1], (), rank, row)
        rank = self._nodes[full].rank if statement.rank is None else statement.rank
        self._nodes[full] = statement._replace(rank=rank)

    def finish(self) -> RawTaxonomy:
        """Returns the nodes and defects; nodes with ids are known by these."""
        for what, rows in self._left_out.items():
            first, count = [*rows][:5], f"{len(rows):,} rows have" if len(rows) > 1 else "1 row has"
            listed = ", ".join(map(str, first)) + (", …" if len(rows) > 5 else "")
            message = f"{count} an empty {what}, which is left out of the path: row {listed}."
            self.raw.note("left out", message, first[0])
        ids = {path: key for key, path in self._by_id.items()}
        nodes = self._nodes.values()
        self.raw.nodes = [
            node._replace(key=ids.get(node.key, node.key), parent=ids.get(node.parent, node.parent))
            if ids
            else node
            for node in nodes
        ]
        return self.raw


# -- from statements to a tree -----------------------------------------------------------------------------------------

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

    defects = [*_repeats_together(raw.defects)]
    if (
        not len(order) == len(nodes) == len(raw.nodes)
    ):  # else every node is below a root by its only parent
        defects += [*_wrong_parents(raw, nodes), *_cycles(raw, nodes)]
    defects += _same_siblings(nodes, raw.file)
    if shared_names:
        defects += _shared_names(nodes, raw.file)
    defects.sort(key=lambda defect: (defect.row is None, defect.row or 0))
    return order, defects


def _repeats_together(defects: list[Defect]) -> list[Defect]:
    """Returns the defects with one for all rows that repeat others to the letter: a file may have thousands of them."""
    repeats = [defect for defect in defects if defect.kind == "duplicate row" and not defect.breaks]
    if len(repeats) < 2:
        return defects
    rows = ", ".join(str(defect.row) for defect in repeats[:5]) + (
        ", …" if len(repeats) > 5 else ""
    )
    together = replace(
        repeats[0],
        message=f"{len(repeats):,} rows repeat earlier ones: {rows}.",
        remedy="Remove them.",
    )
    return [
        together,
        *(defect for defect in defects if defect.kind != "duplicate row" or defect.breaks),
    ]


def _defect(kind: str, message: str, node: RawNode, file: str, remedy: str) -> Defect:
    return Defect(kind, message, file, node.row, True, _shown(node), remedy)


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
                message = (
                    f"The node is under {node.parent!r}{here} and under {first.parent!r}{there}."
                )
            remedy = "Keep one parent, or let `taxtune taxonomy build` choose one."
            yield _defect("several parents", message, node, raw.file, remedy)
        if node.parent is not None and node.parent not in nodes:
            message, remedy = (
                f"No row defines the parent {node.parent!r}.",
                f"Add a row for {node.parent!r}, or ",
            )
            yield _defect(
                "dangling parent", message, node, raw.file, f"{remedy}correct its spelling."
            )


def _cycles(raw: RawTaxonomy, nodes: Nodes) -> Iterator[Defect]:
    """Yields one cycle of each group of nodes that are each other's ancestors."""
    import networkx as nx

    graph = nx.DiGraph(
        (node.key, node.parent)
        for node in raw.nodes
        if node.parent in nodes and node.parent is not None
    )
    for group in nx.strongly_connected_components(graph):
        first = min(group, key=lambda key: nodes[key].row or 0)
        if len(group) == 1 and not graph.has_edge(first, first):
            continue
        cycle = [child for child, _ in nx.find_cycle(graph.subgraph(group), first)]
        shown = " → ".join(
            map(str, [*cycle, cycle[0]] if len(cycle) <= 11 else [*cycle[:10], "…", cycle[0]])
        )
        rows = ", ".join(str(nodes[key].row) for key in cycle[:10] if nodes[key].row is not None)
        who = (
            "A node is its own ancestor"
            if len(cycle) == 1
            else f"{len(cycle)} nodes are their own ancestors"
        )
        message = f"{who} (child → parent): {shown}{'; rows ' if rows else ''}{rows}."
        yield _defect(
            "cycle", message, nodes[cycle[0]], raw.file, "Correct the parent in one of these rows."
        )


def _same_siblings(nodes: Nodes, file: str) -> Iterator[Defect]:
    """Yields nodes that share label and parent."""
    seen: dict[tuple[Hashable, str], RawNode] = {}
    for node in nodes.values():
        first = seen.setdefault((node.parent, node.label), node)
        if node.parent is not None and first is not node:
            above = nodes[node.parent].label if node.parent in nodes else str(node.parent)
            message = f"{_stated(first)} already gives a node with this label under the same parent, {above!r}."
            yield _defect("duplicate sibling", message, node, file, "Merge them or rename one.")


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
        shown = ", ".join(_path(node, nodes) for node in some[:4]) + (
            ", …" if len(some) > 4 else ""
        )
        yield Defect(
            kind="shared label" if labels == len(some) else "shared alias",
            message=f"{len(some)} nodes have this name: {shown}.",
            file=file,
            row=some[1].row,
            breaks=False,
            value=next(
                text for text in (some[0].label, *some[0].aliases) if text.casefold() == name
            ),
            remedy="Refer to them by their paths.",
        )


def _path(node: RawNode, nodes: Nodes) -> str:
    labels, seen = [node.label], {node.key}
    while node.parent in nodes and node.parent not in seen:
        node = nodes[node.parent]
        seen.add(node.key)
        labels.append(node.label)
    return "/".join(reversed(labels))


def _stated(node: RawNode) -> str:
    """Where a node is stated: its row, or its key in a file without rows."""
    return _shown(node) if node.row is None else f"Row {node.row}"


def _shown(node: RawNode) -> str:
    """Returns a node as messages show it: its path where that is its key, else its id, with the label if it differs."""
    if isinstance(node.key, tuple):
        return "/".join(map(str, node.key))
    key = str(node.key)
    return key if key == node.label else f"{key} ({node.label})"
