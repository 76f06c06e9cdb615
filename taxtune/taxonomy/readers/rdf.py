"""Reader of RDF: SKOS concepts and OWL or RDFS classes, in Turtle, RDF/XML, N-Triples, TriG or JSON-LD, by rdflib.

Parents are `skos:broader` (or `skos:narrower` of the other concept) and `rdfs:subClassOf`; labels `skos:prefLabel` and
`rdfs:label`. `skos:altLabel` and exact synonyms (`oboInOwl:hasExactSynonym`) identify a node and become aliases;
`skos:hiddenLabel` and related, narrow and broad synonyms only lead to it. Of labels in several languages those in
English and those without a language count. A node's rank is its `dwc:taxonRank`, and its id its IRI, or its
`dcterms:identifier` where it has one. What is deprecated is left out; so are restrictions and classes without a name.

RDF has no order: siblings come by their IRIs, aliases by the alphabet unless `TAXTUNE`'s list of them gives an order.
rdflib was chosen over pronto since it reads SKOS, all of OWL's classes and every common syntax; OBO's own format, which
it does not read, is lines of text (see `readers.obo`).
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from taxtune.errors import MissingExtraError, TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy, add_root
from taxtune.taxonomy.readers.nested_json import ROOT

if TYPE_CHECKING:
    from rdflib import Graph
    from rdflib.term import Identifier, Node

__all__ = ["DWC", "MADE", "SUFFIXES", "TAXTUNE", "is_rdf", "load_rdflib", "parse_rdf", "rdf_nodes"]

#: What the suffix of a file says about its syntax, as rdflib calls it.
SUFFIXES = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".n3": "n3",
    ".nt": "nt",
    ".rdf": "xml",
    ".owl": "xml",
    ".skos": "xml",
    ".trig": "trig",
    ".jsonld": "json-ld",
}
# Characters of an entity; namespaces have some fifty.
_LONGEST_ENTITY = 200
#: The namespaces of Darwin Core's rank, of what taxtune states itself, and of nodes that have no id.
DWC = "http://rs.tdwg.org/dwc/terms/"
TAXTUNE = "urn:taxtune:"
MADE = "urn:taxtune:node:"
_OBO = "http://www.geneontology.org/formats/oboInOwl#"


def load_rdflib() -> Any:
    """Returns the package rdflib.

    Raises:
        MissingExtraError: If it is not installed.
    """
    try:
        import rdflib
    except ImportError as error:
        raise MissingExtraError("rdflib", "rdf", "A taxonomy in RDF") from error
    # It warns of every date that it cannot read; dates are no part of a tree.
    logging.getLogger("rdflib").setLevel(logging.ERROR)
    return rdflib


def is_rdf(text: str, path: Path) -> bool:
    """Tells whether a file is RDF: by its suffix, or as RDF/XML or Turtle by how it begins."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:] if suffix.lower() not in (".gz", ".bz2", ".xz")]
    return bool(suffixes and suffixes[-1] in SUFFIXES) or _syntax_of(text) is not None


def _syntax_of(text: str) -> str | None:
    start = text.lstrip()[:4096]
    if start.startswith("<") and "<rdf:RDF" in start:
        return "xml"
    first = (line.split(None, 1)[0].lower() for line in start.splitlines() if line.strip()[:1] not in ("", "#"))
    return "turtle" if next(first, "") in ("@prefix", "@base", "prefix") else None


