"""Agreement with several people's answers: VQA accuracy, its soft form, CIDEr and CIDEr-D.

VQA accuracy (Antol et al., 2015) of an answer with n references, each the answer of one person, is

    mean over i of  min(matches among the references without the i-th / 3, 1),

a match being equality after the benchmark's normalisation. The soft form (Hu et al., 2022, as paper
4 describes it) adds up max(0, 1 − CER) instead, with CER = edit distance / length of the reference.

CIDEr (Vedantam et al., 2015) is the mean, over n-grams of n = 1 to 4 words and over all references,
of the cosine of their counts, each weighed by log(number of documents / max(1, documents with it)),
where a document is all references of one answer. CIDEr-D does not stem, counts an n-gram no oftener
than the reference has it, and discounts answers of another length by a Gaussian of sigma = 6 words.
Both lie here in [0, 1]; papers print CIDEr-D times ten. The package pycocoevalcap has CIDEr-D
alone, with the same digits; it scores a pair that cannot be compared 0.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import version

import numpy as np
from rapidfuzz.distance import Levenshtein

from taxtune.metrics.base import FloatArray, Identity, ManyReferencesMeasure, Questions, Texts
from taxtune.metrics.registry import MEASURES
from taxtune.metrics.text import Words, stems, tokens
from taxtune.progress import track_each

__all__ = [
    "Cider",
    "CiderD",
    "SoftVQAMeasure",
    "VQAMeasure",
    "character_similarity",
    "normalise_answer",
]


# -- VQA accuracy ----------------------------------------------------------------------------------

_ENOUGH = 3
_FEW = "{n} of the answers have only two or three references, so their score cannot reach 1."
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_ARTICLES = frozenset({"a", "an", "the"})
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS)} | {"none": "0"}
_SUBJECTS = (
    "he she it that there they we you i who what where how why when let someone something everyone "
    "somebody"  # wording: data
)
_NEGATED = "are could did does do had has have is may might must need ought should was were would"
_WITH_HAVE = "could might must should would"
_OTHER_CONTRACTIONS = ("can't", "won't", "shan't", "ain't", "o'clock", "ma'am", "y'all", "i'm")
_NOT_WRITTEN = ("i's", "i're", "he're")
# Without its apostrophe, a contraction of these is another word.
_WORDS = frozenset(
    ["were", "well", "shed", "wed", "ill", "its", "hell", "shell", "id", "lets", "whore"]
)


def _contractions() -> dict[str, str]:
    """Returns contractions by their spelling without the apostrophe, unless that is a word."""
    written = {*_OTHER_CONTRACTIONS}
    written.update(f"{word}n't" for word in _NEGATED.split())
    written.update(f"{word}'ve" for word in _WITH_HAVE.split())
    for ending in ("s", "d", "ll", "ve", "re"):
        written.update(f"{word}'{ending}" for word in _SUBJECTS.split())
    written.difference_update(_NOT_WRITTEN)
    spelled = {text.replace("'", ""): text for text in sorted(written)}
    return {bare: text for bare, text in spelled.items() if bare not in _WORDS}


_CONTRACTIONS = _contractions()


def normalise_answer(text: str) -> str:
    """Returns an answer in the form in which the VQA benchmark compares answers.

    Lower case, figures for number words, no articles, contractions with their apostrophe;
    punctuation but for the apostrophe and the colon is dropped where it stands beside a space or
    the text has a thousands comma, and is a space elsewhere. The benchmark's script skips this
    where all references are the same; here it is always done.
    """
    original = text.replace("\n", " ").replace("\t", " ").strip()
    has_thousands = re.search(r"\d,\d", original) is not None
    text = original
    for mark in _PUNCTUATION:
        # In the text as it came: a mark is not beside a space that another mark has become.
        is_dropped = has_thousands or f"{mark} " in original or f" {mark}" in original
        text = text.replace(mark, "" if is_dropped else " ")
    text = re.sub(r"\.(?!\d)", "", text)
    words = []
    for word in text.lower().split():
        word = _NUMBER_WORDS.get(word, word)
        if word not in _ARTICLES:
            words.append(_CONTRACTIONS.get(word, word))
    return " ".join(words)


def character_similarity(answer: str, reference: str) -> float:
    """Returns max(0, 1 − CER), in [0, 1]; 0 where the reference alone is empty."""
    if not reference:
        return float(not answer)
    distance = Levenshtein.distance(answer, reference, score_cutoff=len(reference))
    return max(0.0, 1.0 - distance / len(reference))


class VQAMeasure(ManyReferencesMeasure):
    """VQA accuracy, in [0, 1]."""

    kind = MEASURES["vqa-accuracy"]
    consensus = True

    def likeness(self, answer: str, reference: str) -> float:
        """Returns 1 for equal normalised texts, else 0."""
        return float(answer == reference)

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], *, questions: Questions = None
    ) -> FloatArray:
        """Returns the accuracy of each answer with all its references, shape (n,); NaN without."""
        normalised = lru_cache(maxsize=100_000)(normalise_answer)
        scores = np.full(len(answers), np.nan)
        for i, (answer, own) in enumerate(zip(answers, references, strict=True)):
            if not own:
                continue
            if len(own) in (2, 3):
                self._notes.count(_FEW)
            text = normalised(answer)
            values = np.array([self.likeness(text, normalised(reference)) for reference in own])
            if len(values) > 1:
                values = np.minimum((values.sum() - values) / _ENOUGH, 1.0)
            scores[i] = values.mean()
        return scores


class SoftVQAMeasure(VQAMeasure):
    """Soft VQA accuracy, in [0, 1]."""

    kind = MEASURES["soft-vqa-accuracy"]

    def likeness(self, answer: str, reference: str) -> float:
        """Returns the similarity in spelling of two normalised texts, in [0, 1]."""
        return character_similarity(answer, reference)


# -- CIDEr -----------------------------------------------------------------------------------------

_LONGEST = 4
_SIGMA = 6.0
_NO_WORDS = "{n} pairs unscored: the reference has no words."
_NO_WEIGHT = (
    "{n} pairs unscored: every n-gram of the reference is in the references of every answer and so "
    "has weight 0; CIDEr needs answers with different references, scored together."
)

Gram = tuple[str, ...]
Weight = Callable[[Gram], float]


@dataclass(frozen=True, slots=True)
class _Vector:
    """A text as CIDEr compares it.

    Attributes:
        length: Its words.
        grams: For each n, the weight of each n-gram times its count, where that is not 0.
        norms: For each n, the norm of these.
    """

    length: int
    grams: list[dict[Gram, float]]
    norms: list[float]


class Cider(ManyReferencesMeasure):
    """CIDEr of stems, in [0, 1].

    The documents are the references of the answers that are scored in one call, or those given to
    `fit`. A reference that weighs nothing, since all its n-grams stand in every document or it has
    no words, can be compared with nothing: its pair is unscored, and counted in `notes`. An answer
    that weighs nothing scores 0.
    """

    kind = MEASURES["cider"]
    consensus = True
    _fitted: Weight | None = None
    _documents = "the references scored together"

    def identity(self) -> Identity:
        """Returns the name, the stemmer and the documents of the weights."""
        return {
            "measure": self.name,
            "stemmer": f"nltk {version('nltk')} Porter",
            "documents": self._documents,
        }

    def fit(self, references: Sequence[Sequence[str]]) -> None:
        """Weighs n-grams by these references, whatever is scored together later.

        Args:
            references: One sequence for each document.
        """
        content = repr([list(document) for document in references]).encode("utf-8", "surrogatepass")
        self._fitted = self._weights(references)
        self._documents = f"sha256:{sha256(content).hexdigest()[:16]}"

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], *, questions: Questions = None
    ) -> FloatArray:
        """Returns the mean similarity of each answer with its references, shape (n,).

        References that cannot be compared are left out; NaN without any.
        """
        weight = self._fitted or self._weights(references)
        vector = cache(lambda text: self._vector(text, weight))
        scores = np.full(len(answers), np.nan)
        rows = list(enumerate(zip(answers, references, strict=True)))
        for i, (answer, own) in track_each(rows, self.label):
            compared = [vector(text) for text in own if self._is_comparable(vector(text))]
            if compared:
                total = sum(self._similarity(vector(answer), other) for other in compared)
                scores[i] = total / len(compared)
        return scores

    def matrix(self, answers: Texts, references: Texts) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        Unless `fit` was called, each reference is a document, so that the answers have no part in
        the weights.
        """
        weight = self._fitted or self._weights([[text] for text in references])
        table = np.full((len(answers), len(references)), np.nan)
        vectors = [self._vector(reference, weight) for reference in references]
        for i, answer in enumerate(answers):
            own = self._vector(answer, weight)
            for j, other in enumerate(vectors):
                if self._is_comparable(other):
                    table[i, j] = self._similarity(own, other)
        return table

    def _words(self, text: str) -> Words:
        return stems(text)

    def _matched(self, own: float, wanted: float) -> float:
        """Returns the value of an answer's n-gram that the reference has with the value `wanted`."""
        return own

    def _discount(self, difference: int) -> float:
        """Returns the share of its score that an answer of another length keeps."""
        return 1.0

    def _grams(self, text: str) -> list[Counter[Gram]]:
        """Returns the n-grams of a text for each n."""
        words = self._words(text)
        counts = []
        for n in range(1, _LONGEST + 1):
            counts.append(Counter(words[i : i + n] for i in range(len(words) - n + 1)))
        return counts

    def _weights(self, references: Sequence[Sequence[str]]) -> Weight:
        """Returns the inverse document frequency of an n-gram, at least 0.

        Documents without words do not count.
        """
        n = 0
        documents_with: Counter[Gram] = Counter()
        for texts in references:
            document: set[Gram] = set()
            for text in texts:
                document.update(*self._grams(text))
            documents_with.update(document)
            n += bool(document)
        return lambda gram: math.log(max(1, n) / max(1, documents_with[gram]))

    def _vector(self, text: str, weight: Weight) -> _Vector:
        counted = self._grams(text)
        grams = []
        norms = []
        for counts in counted:
            values = {gram: count * weight(gram) for gram, count in counts.items()}
            values = {gram: value for gram, value in values.items() if value}
            grams.append(values)
            squares = sum(value * value for value in values.values())
            norms.append(math.sqrt(squares))
        length = counted[0].total()
        return _Vector(length=length, grams=grams, norms=norms)

    def _is_comparable(self, reference: _Vector) -> bool:
        if any(reference.norms):
            return True
        self._notes.count(_NO_WEIGHT if reference.length else _NO_WORDS)
        return False

    def _similarity(self, answer: _Vector, reference: _Vector) -> float:
        total = 0.0
        for n in range(_LONGEST):
            norms = answer.norms[n] * reference.norms[n]
            if not norms:
                continue
            own = answer.grams[n]
            wanted = reference.grams[n]
            smaller = own if len(own) < len(wanted) else wanted
            product = 0.0
            for gram in smaller:
                if gram in own and gram in wanted:
                    product += self._matched(own[gram], wanted[gram]) * wanted[gram]
            total += product / norms
        discount = self._discount(answer.length - reference.length)
        return min(total / _LONGEST, 1.0) * discount


class CiderD(Cider):
    """CIDEr-D, in [0, 1]: a tenth of the printed value."""

    kind = MEASURES["cider-d"]

    def identity(self) -> Identity:
        """Returns the name and the documents of the weights."""
        return {**super().identity(), "stemmer": None}

    def _words(self, text: str) -> Words:
        return tokens(text)

    def _matched(self, own: float, wanted: float) -> float:
        return min(own, wanted)

    def _discount(self, difference: int) -> float:
        return math.exp(-(difference**2) / (2 * _SIGMA**2))
