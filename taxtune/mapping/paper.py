"""Algorithm 1 of paper 1 on indexes: the presets `paper-prose` (§6) and `paper-listing` (§11).

The paper gives its algorithm twice. Both versions find labels alike: as raw substrings of the
normalised answer ("ant" in "plant"), then by shared word n-grams; among the k most similar nodes
first, then among all. Of several nodes they take the deepest, of equally deep ones the most
similar, then the one with the smaller number. They differ in how nodes vote (`elect`).
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
#: The similarity of an answer to each node, shape (nodes,).
Scores = NDArray[np.float32]

#: The lengths of the runs of words that are compared, in this order.
_GRAM_LENGTHS = (4, 3, 2)


class PaperAlgorithm:
    """Places answers as the paper does."""

    def __init__(self, taxonomy: Taxonomy, config: MapperConfig) -> None:
        self.taxonomy = taxonomy
        self.config = config
        self._nodes_by_gram: dict[str, list[int]] = defaultdict(list)
        nodes_by_name: dict[str, list[int]] = defaultdict(list)
        for node in range(len(taxonomy)):
            for name in {plain(name) for name in taxonomy.names(node)}:
                if name:
                    nodes_by_name[name].append(node)
                for n in _GRAM_LENGTHS:
                    for gram in _n_grams(name, n):
                        self._nodes_by_gram[gram].append(node)
        self._automaton: Any = ahocorasick.Automaton()
        for name, nodes in nodes_by_name.items():
            self._automaton.add_word(name, nodes)
        self._automaton.make_automaton()

    def place(self, answer: str, scores: Scores, nearest: IntArray) -> tuple[int, Stage]:
        """Returns the node of an answer, and what decided.

        Args:
            answer: The answer.
            scores: Its similarity to each node, shape (nodes,).
            nearest: The k most similar nodes, best first.
        """
        text = plain(answer)
        contained: set[int] = set()
        if text:
            for _, nodes in self._automaton.iter(text):
                contained.update(nodes)
        if contained:
            return self._deepest(contained, scores, nearest), Stage.VERBATIM
        for n in _GRAM_LENGTHS:
            sharing: set[int] = set()
            for gram in _n_grams(text, n):
                sharing.update(self._nodes_by_gram.get(gram, ()))
            if sharing:
                return self._deepest(sharing, scores, nearest), Stage.NGRAM
        elected = elect(self.taxonomy, scores, nearest, self.config)
        if elected is None:
            return int(nearest[0]), Stage.SIMILARITY
        return elected, Stage.VOTE

    def _deepest(self, nodes: set[int], scores: Scores, nearest: IntArray) -> int:
        """Returns the deepest of the nodes that are among the nearest, or else of all nodes."""
        among = nodes.intersection(nearest.tolist()) or nodes
        depth = self.taxonomy.depth
        return min(among, key=lambda node: (-depth[node], -scores[node], node))


def elect(
    taxonomy: Taxonomy,
    scores: Scores,
    nearest: IntArray,
    config: MapperConfig,
) -> int | None:
    """Returns the node that the most similar nodes vote for, or None if none is elected.

    They vote if their scores are close. In the prose, a node has the vote of itself and of each
    node below it. Of the nodes with at least `thr_vote` votes the deepest is elected; of equally
    deep ones the one with the most votes, then the most similar, then the one with the smallest
    number. The listing counts the ancestors at each distance from the voters separately, takes the
    farthest distance first, and asks for more than `thr_vote` votes. It elects the root or nothing,
    whatever the tree: the farthest distance always has the root with at least as many votes.
    """
    if not _are_close(scores[nearest], config):
        return None
    if config.preset == "paper-listing":
        most_votes = np.bincount(taxonomy.depth[nearest]).max()
        return taxonomy.root if most_votes > config.thr_vote else None
    voters = [taxonomy.ancestors(node) for node in nearest.tolist()]
    votes = np.bincount(np.concatenate(voters), minlength=len(taxonomy))
    eligible = np.flatnonzero(votes >= config.thr_vote).tolist()
    depth = taxonomy.depth
    return max(eligible, key=lambda node: (depth[node], votes[node], scores[node]), default=None)


def _are_close(scores: Scores, config: MapperConfig) -> bool:
    """Tells whether the softmax of the best score is close to that of the second and the last."""
    weights = np.exp(scores.astype(np.float64) - float(scores.max()))
    weights /= weights.sum()
    if len(weights) < 2 or weights[0] - weights[1] >= config.thr_top2:
        return False
    return bool(weights[0] - weights[-1] < config.thr_topk)


def _n_grams(text: str, n: int) -> list[str]:
    """Returns the word n-grams of a text, each as its words with single spaces."""
    words = text.split()
    return [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]


def top_k(scores: Scores, k: int) -> IntArray:
    """Returns the k nodes with the highest scores, best first, equal ones by number."""
    k = min(k, len(scores))
    kth_best = np.partition(scores, len(scores) - k)[len(scores) - k]
    candidates = np.flatnonzero(scores >= kth_best)
    order = np.argsort(-scores[candidates], kind="stable")
    return candidates[order[:k]]
