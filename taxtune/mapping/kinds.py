"""What WordNet knows of words that the tree lacks: a pistol is a handgun, a seaplane an airplane.

WordNet is optional. Each name on the tree is looked up. Of its senses those are kept that agree
with the tree: a kind of what an ancestor's name means, or else a sense in the part of WordNet that
most names of the tree are in. A word that the tree lacks is then placed on the nearest thing above
it, in any of its first senses, that is on the tree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from taxtune.mapping import english
from taxtune.mapping.hash_index import Part
from taxtune.mapping.index import (
    MAX_HEAD,
    NameIndex,
    folded_names,
    name_tails,
    stored,
    without_article,
)
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import Synset, WordNet

__all__ = ["Kinds"]

#: Rarer senses of a word are not thought of: of "dog", not the frankfurter.
_MAX_SENSES = 2
#: So many senses of a name are kept that agree with the tree in nothing but their part of WordNet.
_OTHER_SENSES = 2
#: What such a share of the nodes, and at least so many, are kinds of is what the tree is about.
_ROOT_SHARE = 0.85
_MIN_COVERED = 5
#: The parts of a closed compound have at least so many letters.
_MIN_PART = 3
#: A part of WordNet with less than this share of the tree's names is not what the tree is about.
_MIN_SHARE = 0.05
#: WordNet's sense of a group: a genus is one there, and no kind of animal.
_GROUP = "group.n.01"


class _NoWordNet(WordNet):
    """Stands for a WordNet that is not installed: it knows no word."""

    def __init__(self) -> None:
        super().__init__(Path())

    def has(self, word: str, pos: str = "nvar") -> bool:
        return False


class Kinds:
    """Places words by what they are kinds of."""

    def __init__(
        self,
        taxonomy: Taxonomy,
        index: NameIndex,
        wordnet: WordNet | None,
        cache_dir: Path | None,
    ) -> None:
        self.taxonomy = taxonomy
        self.installed = wordnet is not None
        self._wordnet = wordnet or _NoWordNet()
        self._index = index
        self._cache_dir = cache_dir
        self.knows = lru_cache(maxsize=100_000)(self._wordnet.has)
        self._of = lru_cache(maxsize=50_000)(self._of_uncached)
        self._noun = lru_cache(maxsize=50_000)(self._noun_uncached)

    # -- placing words -----------------------------------------------------------------------------

    def above(self, words: Sequence[str], least: int = 1) -> tuple[int, int] | None:
        """Returns the node that most of the last words, and at least so many, are a kind of.

        Returns:
            Where these words start, and the node; None if there is none.
        """
        if words[-1] in english.SAYS_NOTHING:
            return None
        for start, text in self._last_words(words, least):
            node = self._of(text)
            if node is not None:
                return start, node
        return None

    def _of_uncached(self, text: str) -> int | None:
        """Returns the node of the nearest thing on the tree that a text is a kind of, or None."""
        senses = self._senses(text)[:_MAX_SENSES]
        for sense in senses:
            node = self._nearest(sense)
            if node is not None:
                return node
        # A genus is a member of a family, and a kind of nothing in particular.
        groups = self._wordnet.member_of(senses[0]) if senses else ()
        while groups:
            if groups[0].name in self._nodes:
                return self._nodes[groups[0].name]
            groups = self._wordnet.member_of(groups[0])
        return None

    def _nearest(self, sense: Synset) -> int | None:
        """Returns the node that is fewest steps above a sense; of several what they share."""
        level = {sense}
        seen = {sense}
        while level:
            nodes = {self._nodes[above.name] for above in level if above.name in self._nodes}
            common = self.taxonomy.common_ancestor(nodes) if nodes else self.taxonomy.root
            if common != self.taxonomy.root:
                return common
            level = set().union(*map(self._wordnet.hypernyms, level)) - seen
            seen |= level
        return None

    def general(self, words: Sequence[str]) -> int | None:
        """Returns the lowest node above all that is a kind of the last words: of "waterfowl"."""
        if words[-1] in english.SAYS_NOTHING:
            return None
        for _, text in self._last_words(words):
            senses = self._senses(text)
            if senses:  # a "hot dog" is no dog
                return next(self._above_kinds_of(senses), None)
        return None

    def covering(self, words: Sequence[str]) -> list[int]:
        """Returns the lowest nodes above all kinds of the words: of "animal" that of all birds."""
        return list(self._above_kinds_of(self._noun(" ".join(words))))

    def _above_kinds_of(self, senses: Sequence[Synset]) -> Iterator[int]:
        for sense in senses[:_MAX_SENSES]:
            if sense.name in self._general:
                yield self._general[sense.name]

    def is_outside(self, words: Sequence[str]) -> bool:
        """Tells whether words end in a noun that is no kind of the root: "a dog" among birds.

        In none of its senses it is a kind of what the root's name means, or what that is a kind of
        ("animal").
        """
        for _, text in self._last_words(words):
            senses = self._noun(text)
            if senses:
                return bool(self._root) and not any(map(self._is_related_to_root, senses))
        return False

    def _is_related_to_root(self, sense: Synset) -> bool:
        if not self._root.isdisjoint(self._wordnet.ancestors(sense)):
            return True
        return any(sense in self._wordnet.ancestors(root) for root in self._root)

    def is_person(self, words: Sequence[str]) -> bool:
        """Tells whether the last noun of a phrase is a person: "an elderly musician standing".

        That is its first sense. What a person does is no part of it: "a man riding".
        """
        senses: Sequence[Synset] = ()
        for position, word in enumerate(words):
            if position > 0 and word.endswith("ing"):
                break
            if self.knows(word, "n"):
                senses = self._noun(word)
        return bool(senses) and senses[0].lexname == "noun.person"

    def _last_words(self, words: Sequence[str], least: int = 1) -> Iterator[tuple[int, str]]:
        """Yields where the last words of a phrase start, and their text, the longest text first.

        Without WordNet there are none to look up.
        """
        if self.installed:
            for start in range(max(0, len(words) - MAX_HEAD), len(words) - least + 1):
                yield start, " ".join(words[start:])

    # -- senses of words ---------------------------------------------------------------------------

    def _noun_uncached(self, text: str) -> Sequence[Synset]:
        """Returns the senses of a noun, which may be written with hyphens."""
        if len(text) < _MIN_PART or text.isdigit():
            return ()
        for spelling in (text, text.replace(" ", "-")):
            if self._wordnet.has(spelling, "n"):
                return self._wordnet.synsets(spelling)
        return ()

    def _senses(self, text: str) -> Sequence[Synset]:
        """Returns the senses of a noun, of the noun of an adjective, or of a closed compound."""
        senses = self._noun(text)
        if senses:
            return senses
        if self._wordnet.has(text, "a"):
            return self._wordnet.pertainyms(text)
        for i in range(_MIN_PART, len(text) - _MIN_PART + 1):  # "squeezebox" is two words there
            senses = self._noun(f"{text[:i]} {text[i:]}")
            if senses:
                return senses
        return ()

    # -- learning from the names -------------------------------------------------------------------

    @cached_property
    def _nodes(self) -> dict[str, int]:
        """The node of each sense that a name on the tree has, by the sense's name."""
        return dict(zip(self._learnt["senses"], self._learnt["nodes"].tolist(), strict=True))

    @cached_property
    def _general(self) -> dict[str, int]:
        """The lowest node above the several names on the tree that are kinds of a sense."""
        nodes = self._learnt["general_nodes"].tolist()
        return dict(zip(self._learnt["general"], nodes, strict=True))

    @cached_property
    def _root(self) -> frozenset[Synset]:
        """What the tree is about."""
        senses = map(self._wordnet.synset, self._learnt["root"])
        return frozenset(filter(None, senses))

    @cached_property
    def _learnt(self) -> dict[str, Any]:
        what = f"{self._wordnet.place} {self._wordnet.source}"
        return stored(self.taxonomy, what, self._cache_dir, self._learn)

    def _learn(self) -> dict[str, Part]:
        senses = self._senses_of_names()
        parts = Counter(known[0].lexname for known in senses.values())
        about = {part for part, count in parts.items() if count >= _MIN_SHARE * parts.total()}
        nodes: dict[Synset, int] = {}
        # The first sense of each name, of those that agree with the names above if any does.
        meant: dict[Synset, None] = {}
        for node in sorted(senses, key=lambda node: (-self.taxonomy.depth[node], node)):
            agreeing = self._agreeing(node, senses)
            meant.setdefault((agreeing or senses[node])[0])
            others = [s for s in senses[node] if s.lexname in about and s not in agreeing]
            for sense in agreeing + others[:_OTHER_SENSES]:
                nodes[sense] = self.taxonomy.common_ancestor([node, nodes.get(sense, node)])
        kept = {sense: node for sense, node in nodes.items() if node != self.taxonomy.root}
        below = self._below({sense: kept[sense] for sense in meant if sense in kept})
        general = {}
        for sense, covered in below.items():
            if len(covered) > 1:
                general[sense.name] = self.taxonomy.common_ancestor(covered)
        return {
            "senses": [sense.name for sense in kept],
            "nodes": np.array([*kept.values()], dtype=np.int32),
            "general": list(general),
            "general_nodes": np.array([*general.values()], dtype=np.int32),
            "root": sorted(sense.name for sense in self._senses_of_root(below)),
        }

    def _agreeing(self, node: int, senses: Mapping[int, list[Synset]]) -> list[Synset]:
        """Returns the senses of a node's names that are kinds of what names above it mean."""
        above: set[Synset] = set()
        for ancestor in self.taxonomy.ancestors(node)[1:-1].tolist():
            above.update(senses.get(ancestor, ()))
        return [
            sense for sense in senses[node] if not above.isdisjoint(self._strictly_above(sense))
        ]

    def _strictly_above(self, sense: Synset) -> frozenset[Synset]:
        return self._wordnet.ancestors(sense) - {sense}

    def _below(self, nodes: Mapping[Synset, int]) -> dict[Synset, set[int]]:
        """Returns the nodes whose names are kinds of a sense, for each sense that has any."""
        below: dict[Synset, set[int]] = defaultdict(set)
        for sense, node in nodes.items():
            above = self._strictly_above(sense)
            if not any(other.name == _GROUP for other in above):
                for other in above:
                    below[other].add(node)
        return below

    def _senses_of_root(self, below: Mapping[Synset, set[int]]) -> Iterable[Synset]:
        """Returns the senses of the root's names that have kinds on the tree.

        If there are none, these are the closest senses that nearly all names are kinds of: "bird"
        on a tree of Aves.
        """
        of_name: set[Synset] = set()
        for name in self.taxonomy.names(self.taxonomy.root):
            of_name.update(self._noun(name.lower()))
        of_name.intersection_update(below)
        if of_name:
            return of_name
        least = max(_MIN_COVERED, _ROOT_SHARE * len(set().union(*below.values())))
        covering = {sense for sense, nodes in below.items() if len(nodes) >= least}
        return covering.difference(*map(self._strictly_above, covering))

    def _senses_of_names(self) -> dict[int, list[Synset]]:
        """Returns the senses of the names of each node but the root, in the order of the names.

        Nodes whose names have no senses are left out.
        """
        senses: dict[int, dict[Synset, None]] = defaultdict(dict)
        for node in range(1, len(self.taxonomy)):
            for name in self.taxonomy.names(node):
                written = " ".join(name.lower().replace("_", " ").split())
                for text in (written, " ".join(without_article(name))):
                    senses[node].update(dict.fromkeys(self._noun(text)))
        for node, table, text in name_tails(self.taxonomy, folded_names(self.taxonomy)):
            # A text that several nodes can be shortened to is no name of any of them.
            if table == "shortened" and node and len(self._index.shortened.find(text)) == 1:
                senses[node].update(dict.fromkeys(self._noun(text)))
        return {node: list(known) for node, known in senses.items() if known}
