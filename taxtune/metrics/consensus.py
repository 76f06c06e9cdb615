"""Agreement with several people's answers: VQA accuracy and its soft form, CIDEr and CIDEr-D (paper 4's baselines).

VQA accuracy (Antol et al., 2015) of an answer with n references, each the answer of one person, is

    mean over i of  min(matches among the references without the i-th / 3, 1),

a match being equality after the benchmark's normalisation. The soft form (Hu et al., 2022, as paper 4 describes it)
adds up max(0, 1 − CER) instead, with CER = edit distance / length of the reference.

CIDEr (Vedantam et al., 2015) is the mean, over n-grams of n = 1 to 4 words and over all references, of the cosine of
their counts, each weighed by log(number of documents / max(1, documents with it)), where a document is all references
of one answer. CIDEr-D does not stem, counts an n-gram no oftener than the reference has it, and discounts answers of
another length by a Gaussian of sigma = 6 words. Both lie here in [0, 1]; papers print CIDEr-D times ten.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import version

import numpy as np
from rapidfuzz.distance import Levenshtein

from taxtune.metrics.base import (
    FloatArray,
    Identity,
    ManyReferencesMeasure,
    MeasureSettings,
    Notes,
    Questions,
    Texts,
)
from taxtune.metrics.registry import MEASURES
from taxtune.metrics.text import stems, tokens
from taxtune.progress import track_each

__all__ = [
    "Cider",
    "CiderD",
    "SoftVQAMeasure",
    "VQAMeasure",
    "character_similarity",
    "normalise_answer",
]

_LONGEST = 4
_SIGMA = 6.0

Gram = tuple[str, ...]
Weight = Callable[[Gram], float]
# The length of a text in words, and for each n its weighed n-grams with the norm of their vector.
Vector = tuple[int, list[tuple[dict[Gram, float], float]]]

_ENOUGH = 3
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_ARTICLES = frozenset({"a", "an", "the"})
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS)} | {"none": "0"}


def _contractions() -> dict[str, str]:
    """Contractions by their spelling without the apostrophe, unless that is another word ("were", "its")."""
    people = "he she it that there they we you i who what where how why when let someone something everyone"
    people += " somebody"  # wording: data
    negated = (
        "are could did does do had has have is may might must need ought should was were would"
    )
    written = {f"{word}n't" for word in negated.split()}
    written |= {f"{word}'{end}" for word in people.split() for end in ("s", "d", "ll", "ve", "re")}
    written -= {"i's", "i're", "he're"}
    written |= {f"{word}'ve" for word in ("could", "might", "must", "should", "would")}
    written |= {"can't", "won't", "shan't", "ain't", "o'clock", "ma'am", "y'all", "i'm"}
    words = {"were", "well", "shed", "wed", "ill", "its", "hell", "shell", "id", "lets", "whore"}
    return {
        text.replace("'", ""): text
        for text in sorted(written)
        if text.replace("'", "") not in words
    }


_CONTRACTIONS = _contractions()


def normalise_answer(text: str) -> str:
    """An answer in the form in which the VQA benchmark compares answers.

    Lower case, figures for number words, no articles, contractions with their apostrophe; punctuation but for the
    apostrophe and the colon is dropped where it stands beside a space or the text has a thousands comma, and is a space
    elsewhere. The benchmark's script skips this where all references are the same; here it is always done.
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
    """The similarity max(0, 1 − CER), in [0, 1]; 0 where the reference alone is empty."""
    distance = Levenshtein.distance(answer, reference, score_cutoff=len(reference))
    return max(0.0, 1.0 - distance / len(reference)) if reference else float(not answer)


class VQAMeasure(ManyReferencesMeasure):
    """VQA accuracy, in [0, 1]."""

    kind = MEASURES["vqa-accuracy"]
    consensus = True

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__()
        self._few = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """The number of answers with so few references that they cannot reach 1."""
        few = f"{self._few:,} of the answers have only two or three references, so their score cannot reach 1."
        return (few,) if self._few else ()

    def likeness(self, answer: str, reference: str) -> float:
        """1 for equal normalised texts, else 0."""
        return float(answer == reference)

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], *, questions: Questions = None
    ) -> FloatArray:
        """The accuracy of each answer with all its references, shape (n,); NaN where there is none."""
        normalised = lru_cache(maxsize=100_000)(normalise_answer)
        scores = np.full(len(answers), np.nan)
        for i, (answer, given) in enumerate(zip(answers, references, strict=True)):
            if not given:
                continue
            self._few += len(given) in (2, 3)
            values = np.array(
                [self.likeness(normalised(answer), normalised(reference)) for reference in given]
            )
            if len(values) > 1:
                values = np.minimum((values.sum() - values) / _ENOUGH, 1.0)
            scores[i] = values.mean()
        return scores


class SoftVQAMeasure(VQAMeasure):
    """Soft VQA accuracy, in [0, 1]."""

    kind = MEASURES["soft-vqa-accuracy"]

    def likeness(self, answer: str, reference: str) -> float:
        """The similarity in spelling of two normalised texts, in [0, 1]."""
        return character_similarity(answer, reference)


