"""One noun phrase to the nodes that it names.

English puts the noun last: a "fern-leafed speedwell" is a speedwell and a "swallow tanager" a tanager. So a phrase is
read from its end: the longest run of last words that is a name, or that names on the tree end in, decides; a name
directly before it makes it more exact where it fits ("artichoke flower", "redhead duck").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from taxtune.mapping.lexicon import MAX_WORDS, Lexicon
from taxtune.mapping.reading import Phrase, Word
from taxtune.mapping.words import ADJECTIVES, ARTICLES, FILLER, FOREIGN, LIKENESS, NO_HEADS, TAIL, WIDE_RANKS

__all__ = ["Mention", "Strength", "locate_names", "name_phrase"]

#: Shares of the names that end in a word which a species called just that must have to be meant by the word, alone or
#: behind other words: "lion" is Panthera leo in spite of sea lions; "star" is not the one flower called Star.
_BARE_SHARE, _MODIFIED_SHARE = 0.1, 0.3
_LATIN_ENDINGS = ("a", "us", "um", "is", "i", "ae", "ns", "or", "x", "ii", "on", "e", "es")
_CODE = re.compile(r"\d{3,}s?|\d+[a-z]\w*|[a-z]+\d\w*", re.I)


class Strength(IntEnum):
    """How much of a phrase its nodes rest on."""

    #: An inner name, a genus with an unknown epithet, an ending, a mended spelling.
    PART = 0
    #: The last words are a name, or names on the tree end in them.
    HEAD = 1
    #: The whole phrase is a name.
    WHOLE = 2


@dataclass(frozen=True, slots=True)
class Mention:
    """The nodes that a phrase may name, and what that rests on.

    Attributes:
        nodes: Its senses, one or more.
        strength: How much of the phrase they rest on.
        key: The folded words that decided, joined.
        broad: Whether the node is only what several things of that name have in common.
        described: Whether the phrase has an article: "a songbird", where "Songbird" would be one more guess.
        binomial: Whether the phrase looks like a Latin species name.
    """

    nodes: tuple[int, ...]
    strength: Strength
    key: str
    broad: bool = False
    described: bool = False
    binomial: bool = False


def locate_names(lexicon: Lexicon, words: Sequence[str]) -> list[tuple[int, int]]:
    """Returns where names of several words stand in a run of folded words, the longest first from the left."""
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(words) - 1:
        for stop in range(min(len(words), start + MAX_WORDS), start + 1, -1):
            if lexicon.exact(words[start:stop], respelled=False):
                found.append((start, stop))
                start = stop - 1
                break
        start += 1
    return found


def name_phrase(lexicon: Lexicon, phrase: Phrase) -> Mention | None:
    """Returns what a phrase names, or None where it names nothing on the tree."""
    words = _trim(lexicon, phrase.words)
    keys = [word.key for word in words]
    describes = all(key in ADJECTIVES or key in FILLER for key in keys)
    if describes and (len(keys) < 2 or not lexicon.exact(keys, respelled=False)):
        return None
    described = phrase.words[0].lower in ARTICLES
    nodes = lexicon.exact(keys)
    if nodes and _is_trusted(lexicon, keys, nodes, bare=True) and not _is_odd_split(lexicon, keys, whole=True):
        nodes = _at_rank(lexicon, nodes, phrase.words[phrase.words.index(words[-1]) + 1 :][:1])
        return Mention(nodes, Strength.WHOLE, "".join(keys), described=described, binomial=_looks_binomial(words))
    if is_foreign(words):
        return None
    for read in (_mended_name, _latin, _suffix, _breed, _mended, _before_of, _inner, _part_of_wide):
        mention = read(lexicon, words)
        if mention is not None:
            nodes = _at_rank(lexicon, mention.nodes, phrase.words[phrase.words.index(words[-1]) + 1 :][:1])
            return replace(mention, nodes=nodes, described=described)
    return None


def _at_rank(lexicon: Lexicon, nodes: tuple[int, ...], after: Sequence[Word]) -> tuple[int, ...]:
    """Lifts nodes to the rank that the word after their name gives: the "crow family" is no genus."""
    taxonomy = lexicon.taxonomy
    if not after or after[0].key not in taxonomy.ranks:
        return nodes
    lifted = []
    for node in nodes:
        above = [v for v in taxonomy.ancestors(node).tolist() if taxonomy.ranks[v] == after[0].key]
        lifted.append(above[0] if above else node)
    return tuple(dict.fromkeys(lifted))


def _trim(lexicon: Lexicon, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Takes filler off the front and words such as "species" off the end, unless a whole name would break."""
    while words and not lexicon.exact([word.key for word in words], respelled=False):
        if words[-1].key in TAIL and len(words) > 1:
            words = words[:-1]
        elif words[0].key in FILLER and not (len(words) > 1 and words[1].glued):
            words = words[1:]
        else:
            break
    return words


