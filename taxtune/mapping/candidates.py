"""The nodes that an arbiter chooses from: what the words of an answer may name.

They come from the words, whatever reading makes of them: so what is compared, corrected or only
mentioned is among them, with all its senses, and what is merely spelt alike. Of the nodes above
them only their parents are shown, and those that tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping import english
from taxtune.mapping.lexicon import MAX_WORDS, Lexicon
from taxtune.mapping.normalize import fold_words
from taxtune.mapping.paper import top_k
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Candidates"]

#: What an answer names is shown with at most so many nodes.
_MOST = 12
#: An answer that names nothing may mean anything: the upper levels of the tree are shown, as many
#: as have at most so many nodes.
_OUTLINE = 70
#: So many nodes with similar names are shown, each at least half as similar as the first.
_SIMILAR = 5
#: So many phrases are compared with names, the first.
_PHRASES = 32
#: The children of reading's node are shown if they are few.
_FEW = 6
#: Words between the phrases of an answer.
_BETWEEN = english.SAYS_NOTHING | english.PREPOSITIONS | english.BREAKS


@dataclass(frozen=True)
class Candidates:
    """Finds the candidates of answers.

    Attributes:
        lexicon: The names of the tree.
        similarities: From phrases to the similarity of each to each node, shape (phrases, nodes).
    """

    lexicon: Lexicon
    similarities: Callable[[Sequence[str]], NDArray[np.float32]]

    def of(self, answer: str, node: int) -> tuple[int, ...]:
        """Returns the candidates of an answer that reading places on a node, in walking order.

        The root is the first.
        """
        words = fold_words(answer)
        named = self._named(words)
        likely = [node, *named, *self._similar(words)]
        children = self._tree.children(node)
        if len(children) <= _FEW:
            likely += children.tolist()
        shown = self._fitting(likely)
        if not named:
            shown.update(self._outline)
        return tuple(sorted(shown, key=self._tree.places.__getitem__))

    @property
    def _tree(self) -> Taxonomy:
        return self.lexicon.taxonomy

    @cached_property
    def _outline(self) -> list[int]:
        depth = self._tree.depth
        sizes = np.bincount(depth).cumsum()
        levels = np.count_nonzero(sizes <= _OUTLINE)
        nodes: list[int] = np.flatnonzero(depth < levels).tolist()
        return nodes

    def _named(self, words: Sequence[str]) -> list[int]:
        """Returns the nodes below the root that runs of words name, by the longest runs first."""
        named: dict[int, None] = {}
        for length in range(MAX_WORDS, 0, -1):
            for start in range(len(words) - length + 1):
                nodes = self.lexicon.called(words[start : start + length])
                named.update(dict.fromkeys(nodes))
        return list(filter(None, named))

    def _similar(self, words: Sequence[str]) -> list[int]:
        """Returns the nodes whose names are most similar to a phrase, the most similar first."""
        runs = groupby(words, _BETWEEN.__contains__)
        phrases = [" ".join(run) for is_between, run in runs if not is_between]
        if not phrases:
            return []
        scores = self.similarities(phrases[:_PHRASES]).max(axis=0)
        nearest = top_k(scores, _SIMILAR)
        similar: list[int] = nearest[scores[nearest] > scores.max() / 2].tolist()
        return similar

    def _fitting(self, nodes: Iterable[int]) -> set[int]:
        """Returns the nodes, likeliest first, that fit with what is shown above them."""
        shown = {self._tree.root}
        for node in nodes:
            # Where the paths part, and the parent.
            above = self._tree.lca(node, list(shown)).tolist()
            above.append(max(int(self._tree.parents[node]), 0))
            with_node = shown.union([node], above)
            if len(with_node) <= _MOST:
                shown = with_node
        return shown
