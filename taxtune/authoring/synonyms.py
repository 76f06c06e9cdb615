"""Names from WordNet: synonyms of the sense that a node is matched with, and the names of kinds that the tree lacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import Synset, WordNet

__all__ = ["kinds", "synonyms"]


def synonyms(taxonomy: Taxonomy, senses: dict[int, Synset]) -> Iterator[tuple[int, str, str]]:
    """Yields the lemmas of each node's synset: node, name, and the sense with its gloss."""
    for node in range(len(taxonomy)):
        if node in senses:
            synset = senses[node]
            for lemma in synset.lemmas:
                yield node, lemma, f"{synset.name}: {synset.gloss}"


def kinds(
    wordnet: WordNet, taxonomy: Taxonomy, senses: dict[int, Synset], *, most: int = 200
) -> Iterator[tuple[int, str, str]]:
    """Yields the names of kinds of each node's thing that no node below it is or has above it: "beagle" for a dog.

    Args:
        wordnet: Where the senses are from.
        taxonomy: The tree.
        senses: The synset of each node that has one.
        most: The most kinds of one node, those nearest to its sense first. What has more is a node too general for its
            kinds to say anything.

    Yields:
        The node, the name, and the sense with its gloss. The root has none: to be led there says nothing.
    """
    taken = set(senses.values())
    for node in range(1, len(taxonomy)):
        if node not in senses:
            continue
        queue = deque(wordnet.hyponyms(senses[node]))
        seen: set[Synset] = set()
        while queue and len(seen) < most:
            synset = queue.popleft()
            if synset in seen or synset in taken:
                continue
            seen.add(synset)
            queue.extend(wordnet.hyponyms(synset))
            for lemma in synset.lemmas:
                yield node, lemma, f"{synset.name}: {synset.gloss}"
