"""What a taxonomy's names say, learnt once and kept on disk.

Everything is learnt from the tree: whole names, what a name says beyond the names above it, the words that names end
and begin in, Latin binomials, stems. Each table leads from folded words to nodes. A node stands in them by its place in
a walk down the tree (`Taxonomy.places`), so that of the nodes with a word those below another are a range.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping import english
from taxtune.mapping.hash_index import Multimap, MultimapBuilder, Part, cached, text_key
from taxtune.mapping.normalize import fold_words
from taxtune.store import cache_folder
from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "MAX_HEAD",
    "NameIndex",
    "folded_names",
    "has_digit",
    "name_tails",
    "stored",
    "without_article",
]

#: Changes with everything that changes what is learnt.
_VERSION = 30
#: A smaller tree is learnt faster than it is read.
_MIN_STORED = 2000
#: A head of a name is at most this many words: "owl", "screech owl", "yellow rumped warbler".
MAX_HEAD = 3
#: Where siblings' names end in the same nouns at least this often, a noun that one node has stands for its parent.
_SHARED_HEADS = 0.5
_TABLES = ["exact", "heads", "shortened", "clipped", "series"]
_LISTED = re.compile(r"[,/;|]")
_PARTS = re.compile(r"[,/;|()]|\betc\b|\band\b|\bor\b|&", re.I)
_ARTICLE = re.compile(r"^\s*(?:the|an?)\s+(?=\S)", re.I)

Words = tuple[str, ...]


@dataclass(frozen=True)
class NameIndex:
    """The tables of a tree's names; in all but `exact`, places of nodes in a walk down the tree."""

    #: Names with their words joined, so that "sea gull" and "seagull" are one key; their numbers in the next four,
    #: where a node stands once for each key.
    exact: Multimap
    #: The node of each name.
    named: NDArray[np.int32]
    #: The key (`text_key`) of its words joined by spaces.
    spelt: NDArray[np.uint64]
    #: Whether it is a Latin label above species: an English name spelt so, "nasturtium", is meant more often.
    in_latin: NDArray[np.bool_]
    #: Whether it is the node's first.
    preferred: NDArray[np.bool_]
    #: The last words of names, joined; a node stands as often as it has such a name.
    heads: Multimap
    #: Names without what their ancestors' names already say: "747" of "Boeing 747" below Boeing.
    shortened: Multimap
    #: Names without their parent's at the end: "grilled cheese" of "grilled cheese sandwich", "Gothic" of "Gothic
    #: architecture" below "medieval architecture".
    clipped: Multimap
    #: What comes before a number: "DC" of "DC-3".
    series: Multimap
    #: Every word, and the number of nodes that have it.
    vocabulary: list[str]
    counts: NDArray[np.int32]
    #: Whether siblings' names mostly end in the same noun, as those of sister species do.
    shares_heads: bool
    #: Whether the tree has genera.
    latin: bool

    @classmethod
    def of(cls, taxonomy: Taxonomy, folder: Path | None = None) -> Self:
        """Returns the index of a tree, read from `folder` (None: the user's cache folder) if it is there."""
        parts: dict[str, Any] = stored(
            taxonomy, "names", folder, lambda: _Learner(taxonomy).learnt()
        )
        parts |= {name: bool(parts[name]) for name in ("shares_heads", "latin")}
        return cls(**parts)

    @cached_property
    def nodes_with(self) -> dict[str, int]:
        """The number of nodes that have a folded word in their names."""
        return dict(zip(self.vocabulary, self.counts.tolist(), strict=True))

    @cached_property
    def of_shape(self) -> dict[tuple[str, int], list[str]]:
        """The words by first letter and length."""
        words: dict[tuple[str, int], list[str]] = defaultdict(list)
        for word in self.vocabulary:
            words[word[0], len(word)].append(word)
        return dict(words)


def stored(
    taxonomy: Taxonomy, what: str, folder: Path | None, make: Callable[[], dict[str, Part]]
) -> dict[str, Part]:
    """Returns the arrays derived from a large tree, from disk where they are there and whole."""
    if len(taxonomy) < _MIN_STORED:
        return make()
    key = blake2b(f"{_VERSION} {what} {taxonomy.digest}".encode(), digest_size=16).hexdigest()
    return cached(cache_folder(folder, "names") / f"{key}.npz", make)


def name_tails(taxonomy: Taxonomy, names: list[list[Words]]) -> Iterator[tuple[int, str, str]]:
    """Yields what names say in other words than their own, down the tree: a node, the table, the words with spaces."""
    #: By depth: the names of what is above, parts of listed names among them, and all their beginnings.
    above: list[tuple[frozenset[Words], frozenset[Words]]] = [(frozenset(), frozenset())]
    latin = "genus" in taxonomy.ranks
    for node in taxonomy.walk.tolist():
        depth = int(taxonomy.depth[node])
        known, begun = above[depth]
        parts = _parts_of(taxonomy, node)
        for table, words in (
            *(("shortened", part) for part in parts),
            *_said(taxonomy, names, node, known, begun, latin),
        ):
            yield node, table, " ".join(words)
        if taxonomy.sizes[node] > 1:
            own = [*names[node], *parts]
            below = (
                known.union(own),
                begun.union(words[:n] for words in own for n in range(1, len(words))),
            )
            above[depth + 1 :] = [below]


