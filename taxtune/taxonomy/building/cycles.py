"""Breaking the cycles of a graph by dropping the fewest edges: a minimum feedback arc set, by integer programming.

Cycles lie within strongly connected components, and each component is a problem of its own: choose the fewest arcs that
hit every cycle. There are too many cycles to list, so the program starts with a few and each solution that leaves a
cycle adds it (Baharev, Schichl, Neumaier and Achterberg, 2021). First the program is solved without asking for whole
numbers, which is quick and tells nearly as much; then with. Each solution on the way is also rounded to one that breaks
every cycle, by an order of the nodes that it suggests, so that there is always a good answer, and a bound that says how
good. Limits are on steps and not on time: the same input gives the same result on every machine.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from taxtune.progress import track_each
from taxtune.taxonomy.building.arcs import BoolArray, components, draws
from taxtune.taxonomy.building.edges import IntArray

__all__ = ["EXACT_ARCS", "Broken", "Component", "Method", "break_cycles", "solve"]

#: In components with more arcs than this no whole numbers are asked for.
EXACT_ARCS = 400
_STEPS = 60
_ROUNDINGS, _ROUNDED_ARCS = 200, 400_000
_SOLVER_NODES = 100  # of its search tree, a step
_SEARCHED = 30_000_000  # arcs times starts of searches for cycles, a component
_STARTS = 256

# What decides between sets of one size, and never for a larger set: all of it weighs less than an arc.
_LOST, _LOTS = 0.4, 0.1
# The solver takes values for the same that differ by less than a millionth.
_SCALE = 1000.0

Method = Literal["integer program", "rounding"]
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


@dataclass(frozen=True, slots=True)
class Broken:
    """How the cycles of one component were broken.

    Attributes:
        nodes: How many nodes are each other's descendants in it.
        arcs: How many arcs it has.
        dropped: The arcs that go, by their positions in the graph.
        cycles: For each of them a shortest cycle that it closes with the arcs that stay, as node numbers from child to
            parent, the first repeated at the end.
        method: How they were found.
        at_least: So many arcs have to go in any case; if no fewer are dropped, the number is proven minimal.
    """

    nodes: int
    arcs: int
    dropped: tuple[int, ...]
    cycles: tuple[tuple[int, ...], ...]
    method: Method
    at_least: int

    @property
    def proven(self) -> bool:
        """Whether no smaller number of arcs would do."""
        return len(self.dropped) == self.at_least


def break_cycles(
    source: IntArray,
    target: IntArray,
    keep: BoolArray,
    ids: Sequence[str],
    seed: int,
    *,
    entries: BoolArray,
    lose: bool = False,
) -> list[Broken]:
    """Finds the fewest arcs to drop in each strongly connected component, proven where it is not too large.

    Args:
        source: The parent of each arc.
        target: Its child.
        keep: Which arcs there are.
        ids: The ids of the nodes, which the lots for ties are drawn by.
        seed: The seed of the lots.
        entries: Which nodes need no parent; a node that has one outside its component needs none inside either.
        lose: Whether the fewest arcs go even if that cuts nodes off from the root; of sets of one size one that cuts
            off few goes. Otherwise the fewest go under which none is cut off.

    Returns:
        One result a component, in the order of their first nodes.
    """
    results: list[Broken] = []
    found = _cyclic_components(source, target, keep, ids, seed, entries)
    for component, arcs, nodes in track_each(found, "breaking cycles"):
        dropped, method, at_least = solve(component, lose=lose)
        stays = np.ones(len(arcs), dtype=bool)
        stays[list(dropped)] = False
        closed = _shortest_cycles(component, list(dropped), np.where(stays, 1.0, np.inf))
        results.append(
            Broken(
                nodes=len(component),
                arcs=len(arcs),
                dropped=tuple(arcs[i] for i in dropped),
                # The cycle runs down from the dropped arc's child. Upward it is the child, its lost parent, and on.
                cycles=tuple(
                    tuple(nodes[component.child[arc]] for arc in (cycle[0], *reversed(cycle)))
                    for cycle in (closed[arc] for arc in dropped)
                ),
                method=method,
                at_least=at_least,
            )
        )
    return results


def _cyclic_components(
    source: IntArray, target: IntArray, keep: BoolArray, ids: Sequence[str], seed: int, entries: BoolArray
) -> list[tuple[Component, list[int], list[int]]]:
    """Returns each component that has arcs, with its arcs' and its nodes' numbers in the graph."""
    nodes = len(ids)
    kept = np.flatnonzero(keep)
    group = components(source[kept], target[kept], nodes)
    inside = group[source[kept]] == group[target[kept]]
    free = entries.copy()
    free[target[kept[~inside]]] = True
    arcs = kept[inside]
    if not len(arcs):
        return []
    # In the order of their first nodes: numbers of components depend on the library that finds them.
    first = np.full(int(group.max()) + 1, nodes, dtype=np.int64)
    np.minimum.at(first, group, np.arange(nodes))
    rank = first[group]
    arcs = arcs[np.lexsort((source[arcs], target[arcs], rank[source[arcs]]))]
    lots = draws(seed, "cycle", (f"{ids[c]}\0{ids[p]}" for c, p in zip(target[arcs], source[arcs], strict=True)))
    cuts = np.flatnonzero(np.r_[True, np.diff(rank[source[arcs]]) != 0, True]).tolist()
    found = []
    for low, high in itertools.pairwise(cuts):
        ends = np.stack([source[arcs[low:high]], target[arcs[low:high]]])
        members, local = np.unique(ends, return_inverse=True)
        parent, child = local.reshape(2, -1)
        component = Component(parent, child, lots[low:high], free[members])
        found.append((component, arcs[low:high].tolist(), members.tolist()))
    return found


def solve(component: Component, *, lose: bool = False) -> tuple[tuple[int, ...], Method, int]:
    """Returns the numbers of the arcs to drop from a component, how they were found, and how few it could be at best.

    Args:
        component: The component.
        lose: Whether nodes may be cut off from the entries where that takes fewer arcs; of sets of one size one that
            cuts off the fewest goes.
    """
    m = len(component.parent)
    program = _Program(component, lose=lose)
    value, whole, at_least = np.zeros(m), m <= EXACT_ARCS, 1
    best = min(_rounded(component, value, lose=lose), key=program.price)
    for _ in range(_STEPS if m * len(best) < _SEARCHED else 0):
        # Whatever breaks all cycles has an arc of each: it is enough to look for cycles through these arcs.
        if not program.add(_shortest_cycles(component, best, value + 1e-7), value):
            if np.abs(value - np.rint(value)).max() < 1e-6:
                return tuple(np.flatnonzero(value > 0.5).tolist()), "integer program", at_least
            break
        found, bound = program.solve(whole=whole)
        at_least = max(at_least, math.ceil(bound - 1e-6))
        if found is None:
            break
        value = np.rint(found) if whole else found.clip(0, 1)
        best = min(best, *_rounded(component, value, lose=lose), key=program.price)
    lot = np.random.default_rng(int(component.lots.sum() * 2**32))
    for number in range(min(_ROUNDINGS, _ROUNDED_ARCS // m)):
        if program.price(best)[:2] == (at_least, 0):
            break
        # Near the solution and, every other time, near the best that it was rounded to.
        near = value.copy()
        if number % 2:
            near[list(best)] = (near[list(best)] + 1) / 2
        best = min(best, *_rounded(component, 1 - (1 - near) * lot.random(m), lose=lose), key=program.price)
    return best, "rounding", at_least


class _Program:
    """The integer program of a component: a variable an arc, 1 if it goes; a row a cycle, of whose arcs one goes.

    Where nodes may be lost there is also a variable a node, 1 if it is reached, and one an arc, 1 if it stays and its
    parent is reached.
    """

    def __init__(self, component: Component, *, lose: bool) -> None:
        from scipy.sparse import coo_array

        self._component = component
        n, m = len(component), len(component.parent)
        self._arcs, self._nodes = m, n if lose else 0
        self._slack = _LOTS + (_LOST if lose else 0.0)
        # Lots weigh less than a node that is lost, and lost nodes less than an arc.
        lots = _LOTS / m / (n if lose else 1)
        self._cost = np.r_[1.0 + component.lots * lots, np.full(n, -_LOST / n), np.zeros(m)] * _SCALE
        self._cost = self._cost[: m + self._nodes + (m if lose else 0)]
        self._cycles: dict[tuple[int, ...], None] = {}
        within = np.flatnonzero(~component.entries)
        row_of = np.full(n, -1)
        row_of[within] = np.arange(len(within))
        into = np.flatnonzero(row_of[component.child] >= 0)
        rows: IntArray
        if not lose:
            # One of the arcs into each node that is no entry stays.
            rows, columns, values = row_of[component.child[into]], into, np.ones(len(into))
            most = np.bincount(rows, minlength=len(within)).astype(float) - 1
        else:
            # A node is reached if one of its arcs is used; an arc is used if it stays and its parent is reached.
            used, low = np.arange(m) + m + n, np.flatnonzero(row_of[component.parent] >= 0)
            count = len(within)
            rows = np.r_[np.arange(count), row_of[component.child[into]], np.tile(count + np.arange(m), 2)]
            rows = np.r_[rows, np.tile(count + m + np.arange(len(low)), 2)]
            columns = np.r_[m + within, used[into], used, np.arange(m), used[low], m + component.parent[low]]
            values = np.r_[np.ones(count), -np.ones(len(into)), np.ones(2 * m), np.ones(len(low)), -np.ones(len(low))]
            most = np.r_[np.zeros(count), np.ones(m), np.zeros(len(low))]
        self._most = most
        self._fixed = coo_array((values, (rows, columns)), shape=(len(most), len(self._cost))).tocsr()

    def price(self, dropped: tuple[int, ...]) -> tuple[float, ...]:
        """Returns what a set of arcs costs; the less the better."""
        lost = int((~_reached(self._component, dropped)).sum()) if self._nodes else 0
        return len(dropped), lost, float(self._component.lots[list(dropped)].sum())

    def add(self, cycles: dict[int, list[int]], value: FloatArray) -> bool:
        """Adds the cycles that a solution leaves; returns whether there are any."""
        left = {tuple(sorted(cycle)) for cycle in cycles.values() if value[cycle].sum() < 1 - 1e-3}
        new = [cycle for cycle in sorted(left) if cycle not in self._cycles]
        self._cycles.update(dict.fromkeys(new))
        return bool(new)

    def solve(self, *, whole: bool) -> tuple[FloatArray | None, float]:
        """Returns the share of each arc that goes, None beyond the limits, and how many arcs have to go at least."""
        from scipy.optimize import LinearConstraint, milp
        from scipy.sparse import csr_array

        lengths = [len(cycle) for cycle in self._cycles]
        indices = np.fromiter(itertools.chain.from_iterable(self._cycles), dtype=np.int64, count=sum(lengths))
        hit = csr_array(
            (np.ones(len(indices)), indices, np.r_[0, np.cumsum(lengths)]), shape=(len(lengths), len(self._cost))
        )
        constraints = [LinearConstraint(hit, lb=1)]
        if len(self._most):
            constraints.append(LinearConstraint(self._fixed, ub=self._most))
        found: Any = milp(
            self._cost,
            constraints=constraints,
            integrality=np.r_[np.full(self._arcs, float(whole)), np.zeros(len(self._cost) - self._arcs)],
            bounds=(0, 1),
            options={"mip_rel_gap": 1e-9, "node_limit": _SOLVER_NODES},
        )
        bound = getattr(found, "mip_dual_bound", None)
        if not whole and found.status == 0:
            bound = found.fun
        solved = found.status == 0 and found.x is not None
        offset = _LOST if self._nodes else 0.0
        number = bound / _SCALE + offset - self._slack if bound is not None and math.isfinite(bound) else 0.0
        return (found.x[: self._arcs] if solved else None), number


def _shortest_cycles(component: Component, arcs: Iterable[int], weight: FloatArray) -> dict[int, list[int]]:
    """Returns a shortest cycle through each of some arcs that are on one, as arcs in their order from that arc on.

    Args:
        component: The component.
        arcs: The arcs.
        weight: The length of each arc; infinite for those that are gone. A cycle's first arc may be gone.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    parent, child, n = component.parent, component.child, len(component)
    there = np.flatnonzero(np.isfinite(weight))
    graph = csr_array((weight[there], (parent[there], child[there])), shape=(n, n))
    number = dict(zip(zip(parent[there].tolist(), child[there].tolist(), strict=True), there.tolist(), strict=True))
    by_start: dict[int, list[int]] = {}
    for arc in arcs:
        by_start.setdefault(int(child[arc]), []).append(arc)
    starts = sorted(by_start)
    cycles: dict[int, list[int]] = {}
    for low in range(0, len(starts), _STARTS):
        some = starts[low : low + _STARTS]
        _, before = dijkstra(graph, indices=some, return_predecessors=True)
        for start, came in zip(some, before, strict=True):
            for arc in by_start[start]:
                node, way = int(parent[arc]), []
                while node != start and came[node] >= 0:
                    way.append(number[int(came[node]), node])
                    node = int(came[node])
                if node == start:
                    cycles[arc] = [arc, *reversed(way)]
    return cycles


