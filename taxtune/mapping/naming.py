"""One noun phrase to the nodes that it names.

English puts the noun last: a "fern-leafed speedwell" is a speedwell and a "swallow tanager" a
tanager. So a phrase is read from its end: the longest run of last words that is a name, or that
names on the tree end in, decides. What stands before it makes it more exact if it fits below it
("artichoke flower", "redhead duck"). If the last word names nothing, be it a verb, an adjective or
a noun that the tree lacks, the phrase is read again without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from taxtune.mapping import english
from taxtune.mapping.index import has_digit
from taxtune.mapping.lexicon import MAX_WORDS, Lexicon
from taxtune.mapping.reading import Phrase, Word, is_plural, text_of

__all__ = ["Mention", "Strength", "is_participle", "name_phrase", "without_verb"]

#: A one-word name of a species must have such a share of the names that end in it: "star" is no
#: flower called Star.
_LEAST_SHARE = 0.1
#: Of a longer run of words without a break only the end is read.
_MAX_PHRASE = 24
_LATIN_ENDINGS = ("a", "us", "um", "is", "i", "ae", "ns", "or", "x", "ii", "on", "e", "es")


class Strength(IntEnum):
    """How much of a phrase its nodes rest on."""

    #: A name that something else follows, a genus with an unknown epithet, an ending, a corrected
    #: spelling.
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
        described: Whether the phrase has an article: "a songbird", where "Songbird" would be one
            more guess.
        evidence: The words that decided, as they stand in the answer.
    """

    nodes: tuple[int, ...]
    strength: Strength
    key: str
    broad: bool = False
    described: bool = False
    evidence: str = ""


def name_phrase(lexicon: Lexicon, phrase: Phrase) -> Mention | None:
    """Returns the mention of a phrase, or None if it names nothing on the tree."""
    mention: Mention | None = lexicon.remember(_name, phrase.words)
    return mention


def _name(lexicon: Lexicon, phrase: tuple[Word, ...]) -> Mention | None:
    words = _trim(lexicon, phrase[-_MAX_PHRASE:])
    mention = _whole(lexicon, words) or _read(lexicon, words)
    if mention is None:
        return None
    return replace(
        _weighed(mention, words),
        described=phrase[0].lower in english.ARTICLES,
        evidence=mention.evidence or text_of(words),
    )


def _keys(words: Sequence[Word]) -> list[str]:
    return [word.key for word in words]


def _weighed(mention: Mention, words: Sequence[Word]) -> Mention:
    """Returns a mention, as a part if the words say nothing: a person, a pattern."""
    if english.SAYS_NOTHING.issuperset(_keys(words)):
        return replace(mention, strength=Strength.PART)
    return mention


