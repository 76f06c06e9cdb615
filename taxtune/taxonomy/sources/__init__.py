"""Graphs of "subclass of" edges, read as they are published: Wikidata, WordNet, and plain edge lists.

All files are streamed and may be packed with gzip, bzip2 or xz; which is told by content. `read_graph` finds out the
format.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building.edges import EdgeCollector, Graph
from taxtune.taxonomy.readers.obo import is_obo
from taxtune.taxonomy.readers.rdf import is_rdf
from taxtune.taxonomy.sources.edge_lists import read_edge_list, read_name_list
from taxtune.taxonomy.sources.leaves import read_leaves
from taxtune.taxonomy.sources.lines import first_lines
from taxtune.taxonomy.sources.ontologies import read_ontology
from taxtune.taxonomy.sources.oven import Linked, OvenExample, link_oven, read_oven
from taxtune.taxonomy.sources.synsets import Direction, is_synset_edges, read_synset_edges, read_synset_names
from taxtune.taxonomy.sources.wikidata_dump import read_wikidata_dump
from taxtune.taxonomy.sources.wikidata_kgtk import read_kgtk_edges, read_kgtk_names
from taxtune.taxonomy.sources.wordnet_files import is_wordnet_data, read_wordnet_data

__all__ = [
    "SOURCES",
    "Linked",
    "OvenExample",
    "link_oven",
    "read_graph",
    "read_leaves",
    "read_oven",
]

#: The formats of graphs that can be asked for; "auto" looks at the content.
SOURCES = ("auto", "edges", "synsets", "wordnet", "kgtk", "wikidata-json", "rdf", "obo")


def read_graph(
    paths: Sequence[Path],
    *,
    format: str = "auto",
    names: Sequence[Path] = (),
    properties: Sequence[str] = ("P279",),
    only: Mapping[str, Collection[str]] | None = None,
    language: str = "en",
    direction: Direction | None = None,
) -> Graph:
    """Reads a graph from one or more files.

    Args:
        paths: Files with edges.
        format: One of `SOURCES`:

            - "edges": CSV or TSV with the columns child and parent, or any two columns with a direction;
            - "synsets": two synset ids per line, the parent first unless a direction says otherwise;
            - "wordnet": WordNet's own files, data.noun and data.verb;
            - "kgtk": Wikidata as KGTK edges (node1, label, node2);
            - "wikidata-json": Wikidata's entity dump;
            - "rdf": SKOS, OWL or RDFS, and "obo": an ontology in OBO's format, as the readers of trees read them;
            - "auto": whichever of these each file is.
        names: Files with labels and aliases: KGTK, a table with the columns id, label and aliases, or names of synsets.
        properties: For Wikidata, the properties that are edges.
        only: For Wikidata, by property the only children whose edges are wanted.
        language: For Wikidata, the language of the names.
        direction: Which comes first in files that do not say so.

    Raises:
        TaxonomyError: If a file cannot be read or is in none of the formats, or there is no edge in any.
    """
    if format not in SOURCES:
        raise TaxonomyError("Unknown graph format.", value=format, remedy=f"Use one of {', '.join(SOURCES)}.")
    into = EdgeCollector()
    for path in paths:
        kind = _detect(path) if format == "auto" else format
        if kind == "synsets":
            read_synset_edges(path, into, direction=direction or "parent-child")
        elif kind == "wordnet":
            read_wordnet_data(path, into)
        elif kind == "kgtk":
            read_kgtk_edges(path, into, properties=properties, only=only, language=language)
        elif kind == "wikidata-json":
            read_wikidata_dump(path, into, properties=properties, only=only, language=language, names=not names)
        elif kind in ("rdf", "obo"):
            read_ontology(path, into, kind)
        else:
            read_edge_list(path, into, direction=direction)
    for path in names:
        start = _beginning(path)
        if start[0].lstrip()[:1] == "{" or is_synset_edges(" ".join([start[0].split()[0]] * 2)):
            read_synset_names(path, into)
        elif _is_kgtk_names(start):
            read_kgtk_names(path, into, language=language)
        else:
            read_name_list(path, into)
    return into.finish()


_TRIPLE = re.compile(r"(?:[^\t]*\t)?[QPL]\d+\tP\d+\t[^\t]+(?:\t[^\t]*)*")


def _detect(path: Path) -> str:
    start = _beginning(path)
    first = start[0]
    if is_rdf("\n".join(start), path):
        return "rdf"
    if is_obo("\n".join(start)):
        return "obo"
    if first.lstrip()[:1] in ("{", "["):
        return "wikidata-json"
    if is_synset_edges(first):
        return "synsets"
    if is_wordnet_data(start[-1]):  # behind the licence
        return "wordnet"
    # Triples without a header are KGTK's all the same, so that it is the header that is asked for.
    return "kgtk" if _has_ends(first) or _TRIPLE.fullmatch(first) else "edges"


def _is_kgtk_names(start: list[str]) -> bool:
    """Tells whether a file is KGTK: by the columns of an edge file, or as a node file by a value as KGTK writes it."""
    columns = start[0].split("\t")
    quoted = len(start) > 1 and any(cell[:1] in ("'", '"') for cell in start[1].split("\t")[1:])
    return _has_ends(start[0]) or ("id" in columns and "label" in columns and quoted)


def _has_ends(header: str) -> bool:
    columns = set(header.strip().split("\t"))
    return bool(columns & {"node1", "from", "subject"}) and bool(columns & {"node2", "to", "object"})


def _beginning(path: Path) -> list[str]:
    """Returns the first lines that are no comments; the first of all where there are only comments."""
    start = first_lines(path, 50)
    return [line for line in start if not line.startswith("#")] or start
