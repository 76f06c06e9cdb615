"""Breaking the cycles of a graph by dropping the fewest edges: a minimum feedback arc set, by integer programming.

Cycles lie within strongly connected components, and each component is a problem of its own: choose the fewest arcs that
hit every cycle. There are too many cycles to list, so the program starts with a few and each solution that leaves a
cycle adds it (Baharev, Schichl, Neumaier and Achterberg, 2021). Large components are not solved to whole numbers.
There, the relaxation gives a bound and arcs that probably go, and these an order of the nodes: the arcs that run
against an order always break every cycle. The best order found is then improved by moving nodes in it.

Limits are on steps and not on time: the same input gives the same result on every machine.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from taxtune.progress import track
from taxtune.taxonomy.building.arcs import BoolArray, components, draws
from taxtune.taxonomy.building.edges import IntArray
from taxtune.taxonomy.building.orders import Component, FloatArray, Order, first_orders, guided_orders

__all__ = ["EXACT_ARCS", "Broken", "Component", "Method", "break_cycles", "solve"]

#: In components with more arcs than this no whole numbers are asked for.
EXACT_ARCS = 400
_TOGETHER = 200  # arcs of small components that are solved side by side
_STEPS = 60
_SOLVER_NODES = 100  # of its search tree, a step
_PIVOTS = 170_000_000  # of the simplex method, times numbers in its table, a component
_SEARCHED = 50_000_000  # arcs times starts of searches for cycles, a component
_STARTS = 256
_KICKS, _KICKS_AN_ARC = 40_000, 30
_ROUNDS, _ARCS_OF_ROUNDS, _IDLE_ROUNDS = 20, 60_000, 8

# What decides between sets of one size, and never for a larger set: all of it weighs less than an arc.
_LOST, _LOTS = 0.4, 0.1
# The solver takes values for the same that differ by less than a millionth.
_SCALE = 1000.0

Method = Literal["integer program", "local search"]


# A component, and the numbers of its arcs and of its nodes in the graph.
_Found = tuple[Component, list[int], list[int]]


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
    with track("breaking cycles", len(found)) as task:
        for some in _batches(found):
            for (component, arcs, nodes), (dropped, method, at_least) in zip(
                some, _solve_together([component for component, _, _ in some], lose=lose), strict=True
            ):
                stays = np.ones(len(arcs), dtype=bool)
                stays[list(dropped)] = False
                closed = _shortest_cycles(component, list(dropped), np.where(stays, 1.0, np.inf))
                results.append(
                    Broken(
                        nodes=len(component),
                        arcs=len(arcs),
                        dropped=tuple(arcs[i] for i in dropped),
                        # The cycle runs down from the dropped arc's child. Upward: the child, its lost parent, and on.
                        cycles=tuple(
                            tuple(nodes[component.child[arc]] for arc in (cycle[0], *reversed(cycle)))
                            for cycle in (closed[arc] for arc in dropped)
                        ),
                        method=method,
                        at_least=at_least,
                    )
                )
            task.advance(len(some))
    return results


def _batches(found: list[_Found]) -> Iterator[list[_Found]]:
    """Yields components that follow each other and are small enough together to be solved as one."""
    batch: list[_Found] = []
    for one in found:
        if batch and sum(len(arcs) for _, arcs, _ in (*batch, one)) > _TOGETHER:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _solve_together(components: Sequence[Component], *, lose: bool) -> list[tuple[tuple[int, ...], Method, int]]:
    """Solves components side by side in one program, or each on its own if that is not solved to the end."""
    if len(components) > 1:
        starts = np.cumsum([0, *(len(one) for one in components)])
        joint = Component(
            np.concatenate([one.parent + start for one, start in zip(components, starts, strict=False)]),
            np.concatenate([one.child + start for one, start in zip(components, starts, strict=False)]),
            np.concatenate([one.lots for one in components]),
            np.concatenate([one.entries for one in components]),
        )
        dropped, method, _ = solve(joint, lose=lose, search=False)
        if method == "integer program":
            cuts = np.cumsum([0, *(len(one.parent) for one in components)]).tolist()
            parts = [tuple(arc - low for arc in dropped if low <= arc < high) for low, high in itertools.pairwise(cuts)]
            return [(part, method, len(part)) for part in parts]
    return [solve(one, lose=lose) for one in components]


def _cyclic_components(
    source: IntArray, target: IntArray, keep: BoolArray, ids: Sequence[str], seed: int, entries: BoolArray
) -> list[_Found]:
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


def solve(component: Component, *, lose: bool = False, search: bool = True) -> tuple[tuple[int, ...], Method, int]:
    """Returns the numbers of the arcs to drop from a component, how they were found, and how few it could be at best.

    Args:
        component: The component.
        lose: Whether nodes may be cut off from the entries where that takes fewer arcs; of sets of one size one that
            cuts off the fewest goes.
        search: Whether to search on where the program is not solved to the end.
    """
    m = len(component.parent)
    program = _Program(component, lose=lose)
    value, whole, at_least = np.zeros(m), m <= EXACT_ARCS, 1
    starts = [_restored(order) for order in first_orders(component, lose=lose)]
    guided, pivots, searched = min(starts, key=program.price_of), 0, 0
    for _ in range(_STEPS):
        # Whatever breaks all cycles has an arc of each: it is enough to look for cycles through these arcs.
        through = guided.dropped()
        cut = max(1, (_SEARCHED - searched) // m)
        searched += m * len(through)
        if not program.add(_shortest_cycles(component, through[:cut], value + 1e-7), value):
            if len(through) <= cut and np.abs(value - np.rint(value)).max() < 1e-6:
                best = tuple(np.flatnonzero(value > 0.5).tolist())
                return best, "integer program", len(best)
            break
        found, bound, work = program.solve(whole=whole, pivots=_PIVOTS - pivots)
        at_least, pivots = max(at_least, math.ceil(bound - 1e-6)), pivots + work
        if found is None:
            break
        value = np.rint(found) if whole else found.clip(0, 1)
        near = [_restored(order) for order in guided_orders(component, value, lose=lose)]
        guided = min(guided, *near, key=program.price_of)
        if pivots >= _PIVOTS or searched >= _SEARCHED:
            break
    if not search:
        return guided.dropped(), "local search", at_least
    return _searched(component, [guided, *(order for order in starts if order is not guided)], program, at_least)


def _searched(
    component: Component, orders: list[Order], program: _Program, at_least: int
) -> tuple[tuple[int, ...], Method, int]:
    """Returns the best that searches find: a few rounds from each order, the others from the best one alone."""
    lot = random.Random(int(component.lots.sum() * 2**32))
    kicks = min(_KICKS_AN_ARC * len(component.parent), _KICKS) // _ROUNDS
    rounds, idle = max(2, min(_ROUNDS, _ARCS_OF_ROUNDS // len(component.parent))), 0
    best = min((order.dropped() for order in orders), key=program.price)
    for number in range(rounds):
        before = program.price(best)[:2]
        for place, order in enumerate(orders):
            if program.price(best)[:2] == (at_least, 0):
                return best, "local search", at_least
            order.search(kicks, lot)
            order.restore()
            best = min(best, order.dropped(), key=program.price)
            # Another order that fits what stays: from there, other moves are open.
            gone = np.zeros(len(component.parent))
            gone[list(order.dropped())] = 1
            orders[place] = guided_orders(component, gone, lose=program.lose)[-1]
        if number == rounds // 10:
            orders = [min(orders, key=program.price_of)]
        idle = idle + 1 if program.price(best)[:2] == before else 0
        if idle == _IDLE_ROUNDS:
            break
    return best, "local search", at_least


def _restored(order: Order) -> Order:
    order.settle()
    order.restore()
    return order


class _Program:
    """The integer program of a component: a variable an arc, 1 if it goes; a row a cycle, of whose arcs one goes.

    Where nodes may be lost there is also a variable a node, 1 if it is reached, and one an arc, 1 if it stays and its
    parent is reached.
    """

    def __init__(self, component: Component, *, lose: bool) -> None:
        from scipy.sparse import coo_array

        self._component = component
        n, m = len(component), len(component.parent)
        self.lose = lose
        self._arcs, self._nodes = m, n if lose else 0
        # Lots weigh less than a node that is lost, and lost nodes less than an arc: in each component, where there are
        # several.
        of_node, of_arc, count = component.sizes()
        self._offset = (_LOST if lose else 0.0) * count - (_LOTS + (_LOST if lose else 0.0)) * count
        lots = _LOTS / of_arc / (of_node[component.child] if lose else 1)
        self._cost = np.r_[1.0 + component.lots * lots, -_LOST / of_node, np.zeros(m)] * _SCALE
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

    def price_of(self, order: Order) -> tuple[float, ...]:
        """Returns what the arcs against an order cost."""
        return self.price(order.dropped())

    def add(self, cycles: dict[int, list[int]], value: FloatArray) -> bool:
        """Adds the cycles that a solution leaves; returns whether there are any."""
        left = {tuple(sorted(cycle)) for cycle in cycles.values() if value[cycle].sum() < 1 - 1e-3}
        new = [cycle for cycle in sorted(left) if cycle not in self._cycles]
        self._cycles.update(dict.fromkeys(new))
        return bool(new)

    def solve(self, *, whole: bool, pivots: int) -> tuple[FloatArray | None, float, int]:
        """Solves the program as it stands.

        Args:
            whole: Whether arcs go or stay as a whole.
            pivots: How many steps of the simplex method, times numbers in its table, are left for the relaxation.

        Returns:
            The share of each arc that goes, None beyond the limits; how many arcs have to go at least; the steps.
        """
        from scipy.optimize import LinearConstraint, linprog, milp
        from scipy.sparse import csr_array, vstack

        lengths = [len(cycle) for cycle in self._cycles]
        indices = np.fromiter(itertools.chain.from_iterable(self._cycles), dtype=np.int64, count=sum(lengths))
        hit = csr_array(
            (-np.ones(len(indices)), indices, np.r_[0, np.cumsum(lengths)]), shape=(len(lengths), len(self._cost))
        )
        rows = vstack([hit, self._fixed], format="csr")
        most = np.r_[-np.ones(len(lengths)), self._most]
        found: Any
        if whole:
            found = milp(
                self._cost,
                constraints=LinearConstraint(rows, ub=most),
                integrality=np.r_[np.ones(self._arcs), np.zeros(len(self._cost) - self._arcs)],
                bounds=(0, 1),
                options={"mip_rel_gap": 1e-9, "node_limit": _SOLVER_NODES},
            )
            bound, work = getattr(found, "mip_dual_bound", None), 0
        else:
            limit = {"maxiter": max(1, pivots // rows.nnz)}
            found = linprog(self._cost, rows, most, bounds=(0, 1), method="highs-ds", options=limit)
            bound, work = (found.fun if found.status == 0 else None), found.nit * rows.nnz
        solved = found.status == 0 and found.x is not None
        number = bound / _SCALE + self._offset if bound is not None and math.isfinite(bound) else 0.0
        return (found.x[: self._arcs] if solved else None), number, work


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


def _reached(component: Component, dropped: tuple[int, ...]) -> BoolArray:
    """Returns which nodes the entries reach once some arcs are dropped."""
    from taxtune.taxonomy.building.arcs import Follows, reached

    keep = np.ones(len(component.parent), dtype=bool)
    keep[list(dropped)] = False
    follows = Follows.of(component.parent, component.child, len(component), keep)
    return reached(follows, np.flatnonzero(component.entries))
