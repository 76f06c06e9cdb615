"""Reads ontologies: RDF (SKOS concepts, OWL and RDFS classes) by rdflib, and OBO by obonet.

Both packages are extras. In RDF, parents are `skos:broader`, the other end of `skos:narrower`, and
`rdfs:subClassOf`; labels are `skos:prefLabel` and `rdfs:label`. `skos:altLabel` and exact synonyms
identify a node and become aliases; `skos:hiddenLabel` and related, narrow and broad synonyms only
lead to it. Names in English and those without a language count. A node's id is its IRI, and its
rank its `dwc:taxonRank`. Deprecated and obsolete nodes are left out, and so are classes without a
name of their own, such as restrictions. RDF has no order: siblings come by their IRIs, and aliases
by the alphabet.
"""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.errors import MissingExtraError, TaxonomyError, one_line
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy

if TYPE_CHECKING:
    from rdflib import Graph
    from rdflib.term import Node

__all__ = ["is_obo", "is_rdf", "read_obo", "read_rdf"]

#: The syntax of a file, as rdflib calls it, by the file's suffix.
_SYNTAX = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".rdf": "xml",
    ".owl": "xml",
    ".skos": "xml",
    ".n3": "n3",
    ".nt": "nt",
    ".trig": "trig",
    ".jsonld": "json-ld",
}
_PACKED = (".gz", ".bz2", ".xz")
_RANK = "http://rs.tdwg.org/dwc/terms/taxonRank"
_OBO = "http://www.geneontology.org/formats/oboInOwl#"
#: An entity for a namespace, as OWL's are; a few that stand for others can stand for gigabytes.
_NAMESPACE = re.compile(r"""<!ENTITY\s+[\w.-]+\s+(["'])[^&%<"']{0,200}\1\s*>""")
_SYNONYM = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"\s*(?P<scope>EXACT)?')


# -- RDF -------------------------------------------------------------------------------------------


def is_rdf(text: str, path: Path) -> bool:
    """Tells whether a file is RDF: by its suffix, or as RDF/XML or Turtle by how it begins."""
    return _syntax(text, path) is not None


def _syntax(text: str, path: Path) -> str | None:
    start = text.lstrip()[:4096]
    if start.startswith("<") and "<rdf:RDF" in start:
        return "xml"
    lines = [line for line in start.splitlines() if line.strip()[:1] not in ("", "#")]
    if lines and lines[0].lower().split()[0] in ("@prefix", "@base", "prefix"):
        return "turtle"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffixes = [suffix for suffix in suffixes if suffix not in _PACKED]
    return _SYNTAX.get(suffixes[-1]) if suffixes else None


def read_rdf(text: str, path: Path, name: str) -> RawTaxonomy:
    """Returns the nodes of an RDF file, a statement for each parent.

    Args:
        text: The file's text.
        path: The file, whose suffix says which syntax it is in.
        name: The file's name, for messages.

    Raises:
        MissingExtraError: If rdflib is not installed.
        TaxonomyError: If the file cannot be read, or holds neither concepts nor classes.
    """
    try:
        import rdflib
    except ImportError as error:
        raise MissingExtraError("rdflib", "rdf", "A taxonomy in RDF") from error
    # It warns of every date that it cannot read; dates are no part of a tree.
    logging.getLogger("rdflib").setLevel(logging.ERROR)
    skos = rdflib.SKOS
    obo = rdflib.Namespace(_OBO)
    graph = _graph(rdflib, text, _syntax(text, path) or "turtle", name)
    parents = _parents(rdflib, graph)
    if not parents:
        message = "The file contains neither SKOS concepts nor OWL or RDFS classes."
        remedy = "The tree is read from skos:broader or rdfs:subClassOf."
        raise TaxonomyError(message, file=name, remedy=remedy)
    deprecated = set()
    for iri in parents:
        marks = map(str, graph.objects(iri, rdflib.OWL.deprecated))
        if not {"true", "1"}.isdisjoint(marks):
            deprecated.add(iri)
    loose = [obo[f"has{kind}Synonym"] for kind in ("Related", "Narrow", "Broad")]
    raw = RawTaxonomy(name, "rdf")
    unnamed = []
    for iri in sorted(parents.keys() - deprecated, key=str):
        key = str(iri)
        labels = _labels(graph, iri, skos.prefLabel) or _labels(graph, iri, rdflib.RDFS.label)
        if not labels:
            unnamed.append(key)
            labels = [_end(key)]
        aliases = _texts(graph, iri, skos.altLabel, obo.hasExactSynonym)
        ranks = _texts(graph, iri, rdflib.URIRef(_RANK))
        raw.nodes += _statements(
            key=key,
            parents=sorted(map(str, parents[iri] - deprecated)),
            label=labels[0],
            aliases=labels[1:] + aliases,
            leads=_texts(graph, iri, skos.hiddenLabel, *loose),
            rank=ranks[0] if ranks else None,
        )
    if deprecated:
        raw.note("left out", f"Left out: {len(deprecated):,} deprecated classes or concepts.")
    if unnamed:
        message = f"Without a label, so labelled by the ends of their IRIs: {len(unnamed):,}."
        raw.note("renamed", message, value=unnamed[0])
    return raw


