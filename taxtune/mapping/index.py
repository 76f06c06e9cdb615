"""What a taxonomy's names say, learnt once and kept on disk.

Everything is learnt from the tree: whole names, what a name says beyond the names above it, the
words that names end in, Latin binomials. Each table leads from folded words to nodes. A node stands
in them by its place in a walk down the tree (`Taxonomy.places`), so that of the nodes with a word
those below another node are a range.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping import english
from taxtune.mapping.hash_index import Multimap, MultimapBuilder, Part, cached, text_key
from taxtune.mapping.normalize import fold_words, undoubled
from taxtune.store import cache_folder
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["MAX_HEAD", "NameIndex", "Words", "has_digit"]

#: Changes with everything that changes what is learnt.
_VERSION = 51
#: A smaller tree is learnt faster than it is read.
_MIN_STORED = 2000
#: A head of a name is at most this many words: "owl", "screech owl", "yellow rumped warbler".
MAX_HEAD = 3
_TABLES = ("exact", "heads", "shortened", "clipped")
_LISTED = re.compile(r"[,/;|]")
_PARTS = re.compile(r"[,/;|()]|\betc\b|\band\b|\bor\b|&", re.I)
_ARTICLE = re.compile(r"^\s*(?:the|an?)\s+(?=\S)", re.I)

#: Folded words.
Words = tuple[str, ...]


@dataclass(frozen=True)
class NameIndex:
    """The tables of a tree's names.

    Attributes:
        exact: Names with their words joined, so that "sea gull" and "seagull" are one key, to the
            numbers of names; a node stands once for each key.
        named: The node of each name.
        spelt: The key (`text_key`) of each name's words joined by spaces.
        in_latin: Whether each name is a Latin label above species; an English name that is spelt
            so, "nasturtium", is meant more often.
        preferred: Whether each name is its node's first.
        heads: The last words of names, joined, to places; a node stands there as often as it has
            such a name.
        shortened: Names without the words of their ancestors' names, to places: "747" of "Boeing
            747" below Boeing.
        clipped: Names without their parent's name at the end, to places: "grilled cheese" of
            "grilled cheese sandwich", "Gothic" of "Gothic architecture" below "medieval
            architecture".
        vocabulary: Every word.
        counts: The number of nodes that have each word in their names.
        lengths: The number of words of the longest name that begins with each word.
        latin: Whether the tree has genera.
    """

    exact: Multimap
    named: NDArray[np.int32]
    spelt: NDArray[np.uint64]
    in_latin: NDArray[np.bool_]
    preferred: NDArray[np.bool_]
    heads: Multimap
    shortened: Multimap
    clipped: Multimap
    vocabulary: list[str]
    counts: NDArray[np.int32]
    lengths: NDArray[np.int32]
    latin: bool

    @classmethod
    def of(cls, taxonomy: Taxonomy, folder: Path | None = None) -> Self:
        """Returns the index of a tree, from the files in `folder` if it is there.

        Without a folder, they are in the user's cache folder.
        """
        make = _Learner(taxonomy).learn
        if len(taxonomy) < _MIN_STORED:
            parts: dict[str, Any] = make()
        else:
            known = f"{_VERSION} {taxonomy.digest}".encode()
            file = f"{blake2b(known, digest_size=16).hexdigest()}.npz"
            parts = cached(cache_folder(folder, "names") / file, make)
        parts["latin"] = bool(parts["latin"])
        return cls(**parts)

    @cached_property
    def nodes_with(self) -> dict[str, int]:
        """The number of nodes that have a folded word in their names."""
        return dict(zip(self.vocabulary, self.counts.tolist(), strict=True))

    @cached_property
    def longest(self) -> dict[str, int]:
        """The number of words of the longest name that begins with a folded word."""
        return dict(zip(self.vocabulary, self.lengths.tolist(), strict=True))

    @cached_property
    def of_letter(self) -> dict[str, dict[str, str]]:
        """The words by first letter, each to its form without doubled letters."""
        words: dict[str, dict[str, str]] = defaultdict(dict)
        for word in self.vocabulary:
            words[word[0]][word] = undoubled(word)
        return words


class _Learner:
    """Fills the tables node by node."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        self._latin = _has_genera(taxonomy)
        self._names = _folded_names(taxonomy)
        self._tables: dict[str, MultimapBuilder] = defaultdict(MultimapBuilder)
        self._longest: Counter[str] = Counter()
        # By the number of a name.
        self._named = array("i")
        self._spelt = array("Q")
        self._in_latin = array("b")
        self._preferred = array("b")

    def learn(self) -> dict[str, Part]:
        """Returns all tables."""
        for node in range(len(self.taxonomy)):
            self._add_names(node)
            self._add_heads(node)
        places = self.taxonomy.places.tolist()
        for node, table, text in _name_tails(self.taxonomy, self._names):
            self._tables[table].add(text, places[node])
        counts: Counter[str] = Counter()
        for names in self._names:
            counts.update(set().union(*names))
        parts: dict[str, Part] = {
            "vocabulary": list(counts),
            "counts": np.array([*counts.values()], dtype=np.int32),
            "lengths": np.array([self._longest[word] for word in counts], dtype=np.int32),
            "named": np.array(self._named, dtype=np.int32),
            "spelt": np.array(self._spelt, dtype=np.uint64),
            "in_latin": np.array(self._in_latin, dtype=bool),
            "preferred": np.array(self._preferred, dtype=bool),
            "latin": np.array(self._latin),
        }
        for table in _TABLES:
            parts[table] = self._tables[table].build(repeats=table == "heads")
        return parts

    def _add_names(self, node: int) -> None:
        names = self.taxonomy.names(node)
        is_above_species = self._latin and self.taxonomy.ranks[node] != "species"
        keys: set[str] = set()
        for position, (name, words) in enumerate(zip(names, self._names[node], strict=True)):
            is_label = position == 0
            is_common_name = position == 1 and name != names[0]
            for spelling in dict.fromkeys((words, _without_article(name))):
                key = "".join(spelling)
                if not spelling or key in keys:
                    continue
                keys.add(key)
                self._longest[spelling[0]] = max(self._longest[spelling[0]], len(spelling))
                self._tables["exact"].add(key, len(self._named))
                self._named.append(node)
                self._spelt.append(text_key(" ".join(spelling)))
                self._in_latin.append(is_label and is_above_species and len(words) == 1)
                self._preferred.append(is_label or is_common_name)

    def _add_heads(self, node: int) -> None:
        names = self._names[node]
        has_latin_label = self.taxonomy.ranks[node] not in (None, "species") or len(names) > 1
        if self._latin and has_latin_label:
            names = names[1:]
        place = int(self.taxonomy.places[node])
        for words in names:
            for head in _heads(words):
                self._tables["heads"].add(head, place)


