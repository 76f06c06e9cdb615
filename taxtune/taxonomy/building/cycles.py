"""Breaking the cycles of a graph, one knot after the other, and naming for each lost arc a cycle that it was on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from taxtune.taxonomy.building.arcs import BoolArray, components, draws
from taxtune.taxonomy.building.edges import IntArray
from taxtune.taxonomy.building.exact import SUBSET_NODES, by_cycles, by_subsets
from taxtune.taxonomy.building.heuristic import by_order, disjoint_cycles, losing_fewer
from taxtune.taxonomy.building.knot import Budget, Knot, shortest_way

__all__ = ["EXACT_ARCS", "Broken", "Method", "break_cycles"]

#: Knots with more arcs than this are not tried exactly, unless they have few nodes.
EXACT_ARCS = 400
_BUDGET = 200_000_000  # arcs looked at by searches
_SOLVER_BUDGET = 20_000  # nodes of the solver's search trees, all knots together

Method = Literal["subsets", "integer program", "heuristic"]


@dataclass(frozen=True, slots=True)
class Broken:
    """How the cycles of one knot were broken.

    Attributes:
        nodes: How many nodes are each other's descendants in it.
        arcs: How many arcs it has.
        dropped: The arcs that go, by their positions in the graph.
        cycles: For each of them a shortest cycle that it closes with the arcs that stay, as node numbers from child to
            parent, the first repeated at the end; empty where the search was given up.
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
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Broken]:
    """Finds the fewest arcs to drop in each strongly connected component, exactly where it is not too large.

    Args:
        source: The parent of each arc.
        target: Its child.
        keep: Which arcs there are.
        ids: The ids of the nodes, which the lots for ties are drawn by.
        seed: The seed of the lots.
        entries: Which nodes need no parent; a node that has one outside its component needs none inside either.
        lose: Whether the fewest arcs go even if that cuts nodes off from the root; of sets of one size one that cuts
            off few goes. Otherwise the fewest go under which none is cut off.
        on_progress: Called with how many components are done and how many there are.

    Returns:
        One result a component, in the order of their first nodes.
    """
    results = []
    knots = _knots(source, target, keep, ids, seed, entries)
    budget, solver = Budget(_BUDGET), Budget(_SOLVER_BUDGET)
    for knot, arcs, nodes in knots:
        dropped, method, at_least = _solve(knot, budget, solver, lose=lose)
        results.append(
            Broken(
                nodes=len(knot),
                arcs=len(arcs),
                dropped=tuple(arcs[i] for i in dropped),
                cycles=_cycles(knot, dropped, nodes, budget),
                method=method,
                at_least=at_least,
            )
        )
        if on_progress is not None:
            on_progress(len(results), len(knots))
    return results


def _knots(
    source: IntArray, target: IntArray, keep: BoolArray, ids: Sequence[str], seed: int, entries: BoolArray
) -> list[tuple[Knot, list[int], list[int]]]:
    """Returns each knot with its arcs' and its nodes' numbers in the graph."""
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
    knots = []
    for low, high in itertools.pairwise(cuts):
        ends = np.stack([source[arcs[low:high]], target[arcs[low:high]]], axis=1)
        members, local = np.unique(ends, return_inverse=True)
        pairs = [(int(p), int(c)) for p, c in local.reshape(-1, 2)]
        knot = Knot(pairs, lots[low:high].tolist(), free[members].tolist())
        knots.append((knot, arcs[low:high].tolist(), members.tolist()))
    return knots


def _solve(knot: Knot, budget: Budget, solver: Budget, *, lose: bool) -> tuple[tuple[int, ...], Method, int]:
    if len(knot) <= SUBSET_NODES:
        solution = by_subsets(knot, lose=lose)
        assert solution.dropped is not None  # the limits are for the other method
        return solution.dropped, "subsets", solution.at_least
    safe = _solve_large(knot, budget, solver)
    if not lose:
        return safe
    plain, method, at_least = _solve_large(replace(knot, entries=[True] * len(knot)), budget, solver)
    if len(safe[0]) <= len(plain):
        return safe[0], safe[1], at_least  # nothing need be lost
    return losing_fewer(knot, plain, budget), method, at_least


def _solve_large(knot: Knot, budget: Budget, solver: Budget) -> tuple[tuple[int, ...], Method, int]:
    dropped = by_order(knot, budget)
    at_least = disjoint_cycles(knot, dropped, budget)
    if at_least == len(dropped) or len(knot.arcs) > EXACT_ARCS or solver.spent:
        return dropped, "heuristic", at_least
    solution = by_cycles(knot, len(dropped), solver)
    if solution.dropped is not None:
        return solution.dropped, "integer program", solution.at_least
    return dropped, "heuristic", max(at_least, solution.at_least)


def _cycles(knot: Knot, dropped: tuple[int, ...], nodes: list[int], budget: Budget) -> tuple[tuple[int, ...], ...]:
    """Returns for each lost arc the nodes of a shortest cycle that it closes with the arcs that stay."""
    out = knot.out(dropped)
    cycles: list[tuple[int, ...]] = []
    for arc in dropped:
        parent, child = knot.arcs[arc]
        way = shortest_way(out, child, parent, budget=budget)
        if way is None:
            cycles.append(())
            continue
        # The way runs from the child down to the parent. Upward, the cycle is the child, its lost parent, and on.
        downward = [child, *(knot.arcs[step][1] for step in way)]
        cycles.append(tuple(nodes[node] for node in (child, *reversed(downward))))
    return tuple(cycles)
