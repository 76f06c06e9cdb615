"""Answers with their names hidden: an example that shows a mistake without giving a tuning image's label away.

A name on the tree is replaced by its relation to the truth ("[a wrong species of the right family]"), whichever node it
is: a wrong name gives the right family away as well as the right one would. Of the remaining words
only those stay that every domain shares (`taxtune.mapping.english`) or that the prompt said first; the rest, which may
be names that the tree does not know, become "[…]".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from taxtune.mapping import english
from taxtune.mapping.normalize import fold_words
from taxtune.metrics.ranks import rank_of
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.leaks import find_labels

__all__ = ["ELSEWHERE", "Hider", "relation"]

#: What stands for words that may be a name.
ELSEWHERE = "[…]"

_TOKEN = re.compile(r"[^\W_]+(?:['’ʼ‘`´][^\W_]+)*")
_RUN = re.compile(r"\[…\](?:[\W_]{1,3}\[…\])+")
_ROUND = str.maketrans("[]", "()")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_ARTICLE = re.compile(r"\b(?:an?|the) (?=\[(?:a wrong|the right|more specific) )", re.IGNORECASE)
_LONGEST_NAME = 12  # words
_Names = dict[tuple[str, ...], tuple[int, ...]]  # nodes by their name's words

# Colours, sizes and continents are left out of these: they are halves of names ("American [the right family]").
_GRAMMAR = (
    *(english.ARTICLES, english.ONE, english.ALTERNATIVE, english.NEGATION, english.CERTAINTY, english.REFUSAL),
    *(english.PRECISION, english.COMPARISON, english.SEEMS, english.PREPOSITIONS, english.BREAKS, english.HAVING),
    *(english.TELLING, english.ANSWER_KEYS, english.OTHER_KEYS, english.FILLER, english.TAIL, english.PICTURE),
)
_COMMON = frozenset(folded for words in _GRAMMAR for word in words for folded in fold_words(word))


class Hider:
    """Hides the names in answers.

    Args:
        taxonomy: The label tree.
        domain: The node of what all images show, whose names and whose ancestors' names stay.
        kept: Texts whose words may stay: the prompt, the names of the ranks.
    """

    def __init__(self, taxonomy: Taxonomy, domain: int, kept: Iterable[str] = ()) -> None:
        self._taxonomy = taxonomy
        self._domain = domain
        self._kept = _COMMON | {word for text in kept for word in fold_words(text)} - {""}

    def hide(self, answer: str, target: int, node: int | None = None) -> str:
        """Returns an answer with each name replaced by its relation to the target.

        Args:
            answer: The model's answer.
            target: The true label's node.
            node: The answer's node; of several nodes with a name it is the one that is meant.
        """
        text = " ".join("".join(c for c in unicodedata.normalize("NFC", answer) if _visible(c)).split())
        text = text.translate(_ROUND)  # square brackets stand for names
        tokens = [(match.start(), match.end(), fold_words(match.group())) for match in _TOKEN.finditer(text)]
        names = _names(self._taxonomy)
        parts: list[str] = []
        at = i = 0
        while i < len(tokens):
            count, nodes = _longest(names, [folded for _, _, folded in tokens[i : i + _LONGEST_NAME]])
            start, end = tokens[i][0], tokens[i + max(count, 1) - 1][1]
            shown = text[start:end]
            if count:
                meant = self._meant(nodes, target, node)
                if not self._taxonomy.is_ancestor(meant, self._domain):
                    shown = f"[{relation(self._taxonomy, self._domain, meant, target)}]"
            elif not set(tokens[i][2]) <= self._kept:
                shown = ELSEWHERE
            parts += [text[at:start], shown]
            at, i = end, i + max(count, 1)
        hidden = _ARTICLE.sub("", _RUN.sub(ELSEWHERE, "".join([*parts, text[at:]])))
        # A prompt may have the model spell its answer with words of the prompt's own: "m a l l a r d".
        tree = self._taxonomy
        free = {name for v in tree.ancestors(self._domain) for name in tree.names(int(v))}
        secret = {name for v in tree.ancestors(target) for name in tree.names(int(v))} - free
        return ELSEWHERE if find_labels(_BRACKETS.sub("|", hidden), secret) else hidden

    def _meant(self, nodes: tuple[int, ...], target: int, node: int | None) -> int:
        if node is not None and node in nodes:
            return node
        over = [v for v in nodes if self._taxonomy.is_ancestor(v, self._domain)]
        return over[0] if over else max(nodes, key=lambda v: (int(self._taxonomy.shared(v, target)), -v))


def relation(taxonomy: Taxonomy, domain: int, node: int, target: int) -> str:
    """Returns a node's relation to the true one, without a name: "a wrong species of the right family"."""
    if bool(taxonomy.is_ancestor(node, domain)):
        return "no more than the domain"
    if bool(taxonomy.is_ancestor(node, target)):
        return f"the right {_level(taxonomy, node)}"
    if bool(taxonomy.is_ancestor(target, node)):
        return f"more specific than the right {_level(taxonomy, target)}"
    common = taxonomy.lca(node, target)
    if not bool(taxonomy.is_ancestor(domain, common)):
        return f"a wrong {_level(taxonomy, node)} outside the domain"
    if common != domain:
        return f"a wrong {_level(taxonomy, node)} of the right {_level(taxonomy, common)}"
    first = int(taxonomy.lineage[node, taxonomy.depth[domain] + 1])
    if first == node:
        return f"a wrong {_level(taxonomy, node)}"
    return f"a wrong {_level(taxonomy, node)} of a wrong {_level(taxonomy, first)}"


def _level(taxonomy: Taxonomy, node: int) -> str:
    rank = rank_of(taxonomy, node)
    return rank if taxonomy.ranks[node] else f"{rank.replace(' ', '-')} label"


def _visible(character: str) -> bool:
    return unicodedata.category(character) not in ("Cf", "Cs") and (character.isspace() or character.isprintable())


def _longest(names: _Names, words: list[tuple[str, ...]]) -> tuple[int, tuple[int, ...]]:
    """Returns the length in words of the longest name at the start, and its nodes; 0 where there is none."""
    for count in range(len(words), 0, -1):
        if nodes := names.get(tuple(part for word in words[:count] for part in word)):
            return count, nodes
    return 0, ()


@lru_cache(maxsize=4)
def _names(taxonomy: Taxonomy) -> _Names:
    """Returns the nodes that have each name, folded as answers are."""
    table: dict[tuple[str, ...], list[int]] = {}
    for node in range(len(taxonomy)):
        for words in {fold_words(name) for name in taxonomy.names(node)}:
            table.setdefault(words, []).append(node)
    table.pop((), None)
    return {words: tuple(nodes) for words, nodes in table.items()}
