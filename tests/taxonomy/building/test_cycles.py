from __future__ import annotations

import itertools
import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from taxtune.taxonomy.building import EdgeFate, cycles
from taxtune.taxonomy.building.cycles import EXACT_ARCS, Component, break_cycles, solve

from .graphs import built, component, components, kept_edges


def lost(knot: Component, dropped: tuple[int, ...]) -> int | None:
    """How many nodes no entry reaches once some arcs are dropped, told by networkx; None if a cycle is left."""
    ends = zip(knot.parent.tolist(), knot.child.tolist(), strict=True)
    left = nx.DiGraph([ends for number, ends in enumerate(ends) if number not in dropped])
    if not nx.is_directed_acyclic_graph(left):
        return None
    left.add_edges_from((-1, node) for node in np.flatnonzero(knot.entries).tolist())
    return len(knot) - len(nx.descendants(left, -1))


def breaks(knot: Component, dropped: tuple[int, ...]) -> bool:
    """Whether no cycle is left and every node can still be reached."""
    return lost(knot, dropped) == 0


def smallest(knot: Component, *, lose: bool = False) -> list[tuple[int, ...]]:
    """All of the smallest sets that break a component, found by trying all."""
    for size in range(len(knot.parent) + 1):
        sets = {d: lost(knot, d) for d in itertools.combinations(range(len(knot.parent)), size)}
        fit = [d for d, count in sets.items() if count == 0 or (lose and count is not None)]
        if fit:
            fewest = min(sets[d] or 0 for d in fit)
            return [d for d in fit if sets[d] == fewest]
    raise AssertionError


@pytest.mark.parametrize("lose", [False, True])
@settings(max_examples=60, deadline=None)
@given(components(max_nodes=5))
def test_the_fewest_arcs_go_and_of_those_the_ones_that_lose_the_fewest_nodes_by_lot(
    lose: bool, knot: Component
) -> None:
    best = smallest(knot, lose=lose)
    dropped, method, at_least = solve(knot, lose=lose)
    assert dropped in best
    assert (method, at_least) == ("integer program", len(dropped))
    sums = [float(knot.lots[list(some)].sum()) for some in best]
    assert float(knot.lots[list(dropped)].sum()) == pytest.approx(min(sums), abs=1e-4)


@pytest.mark.parametrize("lose", [False, True])
@settings(max_examples=40, deadline=None)
@given(components(max_nodes=7))
def test_local_search_breaks_every_cycle_and_its_bound_is_one(lose: bool, knot: Component) -> None:
    best, _, _ = solve(knot, lose=lose)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycles, "EXACT_ARCS", 0)
        dropped, _, at_least = solve(knot, lose=lose)
        patch.setattr(cycles, "_STEPS", 0)  # no program at all: as for components that are too large for it
        plain, method, bound = solve(knot, lose=lose)
    for found in (dropped, plain):
        assert lost(knot, found) is not None if lose else breaks(knot, found)
    assert at_least <= len(best) <= len(dropped)
    assert (method, bound) == ("local search", 1)


def against(knot: Component, order: list[int]) -> list[int]:
    """The arcs that run against an order."""
    place = {node: number for number, node in enumerate(order)}
    ends = zip(knot.parent.tolist(), knot.child.tolist(), strict=True)
    return [number for number, (parent, child) in enumerate(ends) if place[parent] > place[child]]


def greedy(knot: Component) -> list[int]:
    """The order of Eades, Lin and Smyth by networkx: sources and sinks first, then the largest difference."""
    left = nx.DiGraph(zip(knot.parent.tolist(), knot.child.tolist(), strict=True))
    front: list[int] = []
    back: list[int] = []
    while left:
        above, below = dict(left.in_degree()), dict(left.out_degree())
        node = min(left, key=lambda node: (bool(above[node] and below[node]), above[node] - below[node], node))
        (back if above[node] and not below[node] else front).append(node)
        left.remove_node(node)
    return front + back[::-1]


