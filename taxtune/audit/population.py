"""What is audited: distinct answers, where each was placed, and how often it was said."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taxtune.mapping.config import Placement, Stage
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = ["Item", "Population", "answers_digest", "digest", "place_answers"]

#: Stages whose node is the root: what they say differs, though the node does not.
_NOWHERE = (Stage.ABSTAINED, Stage.OFF_TREE)


@dataclass(frozen=True, slots=True)
class Item:
    """A distinct answer and its placement.

    Attributes:
        answer: The answer.
        count: How often it was said, at least 1.
        node: The number of the node that it was placed on.
        stage: The stage that decided.
        evidence: The part of the answer that decided; "" where that is not known or there is none.
    """

    answer: str
    count: int
    node: int
    stage: str
    evidence: str = ""

    @property
    def nowhere(self) -> str:
        """The stage, where it is one that says why the answer is on no node but the root; else ""."""
        return self.stage if self.stage in _NOWHERE else ""


@dataclass(frozen=True, slots=True)
class Population:
    """The answers of a file, or of one template in a run, as they were placed.

    Attributes:
        name: What they are called in messages.
        tree: The tree that they were placed on.
        items: The distinct answers, in the order in which they first occur.
        mapper: Everything that identifies the mapper, by name.
        unanswered: Questions that have no answer; they are no part of it.
        notes: What people should know about it.
    """

    name: str
    tree: Taxonomy
    items: tuple[Item, ...]
    mapper: Mapping[str, Any]
    unanswered: int = 0
    notes: tuple[str, ...] = ()

    @property
    def answers(self) -> int:
        """How many answers there are, repeated ones counted as often as they occur."""
        return sum(item.count for item in self.items)

    def path(self, item: Item) -> str:
        """Returns the path of an item's node, joined with "/"."""
        return "/".join(self.tree.path(item.node))

    def placements(self) -> str:
        """Returns a digest of every answer, how often it was said and where it was placed."""
        return digest((item.answer, self.path(item), item.stage, item.count) for item in self.items)


def digest(placed: Iterable[tuple[str, str | None, str | None, int]]) -> str:
    """Returns a digest of placements, each (answer, path, stage, how often), whatever their order.

    It is the same for two sets of placements where the same answers were put on the same nodes, and so what mapper and
    tree make of these answers is the same, too.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    for answer, path, stage, count in placed:
        seen[answer, path or "", str(stage) if stage in _NOWHERE else ""] += count
    return _hash(sorted([*key, count] for key, count in seen.items()))


def answers_digest(items: Sequence[Item]) -> str:
    """Returns a digest of the answers and how often each was said, wherever they were placed."""
    return _hash(sorted([item.answer, item.count] for item in items))


def _hash(value: object) -> str:
    # Not UTF-8 of the text itself: a broken answer may hold half a surrogate pair.
    return hashlib.sha256(json.dumps(value).encode("ascii")).hexdigest()[:16]


def place_answers(
    name: str, answers: Sequence[str], mapper: Mapper, *, unanswered: int = 0, notes: Sequence[str] = ()
) -> Population:
    """Returns answers as a mapper places them, each distinct one placed once."""
    counts = Counter(answers)
    items = (_item(placed, counts[placed.answer]) for placed in mapper.place(list(counts)))
    return Population(name, mapper.taxonomy, tuple(items), mapper.identity(), unanswered, tuple(notes))


def _item(placed: Placement, count: int) -> Item:
    return Item(placed.answer, count, placed.node, str(placed.stage), placed.evidence)