def _end(iri: str) -> str:
    """Returns the last part of an IRI."""
    parts = re.split("[/#]", iri.rstrip("/#"))
    return parts[-1] or iri


def _graph(rdflib: Any, text: str, syntax: str, name: str) -> Graph:
    graph: Graph = rdflib.Dataset(default_union=True) if syntax == "trig" else rdflib.Graph()
    if syntax == "xml":
        _check_entities(text, name)
    try:
        remote = _remote_context(json.loads(text)) if syntax == "json-ld" else None
        if remote is None:
            graph.parse(data=text, format=syntax, publicID="urn:file:")
            return graph
    except Exception as problem:  # every syntax raises its own
        line = getattr(problem, "lines", None)
        if hasattr(problem, "getLineNumber"):
            line = problem.getLineNumber()
        row = line if isinstance(line, int) and line > 0 else None
        message = f"The file is not valid {syntax}: {_one_line(problem)}."
        remedy = "The syntax is chosen by the suffix: .ttl, .rdf, .owl, .nt, .trig or .jsonld."
        raise TaxonomyError(message, file=name, row=row, remedy=remedy) from None
    message = "The file takes a context from elsewhere, and reading a file opens nothing else."
    remedy = "Write the content of the context into the file, or save it as Turtle."
    raise TaxonomyError(message, file=name, value=remote, remedy=remedy)


def _check_entities(text: str, name: str) -> None:
    """Raises a TaxonomyError if an entity of an XML file is no namespace."""
    for entity in re.finditer("<!ENTITY", text):
        start = entity.start()
        if _NAMESPACE.match(text, start) is None:
            message = (
                "An entity stands for a file, for other entities or for more than 200 characters."
            )
            row = text.count("\n", 0, start) + 1
            raise TaxonomyError(message, file=name, row=row, remedy="Save the file as Turtle.")


def _one_line(problem: Exception) -> str:
    return one_line(problem)[:300]


def _remote_context(document: Any) -> str | None:
    """Returns an address that a JSON-LD document takes a context from, however deep, or None."""
    waiting = [(document, False)]
    while waiting:
        value, is_context = waiting.pop()
        if isinstance(value, str) and is_context:
            return value
        if isinstance(value, list):
            waiting += [(item, is_context) for item in value]
        elif isinstance(value, dict):
            for key, item in value.items():
                waiting.append((item, key in ("@context", "@import")))
    return None


def _parents(rdflib: Any, graph: Graph) -> dict[Node, set[Node]]:
    """Returns the parents of each concept or class; blank nodes are restrictions and unions."""
    skos = rdflib.SKOS
    rdfs = rdflib.RDFS
    owl = rdflib.OWL
    edges = [*graph.subject_objects(skos.broader), *graph.subject_objects(rdfs.subClassOf)]
    edges += [(narrower, iri) for iri, narrower in graph.subject_objects(skos.narrower)]
    nodes = set().union(*edges)
    for kind in (skos.Concept, owl.Class, rdfs.Class):
        nodes.update(graph.subjects(rdflib.RDF.type, kind))
    nodes -= {owl.Thing, rdfs.Resource}
    parents: dict[Node, set[Node]] = {}
    for iri in nodes:
        if isinstance(iri, rdflib.URIRef):
            parents[iri] = set()
    for child, parent in edges:
        if child in parents and parent in parents:
            parents[child].add(parent)
    return parents


def _literals(graph: Graph, iri: Node, predicate: Node) -> list[tuple[str, str]]:
    """Returns the language and the text of each object of a node, in alphabetical order."""
    literals = []
    for literal in graph.objects(iri, predicate):
        language = getattr(literal, "language", None) or ""
        text = clean(str(literal))
        if text:
            literals.append((language, text))
    return sorted(literals)