def is_foreign(words: Sequence[Word]) -> bool:
    """Tells whether a phrase speaks of a vehicle or carries a model code or year: "Jaguar XF Sedan 2005"."""
    for i, word in enumerate(words):
        glued = i + 1 < len(words) and words[i + 1].glued
        if word.key in FOREIGN or (_CODE.fullmatch(word.text) and not glued) or (word.glued and word.text.isdigit()):
            return True
    return False


def _is_odd_split(lexicon: Lexicon, keys: Sequence[str], *, whole: bool) -> bool:
    """Tells whether words that join to a name are better read apart: a "black bird" need not be a blackbird."""
    if len(keys) < 2 or lexicon.exact(keys, respelled=False):
        return False
    if whole:
        return keys[0] in ADJECTIVES and bool(_wide(lexicon, keys[-1:]))
    return lexicon.exact(keys[-1:]) != ()


def _wide(lexicon: Lexicon, keys: Sequence[str]) -> tuple[int, ...]:
    """Returns what the words name if that is a class or something wider: "bird", "petal"."""
    return tuple(v for v in lexicon.exact(keys) if lexicon.taxonomy.ranks[v] in WIDE_RANKS)


# -- the ways to read a phrase, the best first -------------------------------------------------------------------------


def _suffix(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    keys = [word.key for word in words]
    if not keys or keys[-1] in LIKENESS:
        return None
    if _is_unknown_binomial(lexicon, words) and lexicon.genus(keys[-1]):
        return None  # "Ailuroedus melanotis" is no Melanotis
    for start in range(max(0, len(keys) - MAX_WORDS), len(keys)):
        suffix, modifiers = keys[start:], keys[:start]
        if all(key in ADJECTIVES for key in suffix) or _is_odd_split(lexicon, suffix, whole=False):
            continue
        if words[start].glued and len(suffix) > 1:
            continue  # a "black-and-yellow grosbeak" is no yellow grosbeak
        bare = all(key in ADJECTIVES or key in FILLER for key in modifiers)
        nodes, broad = lexicon.exact(suffix), False
        if nodes and not _is_trusted(lexicon, suffix, nodes, bare=not modifiers):
            nodes = ()
        strength = Strength.WHOLE if nodes and bare else Strength.HEAD
        if len(nodes) == 1 and not bare and _has_sisters(lexicon, suffix, nodes[0]):
            nodes = (int(lexicon.taxonomy.parents[nodes[0]]),)
        if not nodes:
            head = lexicon.head(suffix, modifiers)
            nodes, broad = (() if head is None or head == 0 else (head,)), True
        if nodes:
            closer = _closer(lexicon, words, start, nodes)
            return Mention(closer or nodes, strength, "".join(suffix), broad and not closer)
    return None


def _is_trusted(lexicon: Lexicon, keys: Sequence[str], nodes: Sequence[int], *, bare: bool) -> bool:
    """Tells whether a one-word name of a species is meant, though names of others end in the same word."""
    if len(keys) > 1 or len(nodes) > 1 or not lexicon.is_leaf(nodes[0]):
        return True
    parent = int(lexicon.taxonomy.parents[nodes[0]])
    return lexicon.share(keys, parent) >= (_BARE_SHARE if bare else _MODIFIED_SHARE)


def _has_sisters(lexicon: Lexicon, keys: Sequence[str], node: int) -> bool:
    """Tells whether a species' sisters share its name as their head: an "alpine sunflower" may be any of them."""
    if not lexicon.is_leaf(node) or node == 0:
        return False
    return lexicon.share(keys, int(lexicon.taxonomy.parents[node])) > 2 * lexicon.share(keys, node)


def _closer(lexicon: Lexicon, words: Sequence[Word], start: int, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns what a name directly before the head makes of it: below the head's node, or nothing."""
    if start == 0 or words[start].glued:
        return ()
    keys = [word.key for word in words[:start]]
    for first in range(max(0, start - MAX_WORDS), start):
        if first > 0 and words[first].glued:
            continue
        named = lexicon.exact(keys[first:])
        below = [v for v in named if any(v != n and lexicon.taxonomy.is_ancestor(n, v) for n in nodes)]
        if below and not all(key in ADJECTIVES for key in keys[first:]):
            return tuple(below)
        if named:
            return ()
    return ()


def _latin(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "Digitalis lutea" (unknown epithet), "V. cornuta", "Rosa-sinensis"."""
    keys = [word.key for word in words]
    if len(keys) == 2 and len(words[0].text) == 1:
        found = lexicon.abbreviated(keys[0], keys[1])
        return Mention(found, Strength.WHOLE, "".join(keys)) if found else None
    named = lexicon.exact(keys[:2], respelled=False) if len(keys) > 2 and _looks_binomial(words[:2]) else ()
    if named and lexicon.genus(keys[0]):  # the rest is a subspecies or an author: "Quercus alba L."
        return Mention(named, Strength.WHOLE, "".join(keys[:2]), binomial=True)
    species = lexicon.epithet(keys)
    if len(species) == 1 and len(keys) > 1:
        return Mention(species, Strength.PART, "".join(keys))
    genera = lexicon.genus(keys[0])
    if not (2 <= len(keys) <= 4 and genera and words[0].text[:1].isupper() and not words[1].glued):
        return None
    if not _looks_binomial(words) and lexicon.knows_english(keys[-1]):
        return None
    moved = [v for genus in genera for v in lexicon.moved(genus, keys[1])] if len(keys) == 2 else []
    return Mention(tuple(moved) or genera, Strength.PART, "".join(keys) if moved else keys[0])


def _looks_binomial(words: Sequence[Word]) -> bool:
    return (
        len(words) in (2, 3)
        and words[0].text[:1].isupper()
        and all(w.text.islower() and w.lower.endswith(_LATIN_ENDINGS) and w.key not in ADJECTIVES for w in words[1:])
    )


def _is_unknown_binomial(lexicon: Lexicon, words: Sequence[Word]) -> bool:
    """Tells whether a phrase is a species of a genus that the tree lacks, and no "gorgeous clematis"."""
    first = words[0].lower
    shaped = first.endswith(("a", "us", "um", "is", "es", "ops", "yx")) and not first.endswith("ous")
    return shaped and _looks_binomial(words) and not lexicon.knows(words[0].key)


def _mended_name(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "Artic Tern": last words that are a whole name once a slip in one of them is mended."""
    if len(words) < 2 or len(words) > MAX_WORDS or all(lexicon.knows(word.key) for word in words):
        return None
    keys = [lexicon.correct(word.key, generous=True) or word.key for word in words]
    for start in range(len(keys) - 1):
        nodes = lexicon.exact(keys[start:], respelled=False)
        if nodes and any(word.key != key for word, key in zip(words[start:], keys[start:], strict=True)):
            return Mention(nodes, Strength.WHOLE if start == 0 else Strength.HEAD, "".join(keys[start:]))
    return None


def _mended(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads the phrase with unknown words spelt as the nearest known ones, then by the ending of its last word."""
    if len(words) > MAX_WORDS or _is_unknown_binomial(lexicon, words):
        return None
    last = words[-1].key
    if last not in NO_HEADS and not lexicon.knows(last):
        if len(last) < (7 if len(words) > 1 else 5):
            return _ending(lexicon, last)
        mended = [Word(w.text, w.lower, lexicon.correct(w.key) or w.key, w.glued) for w in words]
        if mended[-1].key != last:
            mention = _suffix(lexicon, mended)
            if mention is not None:
                return mention
        return _ending(lexicon, last)
    return None


def _ending(lexicon: Lexicon, word: str) -> Mention | None:
    node = lexicon.compound(word)
    return Mention((node,), Strength.PART, word, broad=True) if node else None


def _breed(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "Bengal" or "large Siberian" where a "Bengal cat" and a "Siberian cat" are known."""
    keys = [word.key for word in words]
    for start in range(len(keys)):
        nodes = lexicon.breed(keys[start:])
        if nodes and all(key in ADJECTIVES or key in FILLER for key in keys[:start]):
            return Mention(nodes, Strength.PART, "".join(keys[start:]))
    return None


def _part_of_wide(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "purple petal ring": a wide term that only words for shapes, or heads of anything ("star"), follow."""
    for position in range(len(words) - 1, 0, -1):
        after = words[position].key
        if after not in NO_HEADS and lexicon.head([after]) != lexicon.taxonomy.root:
            return None
        wide = _wide(lexicon, [words[position - 1].key])
        if wide and not words[position].glued:
            return Mention(wide, Strength.PART, words[position - 1].key)
    return None


def _before_of(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "robin of Europe": where nothing after "of" is a name, what stands before it."""
    position = next((i for i, word in enumerate(words) if word.key == "of"), 0)
    return _suffix(lexicon, words[:position]) if position else None


def _inner(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads a name that only describing words follow: "sparrow brown"."""
    keys = [word.key for word in words]
    stop = len(keys)
    while stop > 1 and keys[stop - 1] in ADJECTIVES:
        stop -= 1
    return _suffix(lexicon, words[:stop]) if stop < len(keys) else None
