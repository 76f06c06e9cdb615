"""What an answer asserts in so many words: from its text to one node, with no similarity involved."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from taxtune.mapping import english
from taxtune.mapping.config import Stage
from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.naming import Mention, Strength, is_participle, name_phrase
from taxtune.mapping.normalize import fold_words
from taxtune.mapping.reading import Link, Phrase, Role, read_line
from taxtune.mapping.unwrap import Block
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["Asserted", "asserted_node"]

#: Further names in one answer are ignored.
_MAX_MENTIONS = 40
#: A longer run of words without a break is not a list of names.
_MAX_COORDINATED_WORDS = 40
#: A sense with this share of all species that a name may mean is the one that is meant.
_DOMINANT = 0.85
_LINKS = {"list": Link.LIST, "same": Link.SAME}
#: What a phrase names, and the phrase.
_Found = tuple[Mention, Phrase]


@dataclass(frozen=True, slots=True)
class Asserted:
    """What an answer asserts.

    Attributes:
        node: The node, or None where the answer names nothing.
        stage: What decided, where there is a node.
        evidence: The words that decided, as they stand in the answer.
        phrases: What is asserted and says something, where there is no node: folded words to the words as they stand.
        declined: Whether the speaker refused or denied.
        rootless: Whether it denies that there is anything of the kind of the root: "no bird", "not a bird".
    """

    node: int | None
    stage: Stage
    evidence: str
    phrases: dict[tuple[str, ...], str]
    declined: bool
    rootless: bool = False

    @property
    def unnamed(self) -> str:
        """The phrases as they stand in the answer."""
        return "; ".join(self.phrases.values())


def asserted_node(lexicon: Lexicon, blocks: Sequence[Block]) -> Asserted:
    """Returns the node that an unwrapped answer names, or that its names have in common.

    What is only compared with ("similar to a thrush") counts where nothing is asserted, what is only context ("on an
    oak") where nothing is compared either, and what is denied never.
    """
    read: list[Asserted] = []
    for block in blocks:
        read.append(_asserted_by(lexicon, block))
        if read[-1].node is not None:
            return read[-1]
    return read[0] if read else Asserted(None, Stage.ABSTAINED, "", {}, False)


def _asserted_by(lexicon: Lexicon, block: Block) -> Asserted:
    # The whole answer as a name, however little it looks like a name: a tree of shades may have the node "scarlet".
    words = fold_words(block.lines[0]) if len(block.lines) == 1 else ()
    whole_name = lexicon.exact(words, respelled=False)
    if len(whole_name) == 1 or (len(words) > 1 and whole_name):  # before it is read as a list ("F-16A/B")
        return Asserted(lexicon.taxonomy.common_ancestor(whole_name), Stage.VERBATIM, block.lines[0], {}, False)
    found: list[_Found] = []
    persons: list[_Found] = []
    unnamed: dict[int, dict[tuple[str, ...], str]] = {}  # what is asserted and not on the tree, by sentence
    declined = refused = False
    before = 0
    for line in block.lines:
        reading = read_line(line, lexicon)
        refused = refused or reading.refused
        declined = declined or reading.refused or reading.denied
        parts = [part for phrase in reading.phrases for part in _conjuncts(lexicon, phrase)]
        for position, part in enumerate(parts):
            sentence = 0 if block.link else before + part.sentence
            mention = name_phrase(lexicon, part) or _with_next_noun(lexicon, part, parts[position + 1 : position + 2])
            if mention is not None:
                link = _LINKS[block.link] if position == 0 and block.link else part.link
                person = mention.inferred and lexicon.kinds.is_person(part.keys)
                (persons if person else found).append((mention, replace(part, link=link, sentence=sentence)))
            elif part.role is Role.ASSERTED and _says_something(lexicon, part, whole=words == part.keys):
                unnamed.setdefault(sentence, {})[part.keys] = part.text
        before += 1 + max((part.sentence for part in parts), default=0)
    found = _below_root(lexicon, _after_all(found or persons))  # who does something is seldom the answer
    chosen = _chosen(found, unnamed)[:_MAX_MENTIONS]
    context = bool(chosen) and chosen[0][1].role is Role.CONTEXT
    faint = all(mention.strength is Strength.PART for mention, _ in chosen)
    if chosen and not (declined and context) and not (refused and faint):
        mentions = [(mention, phrase.link) for mention, phrase in chosen]
        beside = [mention.nodes for mention, phrase in found if phrase.role is Role.CONTEXT]
        node, several = _resolve(lexicon.taxonomy, mentions, beside)
        if chosen[0][1].role is Role.ASSERTED:
            asides = [(m, p) for m, p in found if p.role is Role.CONTEXT and p.sentence == chosen[0][1].sentence]
            node = _with_aside(lexicon.taxonomy, node, asides)
        whole = any(mention.strength is Strength.WHOLE for mention, _ in mentions)
        inferred = all(mention.inferred for mention, _ in mentions)
        stage = Stage.LIST if several else Stage.KIND if inferred else Stage.VERBATIM if whole else Stage.HEAD
        evidence = "; ".join(dict.fromkeys(mention.evidence for mention, _ in mentions))
        return Asserted(node, stage, evidence, {}, declined)
    phrases = {keys: text for texts in unnamed.values() for keys, text in texts.items()}
    rootless = not refused and any(_denies_root(lexicon, phrase) for _, phrase in found)
    return Asserted(None, Stage.ABSTAINED, "", phrases, declined, rootless)


def _denies_root(lexicon: Lexicon, phrase: Phrase) -> bool:
    words = [word for word in phrase.words if word.lower not in ("a", "an", "any")]
    named = lexicon.exact(tuple(word.key for word in words)) if phrase.role is Role.DENIED else ()
    return lexicon.taxonomy.root in named


def _conjuncts(lexicon: Lexicon, phrase: Phrase) -> list[Phrase]:
    """Parts "robins and thrushes", but not "black and white warbler": both sides must end in a name."""
    words = phrase.words
    if len(words) > _MAX_COORDINATED_WORDS or lexicon.exact(phrase.keys):
        return [phrase]
    for position, word in enumerate(words):
        if word.lower == "and" and not word.glued and 0 < position < len(words) - 1 and not words[position + 1].glued:
            left = replace(phrase, words=words[:position])
            right = replace(phrase, words=words[position + 1 :], link=Link.OR)
            if all((named := name_phrase(lexicon, side)) and named.strength > Strength.PART for side in (left, right)):
                return [left, *_conjuncts(lexicon, right)]
    return [phrase]


def _with_next_noun(lexicon: Lexicon, phrase: Phrase, following: list[Phrase]) -> Mention | None:
    """Reads "downy" in "downy or hairy woodpecker" with the noun of the phrase behind it, if that is a whole name."""
    if not following or following[0].link is not Link.OR:
        return None
    mention = name_phrase(lexicon, replace(phrase, words=(*phrase.words, following[0].words[-1])))
    return mention if mention is not None and mention.strength is Strength.WHOLE else None


def _says_something(lexicon: Lexicon, phrase: Phrase, *, whole: bool) -> bool:
    """Tells whether a phrase that names nothing speaks of a thing; the whole of an answer also of "a man sitting"."""
    for word in phrase.words:
        if (whole or not is_participle(word)) and word.key not in english.SAYS_NOTHING and not word.text.isdigit():
            return whole or not lexicon.kinds.is_person(phrase.keys)
    return False


def _chosen(found: Sequence[_Found], unnamed: Collection[int]) -> list[_Found]:
    """Returns the mentions of the first sentence that has any that count, and what later ones assert.

    Context counts where a sentence asserts nothing, or else, by its first name, where no sentence has any.
    """
    for sentence in sorted({phrase.sentence for _, phrase in found}):
        for role in (Role.ASSERTED, Role.COMPARED, Role.CONTEXT):
            chosen = [item for item in found if item[1].sentence == sentence and item[1].role is role]
            if chosen and not (role is Role.CONTEXT and sentence in unnamed):
                later = [item for item in found if item[1].sentence > sentence and item[1].role is Role.ASSERTED]
                return chosen + [(m, replace(p, link=Link.SENTENCE)) for m, p in later]
    context = [(m, p) for m, p in found if p.role is not Role.DENIED]
    return context[:1] + list(takewhile(lambda item: item[1].link is Link.OR, context[1:]))


def _after_all(found: list[_Found]) -> list[_Found]:
    """Drops guesses beside a firm word: "maybe a pug? Actually no, a boxer", "a mallard, but it could be a gadwall"."""
    firm = [p for m, p in found if p.role is Role.ASSERTED and m.strength is Strength.WHOLE and not p.tentative]
    last = {max(phrase.turn for phrase in firm)} if firm else {phrase.turn for _, phrase in found}
    return [(m, p) for m, p in found if not p.tentative or p.turn in last]


def _below_root(lexicon: Lexicon, found: list[_Found]) -> list[_Found]:
    """Drops what only names the root where its sentence asserts more: "the toy is a train or a fire truck"."""
    root = (lexicon.taxonomy.root,)
    more = {phrase.sentence for mention, phrase in found if mention.nodes != root and phrase.role is Role.ASSERTED}
    return [(m, p) for m, p in found if m.nodes != root or p.role is Role.DENIED or p.sentence not in more]


def _resolve(
    taxonomy: Taxonomy, mentions: Sequence[tuple[Mention, Link]], beside: Sequence[tuple[int, ...]]
) -> tuple[int, bool]:
    """Returns the node that mentions in reading order assert together, and whether it generalises over several.

    Other names of the same thing are joined first; then each ambiguous name takes the sense that agrees best with the
    rest and with what is `beside` them; then the names in a row are placed on their common ancestor, in which a name
    that another one makes more exact ("a bird, a robin") has no say unless "or" stands between them.
    """
    groups: list[tuple[Mention, Link]] = []
    for mention, link in mentions:
        if groups and link is Link.SAME:
            groups[-1] = (_same(taxonomy, groups[-1][0], mention), groups[-1][1])
        else:
            groups.append((mention, link))
    groups = _without_stray(taxonomy, groups)
    nodes = _senses(taxonomy, [*(mention.nodes for mention, _ in groups), *beside])[: len(groups)]

    node, members = nodes[0], [(nodes[0], groups[0][0])]
    strict = False
    for (mention, link), other in zip(groups[1:], nodes[1:], strict=True):
        if link in (Link.SENTENCE, Link.PREDICATE):
            # An aside or a later sentence may say more of the thing; what else it speaks of is not what is asserted.
            # What the thing is said to be is asserted, whatever was said before: "the dish is a soup".
            if taxonomy.is_ancestor(node, other) or (link is Link.PREDICATE and not taxonomy.is_ancestor(other, node)):
                node, members = other, [(other, mention)]
            continue
        strict = strict or link is Link.OR
        members.append((other, mention))
        if not strict:
            members = _without_broader(taxonomy, members)
        node = taxonomy.common_ancestor(v for v, _ in members)
    return node, len({v for v, _ in members}) > 1


def _with_aside(taxonomy: Taxonomy, node: int, asides: Sequence[_Found]) -> int:
    """Returns the closer node that a thing of the subject names: a "tomato leaf infected with late blight"."""
    closer: list[int] = []
    for mention, _ in asides:
        below = [v for v in mention.nodes if v != node and taxonomy.is_ancestor(node, v)]
        if below and mention.strength > Strength.PART and not mention.broad:
            closer += below
    return taxonomy.common_ancestor(closer or [node])


def _without_stray(taxonomy: Taxonomy, groups: list[tuple[Mention, Link]]) -> list[tuple[Mention, Link]]:
    """Drops of a list what is no whole name and says no more than one; and a part that agrees with nothing firmer."""

    def is_below(mention: Mention, others: Collection[int]) -> bool:
        return any(v != w and taxonomy.is_ancestor(w, v) for v in mention.nodes for w in others)

    whole = {v for mention, _ in groups if mention.strength is Strength.WHOLE for v in mention.nodes}
    if whole and all(link is not Link.OR for _, link in groups[1:]):
        groups = groups[:1] + [
            (mention, link)
            for mention, link in groups[1:]
            if mention.strength is Strength.WHOLE or link is not Link.LIST or is_below(mention, whole)
        ]
    firm = {v for mention, _ in groups if mention.strength is not Strength.PART for v in mention.nodes}

    def agrees(mention: Mention) -> bool:
        return any(taxonomy.is_ancestor(v, w) or taxonomy.is_ancestor(w, v) for v in mention.nodes for w in firm)

    return [g for g in groups if not firm or g[0].strength is not Strength.PART or agrees(g[0])]


def _without_broader(taxonomy: Taxonomy, members: Sequence[tuple[int, Mention]]) -> list[tuple[int, Mention]]:
    """Drops the members that another one only makes more exact: "bird, robin", but not "songbird, robin" as guesses."""

    def is_broader(node: int, mention: Mention, below: int, other: Mention) -> bool:
        if node == below or not taxonomy.is_ancestor(node, below):
            return False
        # "warbler" is no broader term for a finch, though the node of all warblers holds finches too
        wide = taxonomy.ranks[node] not in ("order", "family", "genus")
        exact = not mention.broad and (wide or is_label(node, mention) or is_label(below, other))
        return exact or mention.described or other.described or other.key.endswith(mention.key)

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
    sizes: list[int] = taxonomy.leaves_below(senses).tolist()
    largest = max(sizes)
    return senses[sizes.index(largest)] if largest >= _DOMINANT * sum(sizes) else taxonomy.common_ancestor(senses)
