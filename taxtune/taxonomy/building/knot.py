"""A knot, a group of nodes that are each other's descendants, and how to walk it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Budget", "Knot", "shortest_way"]


@dataclass(frozen=True, slots=True)
class Knot:
    """A strongly connected component with a cycle, its nodes numbered 0..n-1.

    Attributes:
        arcs: Its arcs (parent, child), each once.
        lots: A number in [0, 1) for each arc; of several sets of the same size that break the cycles, the one with the
            smaller sum goes.
        entries: For each node whether it can be reached from outside the knot. Every other node has to keep a parent
            within it: in a graph without cycles, that is what keeps it within reach of the root.
    """

    arcs: Sequence[tuple[int, int]]
    lots: Sequence[float]
    entries: Sequence[bool]

    def __len__(self) -> int:
        return len(self.entries)

    def out(self, without: Iterable[int] = ()) -> list[list[tuple[int, int]]]:
        """Returns for each node its children and the numbers of the arcs to them, some arcs left out."""
        gone = set(without)
        table: list[list[tuple[int, int]]] = [[] for _ in self.entries]
        for number, (parent, child) in enumerate(self.arcs):
            if number not in gone:
                table[parent].append((child, number))
        return table


@dataclass(slots=True)
class Budget:
    """Arcs that may still be looked at, so that a huge knot takes minutes and not days. The same on every machine."""

    left: int

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0


def shortest_way(
    out: Sequence[Sequence[tuple[int, int]]],
    start: int,
    end: int,
    *,
    closed: Sequence[bool] | bytearray | None = None,
    budget: Budget | None = None,
) -> list[int] | None:
    """Returns the numbers of the arcs on a shortest way from one node to another, or None if there is none.

    Args:
        out: For each node its children and the numbers of the arcs to them.
        start: Where the way starts.
        end: Where it ends.
        closed: Arcs that may not be used, by number.
        budget: What the search may cost; once it is spent the answer is None.
    """
    came: dict[int, tuple[int, int]] = {start: (-1, -1)}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if budget is not None:
            budget.left -= len(out[node])
            if budget.left < 0:
                return None
        for child, number in out[node]:
            if child in came or (closed is not None and closed[number]):
                continue
            came[child] = (node, number)
            if child == end:
                way: list[int] = []
                while child != start:
                    child, number = came[child]
                    way.append(number)
                return way[::-1]
            queue.append(child)
    return None
