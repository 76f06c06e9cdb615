"""The names of a taxonomy, looked up by their words.

Everything here is learnt from the tree (`index.py`). A run of folded words means something if it is
a name; or a name without the words that the tree makes redundant ("747" for "Boeing 747" below
Boeing); or if names end in it, as English names end in their noun ("woodpecker"). Then it means
what these nodes have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from taxtune.mapping import english
from taxtune.mapping.hash_index import text_key
from taxtune.mapping.index import MAX_HEAD, NameIndex
from taxtune.mapping.normalize import fold_words, plain, undoubled
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["MAX_WORDS", "Lexicon"]

#: The longest name, in words, that is looked up.
MAX_WORDS = 8
#: More nodes than this that have nothing in common are no senses of one word.
_MAX_SENSES = 3
#: A noun that ends such a share of the names that have it is seldom said of another noun.
_MOSTLY = 0.75
#: A leaf with more names than this is a domestic species whose names are mostly its breeds'.
_MIN_BREEDS = 20
#: A shorter word is not taken for a slip.
_MIN_MENDED = 5


class Lexicon:
    """Every label and alias of a taxonomy, findable by its folded words.

    Keys are folded words joined without spaces, so that "sea gull", "sea-gull" and "seagull" are
    one key.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        *,
        coverage: float = 0.85,
        cache_dir: Path | None = None,
    ) -> None:
        self.taxonomy = taxonomy
        self.coverage = coverage
        self.index = NameIndex.of(taxonomy, cache_dir)
        self.latin = self.index.latin
        # Phrases of an answer are looked at from several sides, and answers repeat their words.
        self._exact = lru_cache(maxsize=100_000)(self._exact_uncached)
        self._head = lru_cache(maxsize=50_000)(self._head_uncached)
        self._shortened = lru_cache(maxsize=50_000)(self._shortened_uncached)
        self._correct = lru_cache(maxsize=50_000)(self._correct_uncached)
        #: Calls a function of the lexicon and of words, and remembers what it returns.
        self.remember: Callable[..., Any] = lru_cache(maxsize=20_000)(
            lambda function, words: function(self, words)
        )

    # -- whole names -------------------------------------------------------------------------------

    def exact(self, words: Sequence[str], *, respelled: bool = True) -> tuple[int, ...]:
        """Returns the nodes that the words name, the senses of the name.

        If `respelled`, the name may also be written with other spaces.
        """
        return self._exact(tuple(words), respelled) if 0 < len(words) <= MAX_WORDS else ()

    def _exact_uncached(self, words: tuple[str, ...], respelled: bool) -> tuple[int, ...]:
        key = "".join(words)
        names = self.index.exact.find(key)
        if not len(names):
            return ()
        spelt_alike = names[self.index.spelt[names] == text_key(" ".join(words))]
        # "wheatear" is the bird, although "wheat ear" joins to the same key.
        if not respelled or len(spelt_alike):
            names = spelt_alike
        vernacular = names[~self.index.in_latin[names]]
        return self._distinct(vernacular if len(vernacular) else names)

    def _distinct(self, names: NDArray[np.int32]) -> tuple[int, ...]:
        """Returns the senses of names.

        Of a node and its ancestor with one name the upper one is meant, because cormorants stand in
        other genera than the one that is called so, too; but a leaf is meant if the name is its
        first and not just its ancestor's label: to say "car" is not to say which car.
        """
        nodes = self.index.named[names]
        if len(nodes) == 1:
            return (int(nodes[0]),)
        preferred = set(nodes[self.index.preferred[names]].tolist())
        labels = self.taxonomy.labels
        senses: list[int] = []
        for node in sorted(set(nodes.tolist()), key=self.taxonomy.depth.__getitem__):
            above = [sense for sense in senses if self.taxonomy.is_ancestor(sense, node)]
            if above:
                is_first = node in preferred and self.is_leaf(node)
                if not is_first or labels[node].casefold() == labels[above[0]].casefold():
                    continue
                senses.remove(above[0])
            senses.append(node)
        return tuple(senses)

    def labelled(self, text: str) -> int | None:
        """Returns the node whose label a text is, whatever English leads elsewhere, or None.

        Of nodes one below the other the upper one is meant. A name that the tree also gives to
        something else is ambiguous. Latin has no English plural: "geraniums" is no genus.
        """
        words = fold_words(text)
        labelled = []
        identified = []
        for name in self.index.exact.find("".join(words)):
            node = int(self.index.named[name])
            label = self.taxonomy.labels[node]
            is_spelt_alike = plain(label) == plain(text) or not self.index.in_latin[name]
            if is_spelt_alike and fold_words(label) == words:
                labelled.append(node)
            if any(fold_words(alias) == words for alias in self.taxonomy.aliases[node]):
                identified.append(node)
        if not labelled:
            return None
        common = self.taxonomy.common_ancestor(labelled + identified)
        return common if common in labelled else None

    def genus(self, word: str) -> tuple[int, ...]:
        """Returns the genera with this folded Latin label."""
        names = self.index.exact.find(word)
        nodes = self.index.named[names[self.index.in_latin[names]]].tolist()
        return tuple(node for node in nodes if self.taxonomy.ranks[node] == "genus")

    def locate(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """Returns where names of several words start and stop in a run of folded words.

        They are taken from the left, the longest first.
        """
        ranges: list[tuple[int, int]] = []
        start = 0
        while start < len(words) - 1:
            longest = min(MAX_WORDS, self.index.longest.get(words[start], 0))
            for stop in range(min(len(words), start + longest), start + 1, -1):
                if self.exact(words[start:stop], respelled=False):
                    ranges.append((start, stop))
                    start = stop - 1
                    break
            start += 1
        return ranges

    # -- parts of names ----------------------------------------------------------------------------

    def called(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the nodes that the words name in full or shortened."""
        return self.exact(words) or self.shortened(words)

    def shortened(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the nodes with a name that adds just these words to their ancestors' names."""
        return self._shortened(tuple(words))

    def _shortened_uncached(self, words: tuple[str, ...]) -> tuple[int, ...]:
        places = self.index.shortened.find(" ".join(words))
        if not len(places) or _says_nothing(words):
            return ()
        common = self._common(np.union1d(places, self.index.heads.find("".join(words))))
        if common:
            return (common,)
        if len(places) <= _MAX_SENSES:
            return self._nodes(places)
        # "P. major" may be many species.
        return (self.taxonomy.root,) if self.latin else ()

    def clipped(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the one node whose name the words are without its parent's name.

        It is "grilled cheese sandwich" for "grilled cheese".
        """
        nodes = self._nodes(self.index.clipped.find(" ".join(words)))
        return nodes if len(nodes) == 1 else ()

    def _nodes(self, places: NDArray[np.int32]) -> tuple[int, ...]:
        """Returns the nodes at places, by number."""
        return tuple(sorted(self.taxonomy.walk[places].tolist()))

    def head(self, words: Sequence[str]) -> int | None:
        """Returns the node that covers most nodes whose names end in the words, or None.

        A noun that only one species has stands for the species' parent, because an unknown "striped
        X" is most likely another species than the known "spotted X".
        """
        if not 0 < len(words) <= MAX_HEAD or _says_nothing(words):
            return None
        return self._head("".join(words))

    def _head_uncached(self, key: str) -> int | None:
        places = self.index.heads.find(key)
        return self.lifted(self._common(np.unique(places))) if len(places) else None

    def is_shared(self, words: Sequence[str]) -> bool:
        """Tells whether several nodes have names that end in the words."""
        places = self.index.heads.find("".join(words))
        return len(places) > 1 and bool(places[0] != places[-1])

    def only_heads(self, word: str) -> bool:
        """Tells whether several names have a word, and nearly all of them as their noun."""
        headed = np.unique(self.index.heads.find(word))
        return len(headed) > 1 and len(headed) >= _MOSTLY * self.index.nodes_with[word]

    def mentions(self, words: Sequence[str]) -> bool:
        """Tells whether one of the words, or a run of them, names something below the root."""
        for word in words:
            if word in english.SAYS_NOTHING:
                continue
            if any(self.called((word,))) or self.is_shared((word,)):
                return True
        return bool(self.locate(words))

    # -- nodes -------------------------------------------------------------------------------------

    def is_leaf(self, node: int) -> bool:
        """Tells whether a node has no children."""
        return bool(self.taxonomy.sizes[node] == 1)

    def lifted(self, node: int) -> int:
        """Returns the parent of a wild species; any other node as it is.

        Breeds have no sister species.
        """
        has_breeds = len(self.taxonomy.names(node)) - 1 > _MIN_BREEDS
        if node == 0 or has_breeds or not self.is_leaf(node):
            return node
        return int(self.taxonomy.parents[node])

    def common(self, nodes: ArrayLike) -> int:
        """Returns the deepest node that covers at least `coverage` of one or more nodes."""
        return self._common(np.sort(self.taxonomy.places[np.asarray(nodes)]))

    def _common(self, places: NDArray[Any]) -> int:
        """Does so for the places of nodes, ascending."""
        # A node that covers more than half of them covers the one in the middle.
        middle = self.taxonomy.walk[places[len(places) // 2]]
        above = self.taxonomy.ancestors(int(middle))
        covers = self._count_below(above, places) >= self.coverage * len(places)
        return int(above[np.flatnonzero(covers)[-1]])

    def _count_below(self, nodes: ArrayLike, places: NDArray[Any]) -> NDArray[np.int64]:
        """Returns the number of places, which ascend, at or below each node."""
        nodes = np.asarray(nodes)
        starts = self.taxonomy.places[nodes]
        stops = starts + self.taxonomy.sizes[nodes]
        counts: NDArray[np.int64] = np.searchsorted(places, stops) - np.searchsorted(places, starts)
        return counts

    # -- spelling ----------------------------------------------------------------------------------

    def knows(self, word: str) -> bool:
        """Tells whether a folded word occurs in any name."""
        return word in self.index.nodes_with

    def correct(self, word: str, *, generous: bool = False) -> str | None:
        """Returns the word of the names that an unknown word most likely misspells, or None.

        The first letter must be right, and no second word may be as near. Where letters are
        doubled does not count. One slip (a letter more, less, other, or two swapped) is forgiven in
        words of seven letters and more, two in words of ten: "castle" is no "cattle". `generous`
        forgives one from five letters and two from seven.
        """
        return self._correct(word, generous)

    def _correct_uncached(self, word: str, generous: bool) -> str | None:
        steps = (5, 7) if generous else (7, 10)
        limit = sum(len(word) >= step for step in steps)
        is_word = len(word) >= _MIN_MENDED and word.isalpha() and word not in english.SAYS_NOTHING
        if not is_word or self.knows(word):
            return None
        hits = process.extract(
            undoubled(word),
            self.index.of_letter.get(word[0], {}),
            scorer=OSA.distance,
            score_cutoff=limit,
            limit=2,
        )
        nearest = [known for _, distance, known in hits if distance == hits[0][1]]
        return nearest[0] if len(nearest) == 1 else None


def _says_nothing(words: Sequence[str]) -> bool:
    return len(words) == 1 and words[0] in english.SAYS_NOTHING
