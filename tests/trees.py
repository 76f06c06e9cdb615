"""Random trees for property tests."""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st

from taxtune.taxonomy import Taxonomy

__all__ = ["Case", "ancestor_sets", "outlined", "tree_and_nodes", "trees"]

#: A tree and some equally long lists of its nodes.
Case = tuple[Taxonomy, list[list[int]]]


def ancestor_sets(tree):
    """Returns the ancestors of each node, itself included, as plain sets."""
    return [set(tree.ancestors(node).tolist()) for node in range(len(tree))]


def outlined(*lines):
    """Returns the tree of lines such as "bird: robin, duck = Anas", a parent and its children with their aliases.

    Nodes are numbered as they are written.
    """
    labels = []
    parents = []
    aliases = []
    for line in lines:
        parent, _, children = line.partition(": ")
        if not labels:
            labels, parents, aliases = [parent], [-1], [()]
        for child in children.split(", "):
            label, *names = child.split(" = ")
            labels.append(label)
            parents.append(labels.index(parent))
            aliases.append(tuple(names))
    return Taxonomy(labels, parents, aliases=aliases)


@st.composite
def trees(draw, max_nodes=30):
    """Trees of 1 to `max_nodes` nodes; the same label may occur under different parents."""
    n = draw(st.integers(1, max_nodes))
    parents = [-1]
    labels = ["root"]
    born = Counter()
    for node in range(1, n):
        parent = draw(st.integers(0, node - 1))
        born[parent] += 1
        parents.append(parent)
        labels.append(f"n{born[parent]}")
    return Taxonomy(labels, parents)


@st.composite
def tree_and_nodes(draw, rows=2, min_size=1, max_size=12):
    """A tree and some equally long lists of its nodes."""
    tree = draw(trees())
    n = draw(st.integers(min_size, max_size))
    node = st.integers(0, len(tree) - 1)
    nodes = st.lists(node, min_size=n, max_size=n)
    return tree, [draw(nodes) for _ in range(rows)]
