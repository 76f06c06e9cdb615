"""The nodes that an arbiter chooses from: what the words of an answer may name.

They come from the words, whatever reading makes of them: so what is compared, corrected or only
mentioned is among them, with all its senses, and what is merely spelt alike. Of the nodes above
them only their parents are shown, and those that tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping import english
from taxtune.mapping.lexicon import MAX_WORDS, Lexicon
from taxtune.mapping.normalize import fold_words
from taxtune.mapping.paper import top_k

__all__ = ["Candidates"]

#: What an answer names is shown with at most so many nodes.
_MOST = 12
#: An answer that names nothing may mean anything: the upper levels of the tree are shown, as many
#: as have at most so many nodes.
_OUTLINE = 70
#: So many nodes with similar names are shown, each at least half as similar as the first.
_SIMILAR = 5
#: Words between the phrases of an answer.
_BETWEEN = english.SAYS_NOTHING | english.PREPOSITIONS | english.BREAKS | {"or", "of"}


class Candidates:
    """Finds the candidates of answers.

    Args:
        lexicon: The names of the tree.
        similarity: From phrases to the highest similarity of one of them to each node, shape
            (nodes,).
    """

    def __init__(
        self,
        lexicon: Lexicon,
        similarity: Callable[[Sequence[str]], NDArray[np.float32]],
    ) -> None:
        self._lexicon = lexicon
        self._taxonomy = lexicon.taxonomy
        self._similarity = similarity
        depth = self._taxonomy.depth
        sizes = np.cumsum(np.bincount(depth))
        levels = np.count_nonzero(sizes <= _OUTLINE)
        self._outline = np.flatnonzero(depth < levels).tolist()

    def of(self, answer: str, node: int) -> tuple[int, ...]:
        """Returns the candidates of an answer that reading places on a node, in walking order.

        The root is the first.
        """
        words = fold_words(answer)
        named = self._named(words)
        shown = self._fitting([node, *named, *self._similar(words)])
        if not named:
            shown.update(self._outline)
        return tuple(sorted(shown, key=self._taxonomy.places.__getitem__))

    def _named(self, words: Sequence[str]) -> list[int]:
        """Returns the nodes below the root that runs of words name, by the longest runs first."""
        named: dict[int, None] = {}
        for length in range(MAX_WORDS, 0, -1):
            for start in range(len(words) - length + 1):
                run = words[start : start + length]
                named.update(dict.fromkeys(self._lexicon.called(run)))
        named.pop(self._taxonomy.root, None)
        return list(named)

    def _similar(self, words: Sequence[str]) -> list[int]:
        """Returns the nodes whose names are most similar to a phrase, the most similar first."""
        phrases = []
        for is_between, group in groupby(words, _BETWEEN.__contains__):
            if not is_between:
                phrases.append(" ".join(group))
        if not phrases:
            return []
        scores = self._similarity(phrases)
        nearest = top_k(scores, _SIMILAR)
        similar: list[int] = nearest[scores[nearest] > scores.max() / 2].tolist()
        return similar

    def _fitting(self, nodes: Iterable[int]) -> set[int]:
        """Returns the nodes, likeliest first, that fit with what is shown above them."""
        shown = {self._taxonomy.root}
        for node in nodes:
            with_node = self._joined(shown, node)
            if len(with_node) <= _MOST:
                shown = with_node
        return shown

    def _joined(self, shown: set[int], node: int) -> set[int]:
        """Returns nodes and one more, with its parent and where its path leaves theirs."""
        parent = max(self._taxonomy.parents[node], self._taxonomy.root)
        parting = self._taxonomy.lca(node, list(shown))
        return shown.union([node, int(parent)], parting.tolist())
