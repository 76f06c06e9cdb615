"""The fewest arcs whose loss breaks every cycle of a knot: a minimum feedback arc set, proven minimal.

Two methods. Up to ten nodes, dynamic programming over sets of nodes (Held and Karp's scheme for orders: the arcs that
run against an order are what has to go). Beyond that, integer programming: choose the fewest arcs that hit every cycle.
There are too many cycles to list, so the program starts with the shortest cycle through each arc, and each solution
that leaves a cycle adds that cycle (Baharev, Schichl, Neumaier and Achterberg, 2021). The solver works under limits on
steps, not on time, so that the same input gives the same result on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from taxtune.taxonomy.building.knot import Budget, Knot, shortest_way

__all__ = ["SUBSET_NODES", "Solution", "by_cycles", "by_subsets"]

#: The most nodes for which all sets of nodes are gone through.
SUBSET_NODES = 10

_ONE = 1 << 60
_MAX_ROUNDS = 60
_MAX_SOLVER_NODES = 100
_LOTS = 0.1


@dataclass(frozen=True, slots=True)
class Solution:
    """Arcs to drop.

    Attributes:
        dropped: Their numbers, ascending; None where no solution was found within the limits.
        at_least: So many arcs have to go in any case.
    """

    dropped: tuple[int, ...] | None
    at_least: int


def by_subsets(knot: Knot, *, lose: bool = False) -> Solution:
    """Returns the fewest arcs to drop from a knot of at most `SUBSET_NODES` nodes.

    The best order of each set of nodes is the best order of a set with one node less, and that node last. A node that
    is no entry can only be put behind one of its parents.

    Args:
        knot: The knot.
        lose: Whether nodes may be cut off from the entries where that takes fewer arcs; of sets of one size one that
            cuts off the fewest goes. The best orders are then told apart by the nodes that they reach, too.
    """
    n = len(knot)
    # Costs as whole numbers: the count in front, the lots behind. 2³² arcs would be needed to confuse the two.
    against: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    parents = [0] * n
    for (parent, child), lot in zip(knot.arcs, knot.lots, strict=True):
        against[parent].append((1 << child, _ONE + int(lot * 2**27)))
        parents[child] |= 1 << parent
    # By the nodes that are placed and those of them that are reached: the cost, the last node and the state before.
    start = (0, 0)
    layer: dict[tuple[int, int], int] = {start: 0}
    came: dict[tuple[int, int], tuple[int, tuple[int, int]]] = {}
    for _ in range(n):
        following: dict[tuple[int, int], int] = {}
        for (placed, within), so_far in layer.items():
            for node in range(n):
                bit = 1 << node
                if placed & bit:
                    continue
                is_reached = knot.entries[node] or bool(parents[node] & within)
                if not (is_reached or lose):
                    continue
                cost = so_far + sum(price for child, price in against[node] if child & placed)
                state = (placed | bit, within | bit if is_reached else within)
                if state not in following or cost < following[state]:
                    following[state] = cost
                    came[state] = node, (placed, within)
        layer = following
    state = min(layer, key=lambda state: (layer[state] // _ONE, -state[1].bit_count(), layer[state]))
    position = [0] * n
    for place in range(n - 1, -1, -1):
        node, state = came[state]
        position[node] = place
    dropped = tuple(i for i, (parent, child) in enumerate(knot.arcs) if position[parent] > position[child])
    return Solution(dropped, len(dropped))


def by_cycles(knot: Knot, known: int, budget: Budget) -> Solution:
    """Returns the fewest arcs to drop from a knot, or a bound where the limits were met first.

    Args:
        knot: The knot.
        known: The number of arcs of a set that breaks all cycles, the fewer the faster.
        budget: How many nodes of its search tree the solver may still look at.
    """
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    m = len(knot.arcs)
    # Lots decide between sets of one size, and never for a larger set: all together they weigh a tenth of an arc.
    price = 1.0 + np.asarray(knot.lots) * (_LOTS / m)
    cycles: dict[frozenset[int], None] = dict.fromkeys(_cycles_through(knot, range(m), ()))
    keep_one = _parents_to_keep(knot)
    at_least = 1
    for _ in range(_MAX_ROUNDS):
        # No more than are known to do: the gap below is one of the solution that the solver stops with.
        constraints = [
            LinearConstraint(_matrix(list(cycles), m, csr_array), lb=1, ub=np.inf),
            LinearConstraint(np.ones((1, m)), lb=-np.inf, ub=known),
        ]
        if keep_one:
            most = np.array([len(arcs) - 1 for arcs in keep_one], dtype=float)
            constraints.append(LinearConstraint(_matrix(keep_one, m, csr_array), lb=-np.inf, ub=most))
        found = milp(
            price,
            constraints=constraints,
            integrality=np.ones(m),
            bounds=(0, 1),
            # A bound within less than one arc of the solution proves the number.
            options={
                "mip_rel_gap": (0.95 - _LOTS) / (known + _LOTS),
                "node_limit": min(budget.left, _MAX_SOLVER_NODES),
            },
        )
        bound = getattr(found, "mip_dual_bound", None)
        if bound is not None and math.isfinite(bound):
            at_least = max(at_least, math.ceil(bound - _LOTS - 1e-6))
        budget.left -= int(getattr(found, "mip_node_count", 0) or 0)
        if found.status != 0 or found.x is None or budget.spent:
            return Solution(None, at_least)
        dropped = np.flatnonzero(found.x > 0.5).tolist()
        left = _leftover(knot, dropped)
        if not left:
            return Solution(tuple(dropped), at_least)
        before = len(cycles)
        cycles.update(dict.fromkeys(_cycles_through(knot, left, dropped)))
        if len(cycles) == before:  # the solver's rounding let a listed cycle pass
            return Solution(None, at_least)
    return Solution(None, at_least)


def _cycles_through(knot: Knot, arcs: range | list[int], without: list[int] | tuple[int, ...]) -> list[frozenset[int]]:
    """Returns a shortest cycle through each of some arcs, as a set of arcs, in what is left of a knot."""
    out = knot.out(without)
    cycles = []
    for number in arcs:
        parent, child = knot.arcs[number]
        way = shortest_way(out, child, parent)
        if way is not None:
            cycles.append(frozenset((number, *way)))
    return cycles


def _leftover(knot: Knot, dropped: list[int]) -> list[int]:
    """Returns the arcs that still lie on a cycle once some are dropped."""
    from taxtune.taxonomy.building.arcs import components

    keep = np.ones(len(knot.arcs), dtype=bool)
    keep[dropped] = False
    ends = np.asarray(knot.arcs, dtype=np.int64)
    group = components(ends[keep, 0], ends[keep, 1], len(knot))
    return np.flatnonzero(keep & (group[ends[:, 0]] == group[ends[:, 1]])).tolist()


def _parents_to_keep(knot: Knot) -> list[frozenset[int]]:
    """Returns the arcs into each node that cannot be reached from outside: one of them has to stay."""
    into: list[list[int]] = [[] for _ in knot.entries]
    for number, (_, child) in enumerate(knot.arcs):
        into[child].append(number)
    return [frozenset(arcs) for arcs, entry in zip(into, knot.entries, strict=True) if not entry]


def _matrix(rows: list[frozenset[int]], columns: int, csr_array: type) -> object:
    lengths = [len(row) for row in rows]
    indices = np.fromiter((i for row in rows for i in sorted(row)), dtype=np.int64, count=sum(lengths))
    start = np.r_[0, np.cumsum(lengths)]
    return csr_array((np.ones(len(indices)), indices, start), shape=(len(rows), columns))
