"""Algorithm 1 of paper 1 on indexes: the presets `paper-prose` (§6) and `paper-listing` (§11).

The paper gives its algorithm twice, and both find labels alike: as raw substrings of the normalised answer ("ant" in
"plant"), then by shared word n-grams; among the k most similar nodes first, then among all; of several the deepest, of
equally deep ones the most similar, then the one with the smaller number. They differ where nodes vote (`elect`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import ahocorasick
import numpy as np
from numpy.typing import NDArray

from taxtune.mapping.config import MapperConfig, Stage
from taxtune.mapping.normalize import plain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["PaperAlgorithm", "elect", "top_k"]

IntArray = NDArray[np.int64]

_BLOCK = 64


class PaperAlgorithm:
    """Places answers as the paper does."""

    def __init__(self, taxonomy: Taxonomy, config: MapperConfig) -> None:
        self.taxonomy, self.config = taxonomy, config
        by_name: dict[str, list[int]] = defaultdict(list)
        by_gram: dict[str, list[int]] = defaultdict(list)
        for node in range(len(taxonomy)):
            for name in dict.fromkeys(plain(name) for name in taxonomy.names(node)):
                if name:
                    by_name[name].append(node)
                for n in (4, 3, 2):
                    for gram in _n_grams(name, n):
                        by_gram[gram].append(node)
        self._automaton: Any = ahocorasick.Automaton()
        for name, nodes in by_name.items():
            self._automaton.add_word(name, tuple(nodes))
        self._automaton.make_automaton()
        self._by_gram = dict(by_gram)

    def place(self, answer: str, row: NDArray[np.float32], top: IntArray) -> tuple[int, Stage]:
        """Returns the node of an answer and what decided."""
        text = plain(answer)
        contained = (
            {node for _, nodes in self._automaton.iter(text) for node in nodes} if text else set()
        )
        if contained:
            return self._deepest(contained, row, top), Stage.VERBATIM
        for n in (4, 3, 2):
            sharing = {node for gram in _n_grams(text, n) for node in self._by_gram.get(gram, ())}
            if sharing:
                return self._deepest(sharing, row, top), Stage.NGRAM
        elected = elect(self.taxonomy, row, top, self.config)
        return (int(top[0]), Stage.SIMILARITY) if elected is None else (elected, Stage.VOTE)

    def _deepest(self, nodes: set[int], row: NDArray[np.float32], top: IntArray) -> int:
        """Returns the deepest of the nodes in the top k, or else of all."""
        among = [v for v in top.tolist() if v in nodes] or nodes
        depth = self.taxonomy.depth
        return min(among, key=lambda v: (-int(depth[v]), -float(row[v]), v))


def elect(
    taxonomy: Taxonomy, row: NDArray[np.float32], top: IntArray, config: MapperConfig
) -> int | None:
    """Returns the node that the most similar nodes vote for; None where their scores differ, or none has the votes.

    In the prose, which the default preset follows, a node has the vote of itself and of each node below it. Of those
    with at least `thr_vote` votes the deepest is elected; of equally deep ones the one with the most votes, then the
    most similar, then the one with the smallest number. The listing counts the ancestors at each distance from the
    voters separately, takes the farthest distance first, and asks for more than `thr_vote` votes. It elects the root or
    nothing, whatever the tree: the farthest distance always has the root with at least as many votes.
    """
    if not _is_close(row[top], config):
        return None
    if config.preset == "paper-listing":
        return taxonomy.root if np.bincount(taxonomy.depth[top]).max() > config.thr_vote else None
    votes = np.bincount(
        np.concatenate([taxonomy.ancestors(v) for v in top.tolist()]), minlength=len(taxonomy)
    )
    elected = np.flatnonzero(votes >= config.thr_vote).tolist()
    return max(elected, key=lambda v: (taxonomy.depth[v], votes[v], row[v]), default=None)


def _is_close(scores: NDArray[np.float32], config: MapperConfig) -> bool:
    """Tells whether the softmax of the best score is close enough to the second and the last that nodes vote."""
    share = np.exp(scores.astype(np.float64) - float(scores.max()))
    share /= share.sum()
    return bool(
        len(share) > 1
        and share[0] - share[1] < config.thr_top2
        and share[0] - share[-1] < config.thr_topk
    )


def _n_grams(text: str, n: int) -> list[str]:
    """Returns the word n-grams of a text, each as its words with single spaces."""
    words = text.split()
    return [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]


def top_k(row: NDArray[np.float32], k: int) -> IntArray:
    """Returns the k nodes with the highest scores, best first, equal ones by number; as a stable sort would."""
    k = min(k, len(row))
    # The k-th largest of the blocks' maxima bounds the k-th largest score from below, cheaper than a full partition.
    maxima = (
        np.maximum.reduceat(row, np.arange(0, len(row), _BLOCK))
        if len(row) > 2 * k * _BLOCK
        else row
    )
    bound = np.partition(maxima, len(maxima) - k)[len(maxima) - k]
    candidates = np.flatnonzero(row >= bound)
    return candidates[np.argsort(-row[candidates], kind="stable")][:k]
