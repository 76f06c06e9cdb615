"""The names of a taxonomy, indexed: whole names, what they can be shortened to, the words they end and begin in.

Everything here is learnt from the tree. Three indexes say what a run of folded words means:

- `exact`: it is a name; or a name without words that the tree makes redundant ("747" for "Boeing 747" below Boeing,
  "noodle" for "noodle dish" where every node is a dish);
- `head`: names end in it, as English names end in their noun ("woodpecker"): what these nodes have in common;
- `front`: names that begin with their parent's go on with it ("BMW Z4" for "BMW Z4 Convertible 2012").
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import snowballstemmer

from taxtune.mapping.normalize import fold_words
from taxtune.mapping.words import SAYS_NOTHING
from taxtune.mapping.kinds import Kinds
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import WordNet

__all__ = ["MAX_WORDS", "Lexicon"]

#: Longest name, in words, that is looked up.
MAX_WORDS = 8
#: A head of a name is at most this many words: "owl", "screech owl", "yellow rumped warbler".
_MAX_HEAD = 3
#: A sense with less than this share of the names of the main sense is not meant.
_MINOR_SENSE = 0.34
#: A leaf with more names than this is a domestic species whose names are mostly its breeds'.
_MIN_BREEDS = 20
#: More nodes than this that have nothing in common are no senses of one word.
_MAX_SENSES = 3
#: An epithet of at most this many species is rare.
_RARE_EPITHET = 3
#: A modifier tells the part of the tree when at least this many nodes have it.
_MIN_MODIFIER_SUPPORT = 8
#: Endings of closed compounds that are learnt: "bird" from "bluebird", "wort" from "lungwort".
_MIN_ENDING, _MAX_ENDING, _MIN_ENDING_SUPPORT = 3, 7, 8
#: Where siblings' names end in the same nouns at least this often, a noun that one node has stands for its parent.
_SHARED_HEADS = 0.5
_STEMMER = snowballstemmer.stemmer("english")
_LISTED = re.compile(r"[,/;|]")
_PARTS = re.compile(r"[,/;|()]|\betc\b|\band\b|\bor\b|&", re.I)
#: Where at least this share of a tree's names has digits in it, model codes and years are at home on the tree.
_CODED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class _Entry:
    node: int
    words: tuple[str, ...]
    #: A Latin label above species: an English name of the same spelling ("nasturtium", "lotus") is meant more often.
    latin: bool
    #: The name that the taxonomy puts first for the node.
    preferred: bool


class Lexicon:
    """Every label and alias of a taxonomy, findable by its folded words.

    Keys are folded words joined without spaces, so that "sea gull", "sea-gull" and "seagull" are one key.

    Args:
        taxonomy: The tree whose names are indexed.
        coverage: Share of the nodes with a head noun that a common ancestor must cover to stand for the noun.
        wordnet: Says what words that the tree lacks are kinds of; None does without.
    """

    def __init__(self, taxonomy: Taxonomy, *, coverage: float = 0.85, wordnet: WordNet | None = None) -> None:
        self.taxonomy = taxonomy
        self.coverage = coverage
        self._exact: dict[str, list[_Entry]] = defaultdict(list)
        self._shortened: dict[str, set[int]] = defaultdict(set)
        self._clipped: dict[str, set[int]] = defaultdict(set)
        self._breeds: dict[str, set[int]] = defaultdict(set)
        self._heads: dict[str, Counter[int]] = defaultdict(Counter)
        self._fronts: dict[str, set[int]] = defaultdict(set)
        self._series: dict[str, set[int]] = defaultdict(set)
        self._modifiers: dict[str, set[int]] = defaultdict(set)
        self._epithets: dict[str, set[int]] = defaultdict(set)
        self._initials: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._genera: dict[str, set[int]] = defaultdict(set)
        self._vocabulary: set[str] = set()
        self._stems: dict[str, set[int]] = defaultdict(set)
        self._endings: dict[str, set[int]] = defaultdict(set)
        self._is_leaf = np.zeros(len(taxonomy), dtype=bool)
        self._is_leaf[taxonomy.leaves] = True
        self._latin_tree = "genus" in taxonomy.ranks
        self._names = [[_without_article(fold_words(name)) for name in taxonomy.names(v)] for v in range(len(taxonomy))]
        for node in range(len(taxonomy)):
            self._add_node(node)
        for node in range(len(taxonomy)):
            self._add_shortened(node)
        count = sum(len(names) for names in self._names)
        digits = sum(any(map(_has_digit, words)) for names in self._names for words in names)
        #: Whether the tree's own names have codes or years in them.
        self.coded = digits >= _CODED_SHARE * count
        #: Whether siblings' names mostly end in the same noun, as those of sister species do.
        self.shares_heads = self._share_of_shared_heads() >= _SHARED_HEADS
        self._by_initial: dict[str, list[str]] = defaultdict(list)
        for word in sorted(self._vocabulary):
            if len(word) >= 4:
                self._by_initial[word[0]].append(word)
        self.kinds: Kinds | None = None
        if wordnet is not None:
            texts = {v: [" ".join(_without_article(fold_words(name))) for name in taxonomy.names(v)] for v in range(len(taxonomy))}
            for text, nodes in self._shortened.items():
                if len(nodes) == 1:
                    texts[next(iter(nodes))].append(text)
            self.kinds = Kinds(taxonomy, texts, wordnet)
        self._domain_of = lru_cache(maxsize=50_000)(self._domain_uncached)
        self._corrected = lru_cache(maxsize=50_000)(self._correct_uncached)

    # -- building ------------------------------------------------------------------------------------------------------

    def _add_node(self, node: int) -> None:
        label, aliases = self.taxonomy.labels[node], self.taxonomy.aliases[node]
        rank = self.taxonomy.ranks[node]
        for position, (name, words) in enumerate(zip(self.taxonomy.names(node), self._names[node], strict=True)):
            if not words:
                continue
            is_label = position == 0
            latin = is_label and self._latin_tree and rank != "species" and len(words) == 1
            preferred = is_label or (position == 1 and name != label)
            entries = self._exact["".join(words)]
            if all(entry.node != node for entry in entries):
                entries.append(_Entry(node, words, latin, preferred))
            self._vocabulary.update(words)
            if not (is_label and self._latin_tree):
                self._stems[" ".join(map(stem, words))].add(node)
            if len(words) == 2:
                self._initials[words[0][0], words[1]].add(node)
            if is_label and self._latin_tree:
                self._add_latin(node, words, rank)
                if aliases or rank not in (None, "species"):
                    continue
            self._add_heads(node, name, words)

    def _add_latin(self, node: int, words: tuple[str, ...], rank: str | None) -> None:
        if rank == "genus":
            self._genera[words[0]].add(node)
        if rank == "species" and len(words) > 1:
            self._epithets[_stem("".join(words[1:]))].add(node)

    def _add_heads(self, node: int, name: str, words: tuple[str, ...]) -> None:
        # "breasted grosbeak" is no noun: a head never starts inside a hyphenated compound unless it is the last word.
        inside: list[bool] = []
        for part in name.replace("–", "-").split():
            count = len(fold_words(part))
            inside.extend(i > 0 for i in range(count))
        stop = len(words)
        while stop > 1 and _has_digit(words[stop - 1]):
            stop -= 1  # a "Focus Sedan 2007" is a sedan
        for length in range(1, min(_MAX_HEAD, stop) + 1):
            start = stop - length
            if length > 1 and start > 0 and (len(inside) != len(words) or inside[start]):
                continue
            self._heads["".join(words[start:stop])][node] += 1
        for word in words[: stop - 1]:
            self._modifiers[word].add(node)
        last = words[stop - 1]
        for length in range(_MIN_ENDING, min(_MAX_ENDING, len(last) - 2) + 1):
            self._endings[last[-length:]].add(node)

    def _add_shortened(self, node: int) -> None:
        """Indexes a node's names without the words that say again what its ancestors' names say."""
        above = self.taxonomy.ancestors(node)[:-1].tolist()
        known = {words for v in above for words in (*self._names[v], *self._parts_of(v))}
        of_root = {words for words in self._names[0] if len(words) == 1} if node else set()
        breeds = self._breed_words(node)
        for words in self._parts_of(node):
            self._shortened[" ".join(words)].add(node)
        for words in self._names[node]:
            for stop in range(1, len(words)):
                if _has_digit(words[stop]):
                    self._series[" ".join(words[:stop])].add(node)
            fronted = [n for n in range(1, len(words)) if words[:n] in known]
            if fronted and not (self._latin_tree and self.taxonomy.ranks[node] == "species"):
                rest = words[fronted[-1] :]
                self._shortened[" ".join(rest)].add(node)
                for stop in range(1, len(rest)):
                    self._fronts[" ".join(rest[:stop])].add(node)
                for stop in range(fronted[-1] + 1, len(words)):
                    self._fronts[" ".join(words[:stop])].add(node)
            if len(words) > 1 and words[-1:] in of_root:
                self._shortened[" ".join(words[:-1])].add(node)
            elif len(words) > 1 and words[-1] in breeds:
                self._breeds[" ".join(words[:-1])].add(node)
            elif len(words) > 2 and words[-1:] in known:
                self._clipped[" ".join(words[:-1])].add(node)

    def _parts_of(self, node: int) -> list[tuple[str, ...]]:
        """Returns what a label that lists several things lists: "houses, cabins, and farms", "bar / pub"."""
        if not _LISTED.search(self.taxonomy.labels[node]):
            return []
        parts = [fold_words(part) for part in _PARTS.split(self.taxonomy.labels[node])]
        return [part for part in parts if part and not SAYS_NOTHING.issuperset(part)]

    def _breed_words(self, node: int) -> set[str]:
        """Returns the words behind a node's many breeds: "cat" in "bengal cat", if "cat" is a name of the node too."""
        names = self._names[node]
        if not self._is_leaf[node] or len(names) <= _MIN_BREEDS:
            return set()
        endings = Counter(words[-1] for words in names if len(words) > 1)
        return {words[0] for words in names if len(words) == 1 and endings[words[0]] >= _MIN_BREEDS}

    def _share_of_shared_heads(self) -> float:
        """Returns the share of the leaves with sisters that have a name which ends in a sister's noun."""
        nouns: dict[int, Counter[str]] = defaultdict(Counter)
        own: dict[int, set[str]] = {}
        for node in self.taxonomy.leaves.tolist():
            named = self._names[node][1:2] or self._names[node][:1]  # the common name where there is one
            own[node] = {words[-1] for words in named if words}
            nouns[int(self.taxonomy.parents[node])].update(own[node])
        sisters = Counter(int(self.taxonomy.parents[node]) for node in own)
        parents = {node: int(self.taxonomy.parents[node]) for node in own}
        shared = [any(nouns[parents[v]][noun] > 1 for noun in own[v]) for v in own if sisters[parents[v]] > 1]
        return sum(shared) / max(1, len(shared))

    # -- whole names ---------------------------------------------------------------------------------------------------

    def exact(self, words: Sequence[str], *, respelled: bool = True) -> tuple[int, ...]:
        """Returns the nodes that the words name, the senses of the name.

        Args:
            words: Folded words.
            respelled: Whether the words may part otherwise than in the name ("sea gull" for "seagull").
        """
        if not words or len(words) > MAX_WORDS:
            return ()
        key = "".join(words)
        entries = self._exact.get(key, ())
        spelt_alike = [entry for entry in entries if entry.words == tuple(words)]
        if not respelled or spelt_alike:  # "wheatear" is the bird, although "wheat ear" joins to the same key
            entries = spelt_alike
        if not entries:
            return ()
        english = [entry for entry in entries if not entry.latin]
        return self._distinct(english or entries, key)

    def shortened(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns what has a name that says just this beyond its ancestors' names, or () where that is nothing."""
        return self._common_of(self._shortened, words)

    def clipped(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the one node whose name the words are without its parent's: "grilled cheese" of sandwiches."""
        nodes = self._clipped.get(" ".join(words), ())
        return tuple(nodes) if len(nodes) == 1 else ()

    def front(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns what the nodes have in common whose names go on behind their parents' with the words."""
        return self._common_of(self._fronts, words)

    def series(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns what the nodes have in common whose names are the words and a number: "DC" of DC-3 and DC-6."""
        common = self._common_of(self._series, words)
        return tuple(v for v in map(self.lifted, common) if v)

    def _common_of(self, index: dict[str, set[int]], words: Sequence[str]) -> tuple[int, ...]:
        nodes = index.get(" ".join(words), ())
        if not nodes or (len(words) == 1 and words[0] in SAYS_NOTHING):
            return ()
        common = self.common({*nodes, *self._heads.get("".join(words), ())})
        return (common,) if common else tuple(sorted(nodes)) if len(nodes) <= _MAX_SENSES else ()

    def inflected(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the one node with a name of the same word stems: "cobwebbed" for "cobweb"."""
        nodes = self._stems.get(" ".join(map(stem, words)), ())
        return tuple(nodes) if len(nodes) == 1 else ()

    def breed(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the domestic species that has a breed of this name: Felis catus for "bengal", from "bengal cat"."""
        nodes = self._breeds.get(" ".join(words), ())
        return tuple(nodes) if len(nodes) == 1 else ()

    def is_latin(self, words: Sequence[str]) -> bool:
        """Tells whether the words are known as a Latin label only."""
        entries = self._exact.get("".join(words), ())
        return bool(entries) and all(entry.latin for entry in entries)

    def _distinct(self, entries: Sequence[_Entry], key: str) -> tuple[int, ...]:
        """Drops senses that say the same: of a node and its ancestor with one name, one stays."""
        preferred_leaves = [e.node for e in entries if e.preferred and self._is_leaf[e.node]]
        nodes = sorted({e.node for e in entries}, key=lambda v: int(self.taxonomy.depth[v]))
        kept: list[int] = []
        for node in nodes:
            above = [v for v in kept if self.taxonomy.is_ancestor(v, node)]
            if above and node not in preferred_leaves and not self._covers(node, key):
                continue  # "cormorant" names a family and a genus of it; cormorants stand in its other genera too
            kept = [v for v in kept if v not in above]
            kept.append(node)
        if len(kept) == 1:
            return tuple(kept)
        # Of "forget-me-not", the genus of many and one butterfly, the genus is meant.
        weights = [self._weight(node, key) for node in kept]
        return tuple(v for v, weight in zip(kept, weights, strict=True) if weight >= _MINOR_SENSE * max(weights))

    def _weight(self, node: int, key: str) -> int:
        counts = self._heads.get(key, Counter())
        return sum(n for v, n in counts.items() if self.taxonomy.is_ancestor(node, v))

    def _covers(self, node: int, key: str) -> bool:
        others = [v for v in self._heads.get(key, ()) if not self.taxonomy.is_ancestor(v, node)]
        inside = sum(bool(self.taxonomy.is_ancestor(node, v)) for v in others)
        return not self._is_leaf[node] and inside >= self.coverage * len(others)

    # -- parts of names ------------------------------------------------------------------------------------------------

    def head(self, words: Sequence[str], modifiers: Sequence[str] = ()) -> int | None:
        """Returns what all names that end in these words have in common, or None where none does.

        The common ancestor is robust: it covers `coverage` of the nodes. A noun that only one species has stands for
        the species' parent, because an unknown "striped X" is most likely another species than the known "spotted X".

        Args:
            words: The last words of a phrase, folded, three at most.
            modifiers: The words before them. One that occurs in names of one part of the tree only ("throated") leaves
                only that part's nodes, where there are any.
        """
        if not words or len(words) > _MAX_HEAD or (len(words) == 1 and words[0] in SAYS_NOTHING):
            return None
        nodes = set(self._heads.get("".join(words), ()))
        if not nodes or (len(nodes) == len(words) == 1 and not self.shares_heads):
            return None
        for modifier in modifiers:
            domain = self._domain_of(modifier)
            nodes = {v for v in nodes if self.taxonomy.is_ancestor(domain, v)} or nodes
        return self.lifted(self.common(nodes))

    def elsewhere(self, key: str, denied: Iterable[int]) -> tuple[int, ...]:
        """Returns what the names that end in a word have in common, but for the nodes that are denied."""
        nodes = [v for v in self._heads.get(key, ()) if not any(self.taxonomy.is_ancestor(w, v) for w in denied)]
        common = self.common(nodes) if nodes else 0
        return (common,) if common else ()

    def support(self, words: Sequence[str]) -> int:
        """Returns how many nodes have a name that ends in the words."""
        return len(self._heads.get("".join(words), ()))

    def _domain_uncached(self, modifier: str) -> int:
        nodes = self._modifiers.get(modifier, ())
        return self.common(nodes) if len(nodes) >= _MIN_MODIFIER_SUPPORT else 0

    def share(self, words: Sequence[str], node: int) -> float:
        """Returns the share of the names ending in these words that belong to nodes at or below `node`."""
        key = "".join(words)
        return self._weight(node, key) / max(1, self._heads.get(key, Counter()).total())

    def is_leaf(self, node: int) -> bool:
        """Tells whether a node has no children."""
        return bool(self._is_leaf[node])

    def lifted(self, node: int) -> int:
        """Returns the parent of a wild species, and any other node as it is; breeds have no sister species."""
        if not self._is_leaf[node] or node == 0 or len(self.taxonomy.aliases[node]) > _MIN_BREEDS:
            return node
        return int(self.taxonomy.parents[node])

    def common(self, nodes: Iterable[int]) -> int:
        """Returns the deepest node that covers at least `coverage` of the nodes."""
        members = np.fromiter(nodes, dtype=np.int64)
        lineage = self.taxonomy.lineage[members]
        needed = self.coverage * len(members)
        best = 0
        for column in lineage.T:
            values, counts = np.unique(column[column >= 0], return_counts=True)
            if len(counts) == 0 or counts.max() < needed:
                break
            best = int(values[counts.argmax()])
        return best

    def compound(self, word: str) -> int | None:
        """Returns what the ending of an unknown closed compound means: "leafbird" is a bird, a "supercar" a car.

        Endings are learnt from the last words of all names; one counts when at least eight nodes have it. A word that
        parts into two known ones is a compound of them.
        """
        for length in range(min(_MAX_ENDING, len(word) - 3), _MIN_ENDING, -1):
            ending = word[-length:]
            nodes = self._endings.get(ending, ())
            if len(nodes) >= _MIN_ENDING_SUPPORT and ending not in SAYS_NOTHING and self.knows_english(ending):
                return self.common(nodes)
        for length in range(len(word) - 3, 2, -1):
            first, last = word[:-length], word[-length:]
            if (first in self._vocabulary or self.is_english(first)) and (named := self.exact((last,))):
                return self.common(named)
        return None

    def is_english(self, word: str) -> bool:
        """Tells whether WordNet knows a word; False where there is none."""
        return self.kinds is not None and self.kinds.knows(word)

    def is_person(self, words: Sequence[str]) -> bool:
        """Tells whether a phrase that the tree lacks is, by WordNet, about somebody: "an elderly musician"."""
        return self.kinds is not None and any(map(self.kinds.is_person, words))

    def kind(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns what WordNet says the longest run of last words is a kind of that is on the tree."""
        if self.kinds is None or words[-1] in SAYS_NOTHING:
            return ()
        for start in range(max(0, len(words) - _MAX_HEAD), len(words)):
            node = self.kinds.of(" ".join(words[start:]))
            if node is not None:
                return (node,)
        return ()

    @property
    def genera(self) -> bool:
        """Whether the tree has genera, so that Latin binomials are to be expected."""
        return self._latin_tree

    # -- Latin ---------------------------------------------------------------------------------------------------------

    def genus(self, word: str) -> tuple[int, ...]:
        """Returns the genera with this folded Latin label."""
        return tuple(sorted(self._genera.get(word, ())))

    def epithet(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the species with this folded epithet, whatever its gender's ending."""
        return tuple(sorted(self._epithets.get(_stem("".join(words)), ())))

    def moved(self, genus: int, epithet: str) -> tuple[int, ...]:
        """Returns the species that an unknown binomial most likely is: Mareca strepera for "Anas strepera".

        That is the one species with this epithet in the genus' family, where the epithet is rare; an epithet as common
        as "purpurea" says nothing.
        """
        species = self.epithet((epithet,))
        family = self.taxonomy.parents[genus]
        near = tuple(v for v in species if self.taxonomy.is_ancestor(family, v))
        return near if len(near) == 1 and len(species) <= _RARE_EPITHET else ()

    def abbreviated(self, initial: str, epithet: str) -> tuple[int, ...]:
        """Returns the nodes with a two-word name of this initial and second word: "t. merula"."""
        return tuple(sorted(self._initials.get((initial, epithet), ())))

    # -- for the reader ------------------------------------------------------------------------------------------------

    def locate(self, words: Sequence[str]) -> list[tuple[int, int]]:
        """Returns where names of several words stand in a run of folded words, the longest first from the left."""
        found: list[tuple[int, int]] = []
        start = 0
        while start < len(words) - 1:
            for stop in range(min(len(words), start + MAX_WORDS), start + 1, -1):
                if self.exact(words[start:stop], respelled=False):
                    found.append((start, stop))
                    start = stop - 1
                    break
            start += 1
        return found

    def mentions(self, words: Sequence[str]) -> bool:
        """Tells whether one of the words, or a run of them, names something below the root."""
        for word in words:
            if word not in SAYS_NOTHING:
                named = self.exact((word,)) or self.shortened((word,)) or self.front((word,))
                if any(named) or self.support((word,)) > 1:
                    return True
        return bool(self.locate(words))

    # -- spelling ------------------------------------------------------------------------------------------------------

    def knows_english(self, word: str) -> bool:
        """Tells whether a folded word is a name by itself or the head of an English one."""
        return word in self._heads or word in self._exact

    def knows(self, word: str) -> bool:
        """Tells whether a folded word occurs in any name."""
        return word in self._vocabulary

    def code(self, word: str) -> str | None:
        """Returns the known code that an unknown one begins with, "a320" for "a320neo", or None."""
        for stop in range(len(word) - 1, 1, -1):
            if word[:stop] in self._vocabulary and _has_digit(word[:stop]):
                return word[:stop]
        return None

    def is_foreign(self, words: Sequence[str]) -> bool:
        """Tells whether words that are no name here speak of something that the tree does not have.

        On a tree of living things whose names have no numbers, what has a model code or a year lives not: "Jaguar XF
        2005". Words that together are a noun of their own name what that noun names, and not what their parts do: a
        "jigsaw puzzle" is no jigsaw.
        """
        if self._latin_tree and not self.coded and any(map(_has_digit, words)):
            return True
        return self.kinds is not None and self.kinds.is_apart(words)

    def is_noun(self, words: Sequence[str]) -> bool:
        """Tells whether several words are together a noun of WordNet, which then names no more than its last word."""
        return self.kinds is not None and len(words) > 1 and bool(self.kinds.wordnet.synsets(" ".join(words)))

    def correct(self, word: str, *, generous: bool = False) -> str | None:
        """Returns the word of the names that an unknown word most likely misspells, or None.

        The first letter must be right, and no second word may be as near. One slip (a letter more, less, other, or two
        swapped) is forgiven in words of seven letters and more, two in words of ten; shorter words may only double a
        letter or lose a double: "castle" is no "cattle".

        Args:
            word: A folded word.
            generous: Forgive one slip from five letters and two from seven, where more than this word speaks for the
                name. So it is where WordNet is at hand, and does not know the word, on a tree without Latin; what it knows is no misspelling.
        """
        if self.is_english(word):
            return None
        return self._corrected(word, generous or (self.kinds is not None and not self._latin_tree))

    def _correct_uncached(self, word: str, generous: bool) -> str | None:
        one, two = (5, 7) if generous else (5, 10)
        limit = 2 if len(word) >= two else 1 if len(word) >= one else 0
        if limit == 0 or word in self._vocabulary or not word.isalpha() or word in SAYS_NOTHING:
            return None
        best: list[str] = []
        for known in self._by_initial.get(word[0], ()):
            if abs(len(known) - len(word)) > limit:
                continue
            distance = _edits(word, known, limit)
            if distance > limit or (not generous and len(word) < 7 and not _is_slip_of_hand(word, known)):
                continue
            if distance < limit:
                limit, best = distance, []
            best.append(known)
        best = [known for known in best if self.knows_english(known)] or best
        return best[0] if len(best) == 1 else None


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """Returns the stem of an English word (Porter2)."""
    return str(_STEMMER.stemWord(word))


def _without_article(words: tuple[str, ...]) -> tuple[str, ...]:
    return words[1:] if len(words) > 1 and words[0] in ("the", "a", "an") else words


def _has_digit(word: str) -> bool:
    return any(character.isdigit() for character in word)


def _is_slip_of_hand(word: str, known: str) -> bool:
    """Tells whether two words differ only by doubled letters."""
    return re.sub(r"(.)\1", r"\1", word) == re.sub(r"(.)\1", r"\1", known)


def _edits(a: str, b: str, limit: int) -> int:
    """Returns the optimal string alignment distance of two words, or limit + 1 where it is larger."""
    before, row = [0] * (len(b) + 1), list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        two_before, before, row = before, row, [i] + [0] * len(b)
        for j, y in enumerate(b, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[j] = min(row[j], two_before[j - 2] + 1)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _stem(epithet: str) -> str:
    """Returns a Latin epithet without the ending that follows the genus' gender: -us, -a, -um; -is, -e."""
    return re.sub(r"(?<=\w{3})(?:us|a|um|is|e|er|ra|rum)$", "", epithet)
