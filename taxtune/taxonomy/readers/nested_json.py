"""Reader of nested JSON: objects with a name and children, in their usual spellings, or objects whose keys are names.

Three layouts, which may be mixed:

- `{"name": "animal", "children": [{"name": "bird"}, "fish"]}`; name, label, title, text, …; children, nodes, items,
  subcategories, …; in upper or lower case, with "_", "-" or none between words. Optional are an id, a rank, aliases and
  leads;
- `{"animal": {"bird": ["duck", "gull"], "fish": null}}`: an object of objects, lists or nothing;
- Open Images' `bbox_labels_600_hierarchy.json`: `{"LabelName": "/m/0bl9f", "Subcategory": [...]}`, whose names are in
  `class-descriptions-boxable.csv` ("id,name" a line) beside it. Its `Part` lists are no kinds of a thing: left out.

Defects name where they are as JSON paths, such as `$.children[3].name`. A node whose id stands in several places has
none: its place tells it from the others.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from taxtune.errors import TaxonomyError
from taxtune.tables import clean, read_text
from taxtune.taxonomy.raw import RawNode, RawTaxonomy, add_root

__all__ = ["DESCRIPTIONS", "ROOT", "is_nested", "parse_nested_json"]

#: The label of a root that is added above several nodes, in formats of no particular domain.
ROOT = "everything"

_NAME = ("name", "label", "title", "text", "displayname", "preflabel", "value", "labelname", "category", "term")
_ID = ("id", "identifier", "uid", "key", "code", "wnid", "qid", "labelname")
_CHILDREN = (
    *("children", "child", "nodes", "subcategories", "subcategory", "categories", "items", "subclasses", "subclass"),
    *("subtypes", "subnodes", "narrower", "kids", "branches", "members", "taxa"),
)
_ALIASES = (
    "aliases",
    "alias",
    "synonyms",
    "synonym",
    "altlabels",
    "altlabel",
    "commonnames",
    "commonname",
    "othernames",
)
_LEADS = ("leads",)
_RANK = ("rank", "taxonrank")
_MID = re.compile(r"/[mgt]/\w+")
DESCRIPTIONS = "*class-descriptions*.csv"


def is_nested(data: object) -> bool:
    """Tells whether parsed JSON is a hierarchy: names within names, at least two levels of them."""
    if isinstance(data, list):
        return any(isinstance(entry, dict) and is_nested(entry) for entry in data)
    if not isinstance(data, dict) or not data:
        return False
    if _is_node(data):
        return _field(data, _CHILDREN) is not None
    # Numbers as keys are an index of something, such as ImageNet's classes.
    if all(isinstance(key, str) and key.strip().isdecimal() for key in data):
        return False
    return any(isinstance(value, dict | list) and value for value in data.values()) and all(
        value is None or isinstance(value, dict | list) for value in data.values()
    )


def parse_nested_json(data: object, path: Path, name: str, root: str | None = None) -> RawTaxonomy:
    """Returns the nodes of a nested JSON.

    Args:
        data: The parsed JSON.
        path: The file, beside which Open Images' names are looked for.
        name: The file's name, for messages.
        root: The label of a root above several; "everything" by default.

    Raises:
        TaxonomyError: If something in it is neither a node nor a name, or the names of Open Images are not there.
    """
    reader = _Reader(name)
    reader.read(data)
    raw = reader.finish()
    if reader.mids:
        _name_mids(raw, path)
    add_root(raw, root or ROOT)
    return raw


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()


def _field(entry: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Returns the key of an object that is one of some names, in their order, as the object spells it."""
    keys = {_key(key): key for key in reversed(list(entry))}
    return next((keys[name] for name in names if name in keys), None)


def _is_node(entry: Mapping[str, Any]) -> bool:
    """Tells whether an object is a node itself: it has a name that is text, or an id and children."""
    name, key = _field(entry, _NAME), _field(entry, _ID)
    if name is not None and isinstance(entry[name], str):
        return True
    return key is not None and isinstance(entry[key], str | int) and _field(entry, _CHILDREN) is not None


