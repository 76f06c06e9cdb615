"""Several mentions in one answer to one node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taxtune.mapping import english
from taxtune.mapping.naming import Mention, Strength
from taxtune.mapping.normalize import fold_words
from taxtune.mapping.reading import Link
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["resolve"]

#: A sense with this share of all species that a name may mean is the one that is meant.
_DOMINANT = 0.85


def resolve(taxonomy: Taxonomy, mentions: Sequence[tuple[Mention, Link]]) -> tuple[int, bool]:
    """Returns the node that mentions in reading order assert together, and whether it generalises over several.

    Other names of the same thing ("Common Crow (Corvus brachyrhynchos)") are joined first; then each ambiguous name
    takes the sense that agrees best with the rest; then the names in a row are placed on their common ancestor, in
    which a name that another one makes more exact ("a bird, a robin") has no say unless "or" stands between them.

    Args:
        taxonomy: The tree.
        mentions: At least one mention, each with its link to the one before.
    """
    groups: list[tuple[Mention, Link]] = []
    for mention, link in mentions:
        if groups and link is Link.SAME:
            groups[-1] = (_same(taxonomy, groups[-1][0], mention), groups[-1][1])
        else:
            groups.append((mention, link))
    groups = _without_stray(taxonomy, groups)
    nodes = _senses(taxonomy, [mention.nodes for mention, _ in groups])

    node, members = nodes[0], [(nodes[0], groups[0][0])]
    strict = aside = False
    for (mention, link), other in zip(groups[1:], nodes[1:], strict=True):
        aside = link is Link.SENTENCE or (aside and link is not Link.OR)
        if aside or link is Link.PREDICATE:
            # An aside or a later sentence may say more of the thing; what else it speaks of is not what is asserted.
            # What the thing is said to be is asserted, whatever was said before: "the dish is a soup".
            if taxonomy.is_ancestor(node, other) or (not aside and not taxonomy.is_ancestor(other, node)):
                node, members = other, [(other, mention)]
            continue
        strict = strict or link is Link.OR
        members.append((other, mention))
        if not strict:
            members = _without_broader(taxonomy, members)
        node = taxonomy.common_ancestor(v for v, _ in members)
    return node, len({v for v, _ in members}) > 1


def _without_stray(taxonomy: Taxonomy, groups: list[tuple[Mention, Link]]) -> list[tuple[Mention, Link]]:
    """Drops what rests on a part of a phrase only and agrees with nothing better founded."""
    firm = [v for mention, _ in groups if mention.strength is not Strength.PART for v in mention.nodes]

    def agrees(mention: Mention) -> bool:
        return any(taxonomy.is_ancestor(v, w) or taxonomy.is_ancestor(w, v) for v in mention.nodes for w in firm)

    return [g for g in groups if not firm or g[0].strength is not Strength.PART or agrees(g[0])]


def _without_broader(taxonomy: Taxonomy, members: Sequence[tuple[int, Mention]]) -> list[tuple[int, Mention]]:
    """Drops the members that another one only makes more exact: "bird, robin", but not "songbird, robin" as guesses."""

    def is_broader(node: int, mention: Mention, below: int, other: Mention) -> bool:
        if node == below or not taxonomy.is_ancestor(node, below):
            return False
        if other.key.endswith(mention.key) or mention.described or other.described:
            return True
        if mention.broad:  # "warbler" is no broader term for a finch, though the node of all warblers holds finches too
            return False
        wide = taxonomy.ranks[node] is None or taxonomy.ranks[node] in english.WIDE_RANKS
        return wide or is_label(node, mention) or is_label(below, other)

    def is_label(node: int, mention: Mention) -> bool:
        return mention.key == "".join(fold_words(taxonomy.labels[node]))

    return [(v, m) for v, m in members if not any(is_broader(v, m, w, other) for w, other in members)]


def _same(taxonomy: Taxonomy, first: Mention, second: Mention) -> Mention:
    """Joins two names of one thing: the deeper of senses on one line, the better founded, the Latin one, or both."""
    agreeing = [
        (max(a, b, key=lambda v: int(taxonomy.depth[v])), int(taxonomy.shared(a, b)))
        for a in first.nodes
        for b in second.nodes
        if taxonomy.is_ancestor(a, b) or taxonomy.is_ancestor(b, a)
    ]
    if agreeing:
        best = max(shared for _, shared in agreeing)
        nodes = tuple(dict.fromkeys(node for node, shared in agreeing if shared == best))
        return Mention(nodes, max(first.strength, second.strength), first.key, first.broad and second.broad)
    if first.strength != second.strength and Strength.WHOLE in (first.strength, second.strength):
        return first if first.strength > second.strength else second
    if first.strength is Strength.WHOLE and first.binomial != second.binomial:
        return first if first.binomial else second  # English names have homonyms: the "common gull" is a butterfly too
    a, b = _senses(taxonomy, [first.nodes, second.nodes])
    return Mention((taxonomy.common_ancestor([a, b]),), min(first.strength, second.strength), first.key, broad=True)


def _senses(taxonomy: Taxonomy, senses: Sequence[tuple[int, ...]]) -> list[int]:
    """Chooses one node for each name: the sense nearest to the others, or what equally near senses have in common."""
    chosen = []
    for i, own in enumerate(senses):
        others = [other for j, other in enumerate(senses) if j != i]
        if len(own) == 1 or not others:
            chosen.append(_dominant(taxonomy, own))
            continue
        table = np.array(own)[:, np.newaxis]
        near = np.sum([taxonomy.shared(table, np.array(other)).max(axis=1) for other in others], axis=0)
        chosen.append(taxonomy.common_ancestor(np.array(own)[near == near.max()].tolist()))
    return chosen


def _dominant(taxonomy: Taxonomy, senses: Sequence[int]) -> int:
    """Returns the sense that holds nearly all leaves of all senses, or else what the senses have in common."""
    if len(senses) > 1:
        sizes: list[int] = taxonomy.leaves_below(senses).tolist()
        if max(sizes) >= _DOMINANT * sum(sizes):
            return senses[sizes.index(max(sizes))]
    return taxonomy.common_ancestor(senses)
