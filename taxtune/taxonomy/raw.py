"""Statements of a file about nodes, as readers return them, and the rooted tree that they make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
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
    "has_half_character",
    "split_names",
]

#: The label of a root that is added above several nodes, in formats of no particular domain.
ROOT = "everything"
#: The most names of a path; each node is held as its whole path. Classifications have up to forty
#: levels.
_MOST_LEVELS = 250


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong, or worth knowing, in a taxonomy file.

    Attributes:
        kind: The kind of defect, such as "cycle" or "second root".
        message: What is wrong, in one sentence.
        file: The file.
        row: The 1-based line of a text file, or position in a JSON list. It is None if no single
            row is to blame or there are none: in nested JSON the value is a JSON path, in RDF an
            IRI.
        breaks: Whether it keeps the file from being a rooted tree of named nodes; otherwise it is a
            note.
        value: The offending value, if there is one.
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
        """Returns the defect as an error, which says how many more defects break the file."""
        remedy = self.remedy or ""
        if more:
            remedy += f" {more} more: see `taxtune taxonomy check`."
        return TaxonomyError(
            self.message,
            file=self.file,
            row=self.row,
            value=self.value,
            remedy=remedy or None,
        )


class RawNode(NamedTuple):
    """A statement of a file about a node; the same key may be stated more than once.

    Attributes:
        key: What identifies the node in the file: an id, or its path.
        parent: The parent's key, or None for a root.
        label: Its label.
        aliases: Its other names, the preferred one first.
        rank: Its rank, or None.
        row: Where in the file it is first stated; None for a node that only follows from the
            format.
        leads: Names that lead an answer to it and do not identify it.
    """

    key: Hashable
    parent: Hashable | None
    label: str
    aliases: tuple[str, ...] = ()
    rank: str | None = None
    row: int | None = None
    leads: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The node as messages show it: its path if that is its key, or else its id and label."""
        if isinstance(self.key, tuple):
            return "/".join(map(str, self.key))
        key = str(self.key)
        return key if key == self.label else f"{key} ({self.label})"

    @property
    def place(self) -> str:
        """Where the node is stated: its row, or its key in a file without rows."""
        return self.shown if self.row is None else f"Row {self.row}"

    def completed(self, other: RawNode) -> RawNode | None:
        """Returns this statement with what only another one about the node says.

        It is None if they contradict each other.
        """
        statement = self
        for name in ("label", "aliases", "rank", "leads"):
            own = getattr(self, name)
            others = getattr(other, name)
            if not own:
                statement = statement._replace(**{name: others})
            elif others and own != others:
                return None
        return statement

    def renamed(self, keys: Mapping[Hashable, Hashable]) -> RawNode:
        """Returns the statement with other keys for the node and its parent, if they have any."""
        key = keys.get(self.key, self.key)
        parent = keys.get(self.parent, self.parent)
        return self._replace(key=key, parent=parent)


@dataclass(slots=True)
class RawTaxonomy:
    """The statements of a file, before anyone knows whether they make a tree.

    Attributes:
        file: The file, for messages.
        format: The format that it was read as.
        nodes: The statements, in file order.
        defects: Defects that the reader met itself: empty names, ragged, repeated and conflicting
            rows.
    """

    file: str
    format: str
    nodes: list[RawNode] = field(default_factory=list)
    defects: list[Defect] = field(default_factory=list)

    def note(
        self,
        kind: str,
        message: str,
        row: int | None = None,
        value: str | None = None,
        remedy: str | None = None,
    ) -> None:
        """Adds a defect that does not break the tree."""
        defect = Defect(kind, message, self.file, row, breaks=False, value=value, remedy=remedy)
        self.defects.append(defect)

    def flaw(
        self,
        kind: str,
        message: str,
        row: int | None,
        value: str | None,
        remedy: str,
    ) -> None:
        """Adds a defect that breaks the tree."""
        defect = Defect(kind, message, self.file, row, breaks=True, value=value, remedy=remedy)
        self.defects.append(defect)

    def repeated(self, what: str, first: RawNode, again: RawNode, value: str) -> RawNode:
        """Adds that a row states again what another row states.

        Returns:
            What both say, or the first statement if they contradict each other.
        """
        both = first.completed(again)
        message = f"Row {first.row} already gives this {what}"
        remedy = "Remove one of the two rows."
        if both is None:
            message += ", with other values."
            self.flaw("conflicting rows", message, again.row, value, remedy)
            return first
        self.note("duplicate row", f"{message}.", again.row, value, remedy)
        return both

    def ragged(self, row: Row, table: RawTable) -> bool:
        """Tells whether a row of a table has cells that no column names, and adds that."""
        columns = len(table.header)
        if not any(row.cells[columns:]):
            return False
        message = f"The row has {len(row.cells)} cells, the header {columns}."
        remedy = "Put a name that contains a comma in double quotes."
        self.flaw("ragged row", message, row.line, row.cells[columns], remedy)
        return True


