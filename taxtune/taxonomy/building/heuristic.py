"""Few arcs whose loss breaks every cycle of a large knot: good, not proven minimal.

Every order of the nodes breaks all cycles: the arcs that run against it have to go. Two orders are made: that of a
depth-first search, which suits graphs that are nearly a hierarchy, and that of the greedy method of Eades, Lin and
Smyth (1993), which suits others: sources to the front, sinks to the back, else the node with most children beyond
parents to the front. In both, nodes are moved, one at a time, to where fewest of their arcs run backward, until no move
helps, and whatever arc makes no cycle after all comes back. The better one goes on, in rounds: in an order that fits
the arcs that stay, many times over, a backward arc drawn by lot is turned forward, nodes around it are moved as before,
and the result is kept unless it is worse (iterated local search). Everything keeps to what `Knot.entries` says: a node
that is no entry stays behind one of its parents.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable

from taxtune.taxonomy.building.knot import Budget, Knot, shortest_way

__all__ = ["by_order", "disjoint_cycles", "losing_fewer"]

_KICKS_AN_ARC = 30
_MAX_KICKS = 40_000
_ROUNDS = 4
_MAX_MOVES = 20  # of a node, in one search


def by_order(knot: Knot, budget: Budget) -> tuple[int, ...]:
    """Returns the numbers of arcs to drop, ascending."""
    found = []
    for order in (_depth_first(knot), _reachable(knot, _greedy(knot))):
        places = _Places(knot, order, budget)
        places.settle(node for arc in places.backward() for node in knot.arcs[arc])
        found.append(_without_needless(knot, places.backward(), budget))
    best = min(found, key=len)
    kicks = min(_KICKS_AN_ARC * len(knot.arcs), _MAX_KICKS) // _ROUNDS
    for _ in range(_ROUNDS):
        # An order that fits what stays, so that only what has to go runs backward in it.
        places = _Places(knot, _fitting(knot, best), budget)
        places.search(kicks)
        again = _without_needless(knot, places.backward(), budget)
        if len(again) < len(best):
            best = again
    return best


def losing_fewer(knot: Knot, dropped: tuple[int, ...], budget: Budget) -> tuple[int, ...]:
    """Returns as many arcs as are dropped, which break every cycle too and cut off fewer nodes, as far as is found.

    A dropped arc to a node that is cut off comes back for one that lies on all cycles that it closes, as long as more
    nodes are then reached from the entries.
    """
    while True:
        out = knot.out(dropped)
        within = _reached(knot, out)
        best, most = dropped, sum(within)
        for number in dropped:
            parent, child = knot.arcs[number]
            if within[child] or not within[parent]:
                continue
            for other in shortest_way(out, child, parent, budget=budget) or ():
                changed = tuple(sorted((set(dropped) - {number}) | {other}))
                without = knot.out((*dropped, other))
                if shortest_way(without, child, parent, budget=budget) is not None or budget.spent:
                    continue
                count = sum(_reached(knot, knot.out(changed)))
                if count > most:
                    best, most = changed, count
        if best == dropped:
            return dropped
        dropped = best


def _reached(knot: Knot, out: list[list[tuple[int, int]]]) -> list[bool]:
    """Returns for each node whether it is reached from an entry."""
    seen = list(knot.entries)
    stack = [node for node, entry in enumerate(knot.entries) if entry]
    while stack:
        for child, _ in out[stack.pop()]:
            if not seen[child]:
                seen[child] = True
                stack.append(child)
    return seen


def disjoint_cycles(knot: Knot, dropped: tuple[int, ...], budget: Budget) -> int:
    """Returns a number of cycles that share no arc: as many arcs have to go at least."""
    out = knot.out()
    used = bytearray(len(knot.arcs))
    count = 0
    for number in sorted(dropped, key=lambda number: (knot.lots[number], number)):
        if used[number]:
            continue
        parent, child = knot.arcs[number]
        way = shortest_way(out, child, parent, closed=used, budget=budget)
        if budget.spent:
            break
        if way is not None:
            count += 1
            for arc in (number, *way):
                used[arc] = 1
    return max(count, 1)


def _depth_first(knot: Knot) -> list[int]:
    """Returns the nodes in the reverse of the order in which a depth-first search from the entries leaves them.

    Each node stands behind the parent that it was found from; only arcs to a node that the search is still in run
    backward.
    """
    out = knot.out()
    seen = bytearray(len(knot))
    left: list[int] = []
    for entry in range(len(knot)):
        if seen[entry] or not knot.entries[entry]:
            continue
        seen[entry] = 1
        way = [(entry, iter(out[entry]))]
        while way:
            node, children = way[-1]
            for child, _ in children:
                if not seen[child]:
                    seen[child] = 1
                    way.append((child, iter(out[child])))
                    break
            else:
                left.append(node)
                way.pop()
    return left[::-1]


def _greedy(knot: Knot) -> list[int]:
    n = len(knot)
    out: list[list[int]] = [[] for _ in range(n)]
    into: list[list[int]] = [[] for _ in range(n)]
    lot = [0.0] * n
    for (parent, child), value in zip(knot.arcs, knot.lots, strict=True):
        out[parent].append(child)
        into[child].append(parent)
        lot[child] += value
    out_left, in_left = [len(nodes) for nodes in out], [len(nodes) for nodes in into]
    placed = bytearray(n)
    heap = [(in_left[v] - out_left[v], lot[v], v) for v in range(n)]
    heapq.heapify(heap)
    sources = [v for v in range(n) if not in_left[v]]
    sinks = [v for v in range(n) if not out_left[v]]
    front: list[int] = []
    back: list[int] = []

    def put(node: int, where: list[int]) -> None:
        placed[node] = 1
        where.append(node)
        for child in out[node]:
            if not placed[child]:
                in_left[child] -= 1
                _tell(child)
        for parent in into[node]:
            if not placed[parent]:
                out_left[parent] -= 1
                _tell(parent)

    def _tell(node: int) -> None:
        if not in_left[node]:
            sources.append(node)
        elif not out_left[node]:
            sinks.append(node)
        else:
            heapq.heappush(heap, (in_left[node] - out_left[node], lot[node], node))

    while len(front) + len(back) < n:
        if sinks:
            node = sinks.pop()
            if not placed[node]:
                put(node, back)
        elif sources:
            node = sources.pop()
            if not placed[node]:
                put(node, front)
        else:
            difference, _, node = heapq.heappop(heap)
            if not placed[node] and difference == in_left[node] - out_left[node]:
                put(node, front)
    return front + back[::-1]


def _reachable(knot: Knot, order: list[int]) -> list[int]:
    """Returns the order changed as little as need be for every node to stand behind a parent or be an entry."""
    wish = [0] * len(order)
    for position, node in enumerate(order):
        wish[node] = position
    out = knot.out()
    heap = [(wish[v], v) for v, entry in enumerate(knot.entries) if entry]
    heapq.heapify(heap)
    seen = bytearray(knot.entries)
    result = []
    while heap:
        _, node = heapq.heappop(heap)
        result.append(node)
        for child, _ in out[node]:
            if not seen[child]:
                seen[child] = 1
                heapq.heappush(heap, (wish[child], child))
    return result


def _fitting(knot: Knot, dropped: tuple[int, ...]) -> list[int]:
    """Returns an order in which every arc that stays runs forward."""
    out = knot.out(dropped)
    waiting = [0] * len(knot)
    for children in out:
        for child, _ in children:
            waiting[child] += 1
    ready = deque(node for node, parents in enumerate(waiting) if not parents)
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for child, _ in out[node]:
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    return order


class _Places:
    """An order of nodes as numbers, so that a node is moved without moving others."""

    def __init__(self, knot: Knot, order: list[int], budget: Budget) -> None:
        self.knot = knot
        self.budget = budget
        self.out: list[list[int]] = [[] for _ in knot.entries]
        self.into: list[list[int]] = [[] for _ in knot.entries]
        self.touching: list[list[int]] = [[] for _ in knot.entries]
        for number, (parent, child) in enumerate(knot.arcs):
            self.out[parent].append(child)
            self.into[child].append(parent)
            self.touching[parent].append(number)
            self.touching[child].append(number)
        self.at = [0.0] * len(order)
        self.changed: dict[int, float] = {}
        self._space(order)

    def _space(self, order: list[int]) -> None:
        """Spaces the nodes evenly, so that there is room between any two."""
        for position, node in enumerate(order):
            self.at[node] = float(position)

    def backward(self) -> tuple[int, ...]:
        """Returns the arcs that run against the order."""
        return tuple(i for i, (parent, child) in enumerate(self.knot.arcs) if self.at[parent] > self.at[child])

    def settle(self, nodes: Iterable[int]) -> int:
        """Moves nodes, and those that their moves touch, until none can be moved for the better.

        Returns:
            How many arcs fewer run backward.
        """
        queue = deque(dict.fromkeys(nodes))
        queued = set(queue)
        moves: dict[int, int] = {}
        won = 0
        while queue:
            node = queue.popleft()
            queued.discard(node)
            better = self._move(node)
            if not better:
                continue
            won += better
            moves[node] = moves.get(node, 0) + 1
            for other in (*self.into[node], *self.out[node]):
                if other not in queued and moves.get(other, 0) < _MAX_MOVES:
                    queued.add(other)
                    queue.append(other)
        return won

    def search(self, kicks: int) -> None:
        """Turns backward arcs forward, one after the other by lot, and takes back what does not pay."""
        lot = random.Random(int(sum(self.knot.lots) * 2**32))
        arcs = self.knot.arcs
        backward = list(self.backward())
        for kick in range(kicks):
            if not backward or self.budget.spent:
                return
            if kick % 500 == 499:
                self._space(sorted(range(len(self.at)), key=self.at.__getitem__))
            place = lot.randrange(len(backward))
            parent, child = arcs[backward[place]]
            if self.at[parent] < self.at[child]:  # turned by an earlier search
                backward[place] = backward[-1]
                backward.pop()
                continue
            self.changed = {}
            node, other = (parent, child) if lot.random() < 0.5 else (child, parent)
            lost = self._beside(node, other)
            if lost is None:
                continue
            won = self.settle([x for x in (*self.into[node], *self.out[node]) if x != other])
            if won < lost:
                for moved, before in self.changed.items():
                    self.at[moved] = before
                continue
            new = sorted({arc for moved in self.changed for arc in self.touching[moved]})
            backward += [arc for arc in new if self.at[arcs[arc][0]] > self.at[arcs[arc][1]]]

    def _put(self, node: int, slot: float) -> None:
        self.changed.setdefault(node, self.at[node])
        self.at[node] = slot

    def _broken(self, node: int) -> int:
        at = self.at
        here = at[node]
        return sum(1 for p in self.into[node] if at[p] > here) + sum(1 for c in self.out[node] if at[c] < here)

    def _window(self, node: int) -> tuple[float, float]:
        """Returns the places between which a node may lie, so that it and its children stay behind a parent."""
        at, end = self.at, float(len(self.at))
        low, high = -1.0, end
        if not self.knot.entries[node]:
            low = min(at[parent] for parent in self.into[node])
        for child in self.out[node]:
            if at[child] < high and not self.knot.entries[child]:
                self.budget.left -= len(self.into[child])
                first = min((at[parent] for parent in self.into[child] if parent != node), default=end)
                if first > at[child]:
                    high = at[child]
        return low, high

    def _beside(self, node: int, other: int) -> int | None:
        """Puts a node just across another; returns how many arcs more run backward, or None if it may not lie there."""
        at = self.at
        low, high = self._window(node)
        edge = at[other]
        near = [at[x] for x in (*self.into[node], *self.out[node])]
        if at[node] > edge:
            left, right = max((low, *(x for x in near if x < edge))), min(edge, high)
        else:
            left, right = max(low, edge), min((high, *(x for x in near if x > edge)))
        slot = (left + right) / 2
        if not left < slot < right:
            return None
        before = self._broken(node)
        self._put(node, slot)
        return self._broken(node) - before

    def _move(self, node: int) -> int:
        """Puts a node where fewest of its arcs run backward; returns how many fewer do."""
        at = self.at
        now = self._broken(node)
        self.budget.left -= len(self.into[node]) + len(self.out[node])
        if not now:
            return 0
        low, high = self._window(node)
        near = sorted([(at[p], 1) for p in self.into[node]] + [(at[c], -1) for c in self.out[node]])
        # Backward arcs with the node in front of all neighbours: all those from its parents.
        cost = len(self.into[node])
        best, slot = now, at[node]
        previous = -1.0
        for i in range(len(near) + 1):
            following = near[i][0] if i < len(near) else float(len(at))
            left, right = max(previous, low), min(following, high)
            middle = (left + right) / 2
            if cost < best and left < middle < right:
                best, slot = cost, middle
            if i < len(near):
                # Passing a parent mends its arc, passing a child breaks the arc to it.
                cost -= near[i][1]
                previous = following
        if best < now:
            self._put(node, slot)
        return now - best


def _without_needless(knot: Knot, dropped: tuple[int, ...], budget: Budget) -> tuple[int, ...]:
    """Returns the arcs without those that close no cycle with what is kept, tried one after the other."""
    out = knot.out(dropped)
    stay = []
    for number in sorted(dropped, key=lambda number: (-knot.lots[number], number)):
        parent, child = knot.arcs[number]
        way = shortest_way(out, child, parent, budget=budget)
        if way is None and not budget.spent:
            out[parent].append((child, number))
        else:
            stay.append(number)
    return tuple(sorted(stay))
