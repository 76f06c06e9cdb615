"""Verdicts on placements, as people write them or as they follow from an answer's right node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from taxtune.errors import DataError
from taxtune.mapping.config import OFF_TREE_STAGES
from taxtune.tables import split_cell

if TYPE_CHECKING:
    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["VERDICTS", "read_verdict", "resolve_node", "verdict_of"]

#: The node is what the answer says; a node below it is as well; the answer says something else, or
#: less.
VERDICTS = ("right", "too general", "wrong")


def read_verdict(text: str, file: str | Path, row: int | None = None) -> str:
    """Returns the verdict that a person wrote; "" is none.

    Raises:
        DataError: If it is no verdict; names the place.
    """
    verdict = text.strip().lower()
    if verdict in ("", *VERDICTS):
        return verdict
    remedy = f"Write {', '.join(VERDICTS)}."
    raise DataError("Unknown verdict.", file=file, row=row, value=text, remedy=remedy)


def verdict_of(tree: Taxonomy, placement: str, stage: str, node: int) -> str:
    """Returns the verdict on a placement.

    Args:
        tree: The label tree.
        placement: Path of the node that the answer was put on.
        stage: The mapper's stage that decided.
        node: The node on which the answer belongs. The root says that it names nothing on the tree.
    """
    placed = tree.resolve(split_cell(placement, "/"))
    if node == placed:
        return "right"
    if tree.is_ancestor(placed, node) and stage not in OFF_TREE_STAGES:
        return "too general"
    return "wrong"


def resolve_node(tree: Taxonomy, reference: str) -> int:
    """Returns the node that a label, a path or "none" (the root) names.

    Raises:
        TaxonomyError: If there is no such node, or several.
    """
    reference = reference.strip()
    if reference.casefold() == "none":
        return tree.root
    path = split_cell(reference, "/")
    return tree.resolve(path if len(path) > 1 else reference)
