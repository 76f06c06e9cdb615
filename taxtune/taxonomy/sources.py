"""Graphs of "subclass of" edges, read as they are published: plain edge lists, WordNet and ontologies.

A file may be packed with gzip, bzip2 or xz. What it is, is told by its content:

- CSV or TSV with the columns child and parent, and perhaps label, aliases and leads (several names between ";");
- WordNet's own `data.noun` and `data.verb` (wndb(5WN)); an id is the part of speech and the offset, as in ImageNet;
- any other file that `taxtune.taxonomy.read_taxonomy` reads, such as SKOS, OWL and OBO, with all parents.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import networkx as nx

from taxtune.errors import TaxonomyError
from taxtune.tables import clean, header_of, join_cell, parse_table, read_text, text_lines
from taxtune.taxonomy.raw import RawNode, split_names
from taxtune.taxonomy.read import parse_taxonomy

__all__ = ["read_graph", "read_leaves"]

# Offset, lexicographer's file, part of speech, number of words: what a line of WordNet's database begins with.
_WORDNET = re.compile(r"\d{8} \d\d [nv] [0-9a-f]{2} ")
_LICENCE = "  "
_ABOVE = ("@", "@i")  # a kind of, an instance of


def read_graph(paths: Sequence[Path], *, names: Sequence[Path] = (), format: str = "auto") -> nx.DiGraph:
    """Reads a graph from one or more files.

    Args:
        paths: Files with edges.
        names: Files of the same formats, or tables with the columns id, label and aliases, of which only the names of
            the graph's nodes are taken.
        format: The format of files that are read as trees are, one of `taxtune.taxonomy.FORMATS`.

    Returns:
        Edges from parent to child, each once, none from a node to itself. Nodes have the attributes `label`, `aliases`
        and `leads` where they have any; attributes of the graph count what was not taken.

    Raises:
        TaxonomyError: If a file cannot be read or is in none of the formats, or there is no node.
    """
    left_out: Counter[str] = Counter()
    graph = nx.DiGraph(**{"duplicate edge": 0, "self loop": 0, "left_out": left_out})
    for row in chain.from_iterable(_rows(path, format, left_out) for path in paths):
        if row.parent is None or row.parent == row.key:
            graph.graph["self loop"] += row.parent is not None
            graph.add_node(row.key)
        else:
            graph.graph["duplicate edge"] += graph.has_edge(row.parent, row.key)
            graph.add_edge(row.parent, row.key)
        _name(graph, row)
    if not graph:
        raise TaxonomyError("There is no edge.", file=", ".join(map(str, paths)), remedy="Check the file.")
    for row in chain.from_iterable(_rows(path, format, left_out, names=True) for path in names):
        if row.key in graph:
            _name(graph, row)
    return graph


def _name(graph: nx.DiGraph, row: RawNode) -> None:
    """Gives a node its names; the first of several labels stays and the others become aliases."""
    data = graph.nodes[row.key]
    first = data.setdefault("label", row.label) if row.label else ""
    aliases = row.aliases if row.label == first else (row.label, *row.aliases)
    for kind, names in (("aliases", aliases), ("leads", row.leads)):
        if names:
            data[kind] = tuple(dict.fromkeys((*data.get(kind, ()), *names)))


def _rows(path: Path, format: str, left_out: Counter[str], names: bool = False) -> Iterable[RawNode]:
    """Returns the statements of a file; without keys for parents where it holds names only."""
    text = read_text(path, what="graph") if format == "auto" and not path.is_dir() else ""
    lines = [line for line in text[: 2**16].splitlines() if line.strip() and not line.startswith(_LICENCE)] or [""]
    columns = set(header_of(lines[0]))
    if _WORDNET.match(lines[0]) or text.startswith("  1 This software and database"):
        return _wordnet(text, path)
    if {"child", "parent"} <= columns or (names and columns & {"id", "child"}):
        return _edges(text, path)
    return _as_tree(path, format, left_out)


def _wordnet(text: str, path: Path) -> Iterator[RawNode]:
    """Yields synsets with their hypernyms; the first word is the label, the others are aliases."""
    for row, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(_LICENCE):
            continue
        try:
            if not _WORDNET.match(line):
                raise ValueError(line)
            fields = line.split(" | ")[0].split()
            start = 5 + 2 * int(fields[3], 16)
            words = [word.replace("_", " ") for word in fields[4 : start - 1 : 2]]
            pointers = [fields[i : i + 4] for i in range(start, start + 4 * int(fields[start - 1]), 4)]
            above = dict.fromkeys(pos + offset for symbol, offset, pos, _ in pointers if symbol in _ABOVE)
        except (ValueError, IndexError):
            raise TaxonomyError(
                "The line is not a synset of WordNet's database.",
                file=path,
                row=row,
                value=line[:80],
                remedy="Give data.noun or data.verb of WordNet as it is published.",
            ) from None
        for parent in above or (None,):
            yield RawNode(fields[2] + fields[0], parent, words[0], tuple(words[1:]))


def _edges(text: str, path: Path) -> Iterator[RawNode]:
    """Yields the rows of an edge list or, where there is no column of parents, of a list of names."""
    table = parse_table(text, str(path))
    child, parent, label = table.column("child", "id"), table.column("parent"), table.column("label", "name")
    aliases, leads = table.column("aliases", "alias"), table.column("leads")
    for row in table.rows:
        message = "" if row.cell(child) else "The row has no child."
        if any(row.cells[len(table.header) :]):
            message = f"The row has {len(row.cells)} cells, the header {len(table.header)}."
        if message:
            remedy = "Fill in the child, and put a name that contains the separator in double quotes."
            raise TaxonomyError(message, file=path, row=row.line, value=",".join(row.cells), remedy=remedy)
        others = split_names(row.cell(aliases)), split_names(row.cell(leads))
        yield RawNode(row.cell(child), row.cell(parent) or None, row.cell(label), others[0], leads=others[1])


def _as_tree(path: Path, format: str, left_out: Counter[str]) -> Iterator[RawNode]:
    """Yields the statements of a file that is read as a tree is, in which a node may have several parents."""
    raw = parse_taxonomy(path, format=format)
    left_out.update(defect.message for defect in raw.defects)
    for node in raw.nodes:
        key, parent = (join_cell(some, "/") if isinstance(some, tuple) else some for some in (node.key, node.parent))
        yield node._replace(key=key, parent=parent, label="" if node.label == key else node.label)


def read_leaves(path: Path) -> tuple[str, ...]:
    """Returns the ids that a file lists, each once: an id a line, or ImageNet's `imagenet_class_index.json`.

    What follows a tab or a comma on a line is ignored, and so are lines that begin with #.

    Raises:
        TaxonomyError: If it lists none, or the JSON is not {"0": ["n01440764", "tench"], ...}.
    """
    text = read_text(path, what="leaves")
    if text.lstrip().startswith("{"):
        try:
            keys = [str(key) for key, _ in json.loads(text).values()]
        except (ValueError, TypeError):
            remedy = 'It must be {"0": ["n01440764", "tench"], …}, or text with an id a line.'
            raise TaxonomyError("The file is not an index of classes.", file=path, remedy=remedy) from None
    else:
        keys = [clean(re.split(r"[\t,]", line)[0]) for line in text_lines(text) if not line.startswith("#")]
    leaves = tuple(dict.fromkeys(filter(None, keys)))
    if not leaves:
        raise TaxonomyError("The file lists no ids.", file=path)
    return leaves