class Cider(ManyReferencesMeasure):
    """CIDEr of stems, in [0, 1].

    The documents are the references of the answers that are scored in one call, or those given to `fit`. A reference
    that weighs nothing, since all its n-grams stand in every document or it has no words, can be compared with nothing:
    its pair is unscored, and counted in `notes`. An answer that weighs nothing scores 0.
    """

    kind = MEASURES["cider"]
    consensus = True
    _robust = False

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__()
        self._fitted: tuple[Weight, str] | None = None
        self._notes = Notes()

    @property
    def notes(self) -> tuple[str, ...]:
        """The numbers of unscored pairs, with the reasons."""
        return self._notes.sentences()

    def identity(self) -> Identity:
        """The name, the stemmer where words are stemmed, and the documents of the weights."""
        return {
            "measure": self.name,
            "stemmer": None if self._robust else f"nltk {version('nltk')} Porter",
            "documents": "the references scored together"
            if self._fitted is None
            else self._fitted[1],
        }

    def fit(self, references: Sequence[Sequence[str]]) -> None:
        """Weighs n-grams by these references, one sequence for each document, whatever is scored together later."""
        content = repr([list(given) for given in references]).encode("utf-8", "surrogatepass")
        self._fitted = self._weights(references), f"sha256:{sha256(content).hexdigest()[:16]}"

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], *, questions: Questions = None
    ) -> FloatArray:
        """The mean similarity of each answer with the references that can be compared, shape (n,); NaN without any."""
        weight = self._weights(references) if self._fitted is None else self._fitted[0]
        vector = cache(lambda text: self._vector(text, weight))
        scores = np.full(len(answers), np.nan)
        rows = list(enumerate(zip(answers, references, strict=True)))
        for i, (answer, given) in track_each(rows, self.label):
            vectors = [wanted for wanted in map(vector, given) if self._comparable(wanted)]
            if vectors:
                scores[i] = sum(
                    self._similarity(vector(answer), wanted) for wanted in vectors
                ) / len(vectors)
        return scores

    def matrix(self, answers: Texts, references: Texts) -> FloatArray:
        """Every answer's score against every reference, shape (answers, references).

        Unless `fit` was called, each reference is a document, so that the answers have no part in the weights.
        """
        weight = (
            self._weights([[text] for text in references])
            if self._fitted is None
            else self._fitted[0]
        )
        table = np.full((len(answers), len(references)), np.nan)
        wanted = [self._vector(reference, weight) for reference in references]
        for i, answer in enumerate(answers):
            own = self._vector(answer, weight)
            table[i] = [
                self._similarity(own, other) if self._comparable(other) else np.nan
                for other in wanted
            ]
        return table

    def _grams(self, text: str) -> list[Counter[Gram]]:
        """The n-grams of a text for each n."""
        words = tokens(text) if self._robust else stems(text)
        return [
            Counter(words[i : i + n] for i in range(len(words) - n + 1))
            for n in range(1, _LONGEST + 1)
        ]

    def _weights(self, references: Sequence[Sequence[str]]) -> Weight:
        """The inverse document frequency of an n-gram, at least 0; documents without words do not count."""
        documents = [
            {gram for text in given for counts in self._grams(text) for gram in counts}
            for given in references
        ]
        n, having = (
            sum(map(bool, documents)),
            Counter(gram for grams in documents for gram in grams),
        )
        return lambda gram: math.log(max(1, n) / max(1, having[gram]))

    def _vector(self, text: str, weight: Weight) -> Vector:
        counted = self._grams(text)
        parts = []
        for counts in counted:
            weighed = {
                gram: value for gram, count in counts.items() if (value := count * weight(gram))
            }
            parts.append((weighed, math.sqrt(sum(value * value for value in weighed.values()))))
        return counted[0].total(), parts

    def _comparable(self, reference: Vector) -> bool:
        length, parts = reference
        if any(norm for _, norm in parts):
            return True
        reason = (
            "every n-gram of the reference is in the references of every answer and so has weight 0; CIDEr needs "
            "answers with different references, scored together."
        )
        self._notes.count(
            f"{{n}} pairs unscored: {reason if length else 'the reference has no words.'}"
        )
        return False

    def _similarity(self, answer: Vector, reference: Vector) -> float:
        total = 0.0
        for (left, left_norm), (right, right_norm) in zip(answer[1], reference[1], strict=True):
            if not left_norm or not right_norm:
                continue
            shared = (
                gram
                for gram in (left if len(left) < len(right) else right)
                if gram in left and gram in right
            )
            value = sum(
                (min(left[g], right[g]) if self._robust else left[g]) * right[g] for g in shared
            )
            total += value / (left_norm * right_norm)
        score = min(total / _LONGEST, 1.0)
        return (
            score * math.exp(-((answer[0] - reference[0]) ** 2) / (2 * _SIGMA**2))
            if self._robust
            else score
        )


class CiderD(Cider):
    """CIDEr-D, in [0, 1]: a tenth of the printed value."""

    kind = MEASURES["cider-d"]
    _robust = True
