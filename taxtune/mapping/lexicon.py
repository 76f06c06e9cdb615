"""The names of a taxonomy, indexed: whole names, the head nouns they end in, Latin binomials, and near spellings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from taxtune.mapping.normalize import fold_words
from taxtune.mapping.words import COMMON, FOREIGN, NO_HEADS, OBJECTS
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Lexicon"]

#: Longest name, in words, that is looked up.
MAX_WORDS = 8
#: A head of a name is at most this many words: "owl", "screech owl", "yellow rumped warbler".
_MAX_HEAD = 3
#: Endings of closed compounds that are learnt: "bird" from "bluebird", "wort" from "lungwort".
#: A sense with less than this share of the names of the main sense is not meant.
_MINOR_SENSE = 0.34
#: A leaf with more names than this is a domestic species whose names are mostly its breeds'.
_MIN_BREEDS = 20
#: An epithet of at most this many species is rare.
_RARE_EPITHET = 3
#: A modifier tells the part of the tree when at least this many nodes have it.
_MIN_MODIFIER_SUPPORT = 8
_MIN_ENDING, _MAX_ENDING, _MIN_ENDING_SUPPORT = 3, 7, 8


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
    """

    def __init__(self, taxonomy: Taxonomy, *, coverage: float = 0.85) -> None:
        self.taxonomy = taxonomy
        self.coverage = coverage
        self._exact: dict[str, list[_Entry]] = defaultdict(list)
        self._heads: dict[str, Counter[int]] = defaultdict(Counter)
        self._modifiers: dict[str, set[int]] = defaultdict(set)
        self._epithets: dict[str, set[int]] = defaultdict(set)
        self._initials: dict[tuple[str, str], set[int]] = defaultdict(set)
        self._genera: dict[str, set[int]] = defaultdict(set)
        self._breeds: dict[str, set[int]] = defaultdict(set)
        self._vocabulary: set[str] = set()
        self._endings: dict[str, set[int]] = defaultdict(set)
        self._is_leaf = np.zeros(len(taxonomy), dtype=bool)
        self._is_leaf[taxonomy.leaves] = True
        self._latin_tree = "genus" in taxonomy.ranks
        for node in range(len(taxonomy)):
            self._add_node(node)
        self._by_initial: dict[str, list[str]] = defaultdict(list)
        for word in sorted(self._vocabulary):
            if len(word) >= 4:
                self._by_initial[word[0]].append(word)
        self._domain_of = lru_cache(maxsize=50_000)(self._domain_uncached)
        self._corrected = lru_cache(maxsize=50_000)(self._correct_uncached)

    # -- building ------------------------------------------------------------------------------------------------------

    def _add_node(self, node: int) -> None:
        label, aliases = self.taxonomy.labels[node], self.taxonomy.aliases[node]
        rank = self.taxonomy.ranks[node]
        for position, name in enumerate(self.taxonomy.names(node)):
            words = fold_words(name)
            if not words:
                continue
            is_label = position == 0
            latin = is_label and self._latin_tree and rank != "species" and len(words) == 1
            preferred = is_label or (position == 1 and name != label)
            entries = self._exact["".join(words)]
            if all(entry.node != node for entry in entries):
                entries.append(_Entry(node, words, latin, preferred))
            self._vocabulary.update(words)
            if len(words) == 2:
                self._initials[words[0][0], words[1]].add(node)
            if is_label and self._latin_tree:
                self._add_latin(node, words, rank)
                if aliases or rank not in (None, "species"):
                    continue
            self._add_heads(node, name, words)
        if self._is_leaf[node] and len(aliases) > _MIN_BREEDS:
            self._add_breeds(node)

    def _add_breeds(self, node: int) -> None:
        """Indexes "bengal" from "bengal cat" where a species has many names that end in one of its own ("cat")."""
        names = [fold_words(name) for name in self.taxonomy.aliases[node]]
        endings = Counter(words[-1] for words in names if len(words) > 1)
        own = {words[0] for words in names if len(words) == 1}
        for words in names:
            if len(words) > 1 and words[-1] in own and endings[words[-1]] >= _MIN_BREEDS and words[0] not in NO_HEADS:
                self._breeds["".join(words[:-1])].add(node)

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
        for length in range(1, min(_MAX_HEAD, len(words)) + 1):
            start = len(words) - length
            if length > 1 and start > 0 and (len(inside) != len(words) or inside[start]):
                continue
            self._heads["".join(words[start:])][node] += 1
        for word in words[:-1]:
            self._modifiers[word].add(node)
        last = words[-1]
        for length in range(_MIN_ENDING, min(_MAX_ENDING, len(last) - 2) + 1):
            self._endings[last[-length:]].add(node)

    # -- whole names ---------------------------------------------------------------------------------------------------

    def exact(self, words: Sequence[str], *, respelled: bool = True) -> tuple[int, ...]:
        """Returns the nodes that the words name, the senses of the name.

        Args:
            words: Folded words.
            respelled: Whether the words may part otherwise than in the name ("sea gull" for "seagull").
        """
        if not words or len(words) > MAX_WORDS:
            return ()
        entries = self._exact.get("".join(words), ())
        spelt_alike = [entry for entry in entries if entry.words == tuple(words)]
        if not respelled or spelt_alike:  # "wheatear" is the bird, although "wheat ear" joins to the same key
            entries = spelt_alike
        if not entries:
            return ()
        english = [entry for entry in entries if not entry.latin]
        return self._distinct(english or entries, "".join(words))

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
        if not words or len(words) > _MAX_HEAD or (len(words) == 1 and words[0] in NO_HEADS):
            return None
        nodes = set(self._heads.get("".join(words), ()))
        if not nodes:
            return None
        for modifier in modifiers:
            domain = self._domain_of(modifier)
            nodes = {v for v in nodes if self.taxonomy.is_ancestor(domain, v)} or nodes
        return self.lifted(self.common(nodes))

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

    def breed(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the domestic species that has a breed of this name: Felis catus for "bengal", from "bengal cat"."""
        return tuple(sorted(self._breeds.get("".join(words), ())))

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
        """Returns what the ending of an unknown closed compound means: "leafbird" is a bird.

        Endings are learnt from the last words of all names; one counts when at least eight nodes have it.
        """
        for length in range(min(_MAX_ENDING, len(word) - 3), _MIN_ENDING, -1):
            ending = word[-length:]
            nodes = self._endings.get(ending, ())
            if len(nodes) >= _MIN_ENDING_SUPPORT and ending not in NO_HEADS and self.knows_english(ending):
                return self.common(nodes)
        return None

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

    # -- spelling ------------------------------------------------------------------------------------------------------

    def knows_english(self, word: str) -> bool:
        """Tells whether a folded word is a name by itself or the head of an English one."""
        return word in self._heads or word in self._exact

    def knows(self, word: str) -> bool:
        """Tells whether a folded word occurs in any name."""
        return word in self._vocabulary

    def correct(self, word: str, *, generous: bool = False) -> str | None:
        """Returns the word of the names that an unknown word most likely misspells, or None.

        The first letter must be right, and no second word may be as near. One slip (a letter more, less, other, or two
        swapped) is forgiven in words of eight letters and more, two in words of ten; shorter words may only double a
        letter, lose a double, or swap two: "castle" is no "cattle".

        Args:
            word: A folded word.
            generous: Forgive one slip from five letters and two from seven, where more than this word speaks for the
                name.
        """
        return self._corrected(word, generous)

    def _correct_uncached(self, word: str, generous: bool) -> str | None:
        one, two = (5, 7) if generous else (5, 10)
        limit = 2 if len(word) >= two else 1 if len(word) >= one else 0
        if limit == 0 or word in self._vocabulary or not word.isalpha() or word in FOREIGN | COMMON | OBJECTS:
            return None
        best: list[str] = []
        for known in self._by_initial.get(word[0], ()):
            if abs(len(known) - len(word)) > limit:
                continue
            distance = _edits(word, known, limit)
            if distance > limit or (not generous and len(word) < 8 and not _is_slip_of_hand(word, known)):
                continue
            if distance < limit:
                limit, best = distance, []
            best.append(known)
        best = [known for known in best if self.knows_english(known)] or best
        return best[0] if len(best) == 1 else None


def _is_slip_of_hand(word: str, known: str) -> bool:
    """Tells whether two words differ only by doubled letters or the order of their letters."""
    return re.sub(r"(.)\1", r"\1", word) == re.sub(r"(.)\1", r"\1", known) or sorted(word) == sorted(known)


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
