"""VQA accuracy and its soft form: the share of annotators that an answer agrees with, three being enough.

VQA accuracy (Antol et al., 2015; paper 4, "Baselines") of an answer with n references, each the answer of one person,
is

    mean over i of  min(matches among the references without the i-th / 3, 1),

a match being equality after the benchmark's normalisation. The soft form (Hu et al., 2022, as paper 4 describes it)
adds up similarities instead of matches:

    similarity(answer, reference) = max(0, 1 − CER),  CER = edit distance / length of the reference,

which is 1 for equal texts. With a single reference VQA accuracy is equality, and soft VQA accuracy is the similarity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from rapidfuzz.distance import Levenshtein

from taxtune.metrics.base import FloatArray, Images, ManyReferencesMeasure, MeasureSettings, Questions, Texts

__all__ = ["SoftVQAMeasure", "VQAMeasure", "character_similarity", "normalise_answer"]

_ENOUGH = 3
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_ARTICLES = frozenset({"a", "an", "the"})
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS)} | {"none": "0"}
_MOST_CELLS = 4_000_000_000  # longest product of two lengths whose edit distance is computed


def _contractions() -> dict[str, str]:
    """Returns contractions by their spelling without the apostrophe, unless that is another word ("were", "its")."""
    people = "he she it that there they we you i who what where how why when somebody someone something everyone let"
    negated = "are could did does do had has have is may might must need ought should was were would"
    written = {f"{word}n't" for word in negated.split()}
    written |= {f"{word}'{end}" for word in people.split() for end in ("s", "d", "ll", "ve", "re")}
    written -= {"i's", "i're", "he're"}
    written |= {f"{word}'ve" for word in ("could", "might", "must", "should", "would")}
    written |= {"can't", "won't", "shan't", "ain't", "o'clock", "ma'am", "y'all", "i'm"}
    words = {"were", "well", "shed", "wed", "ill", "its", "hell", "shell", "id", "lets", "whore"}
    return {text.replace("'", ""): text for text in sorted(written) if text.replace("'", "") not in words}


_CONTRACTIONS = _contractions()


def normalise_answer(text: str) -> str:
    """Returns an answer in the form in which the VQA benchmark compares answers.

    Lower case; punctuation without the apostrophe and the colon is dropped where it stands beside a space anywhere in
    the text, or where the text holds a number with a thousands comma, and is a space elsewhere; full stops outside
    numbers are dropped; number words up to ten are figures and "none" is 0; articles are dropped; contractions get
    their apostrophe. The benchmark's own script skips all this where every reference is the same; here it is always
    done, so that "Red." equals ten times "red".
    """
    text = given = text.replace("\n", " ").replace("\t", " ").strip()
    thousands = re.search(r"\d,\d", text) is not None
    for mark in _PUNCTUATION:
        if mark in given:
            # In the text as it was given: a mark is not beside a space that another mark has become.
            beside = f"{mark} " in given or f" {mark}" in given
            text = text.replace(mark, "" if beside or thousands else " ")
    text = re.sub(r"\.(?!\d)", "", text)
    words = [_NUMBER_WORDS.get(word, word) for word in text.lower().split()]
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)


def character_similarity(answer: str, reference: str) -> float:
    """Returns max(0, 1 − CER), in [0, 1]; NaN for texts too long to compare, 0 for an empty reference alone."""
    if answer == reference:
        return 1.0
    # The distance is at least the difference of the lengths: no need to compute it for an essay.
    if not reference or abs(len(answer) - len(reference)) >= len(reference):
        return 0.0
    if len(answer) * len(reference) > _MOST_CELLS:
        return float("nan")
    return max(0.0, 1.0 - Levenshtein.distance(answer, reference) / len(reference))


class VQAMeasure(ManyReferencesMeasure):
    """VQA accuracy, in [0, 1]."""

    consensus = True

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__()
        self._few = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """The number of answers with so few references that they cannot reach 1."""
        few = f"{self._few:,} of the answers have only two or three references, so their score cannot reach 1."
        return (f"{self.label}: {few}",) if self._few else ()

    def likeness(self, answer: str, reference: str) -> float:
        """Returns the likeness of two normalised texts, in [0, 1]."""
        return float(answer == reference)

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the accuracy of each answer with all its references, shape (n,); NaN where there is none."""
        normalised = lru_cache(maxsize=100_000)(normalise_answer)
        scores = np.full(len(answers), np.nan)
        for i, (answer, given) in enumerate(zip(answers, references, strict=True)):
            if not given:
                continue
            self._few += len(given) in (2, 3)
            values = np.array([self.likeness(normalised(answer), normalised(reference)) for reference in given])
            if len(values) > 1:
                values = np.minimum((values.sum() - values) / _ENOUGH, 1.0)
            scores[i] = values.mean()
        return scores


class SoftVQAMeasure(VQAMeasure):
    """Soft VQA accuracy, in [0, 1]."""

    def likeness(self, answer: str, reference: str) -> float:
        """Returns the similarity in spelling of two normalised texts, in [0, 1]."""
        return character_similarity(answer, reference)
