"""Reads a line of an answer as noun phrases, each said more or less firmly.

A phrase is asserted, guessed, compared with, mere context, or denied. English closes its classes of
small words, and only those are listed (`english`). A verb is known by where it stands: a word in
-ing behind something that the tree names ("a dog holding ..."), or whatever stands before an article
in the middle of a phrase ("a fox chases | a rabbit"). The object of such a verb is context.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby

from taxtune.mapping import english
from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.normalize import fold_word, strip_accents

__all__ = ["Force", "Link", "Phrase", "Reading", "Word", "is_plural", "read_line", "text_of"]

# An apostrophe is inside a word where little stands on one side of it: "Bewick's", "d'Arnaud";
# "iris'sunshine" is two.
_TOKEN = re.compile(
    r"[^\W_]+(?:(?:(?<![^\W_]{3})['’ʼ`´](?=[^\W_])|['’ʼ`´](?=[^\W_]{1,2}(?![^\W_])))[^\W_]+)*|[,;:.!?/()\[\]|&+=–—-]"
)
_WITHOUT_APOSTROPHES = str.maketrans("", "", "'’ʼ`´")
_BRACKETS = str.maketrans("[]", "()")
#: No phrase ends between these and an article.
_BEFORE_ARTICLE = {"of", "all", "half"}
#: "It's a robin" asserts; "its wings" does not.
_CONTRACTED = re.compile(r"(it|that|this|there|here|he|she)['’ʼ`´]s", re.I)


class Force(IntEnum):
    """How firmly a phrase says what is seen; smaller is firmer."""

    ASSERTED = 0
    #: A guess, or a first impression: "perhaps a robin", "it looks like a robin".
    GUESSED = 1
    #: Only compared with what is seen: "similar to a robin".
    COMPARED = 2
    #: Where the thing is, what it has, or what it does something to: "on a robin's nest".
    CONTEXT = 3
    DENIED = 4


class Link(IntEnum):
    """How a phrase hangs together with the phrase before it."""

    #: One more in a row, "Blue Jay, Scrub Jay"; or another or closer name of the same thing, "Common
    #: Crow (Corvus brachyrhynchos)", "a bird, a robin".
    LIST = 0
    #: Either, or both: "a robin or a thrush", "a robin and a thrush".
    OR = 1
    #: What the thing before is said to be: "the dish is a soup".
    PREDICATE = 2
    #: A new sentence or an aside, which may say more of the same thing or of other things.
    SENTENCE = 3


@dataclass(frozen=True, slots=True)
class Word:
    """One word.

    Attributes:
        text: The word as it stands.
        lower: The word in lower case without apostrophes.
        key: The folded word.
        glued: Whether a hyphen glues it to the word before it.
    """

    text: str
    lower: str
    key: str
    glued: bool


def text_of(words: Sequence[Word]) -> str:
    """Returns words as they stand in the answer."""
    text = "".join(("-" if word.glued else " ") + word.text for word in words)
    return text[1:]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A run of words that may hold a name.

    Attributes:
        words: Its words.
        force: How firmly it says what is seen.
        link: How it hangs together with the phrase before it.
        sentence: The number of the sentence that it stands in.
        turn: How often the answer has changed its mind before it ("Actually no, ...").
    """

    words: tuple[Word, ...]
    force: Force
    link: Link
    sentence: int = 0
    turn: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """The folded words."""
        return tuple(word.key for word in self.words)

    @property
    def text(self) -> str:
        """The words as they stand in the answer."""
        return text_of(self.words)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line says.

    Attributes:
        phrases: Its phrases.
        refused: Whether the speaker refused to answer.
        denied: Whether the speaker denied something.
    """

    phrases: tuple[Phrase, ...]
    refused: bool
    denied: bool


def is_plural(word: Word) -> bool:
    """Tells whether a word ends as nouns in the plural do, and verbs in the singular."""
    return word.text.isalpha() and word.lower.endswith("s") and word.key != word.lower


def read_line(line: str, names: Lexicon) -> Reading:
    """Returns the phrases of a line."""
    return _Reader(_tokenize(line), names).read()


def _tokenize(line: str) -> list[Word | str]:
    """Returns words, and punctuation as plain strings."""
    line = strip_accents(line).replace("×", " x ")
    tokens: list[Word | str] = []
    glue = False
    last_end = -1
    for match in _TOKEN.finditer(line):
        token = match[0]
        touches = match.start() == last_end
        last_end = match.end()
        if not token[0].isalnum():
            last = tokens[-1] if tokens and touches else ""
            after = line[match.end() : match.end() + 1]
            glue = token in "-–" and isinstance(last, Word) and after.isalnum()
            if not glue and not (token == "." and _abbreviates(last)):
                tokens.append(token.translate(_BRACKETS))
            continue
        contracted = _CONTRACTED.fullmatch(token)
        if contracted:
            tokens.append(_word(contracted[1], glued=False))
            token = "is"
        tokens.append(_word(token, glued=glue and touches))
        glue = False
    return tokens


def _word(text: str, *, glued: bool) -> Word:
    lower = text.lower().translate(_WITHOUT_APOSTROPHES)
    return Word(text=text, lower=lower, key=fold_word(lower), glued=glued)


def _abbreviates(token: Word | str) -> bool:
    if not isinstance(token, Word):
        return False
    return token.lower in english.ABBREVIATIONS or (len(token.text) == 1 and token.text.isalpha())


class _Reader:
    """Walks over the tokens once and keeps the state of the clause."""

    def __init__(self, tokens: list[Word | str], names: Lexicon) -> None:
        self.tokens = tokens
        self.names = names
        self.locked = self._lock()
        self.phrases: list[Phrase] = []
        self.current: list[Word] = []
        self.force = Force.ASSERTED
        self.pending_link = Link.SENTENCE
        self.sentence = 0
        self.refused = False
        self.denied = False
        #: Whether this sentence asserts something that is on the tree.
        self.named = False
        #: Whether this sentence asserts anything.
        self.spoken = False
        #: How firmly this turn of the sentence can say anything.
        self.at_most = Force.ASSERTED
        self.turn = 0

    def _lock(self) -> set[int]:
        """Returns the positions of words that stand inside names of several words."""
        locked: set[int] = set()
        start = 0
        for _, group in groupby(self.tokens, type):
            run = list(group)
            for a, b in self.names.locate([token.key for token in run if isinstance(token, Word)]):
                locked.update(range(start + a, start + b))
            start += len(run)
        return locked

    def read(self) -> Reading:
        for position, token in enumerate(self.tokens):
            if isinstance(token, str):
                self._punctuation(token)
            elif position in self.locked or token.glued or self._is_noun(token):
                self.current.append(token)
            else:
                self._word(position, token)
        self._flush(Link.SENTENCE)
        return Reading(tuple(self.phrases), self.refused, self.denied)

    def _is_noun(self, word: Word) -> bool:
        """Tells whether a name stands behind an article, be it a word of grammar: "a display"."""
        is_first = len(self.current) == 1 and self.current[0].lower in english.ARTICLES
        return is_first and bool(self.names.exact([word.key]))

    def _flush(self, next_link: Link) -> None:
        """Ends the phrase; a link that no phrase has taken up yet stays."""
        if self.current:
            phrase = Phrase(
                words=tuple(self.current),
                force=max(self.force, self.at_most),
                link=self.pending_link,
                sentence=self.sentence,
                turn=self.turn,
            )
            self.phrases.append(phrase)
            if self.force is Force.ASSERTED:
                self.spoken = True
                self.named = self.named or self.names.mentions(phrase.keys)
            self.current = []
            self.pending_link = next_link
        elif next_link is Link.OR:
            self.pending_link = next_link

    def _context(self) -> None:
        self._flush(Link.LIST)
        if self.force is Force.ASSERTED:
            self.force = Force.CONTEXT

    def _main_clause(self) -> None:
        """Goes on with the main clause."""
        if self.force is Force.CONTEXT:
            self.force = Force.ASSERTED

    def _punctuation(self, mark: str) -> None:
        if mark in ".!?;":
            self._flush(Link.SENTENCE)
            self.pending_link = Link.SENTENCE
            self.force = Force.ASSERTED
            self.named = False
            self.spoken = False
            self.at_most = Force.ASSERTED
            self.sentence += 1
        elif mark in "()":
            self._flush(Link.LIST)
        elif mark in "/|":
            self._flush(Link.OR)
        else:
            self._flush(Link.LIST)
            # A comma ends a comparison, a denial and what stands before the main clause: "In the
            # image, a crow ..."
            if mark in ":=—–-" or self.force is not Force.CONTEXT or not self.spoken:
                self.force = Force.ASSERTED

    def _word(self, position: int, word: Word) -> None:
        lower = word.lower
        before = self._lower(position - 1)
        after = self._lower(position + 1)
        if lower in english.TURNS:
            self._flush(Link.LIST)
            self.turn += 1
            self.at_most = Force.ASSERTED
            self._main_clause()
        is_seen = lower == "like" and before in english.SEEMS  # "it looks like a robin"
        if is_seen or lower in english.TENTATIVE:
            self._flush(Link.LIST)
            self.at_most = Force.GUESSED
        if is_seen:
            return
        if lower in english.CLAUSE_STARTS:
            self.force = Force.ASSERTED
        elif lower in english.REFUSAL:
            self._flush(Link.LIST)
            self.refused = True
            self.force = Force.DENIED
        elif lower in english.NEGATION:
            self._flush(Link.LIST)
            if after in english.TO_BE_SEEN and self.phrases:
                self.phrases[-1] = replace(self.phrases[-1], force=Force.DENIED)
            self.force = Force.DENIED
            self.denied = True
        elif lower in english.COMPARISON or (lower == "like" and after in english.ARTICLES):
            self._flush(Link.LIST)
            self.force = max(self.force, Force.COMPARED)
        elif lower in english.ALTERNATIVE:
            self._flush(Link.OR)
        elif lower in english.PREPOSITIONS and before in english.TELLING:
            self.current.append(replace(word, lower="of", key="of"))
        elif lower in english.PREPOSITIONS:
            self._context()
        elif lower in english.HAVING:
            self._flush(Link.LIST)
            if self.named:
                self._context()
        elif lower in english.BREAKS:
            self._break(lower)
        elif lower == "and" and after in english.ARTICLES:
            self._flush(Link.OR)  # in "a duck and a swan" neither describes the other more closely
        elif self._is_verb(word):
            self._context()
        else:
            last = self.current[-1].lower if self.current else "of"
            if lower in english.ARTICLES and last not in english.ARTICLES | _BEFORE_ARTICLE:
                self._flush(Link.LIST)
                if self.named:  # "a fox chases a rabbit": the fox
                    self._context()
            self.current.append(word)

    def _break(self, lower: str) -> None:
        """Reads a word that ends a phrase and belongs to none."""
        self._flush(Link.LIST if self.current else self.pending_link)
        if self.phrases and lower in ("which", "who", "that", "whose"):
            self.pending_link = Link.SENTENCE  # an aside, which may say more of the thing
        elif lower in english.COPULAS and self.pending_link is Link.LIST:
            self.pending_link = Link.PREDICATE
        if lower in english.VERBS:
            self._main_clause()

    def _is_verb(self, word: Word) -> bool:
        """Tells whether a word says what a named thing does: "a dog holding sticks".

        But "a flying squirrel" is a squirrel, and what the tree names is no verb.
        """
        if not re.fullmatch("..+ing", word.lower) or self.names.mentions([word.key]):
            return False
        return self.names.mentions([w.key for w in self.current])

    def _lower(self, position: int) -> str:
        token = self.tokens[position] if 0 <= position < len(self.tokens) else ""
        return token.lower if isinstance(token, Word) else ""
