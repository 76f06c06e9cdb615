"""Orders of the nodes of a component: the arcs that run against an order break every cycle.

Good orders come from the greedy method of Eades, Lin and Smyth (1993), which suits any graph, from a depth-first
search, which suits one that is nearly a hierarchy, and from a program that tells for each arc how far it goes. Nodes
are then moved in them as long as that helps (iterated local search).
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taxtune.taxonomy.building.arcs import BoolArray
from taxtune.taxonomy.building.edges import IntArray

__all__ = ["Component", "FloatArray", "Order", "first_orders", "guided_orders"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Component:
    """A strongly connected component with a cycle, its nodes numbered 0..n-1.

    Attributes:
        parent: The parent of each arc.
        child: Its child.
        lots: A number in [0, 1) for each arc; of several sets of the same size that break the cycles, the one with the
            smaller sum goes.
        entries: For each node whether it can be reached from outside the component. Every other node has to keep a
            parent within it: in a graph without cycles, that is what keeps it within reach of the root.
    """

    parent: IntArray
    child: IntArray
    lots: FloatArray
    entries: BoolArray

    def __len__(self) -> int:
        return len(self.entries)

    def neighbours(self) -> tuple[list[list[int]], list[list[int]]]:
        """Returns the parents and the children of each node."""
        into: list[list[int]] = [[] for _ in self.entries]
        out: list[list[int]] = [[] for _ in self.entries]
        for parent, child in zip(self.parent.tolist(), self.child.tolist(), strict=True):
            out[parent].append(child)
            into[child].append(parent)
        return into, out

    def sizes(self) -> tuple[IntArray, IntArray, int]:
        """Returns how many nodes the part of each node has, how many arcs that of each arc, and the number of parts."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        n, m = len(self), len(self.parent)
        count, part = connected_components(csr_array((np.ones(m), (self.parent, self.child)), shape=(n, n)))
        return np.bincount(part)[part], np.bincount(part[self.child])[part[self.child]], count


