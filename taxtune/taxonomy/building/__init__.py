"""From any graph of "subclass of" edges to a rooted tree, with an account of everything that was dropped.

`EdgeCollector` takes edges, `build_tree` makes the tree, `summary` and `write_report` say what became of the rest, and
`write_tree` writes what `taxtune.taxonomy.read_taxonomy` reads. `taxtune.taxonomy.sources` reads the graphs.
"""

from __future__ import annotations

from taxtune.taxonomy.building.build import BuildOptions, BuiltTree, EdgeFate, NodeFate, build_tree
from taxtune.taxonomy.building.edges import EdgeCollector, Graph
from taxtune.taxonomy.building.naming import Names, name_nodes
from taxtune.taxonomy.building.report import records, summary, write_report
from taxtune.taxonomy.building.writer import write_tree

__all__ = [
    "BuildOptions",
    "BuiltTree",
    "EdgeCollector",
    "EdgeFate",
    "Graph",
    "Names",
    "NodeFate",
    "build_tree",
    "name_nodes",
    "records",
    "summary",
    "write_report",
    "write_tree",
]
