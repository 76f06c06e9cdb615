"""What the images show, as the tree has it: the lowest node above all labels, its ranks, a word and example answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taxtune.taxonomy import Taxonomy

__all__ = ["Subject", "find_subject"]

# What roots are called that say nothing of what the images show; among them the top of WordNet.
_EMPTY = frozenset(
    {"abstraction", "all", "artifact", "being", "entity", "everything", "life", "living thing", "matter", "object"}
    | {"objects", "organism", "physical entity", "physical object", "root", "substance", "thing", "things", "unit"}
    | {"whole"}
)
_MOST_RANKS = 32
# Ranks of biology: nodes that have one are labelled in Latin.
_OF_LIFE = frozenset({"genus", "kingdom", "order", "phylum", "species"})


@dataclass(frozen=True, slots=True)
class Subject:
    """What images show.

    Attributes:
        node: The lowest node above all labels.
        word: A word for what the images show, by the node's name; None where the name says nothing.
        ranks: The ranks between the node and the labels, the broadest first; empty where the tree names none.
        examples: Example answers, general to specific; empty where there is only one level.
    """

    node: int
    word: str | None
    ranks: tuple[str, ...]
    examples: tuple[str, ...]


def find_subject(tree: Taxonomy, targets: Sequence[int]) -> Subject:
    """Returns the subject of the images.

    Args:
        tree: The tree.
        targets: The node of each image's label, at least one.
    """
    node = tree.common_ancestor(set(targets))
    word = _word(tree, node)
    return Subject(
        node=node,
        word=word,
        ranks=_ranks(tree, node, targets),
        examples=_examples(tree, node, word, targets),
    )


def _word(tree: Taxonomy, node: int) -> str | None:
    """The singular of the name of a node, or of the next one above that has an English one."""
    from lemminflect import getLemma

    for above in tree.ancestors(node)[::-1].tolist():
        name = _name(tree, above)
        if name.casefold() in _EMPTY:
            return None
        if name != tree.labels[above] or not _is_latin(tree):
            *first, last = name.lower().split()
            return " ".join([*first, next(iter(getLemma(last, upos="NOUN")), last)])
    return None


def _is_latin(tree: Taxonomy) -> bool:
    return not _OF_LIFE.isdisjoint(tree.ranks)


def _name(tree: Taxonomy, node: int) -> str:
    """Returns the everyday name of a node."""
    return tree.common_name(node) if _is_latin(tree) else tree.labels[node]


def _ranks(tree: Taxonomy, node: int, targets: Sequence[int]) -> tuple[str, ...]:
    depths: dict[str, list[int]] = {}
    above = {ancestor for target in set(targets) for ancestor in tree.ancestors(target).tolist()}
    for each in above:
        rank = tree.ranks[each]
        if rank is not None and tree.depth[each] > tree.depth[node]:
            depths.setdefault(rank, []).append(int(tree.depth[each]))
    return tuple(sorted(depths, key=lambda rank: (sum(depths[rank]) / len(depths[rank]), rank))[:_MOST_RANKS])


def _examples(tree: Taxonomy, node: int, word: str | None, targets: Sequence[int]) -> tuple[str, ...]:
    """A way down to a leaf that no image shows, or else to the label that the fewest show."""
    leaves = tree.leaves[tree.is_ancestor(node, tree.leaves)]
    shown = np.bincount(np.asarray(targets), minlength=len(tree))[leaves]
    depth = tree.depth[np.asarray(targets)].max()
    # Of leaves alike in both the first: which it is depends on the tree alone.
    chosen = int(leaves[np.lexsort((np.abs(tree.depth[leaves] - depth), shown))[0]])
    way = [above for above in tree.ancestors(chosen).tolist() if tree.depth[above] > tree.depth[node]]
    if len(way) > 3:
        way = [way[0], way[(len(way) - 1) // 2], way[-1]]
    said = dict.fromkeys(filter(None, (word, *(_name(tree, each) for each in way))))
    return tuple(said) if len(said) > 1 else ()
