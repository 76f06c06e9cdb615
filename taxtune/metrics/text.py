"""String measures: exact match, contained, BLEU-2, ROUGE-1, METEOR (paper 1, §10), text inclusion.

All compare words as `tokens` makes them of text in any script (paper 1, §11: no punctuation, lower
case, for four of them stemmed). An answer without words scores 0; a reference without words can be
compared with nothing, so its pairs are unscored (NaN) and counted in `notes`.
"""

from __future__ import annotations

import re
import unicodedata
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from taxtune.metrics.base import Advance, FloatArray, Identity, MeasureSettings, Pair, PairsMeasure
from taxtune.metrics.registry import MEASURES
from taxtune.wordnet import INSTALL, WordNet, find_wordnet

if TYPE_CHECKING:
    from nltk.stem.porter import PorterStemmer

__all__ = [
    "Bleu",
    "Contained",
    "ExactMatch",
    "LiteralInclusion",
    "Meteor",
    "Rouge",
    "StringMeasure",
    "TextInclusion",
    "glued_tokens",
    "stem",
    "stems",
    "tokens",
]

Words = tuple[str, ...]
Glued = tuple[Words, tuple[bool, ...]]

_APOSTROPHES = "'’ʼ‘`´＇"
# Scripts that put no spaces between words: Thai, Lao, Myanmar, Khmer; and kana and Han, whose signs
# are words enough.
_UNSPACED = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
_IDEOGRAPHS = (
    (0x3040, 0x30FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
# A word that qualifies the next: "can's", and "cat" in "cat-like". Dashes between clauses are no
# hyphens.
_GLUE = re.compile(rf"(?<=\w)(?:[{_APOSTROPHES}]s(?!\w)|[-‐‑](?=\w))", re.IGNORECASE)
# No English word is longer; the stemmer's time grows with the square of the length for some.
_LONGEST_STEMMED = 40
# Texts whose words are kept: a text is compared many times over.
_KEPT = 20_000
_NO_SYNONYMS = (
    "METEOR without synonyms: WordNet is not installed, so only equal words and stems match."
)


def _within(code: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


class _Letters(dict[int, str]):
    """The replacement of each character, computed when it first occurs; for `str.translate`."""

    def __missing__(self, code: int) -> str:
        self[code] = _replacement(chr(code))
        return self[code]


def _replacement(character: str) -> str:
    code = ord(character)
    category = unicodedata.category(character)
    if character in _APOSTROPHES or category == "Cf" or 0xFE00 <= code <= 0xFE0F:
        return ""  # formatting: direction marks, joiners, variants of an emoji
    if category == "So" or _within(code, _IDEOGRAPHS):
        return f" {character} "
    if category[0] == "L" and _within(code, _UNSPACED):
        return f" {character}"  # marks that follow stay with their letter
    if category[0] in "PSZ" or category == "Cc":
        return " "
    return character


_LETTERS = _Letters()


@lru_cache(maxsize=_KEPT)
def tokens(text: str) -> Words:
    """Returns the words of a text: lower case, without punctuation.

    Apostrophes are removed ("Anna's" is `annas`); all other punctuation separates words. Letters of
    every script count, with their combining marks; an emoji is a word, and so is each sign of a
    script without spaces (Han, kana, Thai).
    """
    return tuple(unicodedata.normalize("NFC", text).lower().translate(_LETTERS).split())


@lru_cache(maxsize=1)
def _porter() -> PorterStemmer:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Returns the stem of a word in lower case by nltk's Porter stemmer.

    Words of over 40 letters stay as they are.
    """
    return word if len(word) > _LONGEST_STEMMED else str(_porter().stem(word))


@lru_cache(maxsize=_KEPT)
def stems(text: str) -> Words:
    """Returns the stems of the words of a text."""
    return tuple(map(stem, tokens(text)))


@lru_cache(maxsize=_KEPT)
def glued_tokens(text: str) -> Glued:
    """Returns the words of a text, and for each whether it only qualifies the next.

    That is a word in the possessive ("can's") and one with a hyphen and another word behind it
    ("cat" in "cat-like", "red" in "red-tailed").
    """
    words: list[str] = []
    glued: list[bool] = []
    start = 0
    for match in _GLUE.finditer(text):
        part = tokens(text[start : match.end()])
        words.extend(part)
        glued.extend([False] * len(part))
        if part:
            glued[-1] = True
        start = match.end()
    rest = tokens(text[start:])
    words.extend(rest)
    glued.extend([False] * len(rest))
    return tuple(words), tuple(glued)


class StringMeasure(PairsMeasure):
    """A measure of two texts by their words; 0 where they share none."""

    #: Whether words are compared by their stems.
    stemmed: ClassVar[bool] = False

    def identity(self) -> Identity:
        """Returns the name, and the stemmer with its version where words are stemmed."""
        stemmer = f"nltk {version('nltk')} Porter" if self.stemmed else None
        return {"measure": self.name, "stemmer": stemmer}

    def is_empty(self, text: str) -> bool:
        """Tells whether a text has no words."""
        return not tokens(text)

    def words(self, text: str) -> Words:
        """Returns the words of a text that are compared."""
        return stems(text) if self.stemmed else tokens(text)

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns the scores of pairs; most pairs of answers and labels share nothing."""
        scores = np.zeros(len(pairs))
        parts = {answer: self.parts(answer) for answer in {answer for answer, _ in pairs}}
        for i, (answer, reference) in enumerate(pairs):
            if not parts[answer].isdisjoint(stems(reference)):
                scores[i] = self._score(answer, reference)
            advance(1)
        return scores

    def parts(self, answer: str) -> set[str]:
        """Returns the stems of which a reference must have one to score more than 0."""
        return set(stems(answer))

    @abstractmethod
    def _score(self, answer: str, reference: str) -> float:
        """Returns the score of one pair that shares a stem."""


class ExactMatch(StringMeasure):
    """Exact match: 1 if answer and reference are the same stems in the same order, else 0."""

    kind = MEASURES["exact-match"]
    stemmed = True

    def _score(self, answer: str, reference: str) -> float:
        return float(self.words(answer) == self.words(reference))


class Contained(StringMeasure):
    """Contained: 1 if the reference's stems stand in the answer in a row, else 0."""

    kind = MEASURES["contained"]
    stemmed = True

    def _score(self, answer: str, reference: str) -> float:
        words = " ".join(self.words(answer))
        wanted = " ".join(self.words(reference))
        return float(f" {wanted} " in f" {words} ")


class TextInclusion(StringMeasure):
    """Text inclusion on word boundaries: 1 if the reference is in the answer as a phrase of its own.

    Words are equal as a whole, unstemmed, hyphens and spaces alike: "cat" is not in "caterpillar".
    A word in the possessive is another word, and one with a hyphen and a word behind it ends no
    phrase: "can" is not in "trash can's canopy", nor "cat" in "cat-like". But "can" is in "can
    opener", which only grammar could tell.
    """

    kind = MEASURES["text-inclusion"]

    def _score(self, answer: str, reference: str) -> float:
        words, glued = glued_tokens(answer)
        wanted, wanted_glued = glued_tokens(reference)
        for start in range(len(words) - len(wanted) + 1):
            end = start + len(wanted)
            # The last word must not be glued to the next, unless the reference's is, too.
            if words[start:end] == wanted and (wanted_glued[-1] or not glued[end - 1]):
                return 1.0
        return 0.0


class LiteralInclusion(PairsMeasure):
    """Text inclusion as published: 1 if the reference is a substring of the answer, in any case."""

    kind = MEASURES["text-inclusion-literal"]

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns whether each answer has its reference in it, also inside of a word."""
        advance(len(pairs))
        return np.array([float(reference.lower() in answer.lower()) for answer, reference in pairs])


class Bleu(StringMeasure):
    """BLEU-2 of stems, in [0, 1], by nltk.

    Pairs of words have one added to matched and total counts (Lin and Och, 2004).
    """

    kind = MEASURES["bleu-2"]
    stemmed = True

    def identity(self) -> Identity:
        """Returns the name, the stemmer, the smoothing and nltk's version."""
        return super().identity() | {"smoothing": "method2", "bleu": f"nltk {version('nltk')}"}

    def _score(self, answer: str, reference: str) -> float:
        from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

        words = self.words(answer)
        # An answer of one word has no pair of words: its precision is that of the word, as
        # sacrebleu has it.
        weights = (1.0,) if len(words) == 1 else (0.5, 0.5)
        score = sentence_bleu(
            [self.words(reference)],
            words,
            weights=weights,
            smoothing_function=SmoothingFunction().method2,
        )
        return float(score)


class Rouge(StringMeasure):
    """ROUGE-1 recall by rouge-score, in [0, 1].

    It is the share of the reference's stems that the answer has, repeats counted.
    """

    kind = MEASURES["rouge-1"]
    stemmed = True

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        from rouge_score.rouge_scorer import RougeScorer

        super().__init__(model, settings)
        # Our words: its own tokenizer drops every letter but a to z.
        self._scorer = RougeScorer(["rouge1"], tokenizer=SimpleNamespace(tokenize=self.words))

    def identity(self) -> Identity:
        """Returns the name, the stemmer and rouge-score's version."""
        return super().identity() | {"rouge": f"rouge-score {version('rouge-score')}"}

    def _score(self, answer: str, reference: str) -> float:
        return float(self._scorer.score(reference, answer)["rouge1"].recall)


class _Synonyms:
    """WordNet as nltk's METEOR uses it, each word looked up once.

    Where there is no WordNet, no word has synsets.
    """

    def __init__(self, wordnet: WordNet | None) -> None:
        self.synsets = lru_cache(maxsize=200_000)(
            lambda word: [] if wordnet is None else wordnet.reader.synsets(word)
        )

    def of(self, word: str) -> set[str]:
        """Returns the synonyms of one word that nltk takes, those of one word themselves."""
        names: set[str] = set()
        for synset in self.synsets(word):
            names.update(lemma.name() for lemma in synset.lemmas())
        return {name for name in names if "_" not in name}


class Meteor(StringMeasure):
    """METEOR (Lavie and Agarwal 2007) by nltk, in [0, 1), with WordNet's synonyms if there is one."""

    kind = MEASURES["meteor"]

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        self._wordnet = find_wordnet()
        self._synonyms = _Synonyms(self._wordnet)

    @property
    def notes(self) -> tuple[str, ...]:
        """The source of the synonyms, or that there are none."""
        if self._wordnet is not None:
            return (*super().notes, f"METEOR's synonyms are from {self._wordnet.source}.")
        return (*super().notes, f"{_NO_SYNONYMS} {INSTALL}")

    def identity(self) -> Identity:
        """Returns the name, nltk's version, and the WordNet that synonyms are from."""
        source = "none" if self._wordnet is None else self._wordnet.source
        return super().identity() | {"meteor": f"nltk {version('nltk')}", "synonyms": source}

    def parts(self, answer: str) -> set[str]:
        """Returns the stems of the answer and their synonyms: nltk looks these up by stem."""
        own = super().parts(answer)
        return own.union(*map(self._synonyms.of, own))

    def _score(self, answer: str, reference: str) -> float:
        from nltk.translate.meteor_score import single_meteor_score

        score = single_meteor_score(
            self.words(reference),
            self.words(answer),
            stemmer=SimpleNamespace(stem=stem),
            wordnet=self._synonyms,
        )
        return float(score)
