"""Wikidata as KGTK files: subclass-of (P279) edges, labels and aliases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from taxtune.taxonomy.building.edges import EdgeCollector, tidy
from taxtune.taxonomy.sources.kgtk import EdgeTable, read_text, split_list

__all__ = ["read_kgtk_edges", "read_kgtk_names"]

_LABELS = frozenset({"label", "rdfs:label", "prefLabel", "skos:prefLabel"})
_ALIASES = frozenset({"alias", "aliases", "altLabel", "skos:altLabel"})
_UNKNOWN = frozenset({"somevalue", "novalue"})
#: The code under which Wikidata keeps names that are the same in every language.
ANY_LANGUAGE = "mul"


def read_kgtk_edges(
    path: Path,
    into: EdgeCollector,
    *,
    properties: Sequence[str] = ("P279",),
    only: Mapping[str, Collection[str]] | None = None,
    language: str = "en",
) -> None:
    """Reads the edges of some properties from a KGTK edge file: node1 is the child, node2 the parent.

    Rows of other properties, of deprecated rank (where there is a column rank), with an unknown value or none, and with
    a literal in place of an entity are counted and left out. Labels in the columns `node1;label` and `node2;label` are
    taken along.

    Args:
        path: The file, packed or not.
        into: Where the edges go.
        properties: The properties whose edges are wanted.
        only: For a property the only children whose edges are wanted.
        language: The language of labels in the file.

    Raises:
        TaxonomyError: If the file is no KGTK edge file.
    """
    table = EdgeTable(path)
    node1, label, node2 = table.need("node1", "label", "node2")
    rank = table.columns.get("rank")
    named = [(end, table.columns[name]) for end, name in ((node1, "node1;label"), (node2, "node2;label"))
             if name in table.columns]  # fmt: skip
    into.start(str(path))
    wanted, limits, notes = frozenset(properties), only or {}, into.notes
    for row, cells in table.rows():
        key = cells[label]
        if key not in wanted:
            notes["edges of other properties"] += 1
            continue
        child, parent = tidy(cells[node1]), tidy(cells[node2])
        if not child or not parent:
            notes["edges without a child or a parent"] += 1
        elif rank is not None and cells[rank] == "deprecated":
            notes["deprecated edges"] += 1
        elif parent in _UNKNOWN:
            notes[f"edges with {parent}"] += 1
        elif parent[0] in "\"'^@!" or child[0] in "\"'^@!":
            notes["edges to a value that is not an entity"] += 1
        elif key in limits and child not in limits[key]:
            notes[f"{key} edges of entities that are not wanted"] += 1
        else:
            into.edge(child, parent, row)
            for end, column in named:
                _name(into, tidy(cells[end]), cells[column], language, alias=False)


def read_kgtk_names(path: Path, into: EdgeCollector, *, language: str = "en") -> None:
    """Reads labels and aliases from a KGTK file, for nodes that are there already.

    Either an edge file with rows such as `Q42 label 'Douglas Adams'@en` and `Q42 alias 'Douglas N. Adams'@en`, or a
    node file with the columns id, label and alias. Names in other languages are counted and left out, but those that
    Wikidata keeps for all languages ("mul") serve nodes that have none in the language asked for.

    Args:
        path: The file, packed or not.
        into: Where the names go.
        language: The language of the names.

    Raises:
        TaxonomyError: If the file is no KGTK file.
    """
    table = EdgeTable(path)
    fallback: list[tuple[str, str, bool]] = []
    if "node1" in table.columns:
        node1, label, node2 = table.need("node1", "label", "node2")
        for _, cells in table.rows():
            kind = cells[label]
            if kind in _LABELS or kind in _ALIASES:
                key, alias = tidy(cells[node1]), kind in _ALIASES
                if _name(into, key, cells[node2], language, alias=alias) is False:
                    fallback.append((key, cells[node2], alias))
            else:
                into.notes["rows that are not names"] += 1
    else:
        (key_column,) = table.need("id")
        table.need("label")
        columns = [(table.columns[name], name in _ALIASES) for name in (*_LABELS, *_ALIASES) if name in table.columns]
        for _, cells in table.rows():
            key = tidy(cells[key_column])
            for column, alias in columns:
                for value in split_list(cells[column]):
                    if value and _name(into, key, value, language, alias=alias) is False:
                        fallback.append((key, value, alias))
    unnamed = set(into.unnamed) if fallback else set()
    for key, value, alias in fallback:
        if alias or key in unnamed:
            _name(into, key, value, ANY_LANGUAGE, alias=alias)


def _name(into: EdgeCollector, key: str, value: str, language: str, *, alias: bool) -> bool | None:
    """Gives a node a name; returns False for a name in the language of all languages, to be looked at later."""
    if not value:
        return None
    read = read_text(value)
    if read is None:
        into.notes["names that are not text"] += 1
        return None
    text, written = read
    if written is not None and written != language:
        if written == ANY_LANGUAGE:
            return False if key in into else None
        into.notes["names in other languages"] += 1
        return None
    if alias:
        into.alias(key, text)
    else:
        into.name(key, text)
    return True
