"""What WordNet knows of words that the tree lacks: a pistol is a handgun, a seaplane an airplane.

Optional. Each name on the tree is looked up, and of its senses those are kept that agree with the tree: a kind of what
an ancestor's name means, or else one in the part of WordNet that most names of the tree are in. A word that the tree
lacks is then placed on the nearest thing above it, in any of its first senses, that is on the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
_ROOT_SHARE, _MIN_COVERED = 0.85, 5
#: The parts of a closed compound have at least so many letters.
_MIN_PART = 3
#: A part of WordNet with less than this share of the tree's names is not what the tree is about.
_MIN_SHARE = 0.05


class Kinds:
    """Places words by what they are kinds of."""

    def __init__(
        self, taxonomy: Taxonomy, index: NameIndex, wordnet: WordNet | None, cache_dir: Path | None
    ) -> None:
        self.taxonomy, self.wordnet = taxonomy, wordnet
        self._index, self._cache_dir = index, cache_dir
        self.of = lru_cache(maxsize=50_000)(self._of)
        self.knows = lru_cache(maxsize=100_000)(self._knows)
        self._noun = lru_cache(maxsize=50_000)(self._noun_uncached)

    def _knows(self, word: str, pos: str = "nvar") -> bool:
        """Tells whether WordNet has a word, in any of the parts of speech."""
        return self.wordnet is not None and self.wordnet.has(word, pos)

    def above(self, words: Sequence[str], least: int = 1) -> tuple[int, int] | None:
        """Returns where the longest run of last words that is a kind of a node starts, and the node."""
        if self.wordnet is None or words[-1] in english.SAYS_NOTHING:
            return None
        for start in range(max(0, len(words) - MAX_HEAD), len(words) - least + 1):
            if (node := self.of(" ".join(words[start:]))) is not None:
                return start, node
        return None

    def general(self, words: Sequence[str]) -> int | None:
        """Returns the lowest node above everything on the tree that is a kind of the last words: of "waterfowl"."""
        if self.wordnet is None or words[-1] in english.SAYS_NOTHING:
            return None
        for start in range(max(0, len(words) - MAX_HEAD), len(words)):
            if senses := self._senses(" ".join(words[start:]))[
                :_MAX_SENSES
            ]:  # a "hot dog" is no dog
                return next(
                    (self._general[sense.name] for sense in senses if sense.name in self._general),
                    None,
                )
        return None

    def is_outside(self, words: Sequence[str]) -> bool:
        """Tells whether words end in a noun that is another thing than the root: "a dog" on a tree of birds.

        In none of its senses it is a kind of what the root's name means, or what that is a kind of ("animal").
        """
        if self.wordnet is None or not self._root:
            return False
        starts = range(max(0, len(words) - MAX_HEAD), len(words))
        senses = next(filter(None, (self._noun(" ".join(words[start:])) for start in starts)), ())
        above_root = frozenset[Synset]().union(*map(self.wordnet.ancestors, self._root))
        return bool(senses) and not any(
            sense in above_root or not self._root.isdisjoint(self.wordnet.ancestors(sense))
            for sense in senses
        )

    def covering(self, words: Sequence[str]) -> list[int]:
        """Returns the lowest nodes above all kinds of the words on the tree: of "animal" that of all birds."""
        senses = self._noun(" ".join(words))[:_MAX_SENSES] if words else ()
        return [self._general[sense.name] for sense in senses if sense.name in self._general]

    def is_person(self, words: Sequence[str]) -> bool:
        """Tells whether the last noun of a phrase is first of all a person: "an elderly musician standing".

        What a person does is no part of it: "a man riding".
        """
        acts = next((i for i, word in enumerate(words) if i and word.endswith("ing")), len(words))
        nouns = [word for word in words[:acts] if self.knows(word, "n")]
        senses = self._noun(nouns[-1]) if nouns else ()
        return bool(senses) and senses[0].lexname == "noun.person"

    def _of(self, text: str) -> int | None:
        """Returns the node of the nearest thing on the tree that `text` is a kind of, or None."""
        assert self.wordnet is not None
        for sense in self._senses(text)[:_MAX_SENSES]:
            level, seen = [sense], {sense}
            while level:
                nodes = {self._nodes[synset.name] for synset in level if synset.name in self._nodes}
                if nodes and (common := self.taxonomy.common_ancestor(nodes)):
                    return common
                level = [
                    above
                    for synset in level
                    for above in self.wordnet.hypernyms(synset)
                    if above not in seen
                ]
                seen.update(level)
        for sense in self._senses(text)[
            :1
        ]:  # a genus is a member of a family, and a kind of nothing in particular
            while above := self.wordnet.member_of(sense):
                sense = above[0]
                if sense.name in self._nodes:
                    return self._nodes[sense.name]
        return None

    def _noun_uncached(self, text: str) -> Sequence[Synset]:
        if self.wordnet is not None and len(text) >= _MIN_PART and not text.isdigit():
            for written in dict.fromkeys((text, text.replace(" ", "-"))):
                if self.wordnet.has(written, "n"):
                    return self.wordnet.synsets(written)
        return ()

    def _senses(self, text: str) -> Sequence[Synset]:
        if found := self._noun(text):
            return found
        if self.wordnet is not None and self.wordnet.has(text, "a"):
            return self.wordnet.pertainyms(text)
        for i in range(_MIN_PART, len(text) - _MIN_PART + 1):  # "squeezebox" is two words there
            if found := self._noun(f"{text[:i]} {text[i:]}"):
                return found
        return ()

    # What is learnt from the names.

    @cached_property
    def _nodes(self) -> dict[str, int]:
        """The node of each sense that a name on the tree has, by the sense's name."""
        return dict(zip(self._learnt["senses"], self._learnt["nodes"].tolist(), strict=True))

    @cached_property
    def _general(self) -> dict[str, int]:
        """The lowest node above all names on the tree that are kinds of a sense, where that are several."""
        return dict(
            zip(self._learnt["general"], self._learnt["general_nodes"].tolist(), strict=True)
        )

    @cached_property
    def _root(self) -> frozenset[Synset]:
        """What the tree is about."""
        assert self.wordnet is not None
        return frozenset(
            sense for name in self._learnt["root"] if (sense := self.wordnet.synset(name))
        )

    @cached_property
    def _learnt(self) -> dict[str, Any]:
        assert self.wordnet is not None
        return stored(
            self.taxonomy,
            f"{self.wordnet.place} {self.wordnet.source}",
            self._cache_dir,
            self._learn,
        )

    def _learn(self) -> dict[str, Part]:
        assert self.wordnet is not None
        senses = self._senses_of_names()
        first = Counter(found[0].lexname for found in senses.values())
        about = {lexname for lexname, n in first.items() if n >= _MIN_SHARE * first.total()}
        nodes: dict[Synset, int] = {}
        meant: dict[
            Synset, None
        ] = {}  # the senses that names have first of those that agree with the names above
        for node in sorted(senses, key=lambda v: (-int(self.taxonomy.depth[v]), v)):
            above = {
                s for v in self.taxonomy.ancestors(node)[1:-1].tolist() for s in senses.get(v, ())
            }
            found = senses[node]
            agreeing = [s for s in found if not above.isdisjoint(self.wordnet.ancestors(s) - {s})]
            meant.setdefault((agreeing or found)[0])
            for sense in (
                agreeing
                + [s for s in found if s.lexname in about and s not in agreeing][:_OTHER_SENSES]
            ):
                known = nodes.get(sense)
                nodes[sense] = (
                    node if known is None else self.taxonomy.common_ancestor([node, known])
                )
        kept = {sense: node for sense, node in nodes.items() if node}
        below = self._below({sense: kept[sense] for sense in meant if sense in kept})
        general = {
            s.name: self.taxonomy.common_ancestor(below[s]) for s in below if len(below[s]) > 1
        }
        return {
            "senses": [sense.name for sense in kept],
            "nodes": np.fromiter(kept.values(), dtype=np.int32, count=len(kept)),
            "general": list(general),
            "general_nodes": np.fromiter(general.values(), dtype=np.int32, count=len(general)),
            "root": sorted(sense.name for sense in self._senses_of_root(below)),
        }

    def _below(self, nodes: Mapping[Synset, int]) -> dict[Synset, set[int]]:
        """Returns the nodes whose names are kinds of a sense, for each sense that has any."""
        assert self.wordnet is not None
        below: dict[Synset, set[int]] = {}
        for sense, node in nodes.items():
            above = self.wordnet.ancestors(sense) - {sense}
            if not any(
                each.name == "group.n.01" for each in above
            ):  # a genus is a group there, no kind of animal
                for each in above:
                    below.setdefault(each, set()).add(node)
        return below

    def _senses_of_root(self, below: Mapping[Synset, set[int]]) -> frozenset[Synset]:
        """Returns the senses of the root's names that have kinds on the tree, or else what nearly all names are.

        Of what nearly all names are kinds of, the closest: "bird" on a tree of Aves.
        """
        assert self.wordnet is not None
        named = (self._noun(name.lower()) for name in self.taxonomy.names(self.taxonomy.root))
        if of_name := frozenset(sense for senses in named for sense in senses if sense in below):
            return of_name
        most = max(_MIN_COVERED, _ROOT_SHARE * len(set().union(*below.values())))
        covering = {sense for sense, nodes in below.items() if len(nodes) >= most}
        return frozenset(
            covering.difference(*(self.wordnet.ancestors(sense) - {sense} for sense in covering))
        )

    def _senses_of_names(self) -> dict[int, list[Synset]]:
        """Returns the senses of the names of each node but the root that has any, in the order of the names."""
        senses: dict[int, dict[Synset, None]] = {}
        for node in range(1, len(self.taxonomy)):
            for name in self.taxonomy.names(node):
                for text in dict.fromkeys(
                    (
                        " ".join(name.lower().replace("_", " ").split()),
                        " ".join(without_article(name)),
                    )
                ):
                    senses.setdefault(node, {}).update(dict.fromkeys(self._noun(text)))
        for node, table, text in name_tails(self.taxonomy, folded_names(self.taxonomy)):
            # Where several nodes can be shortened to a text, it is no name of any of them.
            if (
                table == "shortened"
                and node
                and self._noun(text)
                and len(self._index.shortened.find(text)) == 1
            ):
                senses.setdefault(node, {}).update(dict.fromkeys(self._noun(text)))
        return {node: [*found] for node, found in senses.items() if found}