@pytest.mark.parametrize("limits", [{}, {"EXACT_ARCS": 0}, {"EXACT_ARCS": 0, "_STEPS": 0, "_KICKS": 0}])
@pytest.mark.parametrize("lose", [False, True])
@settings(max_examples=15, deadline=None)
@given(components(max_nodes=8))
def test_no_dropped_arc_could_come_back_and_no_more_go_than_against_the_greedy_order(
    lose: bool, limits: dict[str, int], knot: Component
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(cycles, name, value)
        dropped, _, _ = solve(knot, lose=lose)
    for arc in dropped:
        assert lost(knot, tuple(other for other in dropped if other != arc)) is None
    if lose or knot.entries.all():
        assert len(dropped) <= len(against(knot, greedy(knot)))


@pytest.mark.parametrize(("lose", "limits"), [(True, {}), (True, {"_STEPS": 0, "_KICKS": 0}), (False, {})])
def test_a_large_component_drops_nothing_needlessly(
    lose: bool, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(cycles, name, value)
    knot = ladder(150, seed=2, wrong=75)
    dropped, _, _ = solve(knot, lose=lose)
    assert all(lost(knot, tuple(other for other in dropped if other != arc)) is None for arc in dropped)
    if lose:
        assert len(dropped) <= len(against(knot, greedy(knot)))


def ladder(nodes: int, seed: int, wrong: int) -> Component:
    """A ring with arcs mostly one way."""
    rng = random.Random(seed)
    arcs = {(i, i + 1) for i in range(nodes - 1)} | {(nodes - 1, 0)}
    while len(arcs) < 3 * nodes:
        low, high = sorted(rng.sample(range(nodes), 2))
        arcs.add((low, high) if len(arcs) < 3 * nodes - wrong else (high, low))
    return component(sorted(arcs), [rng.random() for _ in arcs], [True] + [False] * (nodes - 1))


def test_a_component_of_forty_nodes_is_broken_exactly_as_an_independent_program_does() -> None:
    from scipy.optimize import LinearConstraint, milp

    knot = ladder(40, seed=3, wrong=12)
    dropped, _, at_least = solve(knot)
    # Independently: positions p with p[child] >= p[parent] + 1 - n·dropped, and a kept parent for each non-entry.
    n, m = len(knot), len(knot.parent)
    order, keep = np.zeros((m, m + n)), []
    for number, (parent, child) in enumerate(zip(knot.parent, knot.child, strict=True)):
        order[number, [number, m + parent, m + child]] = n, -1, 1
    for node in range(1, n):
        into = np.zeros(m + n)
        into[np.flatnonzero(knot.child == node)] = 1
        keep.append(into)
    most = np.array([into.sum() - 1 for into in keep])
    found = milp(
        np.r_[np.ones(m), np.zeros(n)],
        constraints=[LinearConstraint(order, lb=1), LinearConstraint(np.array(keep), ub=most)],
        integrality=np.r_[np.ones(m), np.zeros(n)],
        bounds=(np.zeros(m + n), np.r_[np.ones(m), np.full(n, n - 1)]),
    )
    assert breaks(knot, dropped)
    assert len(dropped) == at_least == round(found.fun)


def test_the_solver_does_not_stop_at_more_arcs_than_need_be() -> None:
    # A tolerance relative to the solution would span a whole arc here.
    text = "11>0 0>1 5>1 1>2 3>2 7>2 2>3 7>3 11>3 3>4 7>4 11>4 3>5 4>5 5>6 6>7 7>8 10>8 8>9 7>10 9>10 10>11"
    arcs = [(int(parent), int(child)) for parent, _, child in (arc.partition(">") for arc in text.split())]
    lots = [25, 33, 97, 29, 46, 64, 69, 12, 56, 12, 6, 82, 85, 88, 7, 58, 81, 81, 96, 23, 7, 20]
    knot = component(arcs, [lot / 100 for lot in lots], [node in (0, 3) for node in range(12)])
    dropped, method, at_least = solve(knot)
    assert breaks(knot, dropped)
    assert (len(dropped), at_least, method) == (5, 5, "integer program")


def test_a_large_component_is_broken_well_and_says_that_it_is_not_proven() -> None:
    knot = ladder(400, seed=1, wrong=60)
    assert len(knot.parent) > EXACT_ARCS
    ids = [f"{node:04}" for node in range(400)]
    keep = np.ones(len(knot.parent), dtype=bool)
    (result,) = break_cycles(knot.parent, knot.child, keep, ids, 0, entries=knot.entries)
    assert result.method == "local search"
    assert breaks(knot, result.dropped)
    # The arcs that run backward are at most those made so, and the bound is no poor one.
    assert 45 <= result.at_least <= len(result.dropped) <= 55
    assert result.proven == (len(result.dropped) == result.at_least)
    for arc, cycle in zip(result.dropped, result.cycles, strict=True):
        assert (cycle[0], cycle[1], cycle[-1]) == (knot.child[arc], knot.parent[arc], knot.child[arc])
        assert len(set(cycle)) == len(cycle) - 1


def test_the_edge_is_dropped_whose_loss_keeps_every_node_within_reach() -> None:
    # Either edge breaks the cycle; without b<a, though, nothing leads to b.
    for seed in range(5):
        tree = built("a<root b<a a<b", seed=seed)
        assert kept_edges(tree, EdgeFate.CYCLE) == {("a", "b")}
        assert len(tree.order) == 3


def test_fewest_edges_may_cut_nodes_off_and_losing_no_node_may_take_more() -> None:
    # The cycles a-b-c and a-b-d share the edge b<a; c and d hang below b alone.
    pairs = "a<root b<a c<b d<b a<c a<d"
    safe = built(pairs)
    assert kept_edges(safe, EdgeFate.CYCLE) == {("a", "c"), ("a", "d")}
    assert len(safe.order) == 5
    few = built(pairs, cycles="fewest-edges")
    assert kept_edges(few, EdgeFate.CYCLE) == {("b", "a")}
    assert [few.ids[node] for node in few.order.tolist()] == ["root", "a"]


def test_the_fewest_edges_cut_off_no_node_that_they_need_not() -> None:
    # Either edge of each ring breaks it; the one that leads into it from the root is not the one to drop.
    pairs = [(f"a{i}", "root") for i in range(20)]
    pairs += [edge for i in range(20) for edge in ((f"b{i}", f"a{i}"), (f"a{i}", f"b{i}"))]
    tree = built(pairs, cycles="fewest-edges")
    assert kept_edges(tree, EdgeFate.CYCLE) == {(f"a{i}", f"b{i}") for i in range(20)}
    assert len(tree.order) == 41
    # A ring too long for the method of sets of nodes: any of its edges would do.
    ring = [("n00", "root"), *((f"n{i + 1:02}", f"n{i:02}") for i in range(29)), ("n00", "n29")]
    for seed in range(5):
        assert len(built(ring, cycles="fewest-edges", root="root", seed=seed).order) == 31


def test_each_lost_edge_comes_with_the_cycle_it_was_on() -> None:
    tree = built("a<root b<a c<b d<c a<d x<root y<x x<y")
    cycles = [[tree.ids[node] for node in cycle] for knot in tree.broken for cycle in knot.cycles]
    assert cycles == [["a", "d", "c", "b", "a"], ["x", "y", "x"]]
    assert [(knot.nodes, knot.arcs, knot.proven) for knot in tree.broken] == [(4, 4, True), (2, 2, True)]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ties_between_edges_depend_on_the_seed_alone(seed: int) -> None:
    pairs = [(f"{x}{i}", y) for i in range(30) for x, y in (("a", "root"), ("b", "root"))]
    pairs += [edge for i in range(30) for edge in ((f"a{i}", f"b{i}"), (f"b{i}", f"a{i}"))]
    first = kept_edges(built(pairs, seed=seed), EdgeFate.CYCLE)
    random.Random(seed).shuffle(pairs)
    assert kept_edges(built(pairs, seed=seed), EdgeFate.CYCLE) == first
    assert kept_edges(built(pairs, seed=seed + 100), EdgeFate.CYCLE) != first
    # Thirty coins: not all on one side.
    assert 5 < sum(child.startswith("a") for child, _ in first) < 25


def test_the_cycles_of_a_graph_without_roots_are_broken_under_a_new_root() -> None:
    tree = built("a<b b<c c<a x<y y<x", join_roots="everything")
    assert len(kept_edges(tree, EdgeFate.CYCLE)) == 2
    assert sorted(tree.ids[node] for node in tree.order.tolist()) == ["a", "b", "c", "everything", "x", "y"]


def test_a_graph_without_roots_hangs_from_a_node_of_its_largest_cycle() -> None:
    tree = built("a<b b<c c<a x<y y<x")
    assert len(tree.order) == 3
    assert tree.ids[tree.root] == "a"
    assert kept_edges(tree, EdgeFate.INTO_THE_ROOT) == {("a", "b")}
