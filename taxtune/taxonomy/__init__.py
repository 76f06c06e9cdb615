"""The label tree: reading it from files, checking it, and asking how its nodes are related."""

from __future__ import annotations

from taxtune.taxonomy.domain import Domain, restrict
from taxtune.taxonomy.raw import Defect, RawNode, RawTaxonomy
from taxtune.taxonomy.read import (
    FORMATS,
    TaxonomyReport,
    as_taxonomy,
    check_taxonomy,
    read_taxonomy,
)
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "FORMATS",
    "Defect",
    "Domain",
    "RawNode",
    "RawTaxonomy",
    "Taxonomy",
    "TaxonomyReport",
    "as_taxonomy",
    "check_taxonomy",
    "read_taxonomy",
    "restrict",
]
