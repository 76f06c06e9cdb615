"""VQA accuracy and its soft form: how many annotators' answers the answer is like, three being enough.

VQA accuracy (Antol et al., 2015; paper 4, "Baselines") of an answer with n references, each the answer of one person,
is

    mean over i of  min(matches among the references without the i-th / 3, 1),

a match being equality after the benchmark's normalisation. The soft form (Hu et al., 2022, as paper 4 describes it:
edit distance in the place of equality) adds up similarities in place of matches:

    similarity(answer, reference) = max(0, 1 − CER),  CER = edit distance / length of the reference,

which is 1 for equal texts. With a single reference there is nothing to leave out: VQA accuracy is equality, and soft
VQA accuracy is the similarity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from rapidfuzz.distance import Levenshtein

from taxtune.metrics.base import FloatArray, ManyReferencesMeasure, MeasureSettings
from taxtune.metrics.registry import measure

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "VQAMeasure",
    "character_similarity",
    "make_soft_vqa_accuracy",
    "make_vqa_accuracy",
    "normalise_answer",
    "vqa_accuracy",
]

_ENOUGH = 3
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_ARTICLES = frozenset({"a", "an", "the"})
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS)} | {"none": "0"}
# Longest product of two lengths whose edit distance is worked out; beyond it are no answers but files.
_MOST_CELLS = 4_000_000_000


def _contractions() -> dict[str, str]:
    """Returns what is often written without its apostrophe, and how it is written with it.

    What is another word without it ("were", "its", and "is" and "here", which are no i's and he're) is left out.
    """
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
    their apostrophe. The benchmark's own script leaves all this out where every reference is the same; here it is
    always done, so that "Red." equals ten times "red".

    Args:
        text: An answer or a reference.
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
    """Returns max(0, 1 − CER), in [0, 1]; NaN for texts too long to compare.

    Args:
        answer: A text.
        reference: A text; where it is empty the similarity is 1 for an empty answer and 0 for any other.
    """
    if answer == reference:
        return 1.0
    # The distance is at least the difference of the lengths: no need to work it out for an essay.
    if not reference or abs(len(answer) - len(reference)) >= len(reference):
        return 0.0
    if len(answer) * len(reference) > _MOST_CELLS:
        return float("nan")
    return max(0.0, 1.0 - Levenshtein.distance(answer, reference) / len(reference))


def vqa_accuracy(likeness: Sequence[float]) -> float:
    """Returns the accuracy of an answer from how like it is to each reference, in [0, 1].

    Args:
        likeness: 1 or 0 for a match or none, or a similarity in [0, 1], one a reference, at least one.
    """
    values = np.asarray(likeness, dtype=np.float64)
    if len(values) == 1:
        return float(values[0])
    return float(np.minimum((values.sum() - values) / _ENOUGH, 1.0).mean())


class VQAMeasure(ManyReferencesMeasure):
    """VQA accuracy with a likeness of two normalised texts.

    Args:
        name: The specification.
        label: As paper 4 prints it.
        likeness: Returns how like two normalised texts are, in [0, 1].
    """

    consensus = True

    def __init__(self, name: str, label: str, likeness: Callable[[str, str], float]) -> None:
        super().__init__(name, label)
        self._likeness = likeness
        self._few = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """How many answers had so few references that they cannot reach 1."""
        if not self._few:
            return ()
        return (
            f"{self.label}: {self._few:,} of the answers have only two or three references, so their score "
            f"cannot reach 1.",
        )

    def scores_many(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the accuracy of each answer with all its references, shape (n,); NaN where there is none.

        Args:
            answers: Texts, n of them.
            references: The references of each, duplicates included.
            images: Not looked at.
            questions: Not looked at.
        """
        normalised = lru_cache(maxsize=100_000)(normalise_answer)
        scores = np.full(len(answers), np.nan)
        for i, (answer, given) in enumerate(zip(answers, references, strict=True)):
            if given:
                self._few += len(given) in (2, 3)
                text = normalised(answer)
                scores[i] = vqa_accuracy([self._likeness(text, normalised(reference)) for reference in given])
        return scores


@measure(
    "vqa-accuracy",
    label="VQA accuracy",
    summary="share of annotators' answers that it equals; three are enough for 1",
    source="paper 4",
    factory=True,
)
def make_vqa_accuracy(model: str | None, settings: MeasureSettings) -> VQAMeasure:
    """Returns VQA accuracy."""
    return VQAMeasure("vqa-accuracy", "VQA accuracy", lambda answer, reference: float(answer == reference))


@measure(
    "soft-vqa-accuracy",
    label="soft VQA accuracy",
    summary="the same with similarity in spelling instead of equality",
    source="paper 4",
    factory=True,
)
def make_soft_vqa_accuracy(model: str | None, settings: MeasureSettings) -> VQAMeasure:
    """Returns soft VQA accuracy."""
    return VQAMeasure("soft-vqa-accuracy", "soft VQA accuracy", character_similarity)