class _Reader:
    """Walks the JSON without recursion, depth first, so that siblings keep their order."""

    def __init__(self, file: str) -> None:
        self.raw = RawTaxonomy(file, "nested-json")
        self.ids: Counter[str] = Counter()
        self.parts = 0
        self.mids = False
        # The id of each node by its place.
        self._id_at: dict[Hashable, str] = {}

    def read(self, data: object) -> None:
        # What is to be read: a value, its parent, its JSON path, and the name that an object of names gives it.
        stack: list[tuple[object, Hashable | None, str, str | None]] = [(data, None, "$", None)]
        while stack:
            value, parent, at, named = stack.pop()
            if named is not None:
                self._named(value, parent, at, named, stack)
            elif isinstance(value, dict):
                if _is_node(value):
                    self._node(value, parent, at, None, stack)
                else:
                    stack.extend((v, parent, f"{at}.{k}", k) for k, v in reversed(value.items()))
            elif isinstance(value, list):
                stack.extend((v, parent, f"{at}[{i}]", None) for i, v in reversed([*enumerate(value)]))
            elif isinstance(value, str):
                self._add(at, parent, value)
            else:
                raise self._no_node(value, at)

    def _named(
        self,
        value: object,
        parent: Hashable | None,
        at: str,
        name: str,
        stack: list[tuple[object, Any, str, str | None]],
    ) -> None:
        if isinstance(value, dict) and value and _is_node(value):
            self._node(value, parent, at, name, stack)
            return
        if value is not None and not isinstance(value, dict | list):
            raise self._no_node(value, at)
        key = self._add(at, parent, name)
        if value:
            stack.append((value, key, at, None))

    def _node(
        self,
        entry: Mapping[str, Any],
        parent: Hashable | None,
        at: str,
        outer: str | None,
        stack: list[tuple[object, Any, str, str | None]],
    ) -> None:
        name, key = _field(entry, _NAME), _field(entry, _ID)
        label = entry[name] if name is not None else entry[key or ""]
        if not isinstance(label, str | int):
            raise self._no_node(label, f"{at}.{name}")
        identity = str(entry[key]) if key is not None and isinstance(entry[key], str | int) else None
        if identity is None and outer is not None and outer != label:
            identity = outer  # {"n01440764": {"name": "tench"}}
        self.mids |= _key(name or "") == "labelname" and _MID.fullmatch(str(label)) is not None
        rank = _field(entry, _RANK)
        node = self._add(
            at,
            parent,
            str(label),
            aliases=self._texts(entry, _ALIASES, at),
            leads=self._texts(entry, _LEADS, at),
            rank=str(entry[rank]) if rank is not None and entry[rank] is not None else None,
            identity=identity,
        )
        part = _field(entry, ("part",))
        self.parts += len(entry[part]) if part is not None and isinstance(entry[part], list) else 0
        children = _field(entry, _CHILDREN)
        if children is None or entry[children] is None:
            return
        if not isinstance(entry[children], dict | list):
            raise self._no_node(entry[children], f"{at}.{children}")
        stack.append((entry[children], node, f"{at}.{children}", None))

    def _texts(self, entry: Mapping[str, Any], names: tuple[str, ...], at: str) -> tuple[str, ...]:
        field = _field(entry, names)
        value = None if field is None else entry[field]
        texts = [value] if isinstance(value, str) else value or []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise self._no_node(value, f"{at}.{field}", "The names are not a list of texts.")
        return tuple(dict.fromkeys(filter(None, map(clean, texts))))

    def _add(
        self,
        at: str,
        parent: Hashable | None,
        label: str,
        *,
        aliases: tuple[str, ...] = (),
        leads: tuple[str, ...] = (),
        rank: str | None = None,
        identity: str | None = None,
    ) -> Hashable:
        key: Hashable = (at,)
        try:
            label.encode()
        except UnicodeEncodeError:
            raise TaxonomyError(
                "A name contains an incomplete character (half a surrogate pair).",
                file=self.raw.file,
                value=f"{at}: {label!r}",
            ) from None
        tidy = clean(label)
        if not tidy:
            self.raw.flaw("empty name", "The node has no name.", None, at, "Give it a name or remove it.")
            tidy = at
        if identity is not None:
            self.ids[identity] += 1
            self._id_at[key] = identity
        others = tuple(name for name in aliases if name != tidy)
        self.raw.nodes.append(RawNode(key, parent, tidy, others, clean(rank or "") or None, leads=leads))
        return key

    def finish(self) -> RawTaxonomy:
        """Returns the nodes, those whose ids stand nowhere else known by them."""
        key = {at: identity for at, identity in self._id_at.items() if self.ids[identity] == 1}
        self.raw.nodes = [
            replace(node, key=key.get(node.key, node.key), parent=key.get(node.parent, node.parent))
            for node in self.raw.nodes
        ]
        several = {identity: count for identity, count in self.ids.items() if count > 1}
        if several:
            first = next(iter(several))
            message = f"Ids that are used several times and so identify no node: {len(several):,}."
            self.raw.note("shared id", message, value=first)
        if self.parts:
            self.raw.note("left out", f"Left out: {self.parts:,} parts, since a part is not a kind of its whole.")
        return self.raw

    def _no_node(
        self, value: object, at: str, message: str = "This is neither a name nor a node with a name."
    ) -> TaxonomyError:
        return TaxonomyError(
            message,
            file=self.raw.file,
            value=f"{at}: {value!r}"[:120],
            remedy='A node is a text, an object with a "name" and perhaps "children", or a key with an object, a list '
            "or null behind it.",
        )


def _name_mids(raw: RawTaxonomy, path: Path) -> None:
    """Gives the nodes of Open Images their names, from the file of class descriptions beside it; ids stay ids.

    Raises:
        TaxonomyError: If there is no such file.
    """
    files = sorted(path.parent.glob(DESCRIPTIONS))
    if not files:
        raise TaxonomyError(
            "The labels are Open Images ids, but there is no file with their names.",
            file=raw.file,
            value=raw.nodes[0].label,
            remedy="Put Open Images' class-descriptions-boxable.csv in the same folder.",
        )
    names: dict[str, str] = {}
    for file in files:
        rows = csv.reader(read_text(file).splitlines())
        names |= {row[0].strip(): clean(row[1]) for row in rows if len(row) > 1 and clean(row[1])}
    unnamed = [node.label for node in raw.nodes if node.label not in names and node.parent is not None]
    if unnamed:
        message = f"Ids that {', '.join(file.name for file in files)} does not name are labels: {len(unnamed):,}."
        raw.note("renamed", message, value=unnamed[0])
    # The root, "/m/0bl9f", is in none of the lists; the papers call it Entity.
    called = {node.label: "Entity" for node in raw.nodes if node.parent is None} | names
    raw.nodes = [replace(node, label=called.get(node.label, node.label)) for node in raw.nodes]
