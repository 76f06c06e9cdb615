"""CIDEr: agreement with several people's answers, rare words first (Vedantam et al., 2015; paper 4's baseline).

Answer and reference are counts of their n-grams, of one to four words, each weighed by its inverse document frequency:

    weight(g) = log(number of documents / max(1, documents with g)),

where a document is all references of one answer. For each n the two vectors have a cosine; the score is the mean over
the four n and over all references. CIDEr-D, of the same paper, hardens this against answers written for the score: it
does not stem, counts an n-gram no oftener than the reference has it, and discounts answers of another length by a
Gaussian of sigma = 6 words. Both lie here in [0, 1]; papers print CIDEr-D times ten.

pycocoevalcap has CIDEr-D alone, on English tokens, and comes with 100 MB of Java archives, so the formula stands here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256

import numpy as np

from taxtune.errors import DataError
from taxtune.metrics.base import (
    FloatArray,
    Identity,
    Images,
    ManyReferencesMeasure,
    MeasureSettings,
    Questions,
    Texts,
    check_texts,
)
from taxtune.metrics.model_pairs import Notes
from taxtune.metrics.text import package_version
from taxtune.metrics.words import stems, tokens
from taxtune.progress import track_each

__all__ = ["Cider", "CiderD"]

_LONGEST = 4
_SIGMA = 6.0

Gram = tuple[str, ...]
# The length of a text in words, and for each n its weighed n-grams with the norm of their vector.
Vector = tuple[int, list[tuple[dict[Gram, float], float]]]


class Cider(ManyReferencesMeasure):
    """CIDEr of stems, in [0, 1].

    The documents are the references of the answers that are scored in one call, or those given to `fit`. A score
    therefore depends on the answers beside it. A reference whose n-grams all stand in every document (or there is one
    document only) weighs nothing and can be compared with nothing: its pair is unscored, as is that of a reference
    without words, and counted in `notes`. An answer that weighs nothing scores 0.
    """

    consensus = True
    _robust = False

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__()
        self._fitted: tuple[Callable[[Gram], float], str] | None = None
        self._notes = Notes()

    @property
    def notes(self) -> tuple[str, ...]:
        """The numbers of unscored pairs, with the reasons."""
        return self._notes.told()

    def identity(self) -> Identity:
        """Returns the name, the stemmer where words are stemmed, and the documents of the weights."""
        return {
            "measure": self.name,
            "stemmer": None if self._robust else f"nltk {package_version('nltk')} Porter",
            "documents": "the references scored together" if self._fitted is None else self._fitted[1],
        }

    def fit(self, references: Sequence[Sequence[str]]) -> None:
        """Weighs n-grams by these references from now on, whatever is scored together.

        For callers that leave out or repeat answers, such as those that score equal pairs once.

        Args:
            references: All references of each answer, one sequence for each document.

        Raises:
            DataError: If none of them holds a word.
        """
        documents, weight = self._weights(references)
        if not documents:
            raise DataError(
                f"{self.label} needs references that contain words.", value=f"{len(references):,} documents"
            )
        content = repr([list(given) for given in references]).encode("utf-8", "surrogatepass")
        self._fitted = weight, f"{documents}, sha256:{sha256(content).hexdigest()[:16]}"

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the mean similarity of each answer with its references, shape (n,), in [0, 1].

        The mean is over the references that can be compared; NaN where an answer has none.
        """
        check_texts(answers, [given if isinstance(given, str) else "" for given in references])
        for given in references:
            check_texts(given, (), paired=False)
        weight = self._weights(references)[1] if self._fitted is None else self._fitted[0]
        vector = cache(lambda text: self._vector(text, weight))
        scores = np.full(len(answers), np.nan)
        rows = list(enumerate(zip(answers, references, strict=True)))
        for i, (answer, given) in track_each(rows, self.label):
            vectors = [wanted for wanted in map(vector, given) if self._comparable(wanted)]
            if vectors:
                scores[i] = sum(self._similarity(vector(answer), wanted) for wanted in vectors) / len(vectors)
        return scores

    def matrix(self, answers: Texts, references: Texts, images: Images = None) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        Unless `fit` was called, each reference is a document, so that the answers have no part in the weights.
        """
        check_texts(answers, references, paired=False)
        fitted = self._fitted
        if fitted is None:
            self._fitted = self._weights([[reference] for reference in references])[1], "each reference"
        try:
            return super().matrix(answers, references)
        finally:
            self._fitted = fitted

    def _grams(self, text: str, n: int) -> Iterator[Gram]:
        words = tokens(text) if self._robust else stems(text)
        return (words[i : i + n] for i in range(len(words) - n + 1))

    def _weights(self, references: Sequence[Sequence[str]]) -> tuple[int, Callable[[Gram], float]]:
        """Returns the number of documents with words, and the inverse document frequency of an n-gram, at least 0."""
        documents, having = 0, Counter[Gram]()
        for given in references:
            found = {gram for text in given for n in range(1, _LONGEST + 1) for gram in self._grams(text, n)}
            documents += bool(found)
            having.update(found)
        return documents, lambda gram: math.log(max(1, documents) / max(1, having[gram]))

    def _vector(self, text: str, weight: Callable[[Gram], float]) -> Vector:
        parts = []
        for n in range(1, _LONGEST + 1):
            weighed = {gram: count * weight(gram) for gram, count in Counter(self._grams(text, n)).items()}
            weighed = {gram: value for gram, value in weighed.items() if value}
            parts.append((weighed, math.sqrt(sum(value * value for value in weighed.values()))))
        return sum(1 for _ in self._grams(text, 1)), parts

    def _comparable(self, reference: Vector) -> bool:
        length, parts = reference
        if any(norm for _, norm in parts):
            return True
        reason = "the reference contains no words."
        if length:
            reason = (
                "every n-gram of the reference is in the references of every answer and so has weight 0; CIDEr needs "
                "answers with different references, scored together."
            )
        self._notes.count(f"{self.name}: {{n}} pairs unscored: {reason}")
        return False

    def _similarity(self, answer: Vector, reference: Vector) -> float:
        total = 0.0
        for (left, left_norm), (right, right_norm) in zip(answer[1], reference[1], strict=True):
            if not left_norm or not right_norm:
                continue
            shared = (gram for gram in (left if len(left) < len(right) else right) if gram in left and gram in right)
            value = sum((min(left[g], right[g]) if self._robust else left[g]) * right[g] for g in shared)
            total += value / (left_norm * right_norm)
        score = min(total / _LONGEST, 1.0)
        return score * math.exp(-((answer[0] - reference[0]) ** 2) / (2 * _SIGMA**2)) if self._robust else score


class CiderD(Cider):
    """CIDEr-D, in [0, 1]: a tenth of the printed value."""

    _robust = True
