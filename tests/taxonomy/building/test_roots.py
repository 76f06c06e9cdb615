from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from taxtune.taxonomy.building import roots
from taxtune.taxonomy.building.arcs import Follows, reached_each, reached_together

from .graphs import built


def many_roots(nodes: int, seed: int) -> list[tuple[int, int]]:
    """Arcs from lower to higher numbers; the first eighth have no parents."""
    lot = np.random.default_rng(seed)
    return [(int(lot.integers(0, i)), i) for i in range(nodes // 8, nodes) for _ in range(2)]


@pytest.mark.parametrize("nodes", [40, 6000])  # with more than 512 roots there are two batches
def test_both_ways_of_counting_agree_with_networkx(nodes: int) -> None:
    arcs = many_roots(nodes, 1)
    source, target = np.array(arcs).T
    weight = np.random.default_rng(2).integers(1, 5, nodes)
    starts = np.arange(nodes // 8)
    down = nx.DiGraph(arcs)
    down.add_nodes_from(range(nodes))
    some = starts[:: max(1, len(starts) // 20)].tolist()
    below = [[start, *nx.descendants(down, start)] for start in some]
    each = reached_each(Follows.of(source, target, nodes), some, nodes)
    assert each == [len(found) for found in below]
    limit = sorted(each)[len(each) // 2]
    assert reached_each(Follows.of(source, target, nodes), some, limit) == [n if n <= limit else -1 for n in each]
    together = reached_together(source, target, weight, starts)
    assert [together[start] for start in some] == [int(weight[found].sum()) for found in below]


@pytest.mark.parametrize("few", [0, 3, 10**9])
def test_the_root_does_not_depend_on_how_nodes_are_counted(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    pairs = [(f"n{child:03}", f"n{parent:03}") for parent, child in many_roots(300, 5)]
    pairs += [("n100", "n200"), ("n200", "n250"), ("n250", "n100"), ("x", "y"), ("y", "x")]
    monkeypatch.setattr(roots, "_FEW", few)
    tree = built(pairs)
    down = nx.DiGraph((parent, child) for child, parent in pairs)
    reach = {node: len(nx.descendants(down, node)) + 1 for node in sorted(down)}
    assert tree.ids[tree.root] == max(reach, key=lambda node: reach[node])
    assert tree.best_root is not None
    assert tree.best_root.candidates == sum(down.in_degree(node) == 0 for node in down) + 1
    tops = sorted((reach[node] for node in down if down.in_degree(node) == 0), reverse=True)
    assert tree.best_root.runner_up == tops[1]
