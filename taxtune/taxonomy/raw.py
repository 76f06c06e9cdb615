"""What a reader hands on: nodes with keys, as they stand in the file, and what is wrong with their rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from taxtune.errors import TaxonomyError
from taxtune.tables import Row, Table
from taxtune.taxonomy.defects import Defect, DefectKind

__all__ = ["PathCollector", "RawNode", "RawTaxonomy", "add_root"]

# The names of a path; each node is held as its whole path. Classifications have up to forty levels.
_MOST_LEVELS = 250


@dataclass(frozen=True, slots=True)
class RawNode:
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

    def note(self, kind: DefectKind, message: str, row: int | None = None, value: str | None = None) -> None:
        """Adds a defect that does not break the tree."""
        self.defects.append(Defect(kind, message, self.file, row, False, value))

    def flaw(self, kind: DefectKind, message: str, row: int | None, value: str | None, remedy: str) -> None:
        """Adds a defect that breaks the tree."""
        self.defects.append(Defect(kind, message, self.file, row, True, value, remedy))

    def repeated(self, what: str, first: int, row: int, value: str, *, same: bool = True) -> None:
        """Adds that a row states again what another states, to the letter or with other values."""
        message = f"Row {first} already gives this {what}" + ("." if same else ", with other values.")
        kind: DefectKind = "duplicate row" if same else "conflicting rows"
        self.defects.append(Defect(kind, message, self.file, row, not same, value, "Remove one of the two rows."))

    def ragged(self, row: Row, table: Table) -> bool:
        """Tells whether a row of a table has cells that no column names, and adds that."""
        columns = len(table.header)
        if not any(row.cells[columns:]):
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
    for i in tops:
        raw.nodes[i] = replace(raw.nodes[i], parent=root.key)
    raw.nodes.insert(0, root)
    raw.note(
        "added root", f"Nodes without a parent in the file, now under an added root {label!r}: {len(tops):,} nodes."
    )


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
        self._nodes: dict[tuple[str, ...], RawNode] = {}
        self._stated: dict[tuple[str, ...], tuple[int, object]] = {}
        self._by_id: dict[str, tuple[str, ...]] = {}
        if root is not None:
            self._nodes[self._root] = RawNode(self._root, None, root)

    def add(
        self,
        row: int,
        path: Sequence[str],
        ranks: Sequence[str | None],
        aliases: tuple[str, ...] = (),
        identity: object = None,
        leads: tuple[str, ...] = (),
        key: str | None = None,
    ) -> None:
        """Adds the node that a row states, and those above it that no row states.

        Args:
            row: The row.
            path: Its labels from the root down, without the root where the format supplies it.
            ranks: Ranks of the same length, None where unknown.
            aliases: Other names of the last node.
            identity: What else the row says about the node, such as the class number of a data set.
            leads: Names that lead an answer to the last node.
            key: Its id, if it has one.
        """
        full = (*self._root, *path)
        if len(full) > _MOST_LEVELS:
            raise TaxonomyError(
                f"The path has more than {_MOST_LEVELS} names.",
                file=self.raw.file,
                row=row,
                value="/".join(full[:8]) + "/…",
                remedy="Give the tree as edges, with the columns child and parent.",
            )
        statement = (aliases, leads, tuple(ranks), identity, key)
        if full in self._stated:
            first, stated = self._stated[full]
            self.raw.repeated("node", first, row, "/".join(full), same=stated == statement)
            return
        self._stated[full] = (row, statement)
        if key is not None and self._by_id.setdefault(key, full) != full:
            message = f"Row {self._stated[self._by_id[key]][0]} gives this id to another node."
            self.raw.flaw("conflicting rows", message, row, key, "Give every node a unique id, or no id.")
        offset = len(self._root)
        for level in range(offset, len(full)):
            way = full[: level + 1]
            if way not in self._nodes:
                self._nodes[way] = RawNode(way, way[:-1] or None, way[-1], (), ranks[level - offset], row)
        known = self._nodes[full]
        rank = ranks[-1] if ranks and ranks[-1] is not None else known.rank
        self._nodes[full] = RawNode(full, known.parent, known.label, aliases, rank, row, leads)

    def finish(self) -> RawTaxonomy:
        """Returns what was gathered, nodes with ids known by these."""
        ids: dict[Hashable, Hashable] = {path: key for key, path in self._by_id.items()}
        self.raw.nodes = [
            replace(node, key=ids.get(node.key, node.key), parent=ids.get(node.parent, node.parent)) if ids else node
            for node in self._nodes.values()
        ]
        return self.raw