def parse_rdf(text: str, path: Path, name: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of an RDF file.

    Args:
        text: The file's text.
        path: The file, whose suffix says which syntax it is in.
        name: The file's name, for messages.
        root: The label of a root above several; by default that of the concept scheme, or else "everything".

    Raises:
        MissingExtraError: If rdflib is not installed.
        TaxonomyError: If the file cannot be read, or holds neither concepts nor classes.
    """
    raw, scheme = rdf_nodes(text, path, name)
    add_root(raw, root or scheme or ROOT)
    return raw


def rdf_nodes(text: str, path: Path, name: str) -> tuple[RawTaxonomy, str | None]:
    """Returns the nodes of an RDF file, a statement a parent and no root added, and the label of its only scheme."""
    graph = _graph(text, path, name)
    reader = _Reader(graph, name)
    return reader.read(), reader.scheme()


def _graph(text: str, path: Path, name: str) -> Graph:
    rdflib = load_rdflib()
    plain = [suffix.lower() for suffix in path.suffixes if suffix.lower() in SUFFIXES]
    syntax = _syntax_of(text) or (SUFFIXES[plain[-1]] if plain else "turtle")
    if syntax == "xml":
        _check_entities(text, name)
    graph: Graph = rdflib.Dataset(default_union=True) if syntax == "trig" else rdflib.Graph()
    try:
        graph.parse(data=text, format=syntax, publicID="urn:file:")
    except Exception as problem:  # every syntax raises its own
        row = problem.getLineNumber() if hasattr(problem, "getLineNumber") else getattr(problem, "lines", None)
        message = " ".join(str(problem).split())
        raise TaxonomyError(
            f"The file is not valid {syntax}: {message[:300]}.",
            file=name,
            row=row if isinstance(row, int) and row > 0 else None,
            remedy="The syntax is chosen by the suffix: .ttl, .rdf, .owl, .nt, .trig or .jsonld.",
        ) from None
    return graph


def _check_entities(text: str, name: str) -> None:
    """Refuses entities that stand for more than a namespace, as OWL's do: a few of them can stand for gigabytes."""
    parser = expat.ParserCreate()

    def entity(named: str, is_parameter: bool, value: str | None, *_: object) -> None:
        if is_parameter or value is None or "&" in value or len(value) > _LONGEST_ENTITY:
            raise TaxonomyError(
                f"The entity {named!r} stands for a file, for other entities or for more than {_LONGEST_ENTITY} "
                "characters, which is not accepted.",
                file=name,
                row=parser.CurrentLineNumber,
                remedy="Save the file as Turtle.",
            )

    def begin(*_: object) -> None:
        raise StopIteration

    parser.EntityDeclHandler, parser.StartElementHandler = entity, begin
    with suppress(StopIteration, expat.ExpatError, ValueError):  # rdflib says what is wrong with the XML
        parser.Parse(text, True)


class _Reader:
    def __init__(self, graph: Graph, file: str) -> None:
        from rdflib import OWL, RDF, RDFS, SKOS, Namespace, URIRef
        from rdflib.namespace import DCTERMS

        self.graph, self.file = graph, file
        self.skos, self.owl, self.rdf, self.rdfs, self.dcterms = SKOS, OWL, RDF, RDFS, DCTERMS
        self.obo, self.own, self.rank = Namespace(_OBO), Namespace(TAXTUNE), URIRef(f"{DWC}taxonRank")
        self.iri = URIRef
        self.raw = RawTaxonomy(file, "rdf")
        self.foreign = 0

    def read(self) -> RawTaxonomy:
        parents = self._parents()
        if not parents:
            raise TaxonomyError(
                "The file contains neither SKOS concepts nor OWL or RDFS classes.",
                file=self.file,
                remedy="The tree is read from skos:broader or rdfs:subClassOf.",
            )
        gone = {iri for iri in parents if any(str(o) in ("true", "1") for o in self._objects(iri, self.owl.deprecated))}
        keys = self._keys(parents)
        unnamed = []
        for iri in sorted(parents, key=str):
            if iri in gone:
                continue
            labels = self._texts(iri, self.skos.prefLabel) or self._texts(iri, self.rdfs.label)
            if not labels:
                unnamed.append(str(iri))
                labels = [str(iri).rstrip("/#").replace("#", "/").rsplit("/", 1)[-1] or str(iri)]
            aliases = self._ordered(iri, self.own.aliases) or [
                *labels[1:],
                *self._texts(iri, self.skos.altLabel),
                *self._texts(iri, self.obo.hasExactSynonym),
            ]
            leads = self._ordered(iri, self.own.leads) or self._texts(iri, self.skos.hiddenLabel)
            for kind in ("Related", "Narrow", "Broad"):
                leads += self._texts(iri, self.obo[f"has{kind}Synonym"])
            others = tuple(dict.fromkeys(name for name in aliases if name != labels[0]))
            node = RawNode(
                keys[iri],
                None,
                labels[0],
                others,
                next(iter(self._texts(iri, self.rank)), None),
                leads=tuple(dict.fromkeys(name for name in leads if name not in (labels[0], *others))),
            )
            above = sorted((parent for parent in parents[iri] if parent not in gone), key=str)
            self.raw.nodes += [
                RawNode(node.key, keys[parent], node.label, node.aliases, node.rank, leads=node.leads)
                for parent in above
            ] or [node]
        if gone:
            self.raw.note("left out", f"Left out: {len(gone):,} deprecated classes or concepts.")
        if unnamed:
            message = f"Without a label, so labelled by the ends of their IRIs: {len(unnamed):,}."
            self.raw.note("renamed", message, value=unnamed[0])
        if self.foreign:
            self.raw.note("left out", f"Left out: {self.foreign:,} names in languages other than English.")
        return self.raw

    def scheme(self) -> str | None:
        """Returns the label of the concept scheme, where there is one only."""
        schemes = list(self.graph.subjects(self.rdf.type, self.skos.ConceptScheme))
        if len(schemes) != 1:
            return None
        for label in (self.skos.prefLabel, self.rdfs.label, self.dcterms.title):
            for text in self._texts(schemes[0], label):
                return text
        return None

    def _parents(self) -> dict[Node, set[Node]]:
        """Returns the parents of each concept or class; what is only ever a parent has none."""
        from rdflib import URIRef

        parents: dict[Node, set[Node]] = {}
        top = {self.owl.Thing, self.rdfs.Resource}
        broader = [(s, o) for s, o in self.graph.subject_objects(self.skos.broader)]
        broader += [(o, s) for s, o in self.graph.subject_objects(self.skos.narrower)]
        broader += list(self.graph.subject_objects(self.rdfs.subClassOf))
        kinds = (self.skos.Concept, self.owl.Class, self.rdfs.Class)
        named = [s for kind in kinds for s in self.graph.subjects(self.rdf.type, kind)]
        for iri in (*named, *(end for edge in broader for end in edge)):
            # Blank nodes are OWL's restrictions, unions and so on.
            if isinstance(iri, URIRef) and iri not in top:
                parents.setdefault(iri, set())
        for child, parent in broader:
            if child in parents and parent in parents:
                parents[child].add(parent)
        return parents

    def _keys(self, nodes: Iterable[Node]) -> dict[Node, Hashable]:
        """Returns the id of each node: its identifier if no other has the same, else its IRI."""
        stated: dict[str, list[Node]] = {}
        keys: dict[Node, Hashable] = {}
        for iri in nodes:
            keys[iri] = (str(iri),) if str(iri).startswith(MADE) else str(iri)
            for identifier in self._objects(iri, self.dcterms.identifier):
                stated.setdefault(str(identifier), []).append(iri)
        for text, owners in stated.items():
            if len(owners) == 1:
                keys[owners[0]] = text
        return keys

    def _objects(self, iri: Node, predicate: Node) -> list[Identifier]:
        return list(self.graph.objects(iri, predicate))  # type: ignore[arg-type]

    def _texts(self, iri: Node, predicate: Node) -> list[str]:
        """Returns the English texts and those without a language, English first, each in alphabetical order."""
        from rdflib import Literal

        literals = [o for o in self._objects(iri, predicate) if isinstance(o, Literal)]
        english = {o for o in literals if o.language is not None and o.language.lower().split("-")[0] == "en"}
        plain = {o for o in literals if o.language is None}
        self.foreign += len(literals) - len(english) - len(plain)
        texts = [clean(str(text)) for some in (english, plain) for text in sorted(some, key=str)]
        if not texts and predicate in (self.skos.prefLabel, self.rdfs.label):
            # A label in another language is better than none.
            texts = [clean(str(text)) for text in sorted(literals, key=lambda o: (str(o.language), str(o)))][:1]
            self.foreign -= len(texts)
        return list(dict.fromkeys(filter(None, texts)))

    def _ordered(self, iri: Node, predicate: Node) -> list[str]:
        for head in self._objects(iri, predicate):
            return [clean(str(text)) for text in self.graph.items(head)]
        return []
