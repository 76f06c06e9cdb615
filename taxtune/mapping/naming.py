"""One noun phrase to the nodes that it names.

English puts the noun last: a "fern-leafed speedwell" is a speedwell and a "swallow tanager" a
tanager. So a phrase is read from its end. A *reading* takes the last words as the noun, which is a
name or a word that names on the tree end in, and a name before it that fits below it ("artichoke
flower", "redhead duck"); of several readings the one that covers most words counts. If there is
none, or only a weak one, be the last word a verb, an adjective or a noun that the tree lacks, the
phrase is read again without it. But a noun that only ever heads names is nothing before another
noun: a "camera bag" is no camera.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from taxtune.mapping import english
from taxtune.mapping.index import has_digit
from taxtune.mapping.lexicon import MAX_WORDS, Lexicon
from taxtune.mapping.reading import Phrase, Word, is_plural, text_of

__all__ = ["Mention", "Strength", "is_participle", "name_phrase"]

#: Of a longer run of words without a break only the end is read.
_MAX_PHRASE = 24
#: "Perched", "sitting", "tied"; not "seed", "ring", "sled".
_PARTICIPLE = re.compile(r".*[aeiouy].*(?:ing|(?<!e)ed)")

#: Words as they stand in the answer, and folded.
Words = Sequence[Word]


class Strength(IntEnum):
    """How much of a phrase its nodes rest on."""

    #: A genus with an unknown epithet, a word that one name ends in; counts for want of better.
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
        evidence: The words that decided, as they stand in the answer.
    """

    nodes: tuple[int, ...]
    strength: Strength
    key: str
    broad: bool = False
    evidence: str = ""


def name_phrase(lexicon: Lexicon, phrase: Phrase) -> Mention | None:
    """Returns the mention of a phrase, or None if it names nothing on the tree."""
    mention: Mention | None = lexicon.remember(_name, phrase.words)
    return mention


def is_participle(word: Word) -> bool:
    """Tells whether a word looks like a participle."""
    return word.lower in english.PARTICIPLES or bool(_PARTICIPLE.fullmatch(word.lower))


def _name(lexicon: Lexicon, phrase: tuple[Word, ...]) -> Mention | None:
    words = _before_verb(lexicon, phrase[-_MAX_PHRASE:])
    words = _trim(lexicon, words)
    mention = _whole(lexicon, words) or _cross(lexicon, words)
    mention = mention or _scientific(lexicon, words) or _without_rest(lexicon, words)
    if mention is None:
        return None
    return replace(mention, evidence=mention.evidence or text_of(words))


def _mention(
    nodes: Iterable[int],
    keys: Sequence[str],
    strength: Strength = Strength.HEAD,
    *,
    broad: bool = False,
) -> Mention:
    """Returns a mention, as a part if the words say nothing: a person, a pattern."""
    if english.SAYS_NOTHING.issuperset(keys):
        strength = Strength.PART
    return Mention(nodes=tuple(nodes), strength=strength, key="".join(keys), broad=broad)


def _keys(words: Words) -> list[str]:
    return [word.key for word in words]


