"""Looking a taxonomy file over: its size, its ranks and every defect."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from taxtune.taxonomy.graph import assemble
from taxtune.taxonomy.raw import Defect
from taxtune.taxonomy.read import parse_taxonomy
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["TaxonomyReport", "check_taxonomy"]


@dataclass(frozen=True, slots=True)
class TaxonomyReport:
    """What there is to know of a taxonomy file.

    Attributes:
        file: The file.
        format: The format that it was read as.
        nodes: Number of distinct nodes, the root included.
        aliases: Number of aliases that the file gives.
        ranks: Number of nodes of each rank, in the order in which the ranks first occur; nodes without one under "".
        leaves: Number of nodes without children; None where a defect breaks the tree.
        height: Edges on the longest way from the root to a leaf; None where a defect breaks the tree.
        levels: Number of nodes at each depth, the root's first; empty where a defect breaks the tree.
        defects: Every defect and note, in the order of the rows.
        taxonomy: The tree without English names added; None where a defect breaks it.
    """

    file: str
    format: str
    nodes: int
    aliases: int
    ranks: dict[str, int]
    leaves: int | None
    height: int | None
    levels: tuple[int, ...]
    defects: list[Defect]
    taxonomy: Taxonomy | None = field(repr=False, compare=False)

    @property
    def breaking(self) -> list[Defect]:
        """The defects that break the tree."""
        return [defect for defect in self.defects if defect.breaks]

    @property
    def ok(self) -> bool:
        """Whether the file is a rooted tree of named nodes; there may be notes."""
        return not self.breaking

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain values, for JSON."""
        names = ("file", "format", "ok", "nodes", "leaves", "height", "levels", "ranks", "aliases")
        return {name: getattr(self, name) for name in names} | {"defects": [asdict(defect) for defect in self.defects]}


def check_taxonomy(path: str | Path, format: str = "auto", root_label: str | None = None) -> TaxonomyReport:
    """Returns the size, the ranks and every defect of a taxonomy file, whether or not it is a tree.

    Arguments and errors are those of `taxtune.taxonomy.read_taxonomy`; a defect that breaks the tree is no error.
    """
    raw = parse_taxonomy(path, format=format, root_label=root_label)
    order, defects = assemble(raw)
    taxonomy = None if any(defect.breaks for defect in defects) else Taxonomy.from_nodes(order, raw.file)
    nodes = {node.key: node for node in reversed(raw.nodes)}
    ranks = Counter(node.rank or "" for node in reversed(nodes.values()))
    return TaxonomyReport(
        file=raw.file,
        format=raw.format,
        nodes=len(nodes),
        aliases=sum(len(node.aliases) for node in nodes.values()),
        ranks=dict(ranks),
        leaves=None if taxonomy is None else len(taxonomy.leaves),
        height=None if taxonomy is None else taxonomy.height,
        levels=() if taxonomy is None else tuple(np.bincount(taxonomy.depth).tolist()),
        defects=defects,
        taxonomy=taxonomy,
    )
