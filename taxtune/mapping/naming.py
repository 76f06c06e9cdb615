"""One noun phrase to the nodes that it names.

English puts the noun last: a "fern-leafed speedwell" is a speedwell and a "swallow tanager" a tanager. So a phrase is
read from its end: the longest run of last words that is a name, or that names on the tree end in, decides. What stands
before it makes it more exact where it fits below it ("artichoke flower", "redhead duck"). A last word that names
nothing, be it a verb, an adjective or a noun that the tree lacks, is left out, and the phrase is read again without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from taxtune.mapping import english
from taxtune.mapping.index import has_digit
from taxtune.mapping.lexicon import MAX_WORDS, Lexicon
from taxtune.mapping.reading import Phrase, Word, is_plural, text_of

__all__ = ["Mention", "Strength", "is_participle", "name_phrase"]

#: A species called by one word must have such a share of the names that end in it: "star" is no flower called Star.
_LEAST_SHARE = 0.1
#: Of a longer run of words without a break only the end is read.
_MAX_PHRASE = 24
_LATIN_ENDINGS = ("a", "us", "um", "is", "i", "ae", "ns", "or", "x", "ii", "on", "e", "es")


class Strength(IntEnum):
    """How much of a phrase its nodes rest on."""

    #: A name that something else follows, a genus with an unknown epithet, an ending, a corrected spelling.
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
        evidence: The words that decided, as they stand in the answer.
        inferred: Whether the tree lacks the word, and WordNet says what it is a kind of.
    """

    nodes: tuple[int, ...]
    strength: Strength
    key: str
    broad: bool = False
    described: bool = False
    evidence: str = ""
    inferred: bool = False


def name_phrase(lexicon: Lexicon, phrase: Phrase) -> Mention | None:
    """Returns the mention of a phrase, or None where it names nothing on the tree."""
    mention: Mention | None = lexicon.remember(_name, phrase.words)
    return mention


def _name(lexicon: Lexicon, phrase: tuple[Word, ...]) -> Mention | None:
    words = _trim(lexicon, phrase[-_MAX_PHRASE:])
    keys = [word.key for word in words]
    mention = _whole(lexicon, words) or _read(lexicon, words)
    if mention is None and (node := lexicon.kinds.general(keys)) is not None:
        strength = (
            Strength.HEAD if node else Strength.PART
        )  # what holds for all of the tree says little
        mention = Mention((node,), strength, keys[-1], broad=True, inferred=True)
    if mention is None:
        return None
    strength = (
        Strength.PART if english.SAYS_NOTHING.issuperset(keys) else mention.strength
    )  # a person, a pattern
    described = phrase[0].lower in english.ARTICLES
    evidence = mention.evidence or text_of(words)
    return replace(mention, strength=strength, described=described, evidence=evidence)


