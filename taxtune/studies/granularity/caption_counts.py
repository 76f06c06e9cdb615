"""How many captions name each node of a taxonomy.

A caption names a node when one of the node's names, its label or an alias, stands in it as whole words. Words are
compared as the mapper's lexicon folds them: plural, American and British spelling, accents, case and hyphens do not
matter. No name reaches over a comma or the end of a sentence. Of names one of which lies inside the other the longer is
meant: a "tiger shark" is no tiger, and no mention of "shark" either. A name that several nodes bear counts for each of
them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.mapping.normalize import fold_words
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["CaptionCounts", "count_captions"]

IntArray = NDArray[np.int64]

# What parts one thing that is named from the next. The stop of "St. Bernard" does not.
_PARTS = re.compile(r"[,;:!?|()\[\]{}\"“”«»•\n]|(?<=\w\w\w)\.(?=\s|$)")
_GAP = " | "


@dataclass(frozen=True, slots=True)
class CaptionCounts:
    """How often captions name the nodes of a taxonomy.

    Attributes:
        captions: Captions that hold a text.
        empty: Captions that hold none; they are left out.
        naming: Captions that name at least one node.
        counts: Captions that name each node, however often each does, shape (nodes,).
        inside: Captions in which each node's names stand only inside longer names, shape (nodes,); not in `counts`.
        names: Distinct names on the tree, folded.
        shared_names: Those of them that several nodes bear, on the tree or on the whole that it is a part of.
        shared_nodes: Nodes that bear such a name.
        by_shared: Captions in which such a name was found and counted for all its nodes.
        wordless: Nodes none of whose names holds a letter or digit, so that no caption can name them.
    """

    captions: int
    empty: int
    naming: int
    counts: IntArray
    inside: IntArray
    names: int
    shared_names: int
    shared_nodes: int
    by_shared: int
    wordless: int


class _Name(NamedTuple):
    """The nodes of the tree that bear a name, none where it stands outside a part; and whether several nodes do."""

    nodes: tuple[int, ...]
    shared: bool


def count_captions(
    captions: Iterable[str], taxonomy: Taxonomy, part: Domain | None = None, *, source: str | None = None
) -> CaptionCounts:
    """Counts the captions that name each node.

    Args:
        captions: The captions, one at a time; the same text twice is two captions.
        taxonomy: The tree; all names of its nodes are looked for.
        part: What `taxonomy` is a part of. Longer names of the whole tree are longer names here too: a "hot dog" is no
            dog on the tree of dogs.
        source: Where the captions are from, for messages.

    Raises:
        DataError: If there is no caption with text, or none names a node.
    """
    by_name = _names(taxonomy, part)
    automaton = _automaton(by_name)
    counts = np.zeros(len(taxonomy), dtype=np.int64)
    inside = np.zeros(len(taxonomy), dtype=np.int64)
    total = empty = naming = by_shared = 0
    for caption in captions:
        text = _folded(caption)
        if not text:
            if caption.strip():
                total += 1  # signs alone: a caption, and no name
            else:
                empty += 1
            continue
        total += 1
        found = list(automaton.iter(f" {text} ")) if automaton is not None else []
        if not found:
            continue
        named, nested, shared = _sorted_out(found)
        naming += bool(named)
        by_shared += shared
        for node in named:
            counts[node] += 1
        for node in nested - named:
            inside[node] += 1
    if not total:
        raise DataError("All captions are empty.", file=source, value=f"{empty:,} captions")
    if not naming:
        raise DataError(
            f"None of {total:,} captions names a label of the taxonomy, so that there is nothing to compare.",
            file=source,
            remedy="Are they in the language of its names, with words between spaces, and of the things it is about?",
        )
    here = [name for name in by_name.values() if name.nodes]
    return CaptionCounts(
        total,
        empty,
        naming,
        counts,
        inside,
        len(here),
        sum(name.shared for name in here),
        len({node for name in here if name.shared for node in name.nodes}),
        by_shared,
        len(taxonomy) - len({node for name in here for node in name.nodes}),
    )


def _folded(text: str) -> str:
    """Returns the folded words of a text, with a bar where one thing is parted from the next."""
    parts = (" ".join(fold_words(part)) for part in _PARTS.split(text))
    return _GAP.join(part for part in parts if part)


def _names(taxonomy: Taxonomy, part: Domain | None) -> dict[str, _Name]:
    whole = taxonomy if part is None else part.full
    by_name: dict[str, list[int]] = defaultdict(list)
    for node in range(len(whole)):
        for name in dict.fromkeys(map(_folded, whole.names(node))):
            if name:
                by_name[name].append(node)
    number = np.full(len(whole), -1)
    number[slice(None) if part is None else part.numbers] = np.arange(len(taxonomy))
    return {
        name: _Name(tuple(int(number[node]) for node in nodes if number[node] >= 0), len(nodes) > 1)
        for name, nodes in by_name.items()
    }


def _automaton(by_name: dict[str, _Name]) -> Any:
    """Returns what finds all names in one pass over a text, or None where there are none."""
    import ahocorasick

    if not by_name:
        return None
    automaton: Any = ahocorasick.Automaton()
    for name, meant in by_name.items():
        # With a space at either end a name is found as whole words only; neighbours share the space between them.
        key = f" {name} "
        automaton.add_word(key, (len(key), meant))
    automaton.make_automaton()
    return automaton


def _sorted_out(found: list[tuple[int, tuple[int, _Name]]]) -> tuple[set[int], set[int], bool]:
    """Returns the nodes that a caption names, those named only inside longer names, and whether a name is shared.

    Args:
        found: Every name in the caption: the place of its last character, its length and what it means.
    """
    named: set[int] = set()
    nested: set[int] = set()
    shared = False
    reached = -1
    # From the left, of names that begin together the longest first: one that ends no later than another ended is
    # inside it.
    for _, last, name in sorted(
        ((last - length, last, name) for last, (length, name) in found), key=lambda span: (span[0], -span[1])
    ):
        if last <= reached:
            nested.update(name.nodes)
            continue
        reached = last
        named.update(name.nodes)
        shared = shared or (name.shared and bool(name.nodes))
    return named, nested, shared
