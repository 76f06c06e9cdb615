"""The names of a taxonomy, indexed: whole names, what they can be shortened to, the words they end and begin in.

Everything here is learnt from the tree. A run of folded words means something where it is a name, or one without words
that the tree makes redundant ("747" for "Boeing 747" below Boeing), or where names end in it, as English names end in
their noun ("woodpecker"): what these nodes have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from taxtune.mapping import english
from taxtune.mapping.hash_index import text_key
from taxtune.mapping.index import MAX_HEAD, NameIndex
from taxtune.mapping.kinds import Kinds
from taxtune.mapping.normalize import fold_words, plain
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import WordNet

__all__ = ["MAX_WORDS", "Lexicon"]

#: Longest name, in words, that is looked up.
MAX_WORDS = 8
#: A sense with less than this share of the names of the main sense is not meant.
_MINOR_SENSE = 0.34
#: More nodes than this that have nothing in common are no senses of one word.
_MAX_SENSES = 3
#: A leaf with more names than this is a domestic species whose names are mostly its breeds'.
_MIN_BREEDS = 20
#: A shorter word is no word that another one misspells.
_MIN_MENDED = 4


class Lexicon:
    """Every label and alias of a taxonomy, findable by its folded words.

    Keys are folded words joined without spaces, so that "sea gull", "sea-gull" and "seagull" are one key.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        *,
        coverage: float = 0.85,
        wordnet: WordNet | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        self.taxonomy = taxonomy
        self.coverage = coverage
        self.index = NameIndex.of(taxonomy, cache_dir)
        self.shares_heads, self.latin = self.index.shares_heads, self.index.latin
        self.kinds = Kinds(taxonomy, self.index, wordnet, cache_dir)
        # Phrases of an answer are looked at from several sides, and answers repeat each other's words.
        self._exact = lru_cache(maxsize=100_000)(self._exact_uncached)
        self._head = lru_cache(maxsize=50_000)(self._head_uncached)
        self._common_of = lru_cache(maxsize=50_000)(self._common_of_uncached)
        #: Calls a function of the lexicon and of words, and remembers what it returns.
        self.remember: Callable[..., Any] = lru_cache(maxsize=20_000)(
            lambda function, words: function(self, words)
        )
        self._corrected = lru_cache(maxsize=50_000)(self._correct_uncached)

    def exact(self, words: Sequence[str], *, respelled: bool = True) -> tuple[int, ...]:
        """Returns the nodes that the words name, the senses of the name."""
        return self._exact(tuple(words), respelled) if 0 < len(words) <= MAX_WORDS else ()

    def _exact_uncached(self, words: tuple[str, ...], respelled: bool) -> tuple[int, ...]:
        key = "".join(words)
        names = self.index.exact.find(key)
        spelt_alike = names[self.index.spelt[names] == text_key(" ".join(words))]
        if not respelled or len(
            spelt_alike
        ):  # "wheatear" is the bird, although "wheat ear" joins to the same key
            names = spelt_alike
        if not len(names):
            return ()
        vernacular = names[~self.index.in_latin[names]]
        return self._distinct(vernacular if len(vernacular) else names, key)

    def labelled(self, text: str) -> int | None:
        """Returns the node whose label a text is, whatever English leads elsewhere; None where no node has it.

        Of nodes one below the other the upper one is meant. A name that the tree itself also gives to something else is
        ambiguous, and Latin has no English plural: "geraniums" is no genus.
        """
        words = fold_words(text)
        labelled, identified = [], []
        for name in self.index.exact.find("".join(words)):
            node = int(self.index.named[name])
            label = self.taxonomy.labels[node]
            if fold_words(label) == words and (
                plain(label) == plain(text) or not self.index.in_latin[name]
            ):
                labelled.append(node)
            if any(fold_words(alias) == words for alias in self.taxonomy.aliases[node]):
                identified.append(node)
        common = self.taxonomy.common_ancestor([*labelled, *identified]) if labelled else None
        return common if common in labelled else None

    def shortened(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the nodes with a name that adds just these words to their ancestors' names."""
        return self._common_of("shortened", tuple(words))

    def called(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the nodes that the words name in full or shortened."""
        return self.exact(words) or self.shortened(words)

    def clipped(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the one node whose name the words are without its parent's: "grilled cheese" of sandwiches."""
        nodes = self._nodes(self.index.clipped.find(" ".join(words)))
        return nodes if len(nodes) == 1 else ()

    def series(self, word: str) -> tuple[int, ...]:
        """Returns the common ancestor of the nodes whose names are the word and a number: "DC" of DC-3 and DC-6."""
        return tuple(v for v in map(self.lifted, self._common_of("series", (word,))) if v)

    def _common_of_uncached(self, table: str, words: tuple[str, ...]) -> tuple[int, ...]:
        places = getattr(self.index, table).find(" ".join(words))
        if not len(places) or (len(words) == 1 and words[0] in english.SAYS_NOTHING):
            return ()
        common = self._common(np.union1d(places, self.index.heads.find("".join(words))))
        return (common,) if common else self._nodes(places) if len(places) <= _MAX_SENSES else ()

    def _nodes(self, places: NDArray[np.int32]) -> tuple[int, ...]:
        """Returns the nodes at places, by number."""
        return tuple(sorted(self.taxonomy.walk[places].tolist()))

    def _distinct(self, names: NDArray[np.int32], key: str) -> tuple[int, ...]:
        """Drops minor senses, and of a node and its ancestor with one name one: the leaf whose first name it is.

        A leaf with its ancestor's label gives way: to say "car" is not to say which car.
        """
        named = self.index.named[names].tolist()
        if len(named) == 1:
            return (named[0],)
        preferred = {
            v for v, first in zip(named, self.index.preferred[names].tolist(), strict=True) if first
        }
        kept: dict[int, None] = {}
        labels = self.taxonomy.labels
        for node in sorted(set(named), key=lambda v: int(self.taxonomy.depth[v])):
            above = next(
                (v for v in self.taxonomy.ancestors(node)[:-1].tolist() if v in kept), None
            )
            is_first = node in preferred and self.is_leaf(node)
            if above is not None and (
                not is_first or labels[node].casefold() == labels[above].casefold()
            ):
                continue  # "cormorant" names a family and a genus of it; cormorants stand in its other genera too
            kept = {v: None for v in kept if v != above}
            kept[node] = None
        # Of "forget-me-not", the genus of many and one butterfly, the genus is meant.
        start = self.taxonomy.places[[*kept]]
        weights = _between(self.index.heads.find(key), start, start + self.taxonomy.sizes[[*kept]])
        least = _MINOR_SENSE * int(weights.max())
        return tuple(v for v, weight in zip(kept, weights.tolist(), strict=True) if weight >= least)

    def _range(self, node: int) -> tuple[int, int]:
        """Returns the places of what is at and below a node: the first, and the one behind the last."""
        start = int(self.taxonomy.places[node])
        return start, start + int(self.taxonomy.sizes[node])

    def head(self, words: Sequence[str]) -> int | None:
        """Returns the node that covers `coverage` of the nodes whose names end in these words, or None.

        A noun that only one species has stands for the species' parent, because an unknown "striped X" is most likely
        another species than the known "spotted X".
        """
        if (
            not words
            or len(words) > MAX_HEAD
            or (len(words) == 1 and words[0] in english.SAYS_NOTHING)
        ):
            return None
        return self._head("".join(words))

    def _head_uncached(self, key: str) -> int | None:
        places = self.index.heads.find(key)
        return self.lifted(self._common(np.unique(places))) if len(places) else None

    def is_shared(self, words: Sequence[str]) -> bool:
        """Tells whether several nodes have names that end in the words."""
        places = self.index.heads.find("".join(words))
        return len(places) > 1 and bool(places[0] != places[-1])

    def share(self, words: Sequence[str], node: int) -> float:
        """Returns the share of the names ending in these words that belong to nodes at or below `node`."""
        places = self.index.heads.find("".join(words))
        return int(_between(places, *self._range(node))) / max(1, len(places))

    def is_leaf(self, node: int) -> bool:
        """Tells whether a node has no children."""
        return bool(self.taxonomy.sizes[node] == 1)

    def lifted(self, node: int) -> int:
        """Returns the parent of a wild species, and any other node as it is; breeds have no sister species."""
        if not self.is_leaf(node) or node == 0 or len(self.taxonomy.names(node)) - 1 > _MIN_BREEDS:
            return node
        return int(self.taxonomy.parents[node])

    def common(self, nodes: ArrayLike) -> int:
        """Returns the deepest node that covers at least `coverage` of the nodes, of which there must be one."""
        return self._common(np.sort(self.taxonomy.places[np.asarray(nodes)]))

    def _common(self, places: NDArray[Any]) -> int:
        """Does so for the places of nodes, ascending."""
        # A node that covers more than half of them covers the one in the middle.
        above = self.taxonomy.ancestors(int(self.taxonomy.walk[places[len(places) // 2]]))
        start = self.taxonomy.places[above]
        covered = _between(places, start, start + self.taxonomy.sizes[above])
        return int(above[np.flatnonzero(covered >= self.coverage * len(places))[-1]])

    def genus(self, word: str) -> tuple[int, ...]:
        """Returns the genera with this folded Latin label."""
        names = self.index.exact.find(word)
        nodes = self.index.named[names[self.index.in_latin[names]]].tolist()
        return tuple(v for v in nodes if self.taxonomy.ranks[v] == "genus")

    def locate(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """Returns where names of several words stand in a run of folded words, the longest first from the left."""
        found: list[tuple[int, int]] = []
        known = [self.knows(word) for word in words]  # a name has only words that are in names
        start = 0
        while start < len(words) - 1:
            last = next((i for i in range(start, len(words)) if not known[i]), len(words))
            for stop in range(min(last, start + MAX_WORDS), start + 1, -1):
                if self.exact(words[start:stop], respelled=False):
                    found.append((start, stop))
                    start = stop - 1
                    break
            start += 1
        return found

    def mentions(self, words: Sequence[str]) -> bool:
        """Tells whether one of the words, or a run of them, names something below the root."""
        for word in words:
            if word not in english.SAYS_NOTHING and (
                any(self.called((word,))) or self.is_shared((word,))
            ):
                return True
        return bool(self.locate(words))

    def knows(self, word: str) -> bool:
        """Tells whether a folded word occurs in any name."""
        return word in self.index.nodes_with

    def correct(self, word: str, *, generous: bool = False) -> str | None:
        """Returns the word of the names that an unknown word most likely misspells, or None.

        The first letter must be right, and no second word may be as near. One slip (a letter more, less, other, or two
        swapped) is forgiven in words of seven letters and more, two in words of ten, in shorter ones a double letter;
        `generous` forgives one from five letters and two from seven. What WordNet knows is no misspelling.
        """
        if self.kinds.knows(word):
            return None
        return self._corrected(
            word, generous or (self.kinds.wordnet is not None and not self.latin)
        )

    def _correct_uncached(self, word: str, generous: bool) -> str | None:
        one, two = (5, 7) if generous else (5, 10)
        limit = 2 if len(word) >= two else 1 if len(word) >= one else 0
        if limit == 0 or self.knows(word) or not word.isalpha() or word in english.SAYS_NOTHING:
            return None
        lengths = range(max(_MIN_MENDED, len(word) - limit), len(word) + limit + 1)
        like = [
            known for length in lengths for known in self.index.of_shape.get((word[0], length), ())
        ]
        hits = process.extract(word, like, scorer=OSA.distance, score_cutoff=limit, limit=None)
        if not generous and len(word) < 7:  # doubled letters only: "castle" is no "cattle"
            hits = [
                hit
                for hit in hits
                if [c for c, _ in groupby(word)] == [c for c, _ in groupby(hit[0])]
            ]
        nearest = [known for known, distance, _ in hits if distance == hits[0][1]]
        return nearest[0] if len(nearest) == 1 else None


def _between(places: NDArray[Any], start: ArrayLike, stop: ArrayLike) -> NDArray[np.int64]:
    """Returns the number of ascending positions within ranges, elementwise."""
    return np.searchsorted(places, stop) - np.searchsorted(places, start)