def _trim(lexicon: Lexicon, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Takes filler off the front and words such as "species" off the end.

    It stops at a whole name.
    """
    while len(words) > 1 and not _is_name(lexicon, _keys(words)):
        is_filler = words[0].key in english.FILLER or words[0].text.isdigit()
        if words[-1].key in english.TAIL:
            words = words[:-1]
        elif is_filler and not words[1].glued:
            words = words[1:]
        else:
            break
    return words


def _is_name(lexicon: Lexicon, keys: Sequence[str]) -> bool:
    return bool(lexicon.exact(keys, respelled=False) or lexicon.shortened(keys))


def _before_verb(lexicon: Lexicon, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Returns the words before the verb of a phrase: of "a gull flies", "a man saws wood".

    A verb of one thing ends as nouns of several do. "The soldier beetles" may be things; "the swift
    flies away" is an act.
    """
    keys = _keys(words)
    is_single = words[0].lower in english.SINGULAR
    for i in range(2, len(words)):
        goes_on = words[0].lower == "the" and i + 1 < len(words)
        if keys[i] == "of" or not (is_single or goes_on):
            break
        noun = words[i - 1]
        agrees = is_plural(words[i]) and noun.text.isalpha() and noun.key == noun.lower
        if not agrees or is_participle(noun) or lexicon.exact(keys[i - 1 : i + 1]):
            continue
        if noun.key in english.PEOPLE or lexicon.mentions(keys[:i]):
            return words[:i]
    return words


# -- whole names and names of species --------------------------------------------------------------


def _whole(lexicon: Lexicon, words: Words) -> Mention | None:
    """Reads the whole phrase as a name."""
    keys = _keys(words)
    node = lexicon.labelled(text_of(words)) if lexicon.latin else None
    nodes = lexicon.exact(keys) if node is None else (node,)
    return _mention(nodes, keys, Strength.WHOLE) if nodes else None


def _cross(lexicon: Lexicon, words: Words) -> Mention | None:
    """Reads "Anas platyrhynchos x Anas acuta": what both parents have in common."""
    keys = _keys(words)
    if "x" not in keys[1:-1]:
        return None
    position = keys.index("x", 1)
    parents = (words[:position], words[position + 1 :])
    nodes: list[int] = []
    for parent in parents:
        mention = _name(lexicon, tuple(parent))
        nodes += mention.nodes if mention else ()
    if not nodes:
        return None
    return _mention([lexicon.taxonomy.common_ancestor(nodes)], keys, broad=True)


def _scientific(lexicon: Lexicon, words: Words) -> Mention | None:
    """Reads "Quercus alba L." as the species, "Digitalis lutea" (unknown epithet) as the genus."""
    genera = lexicon.genus(words[0].key) if len(words) > 1 else ()
    if not genera or words[1].glued:
        return None
    for stop in (3, 2):
        species = _whole(lexicon, words[:stop])
        if species is not None:
            return replace(species, evidence=text_of(words[:stop]))
    return _mention(genera, _keys(words[:1]), Strength.PART)


# -- the noun and what stands before it ------------------------------------------------------------


def _without_rest(lexicon: Lexicon, words: Words) -> Mention | None:
    """Reads the whole phrase, or else what stands before its end, until it names something.

    A reading that is but a part counts if no other one is found.
    """
    # A model code or a year, "Jaguar XF 2005", is no part of the name of a living thing.
    if lexicon.latin and any(map(has_digit, _keys(words))):
        return None
    words = [_corrected(lexicon, word) for word in words]
    if words[-1].glued and words[-1].key in english.LIKENESS:
        words.pop()  # "fern-like"
    weak: Mention | None = None
    for stop in range(len(words), 0, -1):
        rest = words[stop:]
        if rest and rest[0].glued and not rest[0].text[0].isdigit():
            continue  # what is "owl-shaped" is no owl, but a "747-800" is a 747
        mention = _read(lexicon, words[:stop])
        if mention is None:
            continue
        noun = words[stop - 1]
        is_noun_alone = mention.key == noun.key and not is_plural(noun)
        if len(rest) == 1 and is_noun_alone and _is_compound(lexicon, noun, rest[0]):
            return None
        mention = replace(mention, evidence=text_of(words[:stop]))
        if mention.strength > Strength.PART:
            return mention
        weak = weak or mention
    return weak


def _corrected(lexicon: Lexicon, word: Word) -> Word:
    key = lexicon.correct(word.key)
    return replace(word, key=key) if key else word


def _is_compound(lexicon: Lexicon, noun: Word, word: Word) -> bool:
    """Tells whether a noun only tells more of the word behind it: "camera" of "camera bag".

    That word is a plain noun that the tree lacks.
    """
    if not word.text.isalpha() or not word.text.islower() or word.lower.endswith("ly"):
        return False
    if word.key in english.SAYS_NOTHING or is_participle(word) or lexicon.knows(word.key):
        return False
    return lexicon.only_heads(noun.key)


def _read(lexicon: Lexicon, words: Words) -> Mention | None:
    """Reads the last words of a phrase and a name before them, as many words as can be."""
    keys = _keys(words)
    if "of" in keys[1:]:
        position = keys.index("of", 1)
        # "A photo of a robin", "a vase of sunflowers"; or else "robin of Europe".
        rest = _trim(lexicon, tuple(words[position + 1 :]))
        mention = _whole(lexicon, rest) or _read(lexicon, rest)
        return mention or _read(lexicon, words[:position])
    readings: list[tuple[int, Mention]] = []
    for start in range(max(0, len(keys) - MAX_WORDS), len(keys)):
        mention = _noun(lexicon, words, start)
        if mention is not None:
            readings.append(_closest(lexicon, words, start, mention))
    if not readings:
        return None
    # "White Peacock" + "butterfly", not "Peacock butterfly".
    for start, stop in lexicon.locate(keys[:-1]):
        name = keys[start:stop]
        if not english.SAYS_NOTHING.issuperset(name):
            readings.append((len(name), _mention(lexicon.exact(name), name)))
    return max(readings, key=lambda reading: reading[0])[1]


def _noun(lexicon: Lexicon, words: Words, start: int) -> Mention | None:
    """Returns the mention of the words from `start` on as the noun of the phrase."""
    keys = _keys(words)
    noun = keys[start:]
    is_one_word = len(noun) == 1
    if words[start].glued and (not is_one_word or noun[0].isdigit()):
        return None  # a "black-and-yellow grosbeak" is no yellow grosbeak, a "747-800" no 737-800
    if not is_one_word and not lexicon.exact(noun, respelled=False) and lexicon.exact(noun[-1:]):
        return None  # "a black bird" need not be a blackbird
    nodes = lexicon.exact(noun) or _mended(lexicon, noun) or lexicon.shortened(noun)
    is_shared = lexicon.is_shared(noun)
    is_told_apart = not english.SAYS_NOTHING.issuperset(keys[:start])
    if is_one_word and is_told_apart and is_shared and lexicon.latin:
        # An "alpine sunflower" may be any of them, also where one is just the "sunflower".
        nodes = tuple(node for node in nodes if lexicon.lifted(node) == node)
    if nodes:
        return _mention(nodes, noun)
    clipped = lexicon.clipped(noun)
    if clipped:
        strength = Strength.PART if is_told_apart else Strength.HEAD
        return _mention(clipped, noun, strength, broad=True)
    if words[-1].lower.endswith("ed") and is_participle(words[-1]):
        return None  # what is "parked" is no park
    head = lexicon.head(noun)
    if not head:
        return None
    strength = Strength.HEAD if is_shared else Strength.PART
    return _mention([head], noun, strength, broad=True)


def _mended(lexicon: Lexicon, keys: Sequence[str]) -> tuple[int, ...]:
    """Returns the nodes that several words name but for slips in some: "Artic Tern"."""
    corrected = [lexicon.correct(key, generous=True) or key for key in keys]
    if len(keys) > 1 and any(map(lexicon.knows, keys)) and corrected != keys:
        return lexicon.exact(corrected, respelled=False)
    return ()


def _closest(
    lexicon: Lexicon,
    words: Words,
    start: int,
    mention: Mention,
) -> tuple[int, Mention]:
    """Returns the mention of a noun together with a name before it that fits below it.

    Args:
        lexicon: The names of the tree.
        words: The words of the phrase.
        start: Where its noun starts.
        mention: The mention of the noun.

    Returns:
        The number of words that both cover, and their joint mention.
    """
    covered = len(words) - start
    if mention.broad:
        covered = int(mention.strength is not Strength.PART)
    for stop in range(start, 0, -1):
        if words[stop].glued:
            continue
        for first in range(max(0, stop - MAX_WORDS), stop):
            nodes = lexicon.called(_keys(words[first:stop]))
            below = tuple(node for node in nodes if _is_below_any(lexicon, node, mention.nodes))
            if below:
                return covered + stop - first, replace(mention, nodes=below, broad=False)
    return covered, mention


def _is_below_any(lexicon: Lexicon, node: int, others: Sequence[int]) -> bool:
    return any(node != o and lexicon.taxonomy.is_ancestor(o, node) for o in others)
