"""A domain: the part of a taxonomy below one node, which becomes the root.

What the root is changes the metrics: on birds alone the answer "bird" shares one node with a
species, on all of life four, so that hP and hR of the same placement differ. A run that is
restricted to a domain is scored on the domain's tree, and its placements are scored on the whole
tree too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.read import read_taxonomy
from taxtune.taxonomy.tree import Taxonomy, split_path

__all__ = ["Domain", "read_part", "restrict"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Domain:
    """A part of a taxonomy.

    Attributes:
        full: The whole taxonomy.
        tree: The part below and including `root`, which is its root.
        root: The number of the part's root on the whole taxonomy.
        numbers: The number on the whole taxonomy of each node of the part, ascending.
    """

    full: Taxonomy
    tree: Taxonomy
    root: int
    numbers: IntArray = field(repr=False)

    @property
    def label(self) -> str:
        """The label of the part's root."""
        return self.tree.labels[0]

    @property
    def full_label(self) -> str:
        """The label of the whole taxonomy's root."""
        return self.full.labels[0]

    def on_full(self, nodes: ArrayLike) -> IntArray:
        """Returns the numbers on the whole taxonomy of nodes of the part."""
        return self.numbers[np.asarray(nodes, dtype=np.int64)]

    def inside(self, node: int) -> int | None:
        """Returns the number in the part of a node of the whole taxonomy; None if outside."""
        number = int(np.searchsorted(self.numbers, node))
        if number < len(self.numbers) and self.numbers[number] == node:
            return number
        return None

    def locate(self, reference: str | Sequence[str]) -> int | None:
        """Returns the node of the part that a label, alias, id or path refers to.

        A name that the part has is looked for nowhere else, though the whole taxonomy may have it
        several times. Paths may begin at the part's root or at that of the whole taxonomy.

        Returns:
            The node's number in the part, or None if it is outside.

        Raises:
            TaxonomyError: If it is on neither, or the part has several nodes of that name.
        """
        name = reference if isinstance(reference, str) else ""
        if self.tree.find(name) or name in self.tree.by_id:
            return self.tree.resolve(name)
        path = list(reference)
        if isinstance(reference, str):
            path = split_path(name)
        is_path = len(path) > 1 or not isinstance(reference, str)
        if is_path:
            with suppress(TaxonomyError):
                return self.tree.resolve(path)
        # On the whole tree only what is there is looked up: to suggest the nearest of many names
        # takes long.
        is_known = bool(self.full.find(name))
        if is_path or is_known or name in self.full.by_id:
            try:
                return self.inside(self.full.resolve(name or path))
            except TaxonomyError:
                if is_known:
                    return None  # several nodes, and none of them in the part
        return self.tree.resolve(reference)  # says what is wrong, with the nearest names


def restrict(taxonomy: Taxonomy, root: str) -> Domain:
    """Returns the part of a taxonomy below a node.

    Args:
        taxonomy: The whole taxonomy.
        root: A label, alias or path of the node.

    Raises:
        TaxonomyError: If there is no such node, or several, or nothing is below it.
    """
    node = taxonomy.resolve(root)
    below = taxonomy.descendants(node)
    if len(below) == 1:
        raise TaxonomyError(
            "There is nothing below this node, so it is not a domain.",
            file=taxonomy.source,
            value=root,
            remedy="Name a node that has others below it.",
        )
    return Domain(full=taxonomy, tree=taxonomy.subtree(node), root=node, numbers=below)


def read_part(
    source: str | Taxonomy,
    format: str = "auto",
    root: str | None = None,
    *,
    names: bool = True,
    root_label: str | None = None,
) -> tuple[Taxonomy, Domain | None]:
    """Returns a tree, and the domain that it is, or None if it is the whole taxonomy.

    Args:
        source: The file, a built-in one, or a tree that has been read.
        format: Its format.
        root: Label, alias or path of the node that becomes the root; None for the whole.
        names: Whether the English names that come with taxtune are added.
        root_label: The label of the root if the file has none and one is added.

    Raises:
        TaxonomyError: If the file cannot be read, or there is no such node, or nothing is below it.
    """
    whole = source
    if not isinstance(whole, Taxonomy):
        whole = read_taxonomy(whole, format=format, names=names, root_label=root_label)
    if root is None:
        return whole, None
    part = restrict(whole, root)
    return part.tree, part