def _whole(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    keys = [word.key for word in words]
    node = lexicon.labelled(text_of(words)) if lexicon.latin else None
    nodes = lexicon.exact(keys) if node is None else (node,)
    if nodes and _is_trusted(lexicon, keys, nodes):
        return Mention(nodes, Strength.WHOLE, "".join(keys))
    return None


def _read(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Returns the first reading that names something: of the whole phrase, or else of what stands before its end."""
    keys = [word.key for word in words]
    if lexicon.latin and any(map(has_digit, keys)):  # a model code or a year: "Jaguar XF 2005"
        return None
    for read in (_mended_name, _latin):
        if mention := read(lexicon, words):
            return mention
    last = len(words)
    for stop in range(last, 0, -1):
        cut = True
        if stop < last and words[stop - 1].key in english.LIKENESS:
            continue  # a "plum-coloured dress" is no plum
        if stop < len(words) and words[stop].glued:
            mention = _series(lexicon, words[stop - 1].key, words[stop].text)
        else:
            cut = not all(
                word.key in english.SAYS_NOTHING or is_participle(word) for word in words[stop:last]
            )
            mention = _suffix(lexicon, words[:stop])
            if not cut and (
                mention is None or (mention.nodes == (lexicon.taxonomy.root,) and stop > 1)
            ):
                mention = _kind(lexicon, words[:stop], 1 if mention is None else 2) or mention
            if mention is None and stop == len(words):
                mention = _mended(lexicon, words)
        if mention is not None:
            empty = english.SAYS_NOTHING.issuperset(keys[:stop])  # a person, a pattern
            strength = Strength.PART if empty else mention.strength
            return replace(mention, strength=strength, evidence=text_of(words[:stop]))
    return None


def _kind(lexicon: Lexicon, words: Sequence[Word], least: int = 1) -> Mention | None:
    """Reads "pistol", which WordNet says is a handgun, in so many last words at least."""
    found = lexicon.kinds.above([word.key for word in words], least)
    if found is None:
        return None
    start, node = found
    return _closest(
        lexicon,
        words,
        start,
        Mention((node,), Strength.HEAD, words[-1].key, broad=True, inferred=True),
    )[1]


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
    first, last = subject[0], subject[-1]
    keys = [each.key for each in subject]
    if any(not each.text.isalpha() or is_participle(each) for each in subject):
        return False  # "a devil's fingers", "a woman picking tomatoes"
    if not lexicon.mentions([word.key]) or lexicon.exact((last.key, word.key)):
        return False
    is_someone = last.key in english.PEOPLE
    is_person = is_someone or lexicon.kinds.is_person(keys)
    if not is_person and not lexicon.mentions(keys):
        return False
    is_single = first.lower in english.SINGULAR and not {"and", "of"}.intersection(keys)
    if is_plural(word) and not is_plural(last):
        # "The soldier beetles" may be things; "the man saws" and "the swift flies away" are acts.
        ends = is_last or goes_on or is_person
        return (is_single and ends) or (first.lower == "the" and (is_someone or goes_on))
    if is_single or not (is_last or goes_on):
        return False
    return is_plural(last) and word.key == word.lower and lexicon.kinds.knows(word.key, "v")


def _series(lexicon: Lexicon, last: str, number: str) -> Mention | None:
    """Reads "DC-2" where DC-3 and DC-6 are known, and "747-800" where the 747 is."""
    nodes = lexicon.called([last]) if last[0].isdigit() else lexicon.series(last)
    return (
        Mention(nodes, Strength.PART, last, broad=True) if nodes and number[0].isdigit() else None
    )


def _trim(lexicon: Lexicon, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Takes filler off the front and words such as "species" off the end, unless a whole name would break."""
    start, stop = 0, len(words)
    while stop - start > 1 and not lexicon.exact(
        [word.key for word in words[start:stop]], respelled=False
    ):
        if words[stop - 1].key in english.TAIL:
            stop -= 1
        elif (words[start].key in english.FILLER or words[start].text.isdigit()) and not words[
            start + 1
        ].glued:
            start += 1
        else:
            break
    return words[start:stop]


def _suffix(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads the last words of a phrase, the longest that name something."""
    of = next((i for i, word in enumerate(words) if word.key == "of" and i), 0)
    if of:
        rest = _trim(
            lexicon, tuple(words[of + 1 :])
        )  # "a photo of a robin", "a vase of sunflowers"
        return (
            _whole(lexicon, rest) or _suffix(lexicon, rest) or _suffix(lexicon, words[:of])
        )  # "robin of Europe"
    keys = [word.key for word in words]
    if not keys:
        return None
    if keys[-1] in english.LIKENESS:
        like = _suffix(lexicon, words[:-1]) if words[-1].glued else None
        return like and replace(like, strength=Strength.PART)
    found: list[tuple[int, Mention]] = []
    for start in range(max(0, len(keys) - MAX_WORDS), len(keys)):
        mention = _named(lexicon, words, start)
        if mention is not None:
            found.append(_closest(lexicon, words, start, mention))
    if not found:
        return None
    # The reading that leaves the fewest words out: "White Peacock" + "butterfly", not "Peacock butterfly".
    covered, best = max(found, key=lambda item: item[0])
    for start, stop in lexicon.locate(keys[:-1]):
        if stop - start > covered and not english.SAYS_NOTHING.issuperset(keys[start:stop]):
            nodes = lexicon.exact(keys[start:stop])
            covered, best = stop - start, Mention(nodes, Strength.HEAD, "".join(keys[start:stop]))
    return best


def _named(lexicon: Lexicon, words: Sequence[Word], start: int) -> Mention | None:
    """Returns the mention of the words from `start` on as the noun of the phrase."""
    keys = [word.key for word in words]
    suffix, modifiers = keys[start:], keys[:start]
    if (
        len(suffix) > 1
        and lexicon.exact(suffix[-1:])
        and not lexicon.exact(suffix, respelled=False)
    ):
        return None  # "a black bird" need not be a blackbird
    if words[start].glued and (len(suffix) > 1 or suffix[0].isdigit()):
        return None  # a "black-and-yellow grosbeak" is no yellow grosbeak, a "747-800" no 737-800
    bare = all(_describes(words, i) for i in range(start))
    alone = all(key in english.DESCRIBING or key in english.FILLER for key in modifiers)
    nodes = lexicon.exact(suffix)
    if nodes and not _is_trusted(lexicon, suffix, nodes):
        nodes = ()
    if not nodes and (bare or len(suffix) > 1):
        nodes = lexicon.shortened(suffix)
    if len(nodes) == 1 and not alone and _has_sisters(lexicon, suffix, nodes[0]):
        nodes = (int(lexicon.taxonomy.parents[nodes[0]]),)
    if nodes:
        return Mention(nodes, Strength.HEAD, "".join(suffix))
    if bare and (nodes := lexicon.clipped(suffix)):
        return Mention(nodes, Strength.HEAD, "".join(suffix), broad=True)
    if words[-1].lower.endswith("ed") and is_participle(words[-1]):
        return None  # what is "parked" is no park
    shared = lexicon.is_shared(suffix)
    if not (shared or bare or len(suffix) > 1 or lexicon.shares_heads):
        return None  # the noun of one name says little of an "owl-shaped holder" where sisters do not share their nouns
    head = lexicon.head(suffix)
    return (
        Mention((head,), Strength.HEAD if shared else Strength.PART, "".join(suffix), broad=True)
        if head
        else None
    )


def _describes(words: Sequence[Word], i: int) -> bool:
    """Tells whether a word before a noun only describes it: "old", "2", "grilled", both words of "stir-fried"."""
    word = words[i]
    before = i + 1 < len(words) and words[i + 1].glued and is_participle(words[i + 1])
    return word.key in english.SAYS_NOTHING or word.text.isdigit() or is_participle(word) or before


def is_participle(word: Word) -> bool:
    """Tells whether a word looks like one: "perched", "sitting"; and not "seed", "ring"."""
    lower = word.lower
    return (len(lower) > 4 and lower.endswith("ed") and lower[-3] != "e") or (
        len(lower) > 5 and lower.endswith("ing")
    )


def _is_trusted(lexicon: Lexicon, keys: Sequence[str], nodes: Sequence[int]) -> bool:
    """Tells whether a one-word name of a species is meant, though names of others end in the same word."""
    if len(keys) > 1 or len(nodes) > 1 or not lexicon.is_leaf(nodes[0]):
        return True
    return lexicon.share(keys, int(lexicon.taxonomy.parents[nodes[0]])) >= _LEAST_SHARE


def _has_sisters(lexicon: Lexicon, keys: Sequence[str], node: int) -> bool:
    """Tells whether a species' sisters share its name as their head: an "alpine sunflower" may be any of them."""
    parent = int(lexicon.taxonomy.parents[node])
    return (
        lexicon.is_leaf(node)
        and node > 0
        and lexicon.share(keys, parent) > 2 * lexicon.share(keys, node)
    )


def _closest(
    lexicon: Lexicon, words: Sequence[Word], start: int, mention: Mention
) -> tuple[int, Mention]:
    """Returns the number of words that the noun and a fitting name before it cover, and their joint mention."""
    taxonomy = lexicon.taxonomy
    covered = int(mention.strength is not Strength.PART) if mention.broad else len(words) - start
    for stop in range(start, 0, -1):
        if words[stop].glued:
            continue
        for first in range(max(0, stop - MAX_WORDS), stop):
            keys = [word.key for word in words[first:stop]]
            if (first > 0 and words[first].glued) or all(
                key in english.SAYS_NOTHING for key in keys
            ):
                continue
            named = lexicon.called(keys)
            below = tuple(
                v
                for v in named
                if any(v != n and taxonomy.is_ancestor(n, v) for n in mention.nodes)
            )
            if below:
                return covered + stop - first, replace(mention, nodes=below, broad=False)
            if named:
                return covered, mention
    return covered, mention


def _latin(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "Digitalis lutea" (unknown epithet), "Quercus alba L."."""
    if not lexicon.latin:
        return None
    keys = [word.key for word in words]
    if len(keys) < 2:
        return None
    named = lexicon.exact(keys[:2], respelled=False) if len(keys) > 2 else ()
    if named and lexicon.genus(keys[0]):  # the rest is a subspecies or an author
        return Mention(named, Strength.WHOLE, "".join(keys[:2]), evidence=text_of(words[:2]))
    genera = lexicon.genus(keys[0])
    if (
        not lexicon.knows(keys[0])
        and _looks_binomial(words)
        and (kind := lexicon.kinds.above(keys[:1]))
    ):
        return Mention(kind[1:], Strength.PART, keys[0], broad=True, inferred=True)
    binomial, capital = _looks_binomial(words), words[0].text[:1].isupper()
    if not genera or words[1].glued or not (binomial or capital):
        return None
    return Mention(genera, Strength.PART, keys[0])


def _looks_binomial(words: Sequence[Word]) -> bool:
    return len(words) in (2, 3) and all(
        w.text.islower() and w.lower.endswith(_LATIN_ENDINGS) and w.key not in english.DESCRIBING
        for w in words[1:]
    )


def _mended_name(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads "Artic Tern": last words that are a whole name once a slip in one of them is corrected."""
    if len(words) < 2 or len(words) > MAX_WORDS or all(lexicon.knows(word.key) for word in words):
        return None
    keys = [lexicon.correct(word.key, generous=True) or word.key for word in words]
    same = [word.key == key for word, key in zip(words, keys, strict=True)]
    for start in range(len(keys) - 1):
        if (
            not all(same[start:])
            and any(same[start:])
            and (nodes := lexicon.exact(keys[start:], respelled=False))
        ):
            return Mention(
                nodes, Strength.WHOLE if start == 0 else Strength.HEAD, "".join(keys[start:])
            )
    return None


def _mended(lexicon: Lexicon, words: Sequence[Word]) -> Mention | None:
    """Reads the phrase with unknown words spelt as the nearest known ones."""
    last = words[-1].key
    corrected = [replace(word, key=lexicon.correct(word.key) or word.key) for word in words]
    if corrected[-1].key != last and (mention := _suffix(lexicon, corrected)):
        return replace(mention, strength=Strength.PART if len(words) > 1 else Strength.WHOLE)
    return None
