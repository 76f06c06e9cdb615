"""Finding nodes by a part of their name, as somebody types it."""

from __future__ import annotations

import re
from functools import cached_property

from taxtune.taxonomy.tree import Taxonomy

__all__ = ["NodeSearch", "matches"]

_WORD = re.compile(r"\w+")
#: Longest name, in words, that is looked for within an answer, and how much of a long answer is looked at.
_LONGEST = 8
_READ = 400


class NodeSearch:
    """Looks up nodes of a tree.

    Args:
        tree: The tree.
    """

    def __init__(self, tree: Taxonomy) -> None:
        self.tree = tree

    def find(self, typed: str, most: int = 8) -> list[int]:
        """Returns nodes that a text may mean, the likeliest first: each typed word begins a word of a name.

        Whole names come first, then names that begin so, then others; the shorter before the longer, and the higher in
        the tree before the deeper. Where there are none, names that are spelt much alike.

        Args:
            typed: What was typed so far; blank finds nothing.
            most: Most nodes to return.
        """
        wanted = typed.strip().casefold()
        words = _WORD.findall(wanted)
        if not words:
            return []
        ranked = []
        for name, node in self._names:
            if all(word in name for word in words) and matches(wanted, name):
                kind = 0 if name == wanted else 1 if name.startswith(wanted) else 2
                ranked.append((kind, len(name), int(self.tree.depth[node]), node))
        if not ranked and len(wanted) > 2:
            near = self.tree.nearest_names(typed, most)
            return list(dict.fromkeys(node for name in near for node in self.tree.find(name)))[:most]
        return list(dict.fromkeys(node for *_, node in sorted(ranked)))[:most]

    def named_in(self, text: str, most: int = 8) -> list[int]:
        """Returns nodes of which a name stands in a text, letter for letter, the longest name first."""
        words = _WORD.findall(text[:_READ].casefold())
        found: dict[int, None] = {}
        for size in range(min(_LONGEST, len(words)), 0, -1):
            for start in range(len(words) - size + 1):
                for node in self._by_words.get(tuple(words[start : start + size]), ()):
                    found.setdefault(node)
        return list(found)[:most]

    @cached_property
    def _names(self) -> list[tuple[str, int]]:
        return [(name.casefold(), node) for node in range(len(self.tree)) for name in self.tree.names(node)]

    @cached_property
    def _by_words(self) -> dict[tuple[str, ...], list[int]]:
        table: dict[tuple[str, ...], list[int]] = {}
        for name, node in self._names:
            table.setdefault(tuple(_WORD.findall(name)), []).append(node)
        return table


def matches(typed: str, name: str) -> bool:
    """Tells whether each word that was typed begins a word of a name; blank is in no name."""
    words, parts = _WORD.findall(typed.casefold()), _WORD.findall(name.casefold())
    return bool(words) and all(any(part.startswith(word) for part in parts) for word in words)
