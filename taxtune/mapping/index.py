"""What a taxonomy's names say, learnt once and kept on disk.

Everything is learnt from the tree: whole names, what a name says beyond the names above it, the words that names end
and begin in, Latin binomials, stems. Each table goes from folded words to the numbers of nodes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import snowballstemmer

from taxtune.atomic import write_bytes
from taxtune.errors import TaxtuneError
from taxtune.mapping import english
from taxtune.mapping.normalize import fold_words
from taxtune.store import cache_folder
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Entry", "NameIndex", "has_digit", "kept", "latin_stem", "stem", "without_article"]

#: Changes with everything that changes what is learnt.
_VERSION = 7
#: A smaller tree is learnt faster than it is read.
_MIN_STORED = 2000
#: A head of a name is at most this many words: "owl", "screech owl", "yellow rumped warbler".
MAX_HEAD = 3
#: Where at least this share of a tree's names has digits in it, model codes and years are at home on the tree.
_CODED_SHARE = 0.01
#: Where siblings' names end in the same nouns at least this often, a noun that one node has stands for its parent.
_SHARED_HEADS = 0.5
_LISTED = re.compile(r"[,/;|]")
_PARTS = re.compile(r"[,/;|()]|\betc\b|\band\b|\bor\b|&", re.I)
_ARTICLE = re.compile(r"^\s*(?:the|an?)\s+(?=\S)", re.I)
_STEMMER = snowballstemmer.stemmer("english")

#: A node with a whole name: its number, the words of the name joined by spaces, whether it is a Latin label above
#: species (an English name of the same spelling, "nasturtium", is meant more often), whether it is the node's first.
Entry = tuple[int, str, bool, bool]
Table = dict[str, list[int]]


@dataclass(frozen=True)
class NameIndex:
    """The tables of a tree's names; in each, a node stands as often as it has such a name."""

    #: Names with their words joined, so that "sea gull" and "seagull" are one key.
    exact: dict[str, list[Entry]]
    #: The last words of names, joined.
    heads: Table
    #: Names without what their ancestors' names already say: "747" of "Boeing 747" below Boeing.
    shortened: Table
    #: Names without their parent's at the end: "grilled cheese" of "grilled cheese sandwich", "Gothic" of "Gothic
    #: architecture" below "medieval architecture".
    clipped: Table
    #: The beginnings of names that start with an ancestor's: "BMW Z4" of "BMW Z4 Convertible 2012".
    fronts: Table
    #: What comes before a number: "DC" of "DC-3".
    series: Table
    #: The stems of names.
    stems: Table
    #: Latin genera, stems of the epithets of species, and "T merula" of two-word names.
    genera: Table
    epithets: Table
    initials: Table
    #: Every word.
    vocabulary: list[str]
    #: Whether codes or years are common in the names.
    coded: bool
    #: Whether siblings' names mostly end in the same noun, as those of sister species do.
    shares_heads: bool
    #: Whether the tree has genera.
    latin: bool

    @classmethod
    def of(cls, taxonomy: Taxonomy, folder: Path | None = None) -> Self:
        """Returns the index of a tree, read from `folder` (None: the user's cache folder) if it is there."""
        return cls(**kept(taxonomy, "names", folder, _Learner(taxonomy).content))


