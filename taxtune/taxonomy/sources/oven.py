"""OVEN (Hu et al., 2023): questions about images whose answers are Wikidata entities, linked to the nodes of a tree.

OVEN's files are JSON lines with data_id, image_id, question, entity_id ("Q42"), entity_text and data_split; the test
split has no entities.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taxtune.errors import DataError, TaxonomyError
from taxtune.taxonomy.sources.lines import lines
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Linked", "OvenExample", "link_oven", "read_oven"]


@dataclass(frozen=True, slots=True)
class OvenExample:
    """A question about an image.

    Attributes:
        row: Its line in the file.
        id: Its `data_id`.
        image_id: Its image.
        question: The question.
        entity: The Wikidata id of the answer; None where the file has none.
        text: The name of the answer; None where the file has none.
        split: The split; None where the file has none.
    """

    row: int
    id: str
    image_id: str | None
    question: str | None
    entity: str | None
    text: str | None
    split: str | None


def read_oven(path: Path) -> Iterator[OvenExample]:
    """Yields the examples of an OVEN file, packed or not.

    Raises:
        DataError: If a line is not a JSON object, has no `data_id`, or its `entity_id` is not a Wikidata id.
    """
    for row, text in lines(path):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            raise DataError("The line is not JSON.", file=path, row=row, value=text) from None
        if not isinstance(value, dict) or value.get("data_id") in (None, ""):
            raise DataError(
                "The line is not an OVEN example: it has no data_id.",
                file=path,
                row=row,
                value=text,
                remedy="OVEN's files have data_id, image_id, question, entity_id and entity_text.",
            )
        entity = _text(value, "entity_id")
        if entity is not None and not (entity[:1] == "Q" and entity[1:].isdigit()):
            raise DataError("The entity_id is not a Wikidata id.", file=path, row=row, value=entity)
        yield OvenExample(
            row,
            str(value["data_id"]),
            _text(value, "image_id"),
            _text(value, "question"),
            entity,
            _text(value, "entity_text"),
            _text(value, "data_split"),
        )


def _text(value: dict[str, Any], field: str) -> str | None:
    found = value.get(field)
    return str(found) if found not in (None, "") else None


@dataclass(frozen=True, slots=True)
class Linked:
    """OVEN's examples on a tree.

    Attributes:
        examples: How many examples the file has.
        targets: Those whose entity is a node of the tree, with its number.
        off_tree: How many examples each entity has that is no node of the tree, by entity id.
        texts: The name of each entity, by id.
        without_entity: How many examples have no entity.
    """

    examples: int
    targets: list[tuple[OvenExample, int]]
    off_tree: dict[str, int]
    texts: dict[str, str] = field(default_factory=dict)
    without_entity: int = 0

    def on_tree(self) -> dict[str, int]:
        """Returns how many examples each entity has that is a node of the tree, by entity id."""
        return dict(Counter(str(example.entity) for example, _ in self.targets))


def link_oven(path: Path, taxonomy: Taxonomy) -> Linked:
    """Finds the node of each example's entity by its id.

    Args:
        path: An OVEN file.
        taxonomy: A tree whose nodes have Wikidata ids, as `taxtune taxonomy build` writes it.

    Raises:
        TaxonomyError: If no node has an id.
        DataError: If the file is no OVEN file, or empty.
    """
    if not taxonomy.by_id:
        raise TaxonomyError(
            "The nodes of this tree have no ids.",
            file=taxonomy.source,
            remedy="Build it from Wikidata with `taxtune taxonomy build`.",
        )
    count = without = 0
    targets = []
    off: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for example in read_oven(path):
        count += 1
        if example.entity is None:
            without += 1
            continue
        if example.text is not None:
            texts.setdefault(example.entity, example.text)
        node = taxonomy.by_id.get(example.entity)
        if node is None:
            off[example.entity] += 1
        else:
            targets.append((example, node))
    if not count:
        raise DataError("The file contains no example.", file=path)
    return Linked(count, targets, dict(off), texts, without)