class Order:
    """An order of the nodes, which breaks every cycle: the arcs that run backward in it go.

    The nodes have places on a line, so that one is moved without moving others. A node that is no entry and has all its
    parents behind it is lost; that costs less than an arc where nodes may be lost, and else more than all arcs.
    """

    def __init__(self, component: Component, order: Iterable[int], *, lose: bool) -> None:
        n = len(component)
        self._arcs = list(zip(component.parent.tolist(), component.child.tolist(), strict=True))
        self._lots: list[float] = component.lots.tolist()
        self._entry: list[bool] = component.entries.tolist()
        self._into, self._out = component.neighbours()
        self._touching: list[list[int]] = [[] for _ in range(n)]
        for number, (parent, child) in enumerate(self._arcs):
            self._touching[parent].append(number)
            self._touching[child].append(number)
        self._price, self._loss = (n + 1, 1) if lose else (1, len(self._arcs) + 1)
        self._at = [0.0] * n
        for place, node in enumerate(order):
            self._at[node] = float(place)
        self._held = [0] * n  # how many parents of each node are before it
        for parent, child in self._arcs:
            self._held[child] += self._at[parent] < self._at[child]
        self._moved: dict[int, float] = {}  # where nodes were

    def dropped(self) -> tuple[int, ...]:
        """Returns the arcs that run backward."""
        at = self._at
        return tuple(number for number, (parent, child) in enumerate(self._arcs) if at[parent] > at[child])

    def restore(self) -> None:
        """Turns arcs forward that close no cycle with those that run forward, one after the other."""
        self._space()
        for number in sorted(self.dropped(), key=lambda number: (-self._lots[number], number)):
            self._turn(*self._arcs[number])

    def _turn(self, parent: int, child: int) -> None:
        """Turns an arc forward if no other has to turn backward for it (Pearce and Kelly, 2007)."""
        at = self._at
        low, high = at[child], at[parent]
        ahead, behind = {child}, {parent}
        stack = [child] if low < high else []
        while stack:
            node = stack.pop()
            for other in self._out[node]:
                if at[node] < at[other] <= high and other not in ahead:
                    if other == parent:
                        return
                    ahead.add(other)
                    stack.append(other)
        stack = [parent] if low < high else []
        while stack:
            node = stack.pop()
            for other in self._into[node]:
                if low < at[other] < at[node] and other not in behind:
                    behind.add(other)
                    stack.append(other)
        nodes = sorted(behind, key=at.__getitem__) + sorted(ahead, key=at.__getitem__)
        for node, place in zip(nodes, sorted(at[node] for node in nodes), strict=True):
            self._put(node, place)

    def search(self, kicks: int, lot: random.Random) -> None:
        """Settles; then turns arcs forward by lot, and takes back what does not pay.

        Args:
            kicks: How many arcs to turn.
            lot: Draws them.
        """
        self.settle()
        self._space()
        backward = list(self.dropped())
        for _ in range(kicks):
            if not backward:
                return
            place = lot.randrange(len(backward))
            parent, child = self._arcs[backward[place]]
            if self._at[parent] < self._at[child]:  # turned before
                backward[place] = backward[-1]
                backward.pop()
                continue
            self._moved = {}
            node, other = (parent, child) if lot.random() < 0.5 else (child, parent)
            won = self._beside(node, other)
            if won > -self._loss or self._loss < self._price:
                won += self._settle(near for near in (*self._into[node], *self._out[node]) if near != other)
            if won < 0:
                for moved, before in self._moved.items():
                    self._put(moved, before)
                continue
            touched = {arc for moved in self._moved for arc in self._touching[moved]}
            backward += sorted(arc for arc in touched if self._at[self._arcs[arc][0]] > self._at[self._arcs[arc][1]])

    def settle(self) -> None:
        """Moves nodes as long as it helps."""
        self._settle(node for number in self.dropped() for node in self._arcs[number])

    def _settle(self, nodes: Iterable[int]) -> int:
        """Moves nodes, and those next to nodes that moved, until no move helps; returns how much that won."""
        queue = deque(dict.fromkeys(nodes))
        queued = set(queue)
        won = 0
        while queue:
            node = queue.popleft()
            queued.discard(node)
            if better := self._move(node):
                won += better
                for other in (*self._into[node], *self._out[node]):
                    if other not in queued:
                        queued.add(other)
                        queue.append(other)
        return won

    def _move(self, node: int) -> int:
        """Puts a node where it costs least; returns how much less than before."""
        at, here = self._at, self._at[node]
        above, below = self._into[node], self._out[node]
        if all(at[other] < here for other in above) and all(here < at[other] for other in below):
            return 0
        # What passing each neighbour on the way to the end changes.
        steps = [(at[other], -self._price) for other in above]
        cost = self._price * len(above)
        if not self._entry[node]:
            steps.append((min(steps)[0], -self._loss))
            cost += self._loss
        for other in below:
            alone = not self._entry[other] and self._held[other] == (here < at[other])
            steps.append((at[other], self._price + self._loss * alone))
        steps.sort()
        steps.append((float(len(at)), 0))
        now = best = cost + sum(change for place, change in steps if place < here)
        slot, left = here, -1.0
        for place, change in steps:
            middle = (left + place) / 2
            if cost < best and left < middle < place:
                best, slot = cost, middle
            cost, left = cost + change, place
        if best < now:
            self._put(node, slot)
        return now - best

    def _beside(self, node: int, other: int) -> int:
        """Puts a node just across another; returns what that wins, less than nothing as a rule."""
        at, edge = self._at, self._at[other]
        near = [at[some] for some in (*self._into[node], *self._out[node])]
        if at[node] > edge:
            left, right = max((place for place in near if place < edge), default=-1.0), edge
        else:
            left, right = edge, min((place for place in near if place > edge), default=float(len(at)))
        slot = (left + right) / 2
        if not left < slot < right:
            return -self._price * len(self._arcs)  # no room until they are spaced again
        before = self._cost(node)
        self._put(node, slot)
        return before - self._cost(node)

    def _cost(self, node: int) -> int:
        """Returns what the place of a node costs, for itself and its children."""
        at, here = self._at, self._at[node]
        against = sum(at[some] > here for some in self._into[node]) + sum(at[some] < here for some in self._out[node])
        lost = sum(not self._held[some] and not self._entry[some] for some in (node, *self._out[node]))
        return self._price * against + self._loss * lost

    def _put(self, node: int, slot: float) -> None:
        at, here = self._at, self._at[node]
        self._moved.setdefault(node, here)
        for child in self._out[node]:
            self._held[child] += (slot < at[child]) - (here < at[child])
        self._held[node] = sum(at[parent] < slot for parent in self._into[node])
        at[node] = slot

    def _space(self) -> None:
        """Puts the nodes at whole numbers, so that there is room between any two."""
        for place, node in enumerate(sorted(range(len(self._at)), key=self._at.__getitem__)):
            self._at[node] = float(place)