def _said(
    taxonomy: Taxonomy,
    names: list[list[Words]],
    node: int,
    known: frozenset[Words],
    begun: frozenset[Words],
    latin: bool,
) -> Iterator[tuple[str, Words]]:
    label = names[int(taxonomy.parents[node])][0] if node else ()
    of_root = {words for words in names[0] if len(words) == 1} if node else set()
    for words in names[node]:
        for stop in range(1, len(words)):
            if has_digit(words[stop]):
                yield "series", words[:stop]
        fronted = [
            n
            for n in range(1, len(words))
            if words[:n] in known
            or (words[:n] in begun and any(map(has_digit, words[n:])))  # "Nikon" + "D90"
        ]
        if fronted and not (latin and taxonomy.ranks[node] == "species"):
            yield "shortened", words[fronted[-1] :]
        if not fronted and not latin:  # "Ford" + "F-150", of "F-150 Regular Cab" below Ford
            for name in sorted(known.difference(names[0])):
                yield "shortened", (*name, *words)
        if len(words) > 1 and words[-1:] in of_root:
            yield "shortened", words[:-1]
        elif (len(words) > 2 and words[-1:] in known) or (
            len(words) > 1 < len(label) and words[-1] == label[-1]
        ):
            yield "clipped", words[:-1]


def _parts_of(taxonomy: Taxonomy, node: int) -> list[Words]:
    """Returns the items of a label that lists several: "bar / pub", and "rays and skates" of what has kinds."""
    label = taxonomy.labels[node]
    parts = [fold_words(part) for part in _PARTS.split(label)]
    if not _LISTED.search(label) and (taxonomy.sizes[node] == 1 or max(map(len, parts)) > 1):
        return []
    parts = [part for part in parts if part and not english.SAYS_NOTHING.issuperset(part)]
    return parts if len(parts) > 1 else []


class _Learner:
    """Fills the tables node by node."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        self._latin = "genus" in taxonomy.ranks
        self._names = folded_names(taxonomy)
        self._places = taxonomy.places.tolist()
        self._tables: dict[str, MultimapBuilder] = defaultdict(MultimapBuilder)
        self._named, self._spelt, self._in_latin, self._preferred = (
            array("i"),
            array("Q"),
            array("b"),
            array("b"),
        )

    def learnt(self) -> dict[str, Part]:
        """Returns all tables."""
        for node in range(len(self.taxonomy)):
            self._add_node(node)
        for node, table, text in name_tails(self.taxonomy, self._names):
            self._tables[table].add(text, self._places[node])
        tables = {name: self._tables[name].build(repeats=name == "heads") for name in _TABLES}
        nodes = Counter(
            word for group in self._names for word in {word for words in group for word in words}
        )
        return {
            **tables,
            "vocabulary": list(nodes),
            "counts": np.array([*nodes.values()], dtype=np.int32),
            "named": np.array(self._named, dtype=np.int32),
            "spelt": np.array(self._spelt, dtype=np.uint64),
            "in_latin": np.array(self._in_latin, dtype=bool),
            "preferred": np.array(self._preferred, dtype=bool),
            "shares_heads": np.array(self._share_of_shared_heads() >= _SHARED_HEADS),
            "latin": np.array(self._latin),
        }

    def _add_node(self, node: int) -> None:
        names, rank, place = (
            self.taxonomy.names(node),
            self.taxonomy.ranks[node],
            self._places[node],
        )
        keys: set[str] = set()
        for position, (name, words) in enumerate(zip(names, self._names[node], strict=True)):
            if not words:
                continue
            is_label = position == 0
            latin = is_label and self._latin and rank != "species" and len(words) == 1
            for called in dict.fromkeys((words, without_article(name))):
                if (key := "".join(called)) not in keys:
                    keys.add(key)
                    self._tables["exact"].add(key, len(self._named))
                    self._named.append(node)
                    self._spelt.append(text_key(" ".join(called)))
                    self._in_latin.append(latin)
                    self._preferred.append(is_label or (position == 1 and name != names[0]))
            if is_label and self._latin and (len(names) > 1 or rank not in (None, "species")):
                continue
            for head in _heads(words):
                self._tables["heads"].add(head, place)

    def _share_of_shared_heads(self) -> float:
        """Returns the share of the leaves with sisters that have a name which ends in a sister's noun."""
        nouns: dict[int, Counter[str]] = defaultdict(Counter)
        own: dict[int, set[str]] = {}
        parents = {node: int(self.taxonomy.parents[node]) for node in self.taxonomy.leaves.tolist()}
        for node, parent in parents.items():
            named = (
                self._names[node][1:2] or self._names[node][:1]
            )  # the common name where there is one
            own[node] = {words[-1] for words in named if words}
            nouns[parent].update(own[node])
        sisters = Counter(parents.values())
        shared = [
            any(nouns[parents[v]][noun] > 1 for noun in own[v])
            for v in own
            if sisters[parents[v]] > 1
        ]
        return sum(shared) / max(1, len(shared))


def folded_names(taxonomy: Taxonomy) -> list[list[Words]]:
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


def without_article(name: str) -> Words:
    """Returns the folded words of a name without its article: "The Gem" is a gem, and an "An-12" no 12."""
    return fold_words(_ARTICLE.sub("", name))
