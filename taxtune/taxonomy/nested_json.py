"""Reader of nested JSON: objects with a name and children, in their usual spellings, or objects whose keys are names.

Two layouts, which may be mixed: `{"name": "animal", "children": [{"name": "bird"}, "fish"]}`, and `{"animal": {"bird":
["duck", "gull"], "fish": null}}`. Fields are in upper or lower case, with "_", "-" or nothing between words; optional
are an id, a rank, aliases and leads. Defects name where they are as JSON paths, such as `$.children[3].name`. A node
whose id stands in several places has none: its place tells it from the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any

from taxtune.errors import TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy

__all__ = ["is_nested", "read_nested"]

_FIELDS = {
    "name": "name label title text displayname preflabel value labelname category term",
    "id": "id identifier uid key code wnid qid labelname",
    "children": "children child nodes subcategories subcategory categories items subclasses subclass subtypes subnodes "
    "narrower kids branches members taxa",
    "aliases": "aliases alias synonyms synonym altlabels altlabel commonnames commonname othernames",
    "leads": "leads",
    "rank": "rank taxonrank",
}
_SPELLINGS = {field: names.split() for field, names in _FIELDS.items()}


@cache
def _plain(key: str) -> str:
    return re.sub(r"[\s_-]+", "", key).lower()


def _fields(entry: Mapping[str, Any]) -> dict[str, str]:
    """Returns the key, as the object spells it, of each field that it has."""
    keys = {_plain(str(key)): key for key in reversed(list(entry))}
    return {
        field: keys[next(name for name in names if name in keys)]
        for field, names in _SPELLINGS.items()
        if not keys.keys().isdisjoint(names)
    }


def _is_node(entry: Mapping[str, Any], fields: Mapping[str, str]) -> bool:
    """Tells whether an object is a node itself: it has a name that is text, or an id and children."""
    if "name" in fields and isinstance(entry[fields["name"]], str):
        return True
    return "id" in fields and isinstance(entry[fields["id"]], str | int) and "children" in fields


def is_nested(data: object) -> bool:
    """Tells whether parsed JSON is a hierarchy: names within names, at least two levels of them."""
    if isinstance(data, list):
        return any(isinstance(entry, dict) and is_nested(entry) for entry in data)
    if not isinstance(data, dict) or not data:
        return False
    fields = _fields(data)
    if _is_node(data, fields):
        return "children" in fields
    # Numbers as keys are an index of something, such as ImageNet's classes.
    if all(key.strip().isdecimal() for key in data if isinstance(key, str)):
        return False
    values = data.values()
    if any("parent_id" in value for value in values if isinstance(value, dict)):
        return False  # entries that name their parents are edges
    return any(isinstance(value, dict | list) and value for value in values) and all(
        value is None or isinstance(value, dict | list) for value in values
    )


def read_nested(data: object, file: str) -> RawTaxonomy:
    """Returns the nodes of a nested JSON.

    Args:
        data: The parsed JSON.
        file: The file's name, for messages.

    Raises:
        TaxonomyError: If something in it is neither a node nor a name.
    """
    raw = RawTaxonomy(file, "nested-json")
    id_at: dict[Hashable, str] = {}
    # What is to be read, depth first: a value, its parent, its JSON path, and the name that an object of names gives.
    stack: list[tuple[object, Hashable | None, str, str | None]] = [(data, None, "$", None)]
    while stack:
        value, parent, at, name = stack.pop()
        fields = _fields(value) if isinstance(value, dict) else {}
        is_node = isinstance(value, dict) and _is_node(value, fields)
        if name is None and isinstance(value, dict) and not is_node:
            stack += [
                (below, parent, f"{at}.{key}", str(key)) for key, below in reversed(value.items())
            ]
        elif name is None and isinstance(value, list):
            stack += [
                (below, parent, f"{at}[{i}]", None) for i, below in reversed([*enumerate(value)])
            ]
        elif isinstance(value, dict) and is_node:
            raw.nodes.append(_node(value, fields, parent, at, raw))
            identity = value.get(fields.get("id", ""))
            if isinstance(identity, str | int):
                id_at[at,] = str(identity)
            elif name is not None and name != value[fields["name"]]:
                id_at[at,] = name  # {"n01440764": {"name": "tench"}}
            below = value.get(fields.get("children", ""))
            if below is not None and not isinstance(below, dict | list):
                raise _no_node(below, f"{at}.{fields['children']}", file)
            stack += [(below, (at,), f"{at}.{fields['children']}", None)] if below else []
        elif name is None and isinstance(value, str):
            raw.nodes.append(_named(value, parent, at, raw))
        elif name is not None and (value is None or isinstance(value, dict | list)):
            raw.nodes.append(_named(name, parent, at, raw))
            stack += [(value, (at,), at, None)] if value else []
        else:
            raise _no_node(value, at, file)
    count = Counter(id_at.values())
    key = {at: identity for at, identity in id_at.items() if count[identity] == 1}
    raw.nodes = [
        n._replace(key=key.get(n.key, n.key), parent=key.get(n.parent, n.parent)) for n in raw.nodes
    ]
    if several := [identity for identity, times in count.items() if times > 1]:
        message = f"Ids that are used several times and so identify no node: {len(several):,}."
        raw.note("shared id", message, value=several[0])
    return raw


def _node(
    entry: Mapping[str, Any],
    fields: Mapping[str, str],
    parent: Hashable | None,
    at: str,
    raw: RawTaxonomy,
) -> RawNode:
    """Returns the node that an object with fields is."""
    names = {}
    for field in ("aliases", "leads"):
        value = entry.get(fields.get(field, "")) or []
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise _no_node(
                value, f"{at}.{fields[field]}", raw.file, "The names are not a list of texts."
            )
        names[field] = tuple(dict.fromkeys(filter(None, map(clean, texts))))
    label = entry[fields["name"] if "name" in fields else fields["id"]]
    if not isinstance(label, str | int):
        raise _no_node(label, f"{at}.{fields['name']}", raw.file)
    node, rank = _named(str(label), parent, at, raw), entry.get(fields.get("rank", ""))
    aliases = tuple(name for name in names["aliases"] if name != node.label)
    return node._replace(
        aliases=aliases,
        leads=names["leads"],
        rank=None if rank is None else clean(str(rank)) or None,
    )


def _named(label: str, parent: Hashable | None, at: str, raw: RawTaxonomy) -> RawNode:
    if any("\ud800" <= character <= "\udfff" for character in label):
        message = "A name contains an incomplete character (half a surrogate pair)."
        raise TaxonomyError(message, file=raw.file, value=f"{at}: {label!r}")
    if not (tidy := clean(label)):
        raw.flaw("empty name", "The node has no name.", None, at, "Give it a name or remove it.")
    return RawNode((at,), parent, tidy or at)


def _no_node(
    value: object,
    at: str,
    file: str,
    message: str = "This is neither a name nor a node with a name.",
) -> TaxonomyError:
    remedy = 'A node is a text, an object with a "name", or a key with an object, a list or null behind it.'
    return TaxonomyError(message, file=file, value=f"{at}: {value!r}"[:120], remedy=remedy)