def _listed(items: Iterable[object], most: int) -> str:
    """Returns the first items with commas, and dots if there are more."""
    shown = list(map(str, items))
    if len(shown) > most:
        shown[most:] = ["…"]
    return ", ".join(shown)


def add_root(raw: RawTaxonomy, label: str) -> None:
    """Puts the nodes without a parent under an added root, and notes it, if there are several."""
    tops = [node for node in raw.nodes if node.parent is None]
    if len(tops) < 2:
        return
    root = RawNode(key=("root", label), parent=None, label=label)
    for i, node in enumerate(raw.nodes):
        if node.parent is None:
            raw.nodes[i] = node._replace(parent=root.key)
    raw.nodes.insert(0, root)
    listed = _listed((node.shown for node in tops), most=3)
    message = f"Nodes without a parent in the file, now under an added root {label!r}: "
    raw.note("added root", f"{message}{len(tops):,} nodes ({listed}).")


def split_names(cell: str, label: str = "") -> tuple[str, ...]:
    """Returns the names in a tidy cell, separated by ";" or "|".

    Repeats and the label itself are left out. In a name that holds a separator a backslash stands
    in front of it.
    """
    names = [clean(name) for name in split_cell(cell, ";|")]
    return tuple(dict.fromkeys(name for name in names if name and name != label))


def has_half_character(text: str) -> bool:
    """Tells whether a text contains an incomplete character, half a surrogate pair."""
    return any("\ud800" <= character <= "\udfff" for character in text)


class PathCollector:
    """Gathers nodes that are stated as paths from the root; a node is its path, not its name.

    Args:
        file: The file, for messages.
        format: The format that it is read as.
        root: The label of a root that stands in front of every path, if the file leaves it out.
    """

    def __init__(self, file: str, format: str, root: str | None = None) -> None:
        self.raw = RawTaxonomy(file, format)
        self._root: tuple[str, ...] = ()
        self._nodes: dict[Hashable, RawNode] = {}
        if root is not None:
            self._root = (root,)
            self._nodes[self._root] = RawNode(key=self._root, parent=None, label=root)
        #: The statement about each node, and its id.
        self._stated: dict[Hashable, tuple[RawNode, str | None]] = {}
        self._by_id: dict[str, Hashable] = {}
        #: The rows that lack a name, by its rank.
        self._left_out: dict[str, dict[int, None]] = defaultdict(dict)

    def add(
        self,
        row: int,
        path: Sequence[str],
        ranks: Sequence[str | None],
        *,
        aliases: tuple[str, ...] = (),
        leads: tuple[str, ...] = (),
        key: str | None = None,
    ) -> None:
        """Adds the node that a row states, and those above it that no row states.

        Args:
            row: The row.
            path: Its labels from the root down, without the root if the format supplies it; empty
                ones are left out.
            ranks: Ranks of the same length, None if unknown.
            aliases: Other names of the last node.
            leads: Names that lead an answer to the last node.
            key: Its id, if it has one.
        """
        names = list(self._root)
        ranks_by_level: list[str | None] = [None] * len(names)
        for name, rank in zip(path, ranks, strict=True):
            if name:
                names.append(name)
                ranks_by_level.append(rank)
            else:
                self._left_out[rank or "step"][row] = None
        if len(names) > _MOST_LEVELS:
            raise TaxonomyError(
                f"The path has more than {_MOST_LEVELS} names.",
                file=self.raw.file,
                row=row,
                value="/".join(names[:8]) + "/…",
                remedy="Give the tree as edges, with the columns child and parent.",
            )
        full = tuple(names)
        statement = RawNode(
            key=full,
            parent=full[:-1] or None,
            label=full[-1],
            aliases=aliases,
            rank=ranks_by_level[-1],
            row=row,
            leads=leads,
        )
        statement = self._state(statement, row, key)
        self._add_above(full, ranks_by_level, row)
        if statement.rank is None:
            statement = statement._replace(rank=self._nodes[full].rank)
        self._nodes[full] = statement

    def _state(self, statement: RawNode, row: int, key: str | None) -> RawNode:
        """Returns the statement of a row together with an earlier one, and keeps it."""
        path = statement.key
        if path in self._stated:
            first, first_key = self._stated[path]
            statement = self.raw.repeated("node", first, statement, statement.shown)
            if key is not None and first_key not in (None, key):
                message = f"Row {first.row} gives this node another id."
                self.raw.flaw("conflicting rows", message, row, key, "Keep one of the two.")
            key = first_key or key
        self._stated[path] = (statement, key)
        owner = path if key is None else self._by_id.setdefault(key, path)
        if owner != path:
            message = f"Row {self._stated[owner][0].row} gives this id to another node."
            remedy = "Give every node a unique id, or no id."
            self.raw.flaw("conflicting rows", message, row, key, remedy)
        return statement

    def _add_above(self, path: tuple[str, ...], ranks: Sequence[str | None], row: int) -> None:
        """Adds the nodes of a path that are not there, the last one included."""
        level = len(path)
        while level and path[:level] not in self._nodes:
            level -= 1
        for end in range(level + 1, len(path) + 1):
            node = path[:end]
            self._nodes[node] = RawNode(
                key=node,
                parent=node[:-1] or None,
                label=node[-1],
                rank=ranks[end - 1],
                row=row,
            )

    def finish(self) -> RawTaxonomy:
        """Returns the nodes and defects; nodes with ids are known by these."""
        for what, rows in self._left_out.items():
            count = f"{len(rows):,} rows have" if len(rows) > 1 else "1 row has"
            message = f"{count} an empty {what}, which is left out of the path: row "
            message += f"{_listed(rows, most=5)}."
            self.raw.note("left out", message, min(rows))
        ids = {path: key for key, path in self._by_id.items()}
        self.raw.nodes = [node.renamed(ids) for node in self._nodes.values()]
        return self.raw


