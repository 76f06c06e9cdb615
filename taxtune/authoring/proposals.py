"""Proposed names: what they are, the CSV in which they are reviewed, and how they get onto a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from taxtune.errors import DataError, TaxonomyError
from taxtune.tables import csv_text, join_cell, read_rows, split_cell
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "AMBIGUOUS",
    "KINDS",
    "Proposal",
    "apply_proposals",
    "node_path",
    "proposal_rows",
    "proposals_csv",
    "read_proposals",
]

#: The mark of a name that several nodes would have; a marked row is not applied.
AMBIGUOUS = "ambiguous"
#: What a name may be: one that identifies the node, or one that only leads answers to it.
KINDS = ("alias", "lead")
_NEEDED, _OTHERS = ("node", "alias"), ("kind", "source", "mark", "comment")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A name for a node.

    Attributes:
        node: The node's number.
        name: The name.
        source: Where it is from, one of `enrich.SOURCES`.
        kind: "alias" if it identifies the node, "lead" if it only leads answers to it.
        mark: "ambiguous", or "".
        comment: What a reviewer should know.
    """

    node: int
    name: str
    source: str
    kind: str = "alias"
    mark: str = ""
    comment: str = ""


def proposals_csv(taxonomy: Taxonomy, proposals: Iterable[Proposal]) -> str:
    """Returns proposals as CSV, to be reviewed: rows may be removed, changed and added, and marks cleared."""
    rows = ((node_path(taxonomy, row.node), row.name, row.kind, row.source, row.mark, row.comment) for row in proposals)
    return csv_text((*_NEEDED, *_OTHERS), rows)


def node_path(taxonomy: Taxonomy, node: int) -> str:
    """Returns a node as proposals name it: its path, with a backslash before a slash within a label."""
    return join_cell(taxonomy.path(node), "/")


def proposal_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Returns the line and the cells of each row of a file of proposals, whatever they hold.

    Raises:
        DataError: If the file cannot be read, or lacks the column node or alias.
    """
    remedy = "Give a file that `taxtune taxonomy enrich` or `taxtune audit` wrote."
    return read_rows(path, _NEEDED, _OTHERS, what="proposals", remedy=remedy, none=True)


def read_proposals(path: Path, taxonomy: Taxonomy) -> list[Proposal]:
    """Reads proposals that were reviewed.

    Args:
        path: A CSV with the columns node (a path, a label or an alias) and alias, and optionally kind ("alias" by
            default, or "lead"), source, mark and comment.
        taxonomy: The tree that they are for.

    Raises:
        DataError: If a column is missing, a node is not on the tree, or a cell is empty or cannot be; names the row.
    """
    found = []
    for line, cell in proposal_rows(path):
        if not cell["alias"]:
            raise DataError("The row proposes no alias.", file=path, row=line, remedy="Fill it in, or remove it.")
        if ";" in cell["alias"] or "|" in cell["alias"]:
            raise DataError(
                "A name cannot contain ; or |, which separate names in a taxonomy file.",
                file=path,
                row=line,
                value=cell["alias"],
                remedy="Give each name its own row.",
            )
        if (cell["kind"] or KINDS[0]) not in KINDS:
            raise DataError("The kind of a name must be alias or lead.", file=path, row=line, value=cell["kind"])
        node = _node(taxonomy, cell["node"], path, line)
        kind = cell["kind"] or KINDS[0]
        found.append(Proposal(node, cell["alias"], cell["source"], kind, cell["mark"], cell["comment"]))
    return found


def _node(taxonomy: Taxonomy, reference: str, file: Path, row: int) -> int:
    path = split_cell(reference, "/")
    try:
        return taxonomy.resolve(path if len(path) > 1 else reference)
    except TaxonomyError as error:
        raise DataError(
            f"The node is not on the tree: {error.message}",
            file=file,
            row=row,
            value=reference,
            remedy=error.remedy or "Use the tree that the proposals were made for.",
        ) from None


def apply_proposals(
    taxonomy: Taxonomy, proposals: Sequence[Proposal], *, marked: bool = False
) -> tuple[Taxonomy, dict[str, int]]:
    """Returns the tree with the proposed names, and how many were added as what, and how many were not and why.

    Args:
        taxonomy: The tree.
        proposals: The proposals.
        marked: Whether to add marked names too.
    """
    names = {"alias": [list(some) for some in taxonomy.aliases], "lead": [list(some) for some in taxonomy.leads]}
    counts = {"alias": 0, "lead": 0, "marked": 0, "already there": 0}
    known = [{name.casefold() for name in taxonomy.names(node)} for node in range(len(taxonomy))]
    for row in proposals:
        if row.mark and not marked:
            counts["marked"] += 1
        elif row.name.casefold() in known[row.node]:
            counts["already there"] += 1
        else:
            known[row.node].add(row.name.casefold())
            names[row.kind][row.node].append(row.name)
            counts[row.kind] += 1
    return taxonomy.with_names(aliases=names["alias"], leads=names["lead"]), counts
