"""A graph of "subclass of" edges in little room: ids once as text, edges as arrays of numbers.

What is read goes into an `EdgeCollector`, which hands out a `Graph`. In a `Graph` the nodes are numbered in the order
of their ids and the edges sorted, so nothing that is computed from it depends on the order of lines in a file.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import TaxonomyError
from taxtune.tables import clean

__all__ = ["EdgeCollector", "Graph", "IntArray", "Statements", "tidy"]

IntArray = NDArray[np.int64]


def tidy(text: str) -> str:
    """Returns a name or an id as taxonomy files can hold it: composed (NFC), trimmed, on one line, whole characters."""
    if text.isascii() and text.isprintable() and "  " not in text and text == text.strip():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Halves of characters that belong together are joined, others replaced.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return clean(text.replace("\0", " "))


@dataclass(frozen=True, slots=True)
class Statements:
    """Edges as a file states them.

    Attributes:
        child: Numbers of the children.
        parent: Numbers of the parents.
        file: Which file each is in, by its position in `Graph.files`.
        row: The 1-based line there; 0 where the source has no lines.
    """

    child: IntArray
    parent: IntArray
    file: IntArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.child)

    def at(self, where: NDArray[np.bool_] | IntArray) -> Statements:
        """Returns some of the edges."""
        return Statements(self.child[where], self.parent[where], self.file[where], self.row[where])


@dataclass(frozen=True, slots=True)
class Graph:
    """A directed graph with named nodes; edges run from child to parent.

    Attributes:
        ids: The id of each node, ascending.
        edges: Every edge once, without self loops, sorted by child and parent; where it is first stated.
        duplicates: Further statements of the same edges.
        self_loops: Edges from a node to itself.
        labels: Labels by node number; a node without one is not there.
        aliases: Other names by node number.
        files: The files that the edges come from.
        notes: What the sources left out or counted, by what it is.
        leads: Names by node number that lead answers to a node and do not identify it.
    """

    ids: list[str]
    edges: Statements
    duplicates: Statements
    self_loops: Statements
    labels: dict[int, str]
    aliases: dict[int, tuple[str, ...]]
    files: tuple[str, ...]
    notes: dict[str, int] = field(default_factory=dict)
    leads: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def label(self, node: int) -> str:
        """Returns the label of a node; its id where it has none."""
        return self.labels.get(node) or self.ids[node]


class EdgeCollector:
    """Takes edges and names in any order and makes a `Graph` of them."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.notes: Counter[str] = Counter()
        self._number: dict[str, int] = {}
        self._child, self._parent = array("q"), array("q")
        self._file, self._row = array("q"), array("q")
        self._labels: dict[int, str] = {}
        self._aliases: dict[int, dict[str, None]] = {}
        self._leads: dict[int, dict[str, None]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._number

    @property
    def unnamed(self) -> list[str]:
        """Ids of the nodes without a label."""
        return [key for key, number in self._number.items() if number not in self._labels]

    def start(self, file: str) -> None:
        """Says which file the following edges are in."""
        self.files.append(file)

    def node(self, key: str) -> int:
        """Adds a node, if it is not there, and returns its number."""
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self._number)
        return number

    def edge(self, child: str, parent: str, row: int = 0) -> None:
        """Adds an edge.

        Args:
            child: The id of the narrower class.
            parent: The id of the wider class.
            row: The line it is stated on.
        """
        self._child.append(self.node(child))
        self._parent.append(self.node(parent))
        self._file.append(len(self.files) - 1)
        self._row.append(row)

    def name(self, key: str, label: str) -> None:
        """Gives a node its label; of several the first is it and the others become aliases.

        Names of ids that no edge mentions are counted and left aside.
        """
        number = self._number.get(key)
        if number is None:
            self.notes["names of ids that are in no edge"] += 1
            return
        label = tidy(label)
        if not label:
            self.notes["empty labels"] += 1
            return
        first = self._labels.setdefault(number, label)
        if first != label:
            self.notes["further labels, kept as aliases"] += 1
            self._aliases.setdefault(number, {})[label] = None

    def alias(self, key: str, alias: str, *, leads: bool = False) -> None:
        """Gives a node another name, or one that only leads answers to it."""
        number = self._number.get(key)
        if number is None:
            self.notes["names of ids that are in no edge"] += 1
            return
        alias = tidy(alias)
        if alias:
            (self._leads if leads else self._aliases).setdefault(number, {})[alias] = None

    def finish(self) -> Graph:
        """Returns the graph.

        Raises:
            TaxonomyError: If there is no node.
        """
        if not self._number:
            raise TaxonomyError(
                "There is no edge.", file=", ".join(self.files) or None, remedy="Check the file and the property."
            )
        keys = list(self._number)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        rank = np.empty(len(keys), dtype=np.int64)
        rank[order] = np.arange(len(keys))
        stated = Statements(
            rank[np.frombuffer(self._child, dtype=np.int64)],
            rank[np.frombuffer(self._parent, dtype=np.int64)],
            np.array(self._file, dtype=np.int64),
            np.array(self._row, dtype=np.int64),
        )
        stated = stated.at(np.lexsort((stated.row, stated.file, stated.parent, stated.child)))
        loop = stated.child == stated.parent
        loops, stated = stated.at(loop), stated.at(~loop)
        again = np.zeros(len(stated), dtype=bool)
        again[1:] = (stated.child[1:] == stated.child[:-1]) & (stated.parent[1:] == stated.parent[:-1])
        renumbered = rank.tolist()
        return Graph(
            ids=[keys[i] for i in order],
            edges=stated.at(~again),
            duplicates=stated.at(again),
            self_loops=loops,
            labels={renumbered[i]: label for i, label in self._labels.items()},
            aliases={renumbered[i]: tuple(names) for i, names in self._aliases.items()},
            files=tuple(self.files),
            notes=dict(self.notes),
            leads={renumbered[i]: tuple(names) for i, names in self._leads.items()},
        )