# -- from statements to a tree ---------------------------------------------------------------------

Nodes = Mapping[Hashable, RawNode]


def assemble(raw: RawTaxonomy, *, shared_names: bool = True) -> tuple[list[RawNode], list[Defect]]:
    """Returns the nodes of a file's tree, and every defect of the file.

    The nodes come depth first with siblings in file order. If a defect breaks the tree, they are
    those that a root reaches.

    Args:
        raw: The statements.
        shared_names: Whether names that several nodes share are noted, too.
    """
    # The first statement about each node; further ones name other parents.
    nodes: dict[Hashable, RawNode] = {}
    for node in raw.nodes:
        nodes.setdefault(node.key, node)
    order = _depth_first(nodes)
    found = replace(raw, defects=_repeats_together(raw.defects))
    # Otherwise every node is below a root by its only parent.
    if not len(order) == len(nodes) == len(raw.nodes):
        _add_wrong_parents(found, nodes)
        _add_cycles(found, nodes)
    _add_same_siblings(found, nodes)
    if shared_names:
        _add_shared_names(found, nodes)
    return order, sorted(found.defects, key=_row)


def _row(defect: Defect) -> tuple[bool, int]:
    return defect.row is None, defect.row or 0


def _depth_first(nodes: Nodes) -> list[RawNode]:
    children: dict[Hashable, list[RawNode]] = defaultdict(list)
    for node in nodes.values():
        children[node.parent].append(node)
    order = []
    stack = children[None][::-1]
    while stack:
        node = stack.pop()
        order.append(node)
        stack += reversed(children[node.key])
    return order


def _repeats_together(defects: list[Defect]) -> list[Defect]:
    """Returns the defects with one for all rows that repeat others to the letter.

    A file may have thousands of them.
    """
    repeats = [defect for defect in defects if defect.kind == "duplicate row" and not defect.breaks]
    if len(repeats) < 2:
        return list(defects)
    rows = _listed((defect.row for defect in repeats), most=5)
    together = replace(
        repeats[0],
        message=f"{len(repeats):,} rows repeat earlier ones: {rows}.",
        remedy="Remove them.",
    )
    others = [defect for defect in defects if defect.kind != "duplicate row" or defect.breaks]
    return [together, *others]