def first_orders(component: Component, *, lose: bool) -> list[Order]:
    """Returns orders to start from.

    Args:
        component: The component.
        lose: Whether nodes may be lost. Otherwise each node is an entry or behind one of its parents.
    """
    greedy = np.empty(len(component))
    greedy[_greedy(component)] = np.arange(len(component), dtype=float)
    nothing = np.zeros(len(component.parent))
    orders = [_grown(component, greedy, nothing, free=lose), _depth_first(component)]
    return [Order(component, order, lose=lose) for order in orders]


def guided_orders(component: Component, value: FloatArray, *, lose: bool) -> list[Order]:
    """Returns orders near a solution that leaves cycles or has fractions.

    Next comes the node, of those behind a parent, into which the fewest arcs that the solution keeps come from nodes
    that are not placed yet.

    Args:
        component: The component.
        value: How far each arc goes, from 0 to 1.
        lose: Whether to try as well to place nodes that are behind no parent.
    """
    stays = 1 - value + 1e-6 * component.lots
    waiting = np.bincount(component.child, weights=stays, minlength=len(component)).astype(float)
    ways = [False, True] if lose else [False]
    return [Order(component, _grown(component, waiting, stays, free=free), lose=lose) for free in ways]


def _grown(component: Component, wish: FloatArray, less: FloatArray, *, free: bool) -> list[int]:
    """Returns the nodes, entries and what is behind a parent first, each time the one with the smallest wish.

    Args:
        component: The component.
        wish: The wish of each node.
        less: How much smaller each arc makes the wish of its child once its parent is placed.
        free: Whether nodes that are behind no parent are placed like the others.
    """
    out: list[list[tuple[int, float]]] = [[] for _ in component.entries]
    for parent, child, change in zip(component.parent.tolist(), component.child.tolist(), less.tolist(), strict=True):
        out[parent].append((child, change))
    now: list[float] = wish.tolist()
    placed = [False] * len(component)
    heap = [(now[node], node) for node in range(len(component)) if free or component.entries[node]]
    heapq.heapify(heap)
    order = []
    while heap:
        least, node = heapq.heappop(heap)
        if placed[node] or least != now[node]:
            continue
        placed[node] = True
        order.append(node)
        for child, change in out[node]:
            if not placed[child]:
                now[child] -= change
                heapq.heappush(heap, (now[child], child))
    return order


def _depth_first(component: Component) -> list[int]:
    """Returns the nodes in the reverse of the order in which a depth-first search from the entries leaves them."""
    _, out = component.neighbours()
    seen = [False] * len(component)
    left: list[int] = []
    for entry in np.flatnonzero(component.entries).tolist():
        way = [] if seen[entry] else [(entry, iter(out[entry]))]
        seen[entry] = True
        while way:
            child = next((child for child in way[-1][1] if not seen[child]), None)
            if child is None:
                left.append(way.pop()[0])
            else:
                seen[child] = True
                way.append((child, iter(out[child])))
    return left[::-1]


def _greedy(component: Component) -> list[int]:
    """Returns an order with few arcs against it: sources go to its front and sinks to its end.

    Where there is neither, the node goes to the front that has most children beyond its parents (Eades, Lin and Smyth,
    1993).
    """
    into, out = component.neighbours()
    above, below = [len(some) for some in into], [len(some) for some in out]

    def key(node: int) -> tuple[bool, int, int]:
        return bool(above[node] and below[node]), above[node] - below[node], node

    keys: list[tuple[bool, int, int] | None] = [key(node) for node in range(len(component))]
    heap = [some for some in keys if some is not None]
    heapq.heapify(heap)
    front: list[int] = []
    back: list[int] = []
    while heap:
        least = heapq.heappop(heap)
        node = least[2]
        if keys[node] != least:
            continue
        keys[node] = None
        (front if not above[node] or below[node] else back).append(node)
        for left, others in ((above, out[node]), (below, into[node])):
            for other in others:
                if keys[other] is not None:
                    left[other] -= 1
                    keys[other] = key(other)
                    heapq.heappush(heap, key(other))
    return front + back[::-1]
