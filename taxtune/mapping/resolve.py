"""All names in an answer to the node that they assert together.

Each ambiguous name takes the sense that agrees best with the other names. The senses become one
node: the closest one, or the common ancestor of several.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from taxtune.mapping.config import Stage
from taxtune.mapping.index import Words
from taxtune.mapping.naming import Mention, Strength
from taxtune.mapping.normalize import fold_words
from taxtune.mapping.reading import Link, Phrase, Role
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Asserted", "Name", "resolve"]

#: A sense is meant if it holds this share of the leaves of all senses of a name.
_DOMINANT = 0.85
#: A vernacular name of a node of these ranks need not cover all that is below the node.
_SCIENTIFIC_RANKS = ("order", "family", "genus")

#: The nodes that an ambiguous name may mean.
Senses = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Asserted:
    """What an answer asserts; by default nothing.

    Attributes:
        node: The node, or None if the answer names nothing on the tree.
        stage: What decided, if there is a node.
        evidence: The words that decided, as they stand in the answer.
        phrases: If there is no node, the phrases that assert something else: the folded words of
            each, and the words as they stand in the answer.
        declined: Whether the speaker refused to answer or denied something.
        rootless: Whether the answer denies that there is anything of the root's kind: "no bird",
            "not a bird".
    """

    node: int | None = None
    stage: Stage = Stage.ABSTAINED
    evidence: str = ""
    phrases: dict[Words, str] = field(default_factory=dict)
    declined: bool = False
    rootless: bool = False

    @property
    def unnamed(self) -> str:
        """The phrases as they stand in the answer."""
        return "; ".join(self.phrases.values())


@dataclass(frozen=True, slots=True)
class Name:
    """A phrase that names something on the tree.

    Attributes:
        mention: The nodes that the phrase may name.
        phrase: The phrase.
        link: How the name hangs together with the name before it.
        sentence: The number of its sentence, counted over all lines of a block of prose.
    """

    mention: Mention
    phrase: Phrase
    link: Link
    sentence: int

    @property
    def role(self) -> Role:
        """Whether the name is asserted, compared, mere context or denied."""
        return self.phrase.role


@dataclass(frozen=True, slots=True)
class _Member:
    """One of the nodes that an answer asserts together, and the mention of it."""

    node: int
    mention: Mention


def resolve(
    taxonomy: Taxonomy,
    names: list[Name],
    counted: list[Name],
    *,
    declined: bool,
) -> Asserted:
    """Returns the node that the counted names assert, among all `names` of the block."""
    context = [name for name in names if name.role is Role.CONTEXT]
    nodes = _asserted_together(taxonomy, counted, context)
    node = taxonomy.common_ancestor(nodes)
    if counted[0].role is Role.ASSERTED:
        asides = [name for name in context if name.sentence == counted[0].sentence]
        node = _with_asides(taxonomy, node, asides)
    evidence = dict.fromkeys(name.mention.evidence for name in counted)
    return Asserted(
        node=node,
        stage=Stage.LIST if len(nodes) > 1 else _stage(counted),
        evidence="; ".join(evidence),
        declined=declined,
    )


def _stage(names: list[Name]) -> Stage:
    if any(name.mention.strength is Strength.WHOLE for name in names):
        return Stage.VERBATIM
    return Stage.HEAD


def _asserted_together(
    taxonomy: Taxonomy,
    names: list[Name],
    context: list[Name],
) -> set[int]:
    """Returns the nodes that names in reading order assert together; several are alternatives.

    Names of the same thing are joined first. Then each ambiguous name takes the sense that agrees
    best with the other names and with the context. Of the names in a row, a name that another one
    makes more exact ("a bird, a robin") has no say unless "or" stands between them.
    """
    things = _joined(taxonomy, names)
    things = _without_vague_items(taxonomy, things)
    things = _without_stray_parts(taxonomy, things)
    senses = [thing.mention.nodes for thing in things]
    nodes = _choose_senses(taxonomy, senses, [name.mention.nodes for name in context])

    members: list[_Member] = []
    has_alternatives = False
    for thing, node in zip(things, nodes, strict=True):
        member = _Member(node=node, mention=thing.mention)
        if members and thing.link in (Link.SENTENCE, Link.PREDICATE):
            if _replaces(taxonomy, thing.link, node, members):
                members = [member]
            continue
        has_alternatives |= bool(members) and thing.link is Link.OR
        members.append(member)
        if not has_alternatives:
            members = _without_broader(taxonomy, members)
    return {member.node for member in members}


def _replaces(
    taxonomy: Taxonomy,
    link: Link,
    node: int,
    members: list[_Member],
) -> bool:
    """Tells whether a later sentence, an aside or a predicate says better what the thing is.

    A sentence or an aside may say more of the thing; what else it speaks of is not asserted. What
    the thing is said to be is asserted, whatever was said before: "the dish is a soup".
    """
    before = taxonomy.common_ancestor(member.node for member in members)
    if taxonomy.is_ancestor(before, node):
        return True
    return link is Link.PREDICATE and not taxonomy.is_ancestor(node, before)


def _with_asides(
    taxonomy: Taxonomy,
    node: int,
    asides: list[Name],
) -> int:
    """Returns the closer node that context names: in "a tomato leaf infected with late blight"."""
    closer: list[int] = []
    for name in asides:
        mention = name.mention
        if mention.strength > Strength.PART and not mention.broad:
            closer += [sense for sense in mention.nodes if _is_below(taxonomy, sense, node)]
    return taxonomy.common_ancestor(closer) if closer else node


def _joined(taxonomy: Taxonomy, names: list[Name]) -> list[Name]:
    """Joins each name with the name before it if both mean the same thing."""
    things: list[Name] = []
    for name in names:
        if things and name.link is Link.SAME:
            first = things.pop()
            mention = _same_thing(taxonomy, first.mention, name.mention)
            name = replace(first, mention=mention)
        things.append(name)
    return things


def _same_thing(taxonomy: Taxonomy, first: Mention, second: Mention) -> Mention:
    """Joins two mentions of one thing.

    Returns the deeper nodes of senses on one path, or else the only one that is a whole name, or
    else what both have in common.
    """
    pairs = _agreeing_senses(taxonomy, first, second)
    if pairs:
        depth = max(taxonomy.depth[upper] for upper, _ in pairs)
        lower = dict.fromkeys(lower for upper, lower in pairs if taxonomy.depth[upper] == depth)
        return Mention(
            nodes=tuple(lower),
            strength=max(first.strength, second.strength),
            key=first.key,
            broad=first.broad and second.broad,
        )
    weaker, stronger = sorted((first, second), key=lambda mention: mention.strength)
    if stronger.strength is Strength.WHOLE and weaker.strength is not Strength.WHOLE:
        return stronger
    nodes = _choose_senses(taxonomy, [first.nodes, second.nodes], [])
    return Mention(
        nodes=(taxonomy.common_ancestor(nodes),),
        strength=weaker.strength,
        key=first.key,
        broad=True,
    )


def _without_vague_items(taxonomy: Taxonomy, names: list[Name]) -> list[Name]:
    """Drops the items of a list that are no whole name and lie below none of the whole names."""
    whole = [name for name in names if name.mention.strength is Strength.WHOLE]
    if not whole or any(name.link is Link.OR for name in names[1:]):
        return names
    kept = names[:1]
    for name in names[1:]:
        is_item = name.link is Link.LIST and name not in whole
        if not is_item or _is_closer(taxonomy, name, whole):
            kept.append(name)
    return kept


def _is_closer(
    taxonomy: Taxonomy,
    name: Name,
    others: list[Name],
) -> bool:
    """Tells whether a sense of a name lies below a sense of another name."""
    for other in others:
        for node, above in product(name.mention.nodes, other.mention.nodes):
            if _is_below(taxonomy, node, above):
                return True
    return False


def _without_stray_parts(taxonomy: Taxonomy, names: list[Name]) -> list[Name]:
    """Drops the parts of names that lie on no path with a firmer name, if there is a firmer one."""
    firm = [name for name in names if name.mention.strength > Strength.PART]
    if not firm:
        return names
    kept = []
    for name in names:
        if name in firm or _agrees(taxonomy, name, firm):
            kept.append(name)
    return kept


def _agrees(
    taxonomy: Taxonomy,
    name: Name,
    others: list[Name],
) -> bool:
    """Tells whether a sense of a name lies on one path with a sense of another name."""
    return any(_agreeing_senses(taxonomy, name.mention, other.mention) for other in others)


def _without_broader(taxonomy: Taxonomy, members: list[_Member]) -> list[_Member]:
    """Drops the members that another one makes more exact."""
    kept = []
    for member in members:
        if not any(_is_broader(taxonomy, member, other) for other in members):
            kept.append(member)
    return kept


def _is_broader(taxonomy: Taxonomy, member: _Member, other: _Member) -> bool:
    """Tells whether a member is a broader term: in "bird, robin", but not in "songbird, robin"."""
    if not _is_below(taxonomy, other.node, member.node):
        return False
    if member.mention.described or other.mention.described:
        return True
    if other.mention.key.endswith(member.mention.key):
        return True
    if member.mention.broad:
        return False
    # "warbler" is no broader term for a finch, though the node of all warblers holds finches too
    if taxonomy.ranks[member.node] not in _SCIENTIFIC_RANKS:
        return True
    return _is_label(taxonomy, member) or _is_label(taxonomy, other)


def _is_label(taxonomy: Taxonomy, member: _Member) -> bool:
    label = taxonomy.labels[member.node]
    return member.mention.key == "".join(fold_words(label))


# -- senses ----------------------------------------------------------------------------------------


def _is_below(taxonomy: Taxonomy, node: int, above: int) -> bool:
    return node != above and bool(taxonomy.is_ancestor(above, node))


def _agreeing_senses(
    taxonomy: Taxonomy,
    first: Mention,
    second: Mention,
) -> list[tuple[int, int]]:
    """Returns the pairs of senses that lie on one path from the root, the upper sense first."""
    pairs = []
    for one, other in product(first.nodes, second.nodes):
        if taxonomy.is_ancestor(one, other):
            pairs.append((one, other))
        elif taxonomy.is_ancestor(other, one):
            pairs.append((other, one))
    return pairs


def _choose_senses(
    taxonomy: Taxonomy,
    names: list[Senses],
    context: list[Senses],
) -> list[int]:
    """Returns one node for each name, of which the senses are given.

    It is the sense that shares most ancestors with the other names and the context, or the common
    ancestor of senses that share equally many.
    """
    chosen = []
    for position, senses in enumerate(names):
        if len(senses) == 1:
            chosen.append(senses[0])
            continue
        others = names[:position] + names[position + 1 :] + context
        if not others:
            chosen.append(_dominant_sense(taxonomy, senses))
            continue
        column = np.array(senses)[:, np.newaxis]
        shared = np.zeros(len(senses))
        for other in others:
            with_other = taxonomy.shared(column, np.array(other))
            shared += with_other.max(axis=1)
        nearest = column[shared == shared.max()]
        chosen.append(taxonomy.common_ancestor(nearest.ravel()))
    return chosen


def _dominant_sense(taxonomy: Taxonomy, senses: Senses) -> int:
    """Returns the sense that holds nearly all leaves, or else the common ancestor of the senses."""
    leaves: list[int] = taxonomy.leaves_below(senses).tolist()
    largest = max(leaves)
    if largest >= _DOMINANT * sum(leaves):
        return senses[leaves.index(largest)]
    return taxonomy.common_ancestor(senses)
