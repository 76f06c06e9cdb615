"""The label tree: reading it from files, checking it, and asking how its nodes are related."""

from __future__ import annotations

from taxtune.taxonomy.check import TaxonomyReport, check_taxonomy
from taxtune.taxonomy.defects import Defect
from taxtune.taxonomy.domain import Domain, restrict
from taxtune.taxonomy.raw import RawNode, RawTaxonomy
from taxtune.taxonomy.readers import FORMATS, read_taxonomy
from taxtune.taxonomy.tree import Node, Taxonomy

__all__ = [
    "FORMATS",
    "Defect",
    "Domain",
    "Node",
    "RawNode",
    "RawTaxonomy",
    "Taxonomy",
    "TaxonomyReport",
    "check_taxonomy",
    "read_taxonomy",
    "restrict",
]
