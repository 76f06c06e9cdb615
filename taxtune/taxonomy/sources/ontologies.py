"""Ontologies and thesauri as graphs: RDF and OBO, in which a class may have several parents."""

from __future__ import annotations

from pathlib import Path

from taxtune.tables import read_text
from taxtune.taxonomy.building.edges import EdgeCollector
from taxtune.taxonomy.readers.obo import obo_nodes
from taxtune.taxonomy.readers.rdf import rdf_nodes

__all__ = ["read_ontology"]


def read_ontology(path: Path, into: EdgeCollector, kind: str) -> None:
    """Reads classes and concepts, their parents and their names.

    Args:
        path: The file, packed or not.
        into: Where edges and names go.
        kind: "rdf" (which needs the extra of that name) or "obo".

    Raises:
        TaxonomyError: As the readers of trees do.
        MissingExtraError: If rdflib is needed and not installed.
    """
    text = read_text(path)
    raw = rdf_nodes(text, path, str(path))[0] if kind == "rdf" else obo_nodes(text, str(path))
    into.start(str(path))
    named: set[object] = set()
    for node in raw.nodes:
        key = str(node.key[0]) if isinstance(node.key, tuple) else str(node.key)
        into.node(key)
        if node.parent is not None:
            into.edge(key, str(node.parent[0]) if isinstance(node.parent, tuple) else str(node.parent), node.row or 0)
        if node.key in named:
            continue
        named.add(node.key)
        into.name(key, node.label)
        for alias in node.aliases:
            into.alias(key, alias)
        for lead in node.leads:
            into.alias(key, lead, leads=True)
    for defect in raw.defects:
        into.notes[defect.message] += 1