def _texts(graph: Graph, iri: Node, *predicates: Node) -> list[str]:
    """Returns the English texts and those without a language.

    Of each predicate the English ones come first, both in alphabetical order.
    """
    texts: list[str] = []
    for predicate in predicates:
        literals = _literals(graph, iri, predicate)
        english = [text for language, text in literals if language.lower().split("-")[0] == "en"]
        texts += sorted(english)
        texts += [text for language, text in literals if not language]
    return list(dict.fromkeys(texts))


def _labels(graph: Graph, iri: Node, predicate: Node) -> list[str]:
    """Returns the texts of a predicate, or else one in another language, as better than none."""
    texts = _texts(graph, iri, predicate)
    return texts or [text for _, text in _literals(graph, iri, predicate)[:1]]


def _statements(
    key: str,
    parents: list[str],
    label: str,
    aliases: list[str],
    leads: list[str],
    rank: str | None = None,
) -> list[RawNode]:
    """Returns a statement for each parent of a node, or one without a parent."""
    node = RawNode(
        key=key,
        parent=None,
        label=label,
        aliases=_others(aliases, known={"", label}),
        rank=rank,
        leads=_others(leads, known={"", label, *aliases}),
    )
    return [node._replace(parent=parent) for parent in parents] or [node]


def _others(names: Iterable[str], known: set[str]) -> tuple[str, ...]:
    """Returns the names that are not known, each once."""
    return tuple(dict.fromkeys(name for name in names if name not in known))


# -- OBO -------------------------------------------------------------------------------------------


def is_obo(text: str) -> bool:
    """Tells whether a text is OBO: by its version, or by a stanza with an id."""
    is_stanza = re.search(r"^\[Term\]\s*\nid:", text[:65536], re.MULTILINE) is not None
    return is_stanza or text.lstrip().startswith("format-version:")


def read_obo(text: str, name: str) -> RawTaxonomy:
    """Returns the terms of an OBO file that are not obsolete, a statement for each `is_a`.

    Args:
        text: The file's text.
        name: The file's name, for messages.

    Raises:
        MissingExtraError: If obonet is not installed.
        TaxonomyError: If obonet cannot read it, or there is no term.
    """
    try:
        import obonet
    except ImportError as error:
        raise MissingExtraError("obonet", "obo", "A taxonomy in OBO's format") from error
    # obonet wants a blank line before each stanza, and warns of a file that has no name; a later
    # name counts.
    text = re.sub(r"^\[", "\n[", text, flags=re.MULTILINE)
    try:
        graph = obonet.read_obo(io.StringIO(f"ontology: -\n{text}"))
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        message = f"The file is not valid OBO: {_one_line(problem)}."
        remedy = "Write `tag: value` lines, and an id in each term."
        raise TaxonomyError(message, file=name, remedy=remedy) from None
    parents: dict[str, list[str]] = {}
    for child, parent, kind in graph.edges(keys=True):
        if kind == "is_a":
            parents.setdefault(child, []).append(parent)
    raw = RawTaxonomy(name, "obo")
    unnamed = 0
    for key, term in graph.nodes(data=True):
        if not term and key not in parents:
            continue  # the target of a relationship, or a parent that has no term
        unnamed += "name" not in term
        aliases: list[str] = []
        leads: list[str] = []
        for match in map(_SYNONYM.match, term.get("synonym", ())):
            if match is not None:
                names = aliases if match["scope"] else leads
                names.append(_unescaped(match["text"]))
        raw.nodes += _statements(
            key=key,
            parents=parents.get(key, []),
            label=_unescaped(term.get("name", key)),
            aliases=aliases,
            leads=leads,
        )
    if not raw.nodes:
        remedy = "OBO terms are stanzas that start with [Term]."
        raise TaxonomyError("The file contains no term.", file=name, remedy=remedy)
    obsolete = len(re.findall(r"^is_obsolete:\s*true", text, re.MULTILINE))
    if obsolete:
        raw.note("left out", f"Left out: {obsolete:,} obsolete terms.")
    if unnamed:
        raw.note("renamed", f"Without a name, so labelled by their ids: {unnamed:,} terms.")
    return raw


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        return " " if match[1] in "ntW" else match[1]

    return clean(re.sub(r"\\(.)", character, text))
