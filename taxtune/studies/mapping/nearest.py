"""Text to the node with the most similar name: what a measure does alone, and how a mapper takes it as its similarity.

Paper 1 maps an answer to the node whose label a measure finds most similar (§6.1, Table 2), or hands the measure to
Algorithm 1. A node has several names; its score is the highest over them (`NodeNames`). The paper does not say what
happens where several nodes share the highest score, which for string measures is the rule and not the exception: on an
answer that shares no word with any name all of them have 0. `nearest_nodes` has three rules, none of which sees the
truth, and says which answers were decided by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.encoders import FloatMatrix

__all__ = [
    "UNPLACED",
    "NodeNames",
    "nearest_nodes",
    "node_names",
    "score_table",
    "tree_names",
]

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

#: The "node" of an answer that a measure left unscored.
UNPLACED = -1

# Scores that differ by less are equal: the same fraction computed in another order differs in the last digits.
_TIE = 1e-6
# Answers scored at once; bounds the memory of the matrix of answers and names.
_BATCH = 64


@dataclass(frozen=True, slots=True)
class NodeNames:
    """The names of every node as columns of one list of distinct names.

    Attributes:
        vocabulary: The distinct names.
        columns: The column of each node's names, node by node.
        starts: Where each node's part of `columns` starts, shape (nodes,).
    """

    vocabulary: tuple[str, ...]
    columns: IntArray
    starts: IntArray

    def best(self, scores: NDArray[np.floating]) -> FloatMatrix:
        """Returns the highest score over each node's names; NaN where none of them has a score.

        Args:
            scores: Scores of answers and names, shape (answers, vocabulary).

        Returns:
            Shape (answers, nodes).
        """
        table = np.asarray(scores, dtype=np.float32)[:, self.columns]
        best: FloatMatrix = np.fmax.reduceat(table, self.starts, axis=1)
        return best


def node_names(names: Sequence[Sequence[str]], vocabulary: Sequence[str] | None = None) -> NodeNames:
    """Returns the names of nodes as columns of a vocabulary.

    Args:
        names: The names of each node, at least one each.
        vocabulary: Distinct names that hold them all; None takes those that occur.

    Raises:
        ValueError: If a node has no name or the vocabulary lacks one.
    """
    if not all(names):
        raise ValueError("every node needs a name")
    flat = [name for group in names for name in group]
    vocabulary = tuple(dict.fromkeys(flat)) if vocabulary is None else tuple(vocabulary)
    column = {name: i for i, name in enumerate(vocabulary)}
    missing = next((name for name in flat if name not in column), None)
    if missing is not None:
        raise ValueError(f"the vocabulary lacks {missing!r}")
    starts = np.cumsum([0] + [len(group) for group in names[:-1]])
    return NodeNames(vocabulary, np.array([column[name] for name in flat], dtype=np.int64), starts)


def tree_names(taxonomy: Taxonomy, which: str = "all", form: Callable[[str], str] = str) -> NodeNames:
    """Returns the names of a tree's nodes: "all", or the "common" name where there is one (paper 1, §11).

    Args:
        taxonomy: The tree.
        which: "all" or "common".
        form: What every name is passed through.
    """
    names = [taxonomy.names(v) if which == "all" else (taxonomy.common_name(v),) for v in range(len(taxonomy))]
    return node_names([tuple(map(form, group)) for group in names])


def score_table(
    score: Callable[[Sequence[str], Sequence[Image | None] | None], NDArray[np.floating]],
    names: NodeNames,
    answers: Sequence[str],
    images: Sequence[Image | None] | None = None,
    *,
    advance: Callable[[int], None] = lambda n: None,
) -> FloatMatrix:
    """Returns the score of every answer with every node, shape (answers, nodes), NaN where there is none.

    Args:
        score: From answers (and their images) to their scores with `names.vocabulary`.
        names: The names of the nodes.
        answers: Texts.
        images: An image of each answer, for measures that need them.
        advance: Called with how many answers were scored since the last call.
    """
    table = np.empty((len(answers), len(names.starts)), dtype=np.float32)
    for start in range(0, len(answers), _BATCH):
        stop = min(start + _BATCH, len(answers))
        table[start:stop] = names.best(score(answers[start:stop], None if images is None else images[start:stop]))
        advance(stop - start)
    return table


def nearest_nodes(
    taxonomy: Taxonomy, table: FloatMatrix, *, ties: str = "deepest", rng: np.random.Generator | None = None
) -> tuple[IntArray, IntArray]:
    """Returns the most similar node of each answer, and how many nodes shared the highest score.

    Args:
        taxonomy: The tree.
        table: Scores, shape (answers, nodes); NaN is never the highest.
        ties: Where several nodes share the highest score: the "deepest" of them (of equally deep ones the one with the
            smallest number), their lowest common "ancestor", or one of them at "random".
        rng: What "random" draws from; None is a new generator of seed 0.

    Returns:
        Nodes, shape (answers,), `UNPLACED` where a row holds nothing but NaN; and the number of nodes with the highest
        score, 1 where nothing was tied and 0 where the answer is not placed.
    """
    rng = rng or np.random.default_rng(0)
    nodes = np.full(len(table), UNPLACED, dtype=np.int64)
    tied = np.zeros(len(table), dtype=np.int64)
    for i, row in enumerate(table):
        if np.isnan(row).all():
            continue
        best = np.flatnonzero(row >= np.nanmax(row) - _TIE)
        tied[i] = len(best)
        if ties == "deepest":
            nodes[i] = best[np.argmax(taxonomy.depth[best])]
        elif ties == "ancestor":
            nodes[i] = taxonomy.common_ancestor(best.tolist())
        else:
            nodes[i] = rng.choice(best)
    return nodes, tied