def _rounded(component: Component, value: FloatArray, *, lose: bool) -> list[tuple[int, ...]]:
    """Returns sets of arcs that break every cycle, near a solution that does not: those against an order of the nodes.

    The order grows from the entries. Next comes the node, of those behind a parent, into which the fewest arcs that the
    solution keeps come from nodes that are not placed yet.

    Args:
        component: The component.
        value: How far each arc goes, from 0 to 1.
        lose: Whether to try as well to place nodes that are behind no parent.
    """
    return [_against(component, value, free) for free in ([False, True] if lose else [False])]


def _against(component: Component, value: FloatArray, free: bool) -> tuple[int, ...]:
    n = len(component)
    weights = 1 - value + 1e-6 * component.lots
    waiting: list[float] = np.bincount(component.child, weights=weights, minlength=n).tolist()
    stays: list[float] = weights.tolist()
    out = _children(component, range(len(value)))
    position = [-1] * n
    heap = [(waiting[node], node) for node in range(n) if free or component.entries[node]]
    heapq.heapify(heap)
    for place in itertools.count():
        while heap and (position[heap[0][1]] >= 0 or heap[0][0] != waiting[heap[0][1]]):
            heapq.heappop(heap)
        if not heap:
            break
        node = heapq.heappop(heap)[1]
        position[node] = place
        for child, arc in out[node]:
            if position[child] < 0:
                waiting[child] -= stays[arc]
                heapq.heappush(heap, (waiting[child], child))
    at = np.array(position)
    backward = np.flatnonzero(at[component.parent] > at[component.child])
    # Arcs that close no cycle with what stays come back, one after the other.
    gone = set(backward.tolist())
    stay = np.setdiff1d(np.arange(len(value)), backward)
    below = [[node for node, _ in some] for some in _children(component, stay.tolist())]
    above: list[list[int]] = [[] for _ in range(n)]
    for parent, some in enumerate(below):
        for child in some:
            above[child].append(parent)
    for arc in sorted(gone, key=lambda arc: (value[arc] > 0.5, -component.lots[arc], arc)):
        if _take_back(below, above, position, int(component.parent[arc]), int(component.child[arc])):
            gone.discard(arc)
    return tuple(sorted(gone))


