"""Readers of ontologies: RDF (SKOS concepts, OWL and RDFS classes) by rdflib, and OBO by obonet, which are extras.

Of RDF, parents are `skos:broader`, the other end of `skos:narrower`, and `rdfs:subClassOf`; labels `skos:prefLabel` and
`rdfs:label`. `skos:altLabel` and exact synonyms identify a node and become aliases; `skos:hiddenLabel` and related,
narrow and broad synonyms only lead to it. Names in English and those without a language count. A node's id is its IRI,
and its rank its `dwc:taxonRank`. What is deprecated or obsolete is left out, and so are classes without a name of their
own, such as restrictions. RDF has no order: siblings come by their IRIs, and aliases by the alphabet.
"""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.errors import MissingExtraError, TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy

if TYPE_CHECKING:
    from rdflib import Graph
    from rdflib.term import Node

__all__ = ["is_obo", "is_rdf", "read_obo", "read_rdf"]

# What the suffix of a file says about its syntax, as rdflib calls it.
_SUFFIXES = dict.fromkeys((".ttl", ".turtle"), "turtle") | dict.fromkeys(
    (".rdf", ".owl", ".skos"), "xml"
)
_SUFFIXES |= {".n3": "n3", ".nt": "nt", ".trig": "trig", ".jsonld": "json-ld"}
_RANK = "http://rs.tdwg.org/dwc/terms/taxonRank"
_OBO = "http://www.geneontology.org/formats/oboInOwl#"
# An entity for a namespace, as OWL's are; a few that stand for others can stand for gigabytes.
_NAMESPACE = re.compile(r"""<!ENTITY\s+[\w.-]+\s+(["'])[^&%<"']{0,200}\1\s*>""")
_SYNONYM = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"\s*(?P<scope>EXACT)?')


def is_rdf(text: str, path: Path) -> bool:
    """Tells whether a file is RDF: by its suffix, or as RDF/XML or Turtle by how it begins."""
    return _syntax(text, path) is not None


def _syntax(text: str, path: Path) -> str | None:
    start = text.lstrip()[:4096]
    if start.startswith("<") and "<rdf:RDF" in start:
        return "xml"
    first = next((line for line in start.splitlines() if line.strip()[:1] not in ("", "#")), "")
    if first.split(None, 1)[:1] and first.split(None, 1)[0].lower() in (
        "@prefix",
        "@base",
        "prefix",
    ):
        return "turtle"
    suffixes = [
        suffix.lower() for suffix in path.suffixes if suffix.lower() not in (".gz", ".bz2", ".xz")
    ]
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


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
    skos, rdfs, owl = rdflib.SKOS, rdflib.RDFS, rdflib.OWL
    obo = rdflib.Namespace(_OBO)
    graph = _graph(rdflib, text, _syntax(text, path) or "turtle", name)
    parents = _parents(rdflib, graph)
    if not parents:
        message = "The file contains neither SKOS concepts nor OWL or RDFS classes."
        remedy = "The tree is read from skos:broader or rdfs:subClassOf."
        raise TaxonomyError(message, file=name, remedy=remedy)
    gone = {
        iri
        for iri in parents
        if any(str(o) in ("true", "1") for o in graph.objects(iri, owl.deprecated))
    }
    raw, unnamed = RawTaxonomy(name, "rdf"), []
    for iri in sorted(parents.keys() - gone, key=str):
        labels = _texts(graph, iri, skos.prefLabel, any_language=True)
        labels = labels or _texts(graph, iri, rdfs.label, any_language=True)
        if not labels:
            unnamed.append(str(iri))
            labels = [str(iri).rstrip("/#").replace("#", "/").rsplit("/", 1)[-1] or str(iri)]
        aliases = labels[1:] + _texts(graph, iri, skos.altLabel, obo.hasExactSynonym)
        loose = (obo[f"has{kind}Synonym"] for kind in ("Related", "Narrow", "Broad"))
        leads = _texts(graph, iri, skos.hiddenLabel, *loose)
        rank = next(iter(_texts(graph, iri, rdflib.URIRef(_RANK))), None)
        above = sorted(map(str, parents[iri] - gone))
        raw.nodes += _statements(str(iri), above, labels[0], aliases, leads, rank)
    if gone:
        raw.note("left out", f"Left out: {len(gone):,} deprecated classes or concepts.")
    if unnamed:
        message = f"Without a label, so labelled by the ends of their IRIs: {len(unnamed):,}."
        raw.note("renamed", message, value=unnamed[0])
    return raw


def _graph(rdflib: Any, text: str, syntax: str, name: str) -> Graph:
    graph: Graph = rdflib.Dataset(default_union=True) if syntax == "trig" else rdflib.Graph()
    if syntax == "xml":
        for entity in re.finditer("<!ENTITY", text):
            if _NAMESPACE.match(text, entity.start()) is None:
                message = "An entity stands for a file, for other entities or for more than 200 characters."
                row = text.count("\n", 0, entity.start()) + 1
                raise TaxonomyError(message, file=name, row=row, remedy="Save the file as Turtle.")
    try:
        remote = _remote_context(json.loads(text)) if syntax == "json-ld" else None
        if remote is None:
            return graph.parse(data=text, format=syntax, publicID="urn:file:") and graph
    except Exception as problem:  # every syntax raises its own
        line = (
            problem.getLineNumber()
            if hasattr(problem, "getLineNumber")
            else getattr(problem, "lines", None)
        )
        message = f"The file is not valid {syntax}: {' '.join(str(problem).split())[:300]}."
        remedy = "The syntax is chosen by the suffix: .ttl, .rdf, .owl, .nt, .trig or .jsonld."
        at = line if isinstance(line, int) and line > 0 else None
        raise TaxonomyError(message, file=name, row=at, remedy=remedy) from None
    message = "The file takes a context from elsewhere, and reading a file opens nothing else."
    remedy = "Write the content of the context into the file, or save it as Turtle."
    raise TaxonomyError(message, file=name, value=remote, remedy=remedy)