def _trim(lexicon: Lexicon, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Takes filler off the front and words such as "species" off the end.

    It stops at a whole name.
    """
    while len(words) > 1 and not lexicon.exact(_keys(words), respelled=False):
        is_filler = words[0].key in english.FILLER or words[0].text.isdigit()
        if words[-1].key in english.TAIL:
            words = words[:-1]
        elif is_filler and not words[1].glued:
            words = words[1:]
        else:
            break
    return words


# -- verbs -----------------------------------------------------------------------------------------


def without_verb(lexicon: Lexicon, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Returns the words before the verb of a phrase: of "a gull flies", "a man saws wood"."""
    for i in range(1, min(len(words), _MAX_PHRASE)):
        after = words[i + 1].lower if i + 1 < len(words) else ""
        goes_on = after in english.PARTICLES or after.endswith("ly")
        if _acts(lexicon, words[:i], words[i], goes_on=goes_on, is_last=not after):
            return words[:i]
    return words


def _acts(
    lexicon: Lexicon,
    subject: tuple[Word, ...],
    word: Word,
    *,
    goes_on: bool,
    is_last: bool,
) -> bool:
    """Tells whether a word agrees in number with its subject as a verb does, and no noun would.

    The subject is a thing on the tree or a person, who may do something to what follows.
    """
    first = subject[0]
    last = subject[-1]
    keys = _keys(subject)
    # "A devil's fingers", "a woman picking tomatoes".
    if any(is_participle(part) or not part.text.isalpha() for part in subject):
        return False
    if not lexicon.mentions([word.key]) or lexicon.exact((last.key, word.key)):
        return False
    is_person = last.key in english.PEOPLE
    if not is_person and not lexicon.mentions(keys):
        return False
    is_single = first.lower in english.SINGULAR and not {"and", "of"}.intersection(keys)
    if is_plural(last) or not is_plural(word):
        return False
    # "The soldier beetles" may be things; "the man saws" and "the swift flies away" are acts.
    ends = is_last or goes_on or is_person
    return (is_single and ends) or (first.lower == "the" and (is_person or goes_on))


def is_participle(word: Word) -> bool:
    """Tells whether a word looks like a participle: "perched", "sitting", not "seed", "ring"."""
    lower = word.lower
    if lower.endswith("ed"):
        return len(lower) > 4 and lower[-3] != "e"
    return len(lower) > 5 and lower.endswith("ing")


# -- readings of a phrase --------------------------------------------------------------------------


def _whole(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads the whole phrase as a name."""
    keys = _keys(words)
    node = lexicon.labelled(text_of(words)) if lexicon.latin else None
    nodes = lexicon.exact(keys) if node is None else (node,)
    if nodes and _is_trusted(lexicon, keys, nodes):
        return Mention(nodes=nodes, strength=Strength.WHOLE, key="".join(keys))
    return None


def _read(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads the whole phrase, or else what stands before its end, until it names something."""
    # A model code or a year, "Jaguar XF 2005", is no part of the name of a living thing.
    if lexicon.latin and any(map(has_digit, _keys(words))):
        return None
    mention = _mended_name(lexicon, words) or _latin(lexicon, words)
    if mention is not None:
        return mention
    for stop in range(len(words), 0, -1):
        mention = _read_without(lexicon, words[:stop], words[stop:])
        if mention is not None:
            return replace(_weighed(mention, words[:stop]), evidence=text_of(words[:stop]))
    return None


def _read_without(
    lexicon: Lexicon,
    words: Sequence[Word],
    rest: Sequence[Word],
) -> Mention | None:
    """Reads the words of a phrase without the rest that follows them."""
    if rest and words[-1].key in english.LIKENESS:
        return None  # a "plum-coloured dress" is no plum
    if rest and rest[0].glued:
        return _series(lexicon, words[-1].key, rest[0].text)
    mention = _suffix(lexicon, words)
    if mention is None and not rest:
        return _mended(lexicon, words)
    return mention


def _series(lexicon: Lexicon, word: str, number: str) -> Mention | None:
    """Reads "DC-2" where DC-3 and DC-6 are known, and "747-800" where the 747 is."""
    nodes = lexicon.called([word]) if word[0].isdigit() else lexicon.series(word)
    if not nodes or not number[0].isdigit():
        return None
    return Mention(nodes=nodes, strength=Strength.PART, key=word, broad=True)


def _latin(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "Digitalis lutea" (unknown epithet), "Quercus alba L."."""
    if not lexicon.latin or len(words) < 2:
        return None
    keys = _keys(words)
    genera = lexicon.genus(keys[0])
    if genera and len(keys) > 2:  # the rest is a subspecies or an author
        nodes = lexicon.exact(keys[:2], respelled=False)
        if nodes:
            return Mention(
                nodes=nodes,
                strength=Strength.WHOLE,
                key="".join(keys[:2]),
                evidence=text_of(words[:2]),
            )
    is_name = words[0].text[:1].isupper() or _looks_binomial(words)
    if words[1].glued or not genera or not is_name:
        return None
    return Mention(nodes=genera, strength=Strength.PART, key=keys[0])


def _looks_binomial(words: Sequence[Word]) -> bool:
    for word in words[1:]:
        looks_latin = word.text.islower() and word.lower.endswith(_LATIN_ENDINGS)
        if not looks_latin or word.key in english.DESCRIBING:
            return False
    return len(words) in (2, 3)


def _mended_name(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "Artic Tern": last words that are a whole name once a slip in one is corrected."""
    keys = _keys(words)
    if not 1 < len(keys) <= MAX_WORDS or all(map(lexicon.knows, keys)):
        return None
    corrected = [lexicon.correct(key, generous=True) or key for key in keys]
    is_right = [key == other for key, other in zip(keys, corrected, strict=True)]
    for start in range(len(keys) - 1):
        if all(is_right[start:]) or not any(is_right[start:]):
            continue
        nodes = lexicon.exact(corrected[start:], respelled=False)
        if nodes:
            return Mention(
                nodes=nodes,
                strength=Strength.HEAD if start else Strength.WHOLE,
                key="".join(corrected[start:]),
            )
    return None


def _mended(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads the phrase with its unknown words spelt as the nearest known ones."""
    corrected = [replace(word, key=lexicon.correct(word.key) or word.key) for word in words]
    if corrected[-1].key == words[-1].key:
        return None
    mention = _suffix(lexicon, corrected)
    if mention is None:
        return None
    return replace(mention, strength=Strength.PART if len(words) > 1 else Strength.WHOLE)


# -- the noun and what stands before it ------------------------------------------------------------


def _suffix(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads the last words of a phrase, the longest that name something."""
    keys = _keys(words)
    if "of" in keys[1:]:
        position = keys.index("of", 1)
        # "A photo of a robin", "a vase of sunflowers"; or else "robin of Europe".
        rest = _trim(lexicon, tuple(words[position + 1 :]))
        mention = _whole(lexicon, rest) or _suffix(lexicon, rest)
        return mention or _suffix(lexicon, words[:position])
    if not keys:
        return None
    if keys[-1] in english.LIKENESS:
        mention = _suffix(lexicon, words[:-1]) if words[-1].glued else None
        return mention and replace(mention, strength=Strength.PART)
    readings: list[tuple[int, Mention]] = []
    for start in range(max(0, len(keys) - MAX_WORDS), len(keys)):
        mention = _noun(lexicon, words, start)
        if mention is not None:
            readings.append(_closest(lexicon, words, start, mention))
    if not readings:
        return None
    # The reading that leaves the fewest words out: "White Peacock" + "butterfly", not "Peacock
    # butterfly".
    covered, best = max(readings, key=lambda reading: reading[0])
    for start, stop in lexicon.locate(keys[:-1]):
        name = keys[start:stop]
        if len(name) > covered and not english.SAYS_NOTHING.issuperset(name):
            covered = len(name)
            best = Mention(
                nodes=lexicon.exact(name),
                strength=Strength.HEAD,
                key="".join(name),
            )
    return best


def _noun(lexicon: Lexicon, words: Sequence[Word], start: int) -> Mention | None:
    """Returns the mention of the words from `start` on as the noun of the phrase."""
    keys = _keys(words)
    noun = keys[start:]
    is_one_word = len(noun) == 1
    is_name = lexicon.exact(noun, respelled=False)
    if not is_one_word and not is_name and lexicon.exact(noun[-1:]):
        return None  # "a black bird" need not be a blackbird
    if words[start].glued and (not is_one_word or noun[0].isdigit()):
        return None  # a "black-and-yellow grosbeak" is no yellow grosbeak, a "747-800" no 737-800
    is_bare = all(_describes(words, i) for i in range(start))
    nodes = lexicon.exact(noun)
    if nodes and not _is_trusted(lexicon, noun, nodes):
        nodes = ()
    if not nodes and (is_bare or not is_one_word):
        nodes = lexicon.shortened(noun)
    key = "".join(noun)
    if nodes:
        is_told_apart = not (english.DESCRIBING | english.FILLER).issuperset(keys[:start])
        if is_told_apart and len(nodes) == 1 and _has_sisters(lexicon, noun, nodes[0]):
            nodes = (int(lexicon.taxonomy.parents[nodes[0]]),)
        return Mention(nodes=nodes, strength=Strength.HEAD, key=key)
    clipped = lexicon.clipped(noun) if is_bare else ()
    if clipped:
        return Mention(nodes=clipped, strength=Strength.HEAD, key=key, broad=True)
    if words[-1].lower.endswith("ed") and is_participle(words[-1]):
        return None  # what is "parked" is no park
    is_shared = lexicon.is_shared(noun)
    if is_one_word and not (is_shared or is_bare or lexicon.shares_heads):
        return None  # of an "owl-shaped holder" the noun says little if only one name has it
    head = lexicon.head(noun)
    if not head:
        return None
    strength = Strength.HEAD if is_shared else Strength.PART
    return Mention(nodes=(head,), strength=strength, key=key, broad=True)


def _describes(words: Sequence[Word], i: int) -> bool:
    """Tells whether a word before a noun only describes it: "old", "2", "stir-fried"."""
    word = words[i]
    if word.key in english.SAYS_NOTHING or word.text.isdigit() or is_participle(word):
        return True
    following = words[i + 1 : i + 2]
    return any(after.glued and is_participle(after) for after in following)


def _is_trusted(lexicon: Lexicon, keys: Sequence[str], nodes: Sequence[int]) -> bool:
    """Tells whether a name is meant, though it is one word that names of others end in."""
    if len(keys) > 1 or len(nodes) > 1 or not lexicon.is_leaf(nodes[0]):
        return True
    return lexicon.share(keys, int(lexicon.taxonomy.parents[nodes[0]])) >= _LEAST_SHARE


def _has_sisters(lexicon: Lexicon, keys: Sequence[str], node: int) -> bool:
    """Tells whether names of a species' sisters end in its name.

    An "alpine sunflower" may be any of them.
    """
    if node == lexicon.taxonomy.root or not lexicon.is_leaf(node):
        return False
    parent = int(lexicon.taxonomy.parents[node])
    return lexicon.share(keys, parent) > 2 * lexicon.share(keys, node)


def _closest(
    lexicon: Lexicon,
    words: Sequence[Word],
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
            keys = _keys(words[first:stop])
            if (first > 0 and words[first].glued) or english.SAYS_NOTHING.issuperset(keys):
                continue
            nodes = lexicon.called(keys)
            below = tuple(node for node in nodes if _is_below_any(lexicon, node, mention.nodes))
            if below:
                return covered + stop - first, replace(mention, nodes=below, broad=False)
            if nodes:
                return covered, mention
    return covered, mention


def _is_below_any(lexicon: Lexicon, node: int, others: Sequence[int]) -> bool:
    return any(node != o and lexicon.taxonomy.is_ancestor(o, node) for o in others)