def _take_back(below: list[list[int]], above: list[list[int]], position: list[int], parent: int, child: int) -> bool:
    """Takes back an arc that closes no cycle, and reorders the nodes to fit it (Pearce and Kelly, 2007).

    Args:
        below: The children of each node by the arcs that stay.
        above: Its parents.
        position: The place of each node in an order in which the arcs that stay run forward.
        parent: Where the arc starts.
        child: Where it ends.

    Returns:
        Whether it was taken back.
    """
    low, high = position[child], position[parent]
    ahead, behind = {child}, {parent}
    stack = [child] if low < high else []
    while stack:
        for node in below[stack.pop()]:
            if node == parent:
                return False
            if node not in ahead and position[node] < high:
                ahead.add(node)
                stack.append(node)
    if low < high:
        stack = [parent]
        while stack:
            for node in above[stack.pop()]:
                if node not in behind and position[node] > low:
                    behind.add(node)
                    stack.append(node)
        nodes = sorted(behind, key=position.__getitem__) + sorted(ahead, key=position.__getitem__)
        for node, place in zip(nodes, sorted(position[node] for node in nodes), strict=True):
            position[node] = place
    below[parent].append(child)
    above[child].append(parent)
    return True


def _children(component: Component, arcs: Iterable[int]) -> list[list[tuple[int, int]]]:
    """Returns for each node its children by some arcs, and the numbers of these."""
    table: list[list[tuple[int, int]]] = [[] for _ in range(len(component))]
    parent, child = component.parent.tolist(), component.child.tolist()
    for arc in arcs:
        table[parent[arc]].append((child[arc], arc))
    return table


def _reached(component: Component, dropped: tuple[int, ...]) -> BoolArray:
    """Returns which nodes the entries reach once some arcs are dropped."""
    from taxtune.taxonomy.building.arcs import Follows, reached

    keep = np.ones(len(component.parent), dtype=bool)
    keep[list(dropped)] = False
    follows = Follows.of(component.parent, component.child, len(component), keep)
    return reached(follows, np.flatnonzero(component.entries))