def _remote_context(document: Any) -> str | None:
    """Returns an address that a JSON-LD document takes a context from, however deep; None where it has them all."""
    waiting = [(document, False)]
    while waiting:
        value, is_context = waiting.pop()
        if isinstance(value, str) and is_context:
            return value
        if isinstance(value, list):
            waiting += [(item, is_context) for item in value]
        elif isinstance(value, dict):
            waiting += [(item, key in ("@context", "@import")) for key, item in value.items()]
    return None


def _parents(rdflib: Any, graph: Graph) -> dict[Node, set[Node]]:
    """Returns the parents of each concept or class; blank nodes are OWL's restrictions and unions."""
    skos, rdfs, owl = rdflib.SKOS, rdflib.RDFS, rdflib.OWL
    edges = [*graph.subject_objects(skos.broader), *graph.subject_objects(rdfs.subClassOf)]
    edges += [(narrower, iri) for iri, narrower in graph.subject_objects(skos.narrower)]
    kinds = (skos.Concept, owl.Class, rdfs.Class)
    nodes = {iri for kind in kinds for iri in graph.subjects(rdflib.RDF.type, kind)}.union(*edges)
    nodes = {iri for iri in nodes if isinstance(iri, rdflib.URIRef)} - {owl.Thing, rdfs.Resource}
    parents: dict[Node, set[Node]] = {iri: set() for iri in nodes}
    for child, parent in edges:
        if child in nodes and parent in nodes:
            parents[child].add(parent)
    return parents


def _texts(graph: Graph, iri: Node, *predicates: Node, any_language: bool = False) -> list[str]:
    """Returns the English texts and those without a language, English first, each in alphabetical order."""
    texts: dict[str, None] = {}
    for predicate in predicates:
        literals = [
            (getattr(o, "language", None) or "", clean(str(o)))
            for o in graph.objects(iri, predicate)
        ]
        english = sorted(
            {text for language, text in literals if language.lower().split("-")[0] == "en"}
        )
        plain = sorted({text for language, text in literals if not language})
        # A label in another language is better than none.
        foreign = (
            [text for _, text in sorted(literals)][:1]
            if any_language and not english and not plain
            else []
        )
        texts |= dict.fromkeys(filter(None, (*english, *plain, *foreign)))
    return list(texts)


def _statements(
    key: Any,
    parents: list[Any],
    label: str,
    aliases: Iterable[str],
    leads: Iterable[str],
    rank: str | None = None,
) -> list[RawNode]:
    """Returns a statement for each parent of a node, or one without."""
    others = tuple(dict.fromkeys(name for name in aliases if name and name != label))
    led = tuple(dict.fromkeys(name for name in leads if name and name not in (label, *others)))
    return [RawNode(key, parent, label, others, rank, leads=led) for parent in parents or [None]]


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
    try:
        # obonet wants a blank line before each stanza, and warns of a file that has no name; a later one counts.
        graph = obonet.read_obo(
            io.StringIO("ontology: -\n" + re.sub(r"^\[", "\n[", text, flags=re.MULTILINE))
        )
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        message = f"The file is not valid OBO: {' '.join(str(problem).split())[:300]}."
        raise TaxonomyError(
            message, file=name, remedy="Write `tag: value` lines, and an id in each term."
        ) from None
    raw, unnamed = RawTaxonomy(name, "obo"), 0
    parents: dict[str, list[str]] = {}
    for child, parent, kind in graph.edges(keys=True):
        if kind == "is_a":
            parents.setdefault(child, []).append(parent)
    for key, term in graph.nodes(data=True):
        if not term and key not in parents:
            continue  # the target of a relationship, or a parent that has no term
        found = [match for match in map(_SYNONYM.match, term.get("synonym", ())) if match]
        exact = [_unescaped(match["text"]) for match in found if match["scope"]]
        loose = [_unescaped(match["text"]) for match in found if not match["scope"]]
        unnamed += "name" not in term
        raw.nodes += _statements(
            key, parents.get(key, []), _unescaped(term.get("name", key)), exact, loose
        )
    if not raw.nodes:
        remedy = "OBO terms are stanzas that start with [Term]."
        raise TaxonomyError("The file contains no term.", file=name, remedy=remedy)
    if obsolete := len(re.findall(r"^is_obsolete:\s*true", text, re.MULTILINE)):
        raw.note("left out", f"Left out: {obsolete:,} obsolete terms.")
    if unnamed:
        raw.note("renamed", f"Without a name, so labelled by their ids: {unnamed:,} terms.")
    return raw


def _unescaped(text: str) -> str:
    return clean(re.sub(r"\\(.)", lambda match: " " if match[1] in "ntW" else match[1], text))
