"""The nodes that an arbiter chooses from: what the words of an answer may name.

They come from the words, whatever reading makes of them: so what is compared, corrected or only
mentioned is among them, with all its senses, and what is merely spelt alike. Of the nodes above
them only their parents are shown, and those that tell them apart. Then come the upper levels of the
tree, as many as there is room for.
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
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["candidates"]

#: At most so many nodes are shown.
_MOST = 12
#: The same for an answer that names nothing: it may mean anything.
_MOST_UNNAMED = 70
#: So many nodes with similar names are shown, each at least half as similar as the first.
_SIMILAR = 5
#: So many phrases are compared with names, the first.
_PHRASES = 32
#: The children of reading's node are shown if they are few.
_FEW = 6
#: Words between the phrases of an answer.
_BETWEEN = english.SAYS_NOTHING | english.PREPOSITIONS | english.BREAKS


def candidates(
    lexicon: Lexicon,
    similarities: Callable[[Sequence[str]], NDArray[np.float32]],
    answer: str,
    node: int,
) -> tuple[int, ...]:
    """Returns the candidates of an answer in walking order, the root first.

    Args:
        lexicon: The names of the tree.
        similarities: From phrases to the similarity of each to each node, shape (phrases, nodes).
        answer: The answer.
        node: Where reading puts it.
    """
    taxonomy = lexicon.taxonomy
    words = fold_words(answer)
    named = _named(lexicon, words)
    likely = [node, *named]
    phrases = _phrases(words)
    if phrases:
        likely += _most_similar(similarities(phrases))
    children = taxonomy.children(node)
    if len(children) <= _FEW:
        likely += children.tolist()
    shown = _fitting(taxonomy, likely)
    shown = _with_upper_levels(taxonomy, shown, _MOST if named else _MOST_UNNAMED)
    return tuple(sorted(shown, key=taxonomy.places.__getitem__))


def _named(lexicon: Lexicon, words: Sequence[str]) -> list[int]:
    """Returns the nodes below the root that runs of words name, by the longest runs first."""
    named: dict[int, None] = {}
    for length in range(MAX_WORDS, 0, -1):
        for start in range(len(words) - length + 1):
            nodes = lexicon.called(words[start : start + length])
            named.update(dict.fromkeys(nodes))
    return list(filter(None, named))


def _phrases(words: Sequence[str]) -> list[str]:
    runs = groupby(words, _BETWEEN.__contains__)
    phrases = [" ".join(run) for is_between, run in runs if not is_between]
    return phrases[:_PHRASES]


def _most_similar(similarities: NDArray[np.float32]) -> list[int]:
    """Returns the nodes that are most similar to a phrase, shape (phrases, nodes), best first."""
    scores = similarities.max(axis=0)
    nearest = top_k(scores, _SIMILAR)
    return list(nearest[scores[nearest] > scores.max() / 2].tolist())


def _fitting(taxonomy: Taxonomy, nodes: Iterable[int]) -> set[int]:
    """Returns the nodes, likeliest first, that fit with what is shown above them."""
    shown = {taxonomy.root}
    for node in nodes:
        # Where the paths part, and the parent.
        above = taxonomy.lca(node, list(shown)).tolist()
        above.append(max(int(taxonomy.parents[node]), 0))
        with_node = shown.union([node], above)
        if len(with_node) <= _MOST:
            shown = with_node
    return shown


def _with_upper_levels(taxonomy: Taxonomy, nodes: set[int], most: int) -> set[int]:
    """Returns the nodes, and the upper levels of the tree that fit into so many nodes with them."""
    for level in range(1, taxonomy.height + 1):
        deeper = nodes.union(np.flatnonzero(taxonomy.depth == level).tolist())
        if len(deeper) > most:
            break
        nodes = deeper
    return nodes
