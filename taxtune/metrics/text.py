"""String measures: exact match, contained, BLEU-2, ROUGE-1, METEOR (paper 1, §10) and text inclusion (paper 2).

All compare words as `taxtune.metrics.words` makes them. An answer without words, such as an empty one, shares nothing
with any reference and scores 0; a reference without words can be compared with nothing, so its pairs are unscored (NaN)
and counted in `notes`. A failed call, which gave no answer at all, is the caller's to leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.base import Identity
from taxtune.metrics.registry import measure
from taxtune.metrics.string_measure import StringMeasure, Words, package_version
from taxtune.metrics.words import Glued, glued_tokens, stems

__all__ = ["Bleu", "Contained", "ExactMatch", "LiteralInclusion", "Rouge", "TextInclusion"]

FloatArray = NDArray[np.float64]


@measure(
    "exact-match",
    label="EM",
    summary="answer and reference are the same words, stemmed",
    source="paper 1, §10",
)
class ExactMatch(StringMeasure):
    """Exact match: 1 if answer and reference are the same stems in the same order, else 0."""

    stemmed = True

    def _score(self, answer: str, reference: str) -> float:
        return float(self.words(answer) == self.words(reference))


class _Inclusion(StringMeasure):
    """Whether the reference's words stand in the answer in a row; unless stemmed, as a phrase of their own."""

    def _parts(self, text: str) -> Glued:
        if self.stemmed:
            words = stems(text)
            return words, (False,) * len(words)
        return glued_tokens(text)

    def _score(self, answer: str, reference: str) -> float:
        words, glued = self._parts(answer)
        wanted, wanted_glued = self._parts(reference)
        return float(_includes(words, glued, wanted, wanted_glued[-1]))


def _includes(words: Words, glued: Sequence[bool], wanted: Words, may_be_glued: bool) -> bool:
    """Tells whether `wanted` stands in `words`, ending at a word that is not glued to the next."""
    text, phrase = f" {' '.join(words)} ", f" {' '.join(wanted)} "
    place = text.find(phrase)
    if place < 0 or may_be_glued:
        return place >= 0
    ends = np.cumsum([len(word) + 1 for word in words])
    while place >= 0:
        # The phrase ends with the space behind its last word.
        last = int(np.searchsorted(ends, place + len(phrase) - 1))
        if not glued[last]:
            return True
        place = text.find(phrase, place + 1)
    return False


@measure(
    "contained",
    label="Contained",
    summary="the answer contains the reference's words in order, stemmed",
    source="paper 1, §10",
)
class Contained(_Inclusion):
    """Contained: 1 if the reference's stems stand in the answer in a row, else 0."""

    stemmed = True


@measure("text-inclusion", label="TI", summary="the answer contains the reference as whole words", source="paper 2")
class TextInclusion(_Inclusion):
    """Text inclusion on word boundaries: 1 if the reference is in the answer as a phrase of its own.

    Words are equal as a whole, unstemmed, hyphens and spaces alike: "cat" is not in "caterpillar". The phrase must not
    qualify what is joined to it: a word in the possessive is another word, and one with a hyphen and a word behind it
    ends no phrase, so that "can" is not in "trash can's canopy", nor "cat" in "cat-like". What grammar alone could
    tell is not told: "can" is in "trash can" and in "can opener", and "cat" is not in "cats".
    """


@measure(
    "text-inclusion-literal",
    label="TI (literal)",
    summary="the answer contains the reference as a substring, even inside a word",
    source="paper 2",
)
class LiteralInclusion(StringMeasure):
    """Text inclusion as published: 1 if the reference is a substring of the answer, in any letter case."""

    def comparable(self, reference: str) -> bool:
        """Tells whether a reference holds anything but blanks."""
        return bool(reference.strip())

    def parts_of_answer(self, answer: str) -> Collection[str]:
        """Returns nothing to tell texts apart by: letters may stand inside of words."""
        return ("",)

    def parts_of_reference(self, reference: str) -> Collection[str]:
        """Returns the same for every reference."""
        return ("",)

    def _score(self, answer: str, reference: str) -> float:
        return float(reference.strip().lower() in answer.lower())


@measure("bleu-2", label="BLEU", summary="precision of words and word pairs, smoothed, stemmed", source="paper 1, §10")
class Bleu(StringMeasure):
    """BLEU-2 of stems, in [0, 1]; pairs have one added to matched and total counts (Lin and Och, 2004)."""

    stemmed = True

    def identity(self) -> Identity:
        """Returns the name, the stemmer, the smoothing and nltk's version."""
        return super().identity() | {"smoothing": "method2", "bleu": f"nltk {package_version('nltk')}"}

    @cached_property
    def _smoothing(self) -> Callable[..., Any]:
        from nltk.translate.bleu_score import SmoothingFunction

        method: Callable[..., Any] = SmoothingFunction().method2
        return method

    def _score(self, answer: str, reference: str) -> float:
        words, wanted = self.words(answer), self.words(reference)
        if not set(words) & set(wanted):
            return 0.0
        from nltk.translate.bleu_score import sentence_bleu

        # An answer of one word has no pair of words: its precision is that of the word, as sacrebleu has it.
        weights = (1.0,) if len(words) == 1 else (0.5, 0.5)
        return float(sentence_bleu([wanted], words, weights=weights, smoothing_function=self._smoothing))


class _Splitter:
    """The words of this module for rouge-score, which would drop all letters but a to z."""

    def tokenize(self, text: str) -> Words:
        return stems(text)


@measure(
    "rouge-1", label="ROUGE", summary="share of the reference's words in the answer, stemmed", source="paper 1, §10"
)
class Rouge(StringMeasure):
    """ROUGE-1 recall, in [0, 1]: the share of the reference's stems that the answer has, repeats counted."""

    stemmed = True

    def identity(self) -> Identity:
        """Returns the name, the stemmer and the version of rouge-score."""
        return super().identity() | {"rouge": f"rouge-score {package_version('rouge-score')}"}

    @cached_property
    def _scorer(self) -> Any:
        from rouge_score.rouge_scorer import RougeScorer

        return RougeScorer(["rouge1"], tokenizer=_Splitter())

    def _score(self, answer: str, reference: str) -> float:
        if not set(self.words(answer)) & set(self.words(reference)):
            return 0.0
        return float(self._scorer.score(reference, answer)["rouge1"].recall)
