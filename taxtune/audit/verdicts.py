"""Verdicts on placements, as they follow from the node on which an answer belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from taxtune.errors import DataError, TaxonomyError
from taxtune.mapping.config import OFF_TREE_STAGES, VERDICTS
from taxtune.tables import split_cell

if TYPE_CHECKING:
    from pathlib import Path

    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["VERDICTS", "check_verdict", "resolve_node", "verdict_of"]


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


def check_verdict(
    tree: Taxonomy, verdict: str, node: str, *, file: str | Path, row: int | None = None
) -> None:
    """Checks a verdict on a placement; an empty text says nothing.

    Args:
        tree: The label tree.
        verdict: The verdict.
        node: The node on which the answer belongs.
        file: Where it was said, for messages.
        row: The row in it.

    Raises:
        DataError: If the verdict is none of `VERDICTS`, or the node is not on the tree.
    """
    if verdict not in ("", *VERDICTS):
        remedy = f"Write {', '.join(VERDICTS)}."
        raise DataError("Unknown verdict.", file=file, row=row, value=verdict, remedy=remedy)
    if not node:
        return
    try:
        resolve_node(tree, node)
    except TaxonomyError as error:
        raise DataError(
            f"The node is not on the tree: {error.message}",
            file=file,
            row=row,
            value=node,
            remedy=error.remedy or "Write its label or its path, or none.",
        ) from None
