"""Wikidata's entity dumps: one JSON entity a line, as a JSON array (a comma behind each line) or as JSON lines.

A line is only parsed when it mentions a wanted property, since nearly all of a full dump's hundred million lines do
not; of the others it is only seen that they begin and end as an object does. Classes that are only ever a parent have
their names on lines of their own, wherever they are; if such names are missing after the first reading, the file is
read a second time, for those lines alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building.edges import EdgeCollector
from taxtune.taxonomy.sources.lines import lines
from taxtune.taxonomy.sources.wikidata_kgtk import ANY_LANGUAGE

__all__ = ["read_wikidata_dump"]

_ID = re.compile(r'"id"\s*:\s*"([QPL]\d+)"')
_HEAD = 400  # characters within which an entity says its id


def read_wikidata_dump(
    path: Path,
    into: EdgeCollector,
    *,
    properties: Sequence[str] = ("P279",),
    only: Mapping[str, Collection[str]] | None = None,
    language: str = "en",
    names: bool = True,
) -> None:
    """Reads the claims of some properties as edges from an entity to its value, and labels and aliases.

    Deprecated claims, claims with an unknown value or none, and claims about something that is not an entity are
    counted and left out; preferred and normal ones count alike.

    Args:
        path: The dump, packed with gzip or bzip2 or plain.
        into: Where edges and names go.
        properties: The properties whose claims are edges.
        only: For a property the only entities whose claims are wanted.
        language: The language of the names; names for all languages ("mul") stand in for it.
        names: Whether to read names, and the file a second time if need be.

    Raises:
        TaxonomyError: If the file cannot be read, a line is not a JSON object, or one that is needed is not an entity.
    """
    into.start(str(path))
    marks = tuple(f'"{name}"' for name in properties)
    limits = only or {}
    entities = 0
    for row, text in lines(path):
        line = _entity_text(text)
        if not line:
            continue
        entities += 1
        # A line that is not even the shape of an object is parsed for the error that it raises.
        if entities == 1 or not (line[0] == "{" and line[-1] == "}") or any(mark in line for mark in marks):
            entity = _parse(line, path, row)
            if _claims(entity, into, properties, limits, path, row) and names:
                _names(entity, into, language)
    if not entities:
        raise TaxonomyError("The dump contains no entities.", file=path)
    into.notes["entities"] += entities
    if names:
        _second_reading(path, into, language)


def _second_reading(path: Path, into: EdgeCollector, language: str) -> None:
    missing = set(into.unnamed)
    for row, text in lines(path) if missing else ():
        line = _entity_text(text)
        if not line:
            continue
        found = _ID.search(line, 0, _HEAD)
        # An entity that does not say its id at the beginning has to be parsed to learn it.
        if found is not None and found[1] not in missing:
            continue
        entity = _parse(line, path, row)
        if entity.get("id") in missing:
            _names(entity, into, language)
            missing.discard(entity["id"])
            if not missing:
                return


def _entity_text(text: str) -> str:
    return text.strip().removeprefix("[").removesuffix("]").rstrip().removesuffix(",").strip()


def _parse(line: str, path: Path, row: int) -> dict[str, Any]:
    try:
        entity = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        raise TaxonomyError(
            "The line is not a JSON entity.",
            file=path,
            row=row,
            value=line,
            remedy="A dump has one entity per line; a file that was cut off must be downloaded again.",
        ) from None
    if not isinstance(entity, dict) or not isinstance(entity.get("id"), str):
        raise TaxonomyError(
            "The line is not a Wikidata entity: it has no id.",
            file=path,
            row=row,
            value=line,
            remedy="Give a dump of entities, one per line.",
        )
    return entity


def _claims(
    entity: dict[str, Any],
    into: EdgeCollector,
    properties: Sequence[str],
    only: Mapping[str, Collection[str]],
    path: Path,
    row: int,
) -> bool:
    """Adds the edges of an entity; returns whether there are any."""
    claims = entity.get("claims")
    # PHP writes an empty map as a list.
    if not isinstance(claims, dict):
        return False
    child, added = entity["id"], False
    for name in properties:
        statements = claims.get(name, ())
        if statements and name in only and child not in only[name]:
            into.notes[f"{name} edges of entities that are not wanted"] += len(statements)
            continue
        for statement in statements:
            try:
                snak, rank = statement["mainsnak"], statement.get("rank", "normal")
                kind = snak["snaktype"]
                parent = _value_id(snak) if kind == "value" else None
            except (KeyError, TypeError, AttributeError):
                raise TaxonomyError(
                    f"A claim of {name} is not in Wikidata's form.", file=path, row=row, value=statement
                ) from None
            if rank == "deprecated":
                into.notes["deprecated edges"] += 1
            elif kind != "value":
                into.notes[f"edges with {kind}"] += 1
            elif parent is None:
                into.notes["edges to a value that is not an entity"] += 1
            else:
                into.edge(child, parent, row)
                added = True
    return added


def _value_id(snak: dict[str, Any]) -> str | None:
    value = snak["datavalue"]["value"]
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("id"), str):
        return str(value["id"])
    # Dumps of before 2016 give the number alone.
    number = value.get("numeric-id")
    return f"Q{number}" if isinstance(number, int) and value.get("entity-type", "item") == "item" else None


def _names(entity: dict[str, Any], into: EdgeCollector, language: str) -> None:
    key = entity["id"]
    labels, aliases = entity.get("labels"), entity.get("aliases")
    if isinstance(labels, dict):
        for code in (language, ANY_LANGUAGE):
            value = labels.get(code)
            if isinstance(value, dict) and isinstance(value.get("value"), str):
                into.name(key, value["value"])
                break
    if isinstance(aliases, dict):
        for code in (language, ANY_LANGUAGE):
            for value in aliases.get(code) or ():
                if isinstance(value, dict) and isinstance(value.get("value"), str):
                    into.alias(key, value["value"])
