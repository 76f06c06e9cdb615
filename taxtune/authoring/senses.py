"""Which sense of WordNet a name is meant in: the one that agrees with the names around it.

"Crane" is a bird among birds and a machine among machines. Resnik (*Disambiguating Noun Groupings with Respect to
WordNet Senses*, 1995) lets every two words of a group vote for the senses whose common hypernym tells most; so does
this, with each name's vote for a sense of another being the information of their most telling common hypernym, over all
senses that the voter may still have. The best sense of each name is found, the others are struck out, and the vote is
taken again until nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import Synset, WordNet

__all__ = ["Sense", "agreeing_senses", "senses_of", "senses_on_tree"]

# The prior of a sense falls by the first factor with each sense of the word that is more frequent, and by the second
# where the word is not the first of the synset's lemmas: "jellyfish" is the second name of the Portuguese man-of-war.
_RARER, _SECOND_LEMMA = 0.95, 0.7
# A vote is the information to this power; beside the mean of all votes counts, with this weight, that of the highest so
# many. These and the priors were chosen on ImageNet's 1,000 labels: of the 308 that have several senses the right one
# is found of 247, the most frequent one is right of 102. Any power from 1 to 3 and other weights find 205 to 251.
_POWER = 2
_NEAREST, _NEAR = 10, 0.5
# The votes of all nodes of a tree count so much beside those of a node's siblings and children.
_FAR = 0.5
# The least score of a sense that is believed of a node: what one ancestor of ten says.
_LEAST = 0.1
# How much better than the next sense it must be.
_CLEARLY = 1.15
_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Sense:
    """A sense that a name may have.

    Attributes:
        synset: The sense.
        prior: How likely it is before anything else is known, above 0 and at most 1.
    """

    synset: Synset
    prior: float = 1.0


def senses_of(wordnet: WordNet, name: str) -> tuple[Sense, ...]:
    """Returns the senses of a name as a noun, the most frequent first, under any of its spellings.

    WordNet is asked for the name as it is written; if it has no such word, for the name with its parts joined by
    spaces, by hyphens, and by nothing.
    """
    parts = name.replace("_", " ").replace("-", " ").split()
    for spelling in dict.fromkeys((name, " ".join(parts), "-".join(parts), "".join(parts))):
        found = wordnet.synsets(spelling)
        if found:
            written = spelling.replace("_", " ").casefold()
            return tuple(
                Sense(synset, _RARER**i * (1.0 if synset.lemmas[0].casefold() == written else _SECOND_LEMMA))
                for i, synset in enumerate(found)
            )
    return ()


@dataclass(frozen=True, slots=True)
class _Group:
    """Those that vote on an item: a bit for each, how much their mean counts, and how many of the highest are taken."""

    members: int
    weight: float
    highest: int | None = None


def agreeing_senses(wordnet: WordNet, senses: Sequence[Sequence[Sense]]) -> list[list[float]]:
    """Returns how well each sense of each name agrees with the other names, all of which are about one subject.

    Args:
        wordnet: Where the senses are from.
        senses: The senses of each name.

    Returns:
        A score, at least 0, for each sense of each name: the mean vote of the others, times the prior. The sense meant
        is that with the highest score, the first of several.
    """
    everyone = (1 << len(senses)) - 1
    others = [everyone & ~(1 << i) for i in range(len(senses))]
    return _vote(wordnet, senses, [(_Group(some, 1.0), _Group(some, _NEAR, _NEAREST)) for some in others])


def senses_on_tree(wordnet: WordNet, taxonomy: Taxonomy) -> dict[int, Synset]:
    """Returns the synset of each node that has one beyond doubt.

    A node's senses are those of its label and its aliases. The nodes around it vote on them: those above by whether a
    sense is of their kind, its children by whether they are of its kind, its siblings and, with less weight, all others
    as in `agreeing_senses`. A node is left out if its best sense is hardly better than the next one, or agrees with
    none of its ancestors and children and little with its siblings: WordNet most likely does not have it in the sense
    meant. Of nodes with one synset at most one is left.

    Args:
        wordnet: Where the senses are from.
        taxonomy: The tree.
    """
    n = len(taxonomy)
    senses = [_of_node(wordnet, taxonomy, node) for node in range(n)]
    everyone = (1 << n) - 1
    groups, above, below = [], [], []
    for node in range(n):
        parent = int(taxonomy.parents[node])
        siblings = _bits(taxonomy.children(parent).tolist()) & ~(1 << node) if node else 0
        above.append(_bits(taxonomy.ancestors(node).tolist()[:-1]))
        below.append(_bits(taxonomy.children(node).tolist()))
        groups.append((_Group(siblings | below[node], 1.0), _Group(everyone & ~(1 << node), _FAR)))
    scores = _vote(wordnet, senses, groups, above, below)
    found = {}
    for node, (some, values) in enumerate(zip(senses, scores, strict=True)):
        ranked = sorted(range(len(some)), key=lambda i: (-values[i], i))
        if not ranked or values[ranked[0]] < _LEAST:
            continue
        if len(ranked) == 1 or values[ranked[0]] >= _CLEARLY * values[ranked[1]]:
            found[node] = some[ranked[0]].synset
    return _one_each(taxonomy, found)


def _one_each(taxonomy: Taxonomy, found: dict[int, Synset]) -> dict[int, Synset]:
    """Leaves out nodes with the same synset, but the one node whose label is a lemma of it, if there is one such."""
    nodes: dict[Synset, list[int]] = {}
    for node, synset in found.items():
        nodes.setdefault(synset, []).append(node)
    kept = {}
    for synset, some in nodes.items():
        lemmas = {lemma.casefold() for lemma in synset.lemmas}
        called = [node for node in some if taxonomy.labels[node].casefold() in lemmas] if len(some) > 1 else some
        if len(called) == 1:
            kept[called[0]] = synset
    return dict(sorted(kept.items()))


def _of_node(wordnet: WordNet, taxonomy: Taxonomy, node: int) -> tuple[Sense, ...]:
    best: dict[Synset, float] = {}
    for name in (taxonomy.labels[node], *taxonomy.aliases[node]):
        for sense in senses_of(wordnet, name):
            # A sense that two of the node's names have is worth both.
            best[sense.synset] = best.get(sense.synset, 0.0) + sense.prior
    most = max(best.values(), default=1.0)
    return tuple(Sense(synset, prior / most) for synset, prior in best.items())


def _bits(nodes: Sequence[int]) -> int:
    bits = 0
    for node in nodes:
        bits |= 1 << node
    return bits


def _vote(
    wordnet: WordNet,
    senses: Sequence[Sequence[Sense]],
    groups: Sequence[Sequence[_Group]],
    above: Sequence[int] = (),
    below: Sequence[int] = (),
) -> list[list[float]]:
    """Returns a score for each sense of each item, by votes in rounds.

    Args:
        wordnet: Where the senses are from.
        senses: The senses of each item.
        groups: Who votes on each item.
        above: The items whose kinds each item is of, as bits, or nothing.
        below: The items that are of each item's kind.
    """
    telling: dict[Synset, float] = {}
    upward: dict[Synset, list[tuple[float, Synset]]] = {}
    for some in senses:
        for sense in some:
            for kind in wordnet.ancestors(sense.synset):
                if kind not in telling:
                    telling[kind] = wordnet.information(kind) ** _POWER
            kinds = ((telling[kind], kind) for kind in wordnet.ancestors(sense.synset))
            upward[sense.synset] = sorted(kinds, key=lambda pair: (-pair[0], pair[1].name))
    having = _bits([i for i, some in enumerate(senses) if some])
    alive: list[Sequence[Sense]] = list(senses)
    scores: list[list[float]] = []
    for _ in range(_ROUNDS):
        # Which items may be of a kind, and which may be that kind itself.
        members: dict[Synset, int] = {}
        namesakes: dict[Synset, int] = {}
        for i, some in enumerate(alive):
            for sense in some:
                namesakes[sense.synset] = namesakes.get(sense.synset, 0) | 1 << i
                for _, kind in upward[sense.synset]:
                    members[kind] = members.get(kind, 0) | 1 << i
        scores = []
        for i, some in enumerate(senses):
            values = []
            for sense in some:
                value = sum(
                    group.weight * _mean_vote(upward[sense.synset], members, group.members & having, group.highest)
                    for group in groups[i]
                )
                if above:
                    said = 0
                    for _, kind in upward[sense.synset]:
                        said |= namesakes.get(kind, 0)
                    value += _share(said, above[i] & having)
                    value += _share(members.get(sense.synset, 0), below[i] & having)
                values.append(sense.prior * value)
            scores.append(values)
        left: list[Sequence[Sense]] = [
            [max(zip(values, range(len(some)), some, strict=True), key=lambda item: (item[0], -item[1]))[2]]
            if some
            else []
            for some, values in zip(senses, scores, strict=True)
        ]
        if left == alive:
            break
        alive = left
    return scores


def _mean_vote(
    kinds: Sequence[tuple[float, Synset]], members: Mapping[Synset, int], voters: int, highest: int | None
) -> float:
    """Returns the mean of the votes, or of the highest: how telling the most telling kind is that they share."""
    count = min(voters.bit_count(), highest or voters.bit_count())
    total, left, waiting = 0.0, count, voters
    for value, kind in kinds:
        agreeing = members.get(kind, 0) & waiting
        if agreeing and left:
            some = min(left, agreeing.bit_count())
            total += value * some
            left -= some
            waiting &= ~agreeing
    return total / count if count else 0.0


def _share(some: int, of: int) -> float:
    return (some & of).bit_count() / of.bit_count() if of else 0.0
