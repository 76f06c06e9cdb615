"""Reads nested JSON: objects with a name and children, or objects whose keys are names.

The two layouts may be mixed: `{"name": "animal", "children": [{"name": "bird"}, "fish"]}`, and
`{"animal": {"bird": ["duck", "gull"], "fish": null}}`. Fields are in upper or lower case, with "_",
"-" or nothing between words; optional are an id, a rank, aliases and leads. Defects name where they
are as JSON paths, such as `$.children[3].name`. A node whose id stands in several places has none:
its place sets it apart from the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, NamedTuple

from taxtune.errors import TaxonomyError
from taxtune.tables import clean
from taxtune.taxonomy.raw import RawNode, RawTaxonomy, has_half_character

__all__ = ["is_nested", "read_nested"]

#: How the key of each field may be spelt, the preferred spelling first.
_SPELLINGS = {
    "name": "name label title text displayname preflabel value labelname category term",
    "id": "id identifier uid key code wnid qid labelname",
    "children": "children child nodes subcategories subcategory categories items subclasses "
    "subclass subtypes subnodes narrower kids branches members taxa",
    "aliases": "aliases alias synonyms synonym altlabels altlabel commonnames commonname "
    "othernames",
    "leads": "leads",
    "rank": "rank taxonrank",
}


class _Value(NamedTuple):
    """A value that is still to be read.

    Attributes:
        content: The value.
        parent: The key of the node above it.
        place: Its JSON path.
        name: Its name, if it is the value of a key that is one.
    """

    content: object
    parent: Hashable | None
    place: str
    name: str | None = None


@cache
def _plain(key: str) -> str:
    return re.sub(r"[\s_-]+", "", key).lower()


class _Object:
    """A JSON object whose keys may be fields.

    Args:
        content: The object.
        place: Its JSON path.
    """

    def __init__(self, content: Mapping[Any, Any], place: str) -> None:
        self.content = content
        self.place = place
        #: The key of each field that the object has, as the object spells it.
        self.keys: dict[str, str] = {}
        spelt = {_plain(str(key)): key for key in reversed(list(content))}
        for field, spellings in _SPELLINGS.items():
            used = [spelling for spelling in spellings.split() if spelling in spelt]
            if used:
                self.keys[field] = spelt[used[0]]

    def value(self, field: str) -> Any:
        """Returns the value of a field; None if the object has no such field."""
        return self.content.get(self.keys.get(field))

    def place_of(self, field: str) -> str:
        """Returns the JSON path of a field that the object has."""
        return f"{self.place}.{self.keys[field]}"

    @property
    def is_node(self) -> bool:
        """Whether it is a node: it has a name that is text, or an id and children."""
        if isinstance(self.value("name"), str):
            return True
        return isinstance(self.value("id"), str | int) and "children" in self.keys


def is_nested(data: object) -> bool:
    """Tells whether parsed JSON is a hierarchy: names within names, at least two levels of them."""
    if isinstance(data, list):
        return any(isinstance(entry, dict) and is_nested(entry) for entry in data)
    if not isinstance(data, dict) or not data:
        return False
    top = _Object(data, "$")
    if top.is_node:
        return "children" in top.keys
    # Numbers as keys are an index of something, such as ImageNet's classes.
    if all(key.strip().isdecimal() for key in data if isinstance(key, str)):
        return False
    is_deep = False
    for value in data.values():
        if value is not None and not isinstance(value, dict | list):
            return False
        if isinstance(value, dict) and "parent_id" in value:
            return False  # entries that name their parents are edges
        is_deep |= bool(value)
    return is_deep


def read_nested(data: object, file: str) -> RawTaxonomy:
    """Returns the nodes of a nested JSON.

    Args:
        data: The parsed JSON.
        file: The file's name, for messages.

    Raises:
        TaxonomyError: If something in it is neither a node nor a name.
    """
    reader = _Reader(file)
    stack = [_Value(data, parent=None, place="$")]
    while stack:
        stack += reversed(reader.read(stack.pop()))
    return reader.finish()


class _Reader:
    """Reads values one by one, and keeps the nodes."""

    def __init__(self, file: str) -> None:
        self.raw = RawTaxonomy(file, "nested-json")
        #: The id of each node that has one, by its key.
        self.ids: dict[Hashable, str] = {}

    def read(self, value: _Value) -> list[_Value]:
        """Adds the node of a value if it is one; returns what is to be read next."""
        content, parent, place, name = value
        if isinstance(content, dict):
            entry = _Object(content, place)
            if entry.is_node:
                return self._read_node(entry, value)
        if name is not None and (content is None or isinstance(content, dict | list)):
            self.raw.nodes.append(self._node(name, parent, place))
            return [_Value(content, (place,), place)] if content else []
        if isinstance(content, dict):
            keys = content.items()
            return [_Value(below, parent, f"{place}.{key}", str(key)) for key, below in keys]
        if isinstance(content, list):
            return [_Value(item, parent, f"{place}[{i}]") for i, item in enumerate(content)]
        if name is not None or not isinstance(content, str):
            raise self._no_node(content, place)
        self.raw.nodes.append(self._node(content, parent, place))
        return []

    def _read_node(self, entry: _Object, value: _Value) -> list[_Value]:
        """Adds the node that an object is; returns its children."""
        label = entry.value("name" if "name" in entry.keys else "id")
        aliases = self._names(entry, "aliases")
        leads = self._names(entry, "leads")
        if not isinstance(label, str | int):
            raise self._no_node(label, entry.place_of("name"))
        node = self._node(str(label), value.parent, entry.place)
        others = tuple(alias for alias in aliases if alias != node.label)
        rank = entry.value("rank")
        if rank is not None:
            rank = clean(str(rank)) or None
        self.raw.nodes.append(node._replace(aliases=others, leads=leads, rank=rank))
        identity = entry.value("id")
        if isinstance(identity, str | int):
            self.ids[node.key] = str(identity)
        elif value.name not in (None, label):
            self.ids[node.key] = str(value.name)  # {"n01440764": {"name": "tench"}}
        children = entry.value("children")
        if children is None:
            return []
        below = entry.place_of("children")
        if not isinstance(children, dict | list):
            raise self._no_node(children, below)
        return [_Value(children, node.key, below)] if children else []

    def _names(self, entry: _Object, field: str) -> tuple[str, ...]:
        """Returns the names in a field of an object, each once."""
        value = entry.value(field) or []
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            message = "The names are not a list of texts."
            raise self._no_node(value, entry.place_of(field), message)
        return tuple(dict.fromkeys(filter(None, map(clean, names))))

    def _node(self, label: str, parent: Hashable | None, place: str) -> RawNode:
        if has_half_character(label):
            raise TaxonomyError(
                "A name contains an incomplete character (half a surrogate pair).",
                file=self.raw.file,
                value=f"{place}: {label!r}",
            )
        tidy = clean(label)
        if not tidy:
            remedy = "Give it a name or remove it."
            self.raw.flaw("empty name", "The node has no name.", None, place, remedy)
        return RawNode(key=(place,), parent=parent, label=tidy or place)

    def _no_node(
        self,
        value: object,
        place: str,
        message: str = "This is neither a name nor a node with a name.",
    ) -> TaxonomyError:
        return TaxonomyError(
            message,
            file=self.raw.file,
            value=f"{place}: {value!r}"[:120],
            remedy='A node is a text, an object with a "name", or a key with an object, a list or '
            "null behind it.",
        )

    def finish(self) -> RawTaxonomy:
        """Returns the nodes, which are known by their ids if no other node has the same."""
        count = Counter(self.ids.values())
        unique = {key: identity for key, identity in self.ids.items() if count[identity] == 1}
        self.raw.nodes = [node.renamed(unique) for node in self.raw.nodes]
        shared = [identity for identity, times in count.items() if times > 1]
        if shared:
            message = f"Ids that are used several times and so identify no node: {len(shared):,}."
            self.raw.note("shared id", message, value=shared[0])
        return self.raw