def _add_wrong_parents(raw: RawTaxonomy, nodes: Nodes) -> None:
    """Adds nodes with several parents, and parents that are not in the file."""
    for node in raw.nodes:
        first = nodes[node.key]
        if node is not first:
            remedy = "Keep one parent, or let `taxtune taxonomy build` choose one."
            message = _two_parents(first, node)
            raw.flaw("several parents", message, node.row, node.shown, remedy)
        if node.parent is not None and node.parent not in nodes:
            message = f"No row defines the parent {node.parent!r}."
            remedy = f"Add a row for {node.parent!r}, or correct its spelling."
            raw.flaw("dangling parent", message, node.row, node.shown, remedy)


def _two_parents(first: RawNode, again: RawNode) -> str:
    if first.parent is None:
        return f"{first.place} gives this node as a root."
    if again.parent is None:
        return f"{first.place} gives this node as a child; here it is a root."
    if again.row is None:
        return f"The node is under {again.parent!r} and under {first.parent!r}."
    return f"The node is under {again.parent!r} here and under {first.parent!r} in row {first.row}."


def _add_cycles(raw: RawTaxonomy, nodes: Nodes) -> None:
    """Adds one cycle of each group of nodes that are each other's ancestors."""
    import networkx as nx

    graph = nx.DiGraph()
    for node in raw.nodes:
        if node.parent is not None and node.parent in nodes:
            graph.add_edge(node.key, node.parent)
    for group in nx.strongly_connected_components(graph):
        first = min(group, key=lambda key: nodes[key].row or 0)
        if len(group) == 1 and not graph.has_edge(first, first):
            continue
        cycle = [child for child, _ in nx.find_cycle(graph.subgraph(group), first)]
        named = list(map(str, cycle))
        if len(named) > 11:
            named[10:] = ["…"]
        named.append(named[0])
        subject = f"{len(cycle)} nodes are their own ancestors"
        if len(cycle) == 1:
            subject = "A node is its own ancestor"
        message = f"{subject} (child → parent): {' → '.join(named)}"
        rows = [nodes[key].row for key in cycle[:10]]
        stated = [str(row) for row in rows if row is not None]
        if stated:
            message += f"; rows {', '.join(stated)}"
        node = nodes[cycle[0]]
        remedy = "Correct the parent in one of these rows."
        raw.flaw("cycle", f"{message}.", node.row, node.shown, remedy)


def _add_same_siblings(raw: RawTaxonomy, nodes: Nodes) -> None:
    """Adds nodes that share label and parent."""
    seen: dict[tuple[Hashable, str], RawNode] = {}
    for node in nodes.values():
        first = seen.setdefault((node.parent, node.label), node)
        if node.parent is None or first is node:
            continue
        parent = nodes.get(node.parent)
        above = str(node.parent) if parent is None else parent.label
        message = f"{first.place} already gives a node with this label under the same parent, "
        message += f"{above!r}."
        remedy = "Merge them or rename one."
        raw.flaw("duplicate sibling", message, node.row, node.shown, remedy)


def _add_shared_names(raw: RawTaxonomy, nodes: Nodes) -> None:
    """Adds, as notes, labels and aliases that several nodes share, in whatever case."""
    by_name = defaultdict(list)
    for node in nodes.values():
        names = (node.label, *node.aliases)
        for name in dict.fromkeys(map(str.casefold, names)):
            by_name[name].append(node)
    for name, sharing in by_name.items():
        if len(sharing) < 2:
            continue
        labelled = [node for node in sharing if node.label.casefold() == name]
        places = {(node.parent, node.label) for node in sharing}
        if len(labelled) > 1 and len(places) < len(sharing):
            continue  # a duplicate sibling, reported as such
        first, second, *_ = sharing
        written = (first.label, *first.aliases)
        value = next(text for text in written if text.casefold() == name)
        listed = _listed((_path(node, nodes) for node in sharing), most=4)
        message = f"{len(sharing)} nodes have this name: {listed}."
        kind = "shared label" if labelled == sharing else "shared alias"
        raw.note(kind, message, second.row, value, remedy="Refer to them by their paths.")


def _path(node: RawNode, nodes: Nodes) -> str:
    labels = {node.key: node.label}
    while node.parent in nodes and node.parent not in labels:
        node = nodes[node.parent]
        labels[node.key] = node.label
    return "/".join(reversed(labels.values()))
