"""The node that a tree hangs from: named, or the one from which most nodes are reached."""

from __future__ import annotations

import bisect
import difflib
import itertools
from dataclasses import dataclass

import numpy as np

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building.arcs import BoolArray, Follows, components, reached_each, reached_together
from taxtune.taxonomy.building.edges import Graph, IntArray, tidy

__all__ = ["BestRoot", "best_root", "find_node", "sources"]

_COMPARED = 20_000  # names looked at for a suggestion
_FEW = 20_000  # nodes that one root may reach to be counted on its own


@dataclass(frozen=True, slots=True)
class BestRoot:
    """The node from which most others are reached.

    Attributes:
        node: Its number.
        candidates: How many nodes without parents, or groups of nodes that only have each other, there are.
        runner_up: The number of nodes that the next best of them reaches; 0 if there is none.
    """

    node: int
    candidates: int
    runner_up: int


def find_node(graph: Graph, reference: str, what: str) -> int:
    """Returns the node that an id or a label refers to.

    Args:
        graph: The graph.
        reference: An id, else a label that one node only has; upper and lower case count unless no label is spelt so.
        what: What it is for, for messages, such as "--root".

    Raises:
        TaxonomyError: If there is no such node, or several.
    """
    reference = tidy(reference)
    place = bisect.bisect_left(graph.ids, reference)
    if place < len(graph) and graph.ids[place] == reference:
        return place
    found = [node for node, label in graph.labels.items() if label == reference]
    if not found:
        folded = reference.casefold()
        found = [node for node, label in graph.labels.items() if label.casefold() == folded]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(graph.ids[node] for node in sorted(found)[:10])
        raise TaxonomyError(
            f"{len(found)} nodes have this name: {shown}.", value=reference, remedy=f"Give the id to {what}."
        )
    names = itertools.islice(itertools.chain(graph.labels.values(), graph.ids), _COMPARED)
    near = difflib.get_close_matches(reference, list(names), n=3)
    raise TaxonomyError(
        f"{what} is neither an id nor a label of the graph.",
        value=reference,
        remedy=f"Did you mean {', '.join(map(repr, near))}?" if near else "Check its spelling and the files.",
    )


def sources(source: IntArray, target: IntArray, live: BoolArray, alive: BoolArray) -> tuple[IntArray, BoolArray]:
    """Returns the strongly connected component of each node, and which nodes are in one without an arc into it.

    Args:
        source: The parent of each arc.
        target: Its child.
        live: Which arcs there are.
        alive: Which nodes there are.
    """
    arcs = np.flatnonzero(live)
    group = components(source[arcs], target[arcs], len(alive))
    entered = np.zeros(int(group.max()) + 1, dtype=bool)
    crossing = arcs[group[source[arcs]] != group[target[arcs]]]
    entered[group[target[crossing]]] = True
    return group, alive & ~entered[group]


def best_root(source: IntArray, target: IntArray, live: BoolArray, alive: BoolArray) -> BestRoot:
    """Returns the node that reaches the most nodes; of equals the one with fewest parents, then the first id.

    Every node is below a node without parents, or below a group of nodes that are each other's descendants and have no
    other parents; one node of each such group is tried, that with fewest parents in it. How many nodes each reaches is
    counted, not estimated.

    Args:
        source: The parent of each arc.
        target: Its child.
        live: Which arcs there are.
        alive: Which nodes there are; one at least.
    """
    nodes = len(alive)
    group, top = sources(source, target, live, alive)
    parents = np.bincount(target[live], minlength=nodes)
    tried = np.flatnonzero(top)
    tried = tried[np.lexsort((tried, parents[tried], group[tried]))]
    tried = tried[np.r_[True, group[tried][1:] != group[tried][:-1]]]
    counts = reached_each(Follows.of(source, target, nodes, live), tried.tolist(), _FEW)
    many = [i for i, count in enumerate(counts) if count < 0]
    if many:
        # Those that reach much reach much in common: all at once, with each strongly connected component as one node.
        arcs = np.flatnonzero(live)
        arcs = arcs[group[source[arcs]] != group[target[arcs]]]
        size = np.bincount(group[alive], minlength=int(group.max()) + 1)
        found = reached_together(group[source[arcs]], group[target[arcs]], size, group[tried[many]])
        for i, count in zip(many, found, strict=True):
            counts[i] = count
    order = sorted(range(len(tried)), key=lambda i: (-counts[i], parents[tried[i]], tried[i]))
    return BestRoot(int(tried[order[0]]), len(tried), counts[order[1]] if len(order) > 1 else 0)