# -- tails of names --------------------------------------------------------------------------------


def _name_tails(taxonomy: Taxonomy, names: list[list[Words]]) -> Iterator[tuple[int, str, str]]:
    """Yields the other words by which names can be said, in a walk down the tree.

    Yields:
        A node, the table that the words belong to, and the words joined by spaces.
    """
    latin = _has_genera(taxonomy)
    # The names of a node's ancestors, items of listed names among them.
    above_depth: list[frozenset[Words]] = [frozenset()]
    for node in taxonomy.walk.tolist():
        depth = int(taxonomy.depth[node])
        above = above_depth[depth]
        items = _items(taxonomy, node)
        for words in items:
            yield node, "shortened", " ".join(words)
        for table, words in _tails(taxonomy, names, node, above, latin):
            yield node, table, " ".join(words)
        if taxonomy.sizes[node] > 1:
            above_depth[depth + 1 :] = [above.union(names[node], items)]


def _tails(
    taxonomy: Taxonomy,
    names: list[list[Words]],
    node: int,
    above: frozenset[Words],
    latin: bool,
) -> Iterator[tuple[str, Words]]:
    """Yields the other words by which a node's names can be said, each with its table."""
    of_parent = names[int(taxonomy.parents[node])][0] if node else ()
    if latin and taxonomy.ranks[node] == "species":
        yield from _abbreviated(names[node][0])
    of_root = {words for words in names[0] if len(words) == 1} if node else set()
    for words in names[node]:
        front = _redundant_front(words, above)
        if front and not (latin and taxonomy.ranks[node] == "species"):
            yield "shortened", words[front:]
        if not front and not latin:  # "Ford" + "F-150", of "F-150 Regular Cab" below Ford
            for name in above.difference(names[0]):
                yield "shortened", (*name, *words)
        if len(words) < 2:
            continue
        ends_as_parent = len(of_parent) > 1 and words[-1] == of_parent[-1]
        ends_in_name = len(words) > 2 and words[-1:] in above
        if words[-1:] in of_root:
            yield "shortened", words[:-1]
        elif ends_in_name or ends_as_parent:
            yield "clipped", words[:-1]


def _abbreviated(words: Words) -> Iterator[tuple[str, Words]]:
    """Yields "T. migratorius" for "Turdus migratorius"."""
    initials = tuple(word[0] for word in words)
    for n in range(1, len(words)):
        yield "shortened", initials[:n] + words[n:]


def _redundant_front(words: Words, above: frozenset[Words]) -> int:
    """Returns the number of first words that a name above already says: 1 of "Nikon D90"."""
    return next((n for n in range(len(words) - 1, 0, -1) if words[:n] in above), 0)


def _items(taxonomy: Taxonomy, node: int) -> list[Words]:
    """Returns the items of a label that lists several: "bar / pub".

    "And" parts the words of a label only if it has kinds: "rays and skates".
    """
    label = taxonomy.labels[node]
    items = [fold_words(item) for item in _PARTS.split(label)]
    has_phrases = max(map(len, items)) > 1
    if not _LISTED.search(label) and (has_phrases or taxonomy.sizes[node] == 1):
        return []
    telling = [item for item in items if item and not english.SAYS_NOTHING.issuperset(item)]
    return telling if len(telling) > 1 else []


# -- words of names --------------------------------------------------------------------------------


def _has_genera(taxonomy: Taxonomy) -> bool:
    return "genus" in taxonomy.ranks


def _folded_names(taxonomy: Taxonomy) -> list[list[Words]]:
    """Returns the folded words of each node's names."""
    return [[fold_words(name) for name in taxonomy.names(node)] for node in range(len(taxonomy))]


def _heads(words: Words) -> Iterator[str]:
    """Yields the last words of a name, joined: one, two and three of them."""
    stop = len(words)
    while stop > 1 and has_digit(words[stop - 1]):
        stop -= 1  # a "Focus Sedan 2007" is a sedan
    for length in range(1, min(MAX_HEAD, stop) + 1):
        yield "".join(words[stop - length : stop])


def has_digit(word: str) -> bool:
    """Tells whether a word has a digit in it."""
    return not word.isalpha() and any(character.isdigit() for character in word)


def _without_article(name: str) -> Words:
    """Returns the folded words of a name without its article.

    "The Gem" is a gem, but an "An-12" is no 12.
    """
    return fold_words(_ARTICLE.sub("", name))