def kept(taxonomy: Taxonomy, what: str, folder: Path | None, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Returns plain values that follow from a large tree, from disk where they are there and whole.

    Args:
        taxonomy: The tree; a small one is learnt anew faster than it is read.
        what: Names the values, and whatever but the tree changes them.
        folder: Where they are kept; None is the user's cache folder.
        make: Makes them.
    """
    if len(taxonomy) < _MIN_STORED:
        return make()
    folder = cache_folder(folder, "names")
    names = [taxonomy.names(node) for node in range(len(taxonomy))]
    key = json.dumps([_VERSION, what, names, taxonomy.parents.tolist(), taxonomy.ranks])
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found
    except (OSError, ValueError):
        values = make()
    with suppress(OSError, TaxtuneError):  # a folder that cannot be written to keeps nothing
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(path, json.dumps(values, separators=(",", ":")).encode())
    return values


_TABLES = [field.name for field in fields(NameIndex) if field.type == "Table"]


class _Learner:
    """Fills the tables node by node."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self.taxonomy = taxonomy
        self._exact: dict[str, list[Entry]] = defaultdict(list)
        self._tables: dict[str, dict[str, Counter[int]]] = {table: defaultdict(Counter) for table in _TABLES}
        self._vocabulary: set[str] = set()
        self._latin = "genus" in taxonomy.ranks
        self._names = [[fold_words(name) for name in taxonomy.names(v)] for v in range(len(taxonomy))]

    def content(self) -> dict[str, Any]:
        """Returns all tables as plain values, the same each time."""
        for node in range(len(self.taxonomy)):
            self._add_node(node)
            self._add_shortened(node)
        tables = {
            name: {key: sorted(nodes.elements()) for key, nodes in table.items()}
            for name, table in self._tables.items()
        }
        names = [words for group in self._names for words in group]
        digits = sum(any(map(has_digit, words)) for words in names)
        return {
            **tables,
            "exact": self._exact,
            "vocabulary": sorted(self._vocabulary),
            "coded": digits >= _CODED_SHARE * len(names),
            "shares_heads": self._share_of_shared_heads() >= _SHARED_HEADS,
            "latin": self._latin,
        }

    def _add_node(self, node: int) -> None:
        label, more = self.taxonomy.labels[node], self.taxonomy.names(node)[1:]
        rank = self.taxonomy.ranks[node]
        for position, (name, words) in enumerate(zip(self.taxonomy.names(node), self._names[node], strict=True)):
            if not words:
                continue
            is_label = position == 0
            latin = is_label and self._latin and rank != "species" and len(words) == 1
            preferred = is_label or (position == 1 and name != label)
            for called in dict.fromkeys((words, without_article(name))):
                entries = self._exact["".join(called)]
                if all(entry[0] != node for entry in entries):
                    entries.append((node, " ".join(called), latin, preferred))
            self._vocabulary.update(words)
            if not (is_label and self._latin):
                self._tables["stems"][" ".join(map(stem, words))][node] += 1
            if len(words) == 2:
                self._tables["initials"][f"{words[0][0]} {words[1]}"][node] += 1
            if is_label and self._latin:
                if rank == "genus":
                    self._tables["genera"][words[0]][node] += 1
                if rank == "species" and len(words) > 1:
                    self._tables["epithets"][latin_stem("".join(words[1:]))][node] += 1
                if more or rank not in (None, "species"):
                    continue
            self._add_heads(node, name, words)

    def _add_heads(self, node: int, name: str, words: tuple[str, ...]) -> None:
        # "breasted grosbeak" is no noun: a head never starts inside a hyphenated compound unless it is the last word.
        inside: list[bool] = []
        for part in name.replace("–", "-").split():
            count = len(fold_words(part))
            inside.extend(i > 0 for i in range(count))
        stop = len(words)
        while stop > 1 and has_digit(words[stop - 1]):
            stop -= 1  # a "Focus Sedan 2007" is a sedan
        for length in range(1, min(MAX_HEAD, stop) + 1):
            start = stop - length
            if length > 1 and start > 0 and (len(inside) != len(words) or inside[start]):
                continue
            self._tables["heads"]["".join(words[start:stop])][node] += 1

    def _add_shortened(self, node: int) -> None:
        """Indexes a node's names without the words that say again what its ancestors' names say."""
        above = self.taxonomy.ancestors(node)[:-1].tolist()
        known = {words for v in above for words in (*self._names[v], *self._parts_of(v))}
        begun = {words[:n] for words in known for n in range(1, len(words))}  # "Nikon", of "Nikon DSLR"
        label = self._names[int(self.taxonomy.parents[node])][0] if node else ()
        of_root = {words for words in self._names[0] if len(words) == 1} if node else set()
        for words in self._parts_of(node):
            self._tables["shortened"][" ".join(words)][node] += 1
        for words in self._names[node]:
            for stop in range(1, len(words)):
                if has_digit(words[stop]):
                    self._tables["series"][" ".join(words[:stop])][node] += 1
            fronted = [
                n
                for n in range(1, len(words))
                if words[:n] in known or (words[:n] in begun and any(map(has_digit, words[n:])))
            ]
            if fronted and not (self._latin and self.taxonomy.ranks[node] == "species"):
                rest = words[fronted[-1] :]
                self._tables["shortened"][" ".join(rest)][node] += 1
                for stop in range(1, len(rest)):
                    self._tables["fronts"][" ".join(rest[:stop])][node] += 1
                for stop in range(fronted[-1] + 1, len(words)):
                    self._tables["fronts"][" ".join(words[:stop])][node] += 1
            if not fronted and not self._latin:  # "Ford" + "F-150", of "F-150 Regular Cab" below Ford
                for name in known - set(self._names[0]):
                    self._tables["shortened"][" ".join((*name, *words))][node] += 1
                    for stop in range(1, len(words)):
                        self._tables["fronts"][" ".join((*name, *words[:stop]))][node] += 1
            if len(words) > 1 and words[-1:] in of_root:
                self._tables["shortened"][" ".join(words[:-1])][node] += 1
            elif (len(words) > 2 and words[-1:] in known) or (len(words) > 1 < len(label) and words[-1] == label[-1]):
                self._tables["clipped"][" ".join(words[:-1])][node] += 1

    def _parts_of(self, node: int) -> list[tuple[str, ...]]:
        """Returns what a label that lists several things lists: "houses, cabins, and farms", "bar / pub"."""
        if not _LISTED.search(self.taxonomy.labels[node]):
            return []
        parts = [fold_words(part) for part in _PARTS.split(self.taxonomy.labels[node])]
        return [part for part in parts if part and not english.SAYS_NOTHING.issuperset(part)]

    def _share_of_shared_heads(self) -> float:
        """Returns the share of the leaves with sisters that have a name which ends in a sister's noun."""
        nouns: dict[int, Counter[str]] = defaultdict(Counter)
        own: dict[int, set[str]] = {}
        parents = {node: int(self.taxonomy.parents[node]) for node in self.taxonomy.leaves.tolist()}
        for node, parent in parents.items():
            named = self._names[node][1:2] or self._names[node][:1]  # the common name where there is one
            own[node] = {words[-1] for words in named if words}
            nouns[parent].update(own[node])
        sisters = Counter(parents.values())
        shared = [any(nouns[parents[v]][noun] > 1 for noun in own[v]) for v in own if sisters[parents[v]] > 1]
        return sum(shared) / max(1, len(shared))


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Returns the stem of an English word (Porter2)."""
    return str(_STEMMER.stemWord(word))


def latin_stem(epithet: str) -> str:
    """Returns a Latin epithet without the ending that follows the genus' gender: -us, -a, -um; -is, -e."""
    return re.sub(r"(?<=\w{3})(?:us|a|um|is|e|er|ra|rum)$", "", epithet)


def has_digit(word: str) -> bool:
    """Tells whether a word has a digit in it."""
    return any(character.isdigit() for character in word)


def without_article(name: str) -> tuple[str, ...]:
    """Returns the folded words of a name without its article: "The Gem" is a gem, and an "An-12" no 12."""
    return fold_words(_ARTICLE.sub("", name))
