"""Text to words and stems, as the string measures compare them (paper 1, §11).

The paper strips punctuation and white space, lowers the case and, for four of the measures, stems. This module defines
that for text of any script, once for all string measures.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from nltk.stem.porter import PorterStemmer

__all__ = ["Glued", "glued_tokens", "stem", "stems", "tokens"]

Glued = tuple[tuple[str, ...], tuple[bool, ...]]
Result = TypeVar("Result")

_APOSTROPHES = "'’ʼ‘`´＇"
# Scripts that put no spaces between words: Thai, Lao, Myanmar, Khmer; and kana and Han, whose signs are words enough.
_UNSPACED = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF))
_IDEOGRAPHS = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
# A word that qualifies the next: "can's", and "cat" in "cat-like". Dashes between clauses are no hyphens.
_GLUE = re.compile(rf"(?<=\w)(?:[{_APOSTROPHES}]s(?!\w)|[-‐‑](?=\w))", re.IGNORECASE)
_LONGEST_STEMMED = 40  # no English word is longer; the stemmer's time grows with the square of the length for some
_KEPT_LENGTH = 1000  # the words of texts up to this length, and of few longer ones, are kept


def _within(code: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


class _Letters(dict[int, str]):
    """The replacement of each character, computed when it first occurs; for `str.translate`."""

    def __missing__(self, code: int) -> str:
        character, category = chr(code), unicodedata.category(chr(code))
        result = character
        if character in _APOSTROPHES or category == "Cf" or 0xFE00 <= code <= 0xFE0F:
            result = ""  # formatting: direction marks, joiners, variants of an emoji
        elif category == "So" or _within(code, _IDEOGRAPHS):
            result = f" {character} "
        elif category[0] == "L" and _within(code, _UNSPACED):
            result = f" {character}"  # marks that follow stay with their letter
        elif category[0] in "PSZ" or category == "Cc":
            result = " "
        self[code] = result
        return result


_LETTERS = _Letters()


def _kept(function: Callable[[str], Result]) -> Callable[[str], Result]:
    """Keeps the results of a function of texts: a text is compared many times over."""
    short, long = lru_cache(maxsize=50_000)(function), lru_cache(maxsize=4)(function)

    @wraps(function)
    def kept(text: str) -> Result:
        return short(text) if len(text) <= _KEPT_LENGTH else long(text)

    return kept


@_kept
def tokens(text: str) -> tuple[str, ...]:
    """Returns the words of a text: lower case, without punctuation.

    Apostrophes are removed from words ("Anna's" is one word, `annas`); all other punctuation, hyphens and slashes
    included, separates words. Letters of every script count, with their combining marks; an emoji is a word of its own,
    and so is each sign of a script that puts no spaces between words (Han, kana, Thai, ...). Accents stay.
    """
    return tuple(unicodedata.normalize("NFC", text).lower().translate(_LETTERS).split())


@lru_cache(maxsize=1)
def _porter() -> PorterStemmer:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


@lru_cache(maxsize=200_000)
def _stem_kept(word: str) -> str:
    stemmed: str = _porter().stem(word)
    return stemmed


def stem(word: str) -> str:
    """Returns the stem of a word in lower case by nltk's Porter stemmer; words of over 40 letters stay as they are."""
    return word if len(word) > _LONGEST_STEMMED else _stem_kept(word)


@_kept
def stems(text: str) -> tuple[str, ...]:
    """Returns the stems of the words of a text."""
    return tuple(map(stem, tokens(text)))


@_kept
def glued_tokens(text: str) -> Glued:
    """Returns the words of a text, and for each whether it only qualifies the next.

    That is a word in the possessive ("can's") and one with a hyphen and another word behind it ("cat" in "cat-like",
    "red" in "red-tailed").
    """
    words: list[str] = []
    glued: list[bool] = []
    start = 0
    for match in _GLUE.finditer(text):
        part = tokens(text[start : match.end()])
        words.extend(part)
        glued.extend([False] * (len(part) - 1) + [True] * min(1, len(part)))
        start = match.end()
    rest = tokens(text[start:])
    return (*words, *rest), (*glued, *[False] * len(rest))
