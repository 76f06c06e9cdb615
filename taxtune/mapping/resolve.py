"""All names in an answer to the node that they assert together.

Each ambiguous name takes the sense that agrees best with the other names. The senses become one
node: the closest one, or the common ancestor of several.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import numpy as np

from taxtune.mapping.config import Stage
from taxtune.mapping.index import Words
from taxtune.mapping.naming import Mention, Strength
from taxtune.mapping.reading import Force, Link, Phrase
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Asserted", "Name", "resolve"]

#: A sense is meant if it holds this share of the leaves of all senses of a name.
_DOMINANT = 0.85
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
    def subject(self) -> str:
        """The first of the phrases as it stands in the answer."""
        return next(iter(self.phrases.values()), "")

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
    def force(self) -> Force:
        """How firmly the name is said."""
        return self.phrase.force


def resolve(
    taxonomy: Taxonomy,
    names: list[Name],
    counted: list[Name],
) -> Asserted:
    """Returns the node that the counted names assert, among all `names` of the block."""
    context = [name for name in names if name.force is Force.CONTEXT]
    nodes = _asserted_together(taxonomy, counted, context)
    node = taxonomy.common_ancestor(nodes)
    asides = []
    for name in names:
        is_beside = name.sentence == counted[0].sentence and name not in counted
        if is_beside and name.force in (Force.GUESSED, Force.CONTEXT):
            asides.append(name)
    node = _with_asides(taxonomy, node, asides)
    evidence = dict.fromkeys(name.mention.evidence for name in counted)
    return Asserted(
        node=node,
        stage=Stage.LIST if len(nodes) > 1 else _stage(counted),
        evidence="; ".join(evidence),
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

    Each ambiguous name takes the sense that agrees best with the other names and with the context.
    Of the names in a row, a name that another one makes more exact ("a bird, a robin") has no say
    unless "or" stands between them.
    """
    # The root says nothing beside another name: "the toy is a train or a fire truck".
    things = [name for name in names if name.mention.nodes != (taxonomy.root,)] or names
    things = _without_weaker(taxonomy, things)
    senses = [thing.mention.nodes for thing in things]
    nodes = _choose_senses(taxonomy, senses, [name.mention.nodes for name in context])

    together: set[int] = set()
    has_alternatives = False
    for thing, node in zip(things, nodes, strict=True):
        if together and thing.link in (Link.SENTENCE, Link.PREDICATE):
            if _replaces(taxonomy, thing.link, node, together):
                together = {node}
            continue
        is_firm = thing.force is not Force.GUESSED
        has_alternatives |= bool(together) and thing.link is Link.OR and is_firm
        together.add(node)
        if not has_alternatives:
            together = _without_broader(taxonomy, together)
    return together


def _replaces(
    taxonomy: Taxonomy,
    link: Link,
    node: int,
    together: set[int],
) -> bool:
    """Tells whether a later sentence, an aside or a predicate says better what the thing is.

    A sentence or an aside may say more of the thing; what else it speaks of is not asserted. What
    the thing is said to be is asserted, whatever was said before: "the dish is a soup".
    """
    before = taxonomy.common_ancestor(together)
    if taxonomy.is_ancestor(before, node):
        return True
    return link is Link.PREDICATE and not taxonomy.is_ancestor(node, before)


def _with_asides(
    taxonomy: Taxonomy,
    node: int,
    asides: list[Name],
) -> int:
    """Returns the closer node that context or a guess names.

    Such are "a tomato leaf infected with late blight", "a finch, perhaps a goldfinch".
    """
    closer: list[int] = []
    for name in asides:
        mention = name.mention
        if mention.strength > Strength.PART and not mention.broad:
            closer += [sense for sense in mention.nodes if _is_below(taxonomy, sense, node)]
    return taxonomy.common_ancestor(closer) if closer else node


def _without_weaker(taxonomy: Taxonomy, names: list[Name]) -> list[Name]:
    """Drops the items of a list that rest on less than the firmest name and on no path with it."""
    firmest = max(name.mention.strength for name in names)
    firm = [name for name in names if name.mention.strength is firmest]
    kept = []
    for name in names:
        is_item = name.link is Link.LIST and name is not names[0]
        is_weak = is_item or name.mention.strength is Strength.PART
        if name in firm or not is_weak or _agrees(taxonomy, name, firm):
            kept.append(name)
    return kept


def _agrees(
    taxonomy: Taxonomy,
    name: Name,
    others: list[Name],
) -> bool:
    """Tells whether a sense of a name lies on one path with a sense of another name."""
    for other in others:
        for one, another in product(name.mention.nodes, other.mention.nodes):
            if taxonomy.is_ancestor(one, another) or taxonomy.is_ancestor(another, one):
                return True
    return False


def _without_broader(taxonomy: Taxonomy, nodes: set[int]) -> set[int]:
    """Drops the nodes that another one makes more exact."""
    kept = set()
    for node in nodes:
        if not any(_is_below(taxonomy, other, node) for other in nodes):
            kept.add(node)
    return kept


# -- senses ----------------------------------------------------------------------------------------


def _is_below(taxonomy: Taxonomy, node: int, above: int) -> bool:
    return node != above and bool(taxonomy.is_ancestor(above, node))


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
