"""Random trees for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from taxtune.taxonomy import Taxonomy

__all__ = ["Case", "ancestor_sets", "outlined", "tree_and_nodes", "trees"]

#: A tree and some equally long lists of its nodes.
Case = tuple[Taxonomy, list[list[int]]]


def ancestor_sets(tree: Taxonomy) -> list[set[int]]:
    """Returns the ancestors of each node, itself included, as plain sets."""
    return [set(tree.ancestors(node).tolist()) for node in range(len(tree))]


def outlined(*lines: str) -> Taxonomy:
    """Returns the tree of lines such as "bird: robin, duck = Anas", a parent and its children with their aliases.

    Nodes are numbered as they are written.
    """
    labels: list[str] = []
    parents: list[int] = []
    aliases: list[tuple[str, ...]] = []
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
def trees(draw: st.DrawFn, max_nodes: int = 30) -> Taxonomy:
    """Trees of 1 to `max_nodes` nodes; the same label may occur under different parents."""
    n = draw(st.integers(1, max_nodes))
    parents = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    born: dict[int, int] = {}
    labels = ["root"]
    for parent in parents[1:]:
        born[parent] = born.get(parent, 0) + 1
        labels.append(f"n{born[parent]}")
    return Taxonomy(labels, parents)


@st.composite
def tree_and_nodes(draw: st.DrawFn, rows: int = 2, min_size: int = 1, max_size: int = 12) -> Case:
    """A tree and some equally long lists of its nodes."""
    tree = draw(trees())
    n = draw(st.integers(min_size, max_size))
    node = st.integers(0, len(tree) - 1)
    return tree, [draw(st.lists(node, min_size=n, max_size=n)) for _ in range(rows)]
