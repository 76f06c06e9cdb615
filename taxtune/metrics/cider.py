"""CIDEr: how far an answer agrees with what people say, rare words first (Vedantam et al., 2015; paper 4's baseline).

Answer and reference are counts of their n-grams, of one to four words, each weighed by its inverse document frequency:

    weight(g) = log(number of documents / max(1, documents with g)),

where a document is all references of one answer. For each n the two vectors have a cosine; the score is the mean over
the four n and over all references. CIDEr-D, of the same paper, hardens this against answers written for the score: it
does not stem, counts an n-gram no oftener than the reference has it, and discounts answers of another length by a
Gaussian of sigma = 6 words. Both lie here in [0, 1]; papers print CIDEr-D times ten.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.metrics.base import (
    FloatArray,
    Identity,
    ManyReferencesMeasure,
    MeasureSettings,
    check_lengths,
    check_texts,
)
from taxtune.metrics.registry import measure
from taxtune.metrics.string_measure import Words, package_version
from taxtune.metrics.words import stems, tokens
from taxtune.progress import track

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Cider", "CiderD"]

_LONGEST = 4
_SIGMA = 6.0
# Pairs scored at a time, to bound the memory.
_CHUNK = 100_000


def _ngrams(words: Words, n: int) -> Iterable[Words]:
    return (words[i : i + n] for i in range(len(words) - n + 1))


class _Corpus:
    """How many documents have each n-gram; documents without a word are none.

    Args:
        documents: The words of all references of each answer.
    """

    def __init__(self, documents: Iterable[Iterable[Words]]) -> None:
        self.documents = 0
        self._with: Counter[Words] = Counter()
        for references in documents:
            found = {gram for words in references for n in range(1, _LONGEST + 1) for gram in _ngrams(words, n)}
            self.documents += bool(found)
            self._with.update(found)

    def weight(self, gram: Words) -> float:
        """Returns the inverse document frequency, at least 0; an n-gram of no document weighs as one of a single."""
        return math.log(max(1, self.documents) / max(1, self._with[gram]))


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Texts as weighed n-grams, of unit length for each n.

    Attributes:
        rows: A sparse matrix, shape (texts, n-grams of the references).
        lengths: Words of each text.
        weighty: Whether a text has any n-gram that weighs something.
    """

    rows: Any
    lengths: FloatArray
    weighty: NDArray[np.bool_]


@measure(
    "cider",
    label="CIDEr",
    summary="cosine of stemmed n-grams (n up to 4), weighted by how rare they are among all references",
    source="paper 4 (Vedantam et al., 2015)",
)
class Cider(ManyReferencesMeasure):
    """CIDEr of stems, in [0, 1].

    The documents are the references of the answers that are scored in one call, or those given to `fit`. A score
    therefore depends on what is scored beside it. A reference of which nothing weighs anything, as all n-grams stand in
    every document (or there is one document only), can be compared with nothing: its pair is unscored, as is that of a
    reference without words, and counted in `notes`. An answer of which nothing weighs anything scores 0.

    Args:
        model: None.
        settings: Who is told of progress.
    """

    consensus = True
    _robust = False

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__()
        self._fitted: tuple[_Corpus, str] | None = None
        self._wordless = self._weightless = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Says how many pairs are unscored, and why."""
        reasons = (
            (self._wordless, "the reference contains no words."),
            (
                self._weightless,
                "every n-gram of the reference is in the references of every answer and so has weight 0; CIDEr "
                "needs answers with different references, scored together.",
            ),
        )
        return tuple(
            f"{self.name}: {count:,} pair{'' if count == 1 else 's'} unscored: {reason}"
            for count, reason in reasons
            if count
        )

    def identity(self) -> Identity:
        """Returns the name, the stemmer where words are stemmed, and which documents give the weights."""
        return {
            "measure": self.name,
            "stemmer": None if self._robust else f"nltk {package_version('nltk')} Porter",
            "documents": "the references scored together" if self._fitted is None else self._fitted[1],
        }

    def fit(self, references: Sequence[Sequence[str]]) -> None:
        """Weighs n-grams by these references from now on, whatever is scored together.

        For callers that leave out or repeat answers, such as those that score equal pairs once.

        Args:
            references: All references of each answer, one sequence a document.

        Raises:
            DataError: If none of them holds a word.
        """
        corpus = _Corpus([list(map(self._words, given)) for given in references])
        if not corpus.documents:
            raise DataError(
                f"{self.label} needs references that contain words.", value=f"{len(references):,} documents"
            )
        content = repr([list(given) for given in references]).encode("utf-8", "surrogatepass")
        self._fitted = corpus, f"{corpus.documents}, sha256:{sha256(content).hexdigest()[:16]}"

    def scores_many(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the mean similarity of each answer with its references, shape (n,).

        Args:
            answers: Texts, n of them.
            references: The references of each, duplicates included: one document an answer.
            images: Not looked at.
            questions: Not looked at.

        Returns:
            Scores in [0, 1], over the references that can be compared; NaN where an answer has none.

        Raises:
            DataError: If there are not as many answers as lists of references.
            TypeError: If one of them is not text.
        """
        check_texts(answers, *references)
        check_lengths(answers, references)
        corpus = self._corpus(references)
        owner = np.repeat(np.arange(len(answers)), [len(given) for given in references])
        right_texts, right = _numbered([reference for given in references for reference in given])
        left_texts, left = _numbered(answers)
        wanted, asked = self._sides(corpus, left_texts, right_texts)
        similar = np.empty(len(owner))
        with track(self.label, len(owner)) as task:
            for start in range(0, len(owner), _CHUNK):
                part = slice(start, start + _CHUNK)
                a, b = left[owner[part]], right[part]
                products = np.asarray(asked.rows[a].multiply(wanted.rows[b]).sum(axis=1)).ravel()
                similar[part] = self._finished(products, asked.lengths[a] - wanted.lengths[b])
                task.advance(len(products))
        good = wanted.weighty[right]
        self._count(wanted, np.bincount(right, minlength=len(right_texts)))
        found = np.bincount(owner[good], minlength=len(answers))
        total = np.bincount(owner[good], similar[good], minlength=len(answers))
        scores = np.full(len(answers), np.nan)
        np.divide(total, found, out=scores, where=found > 0)
        return scores

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        Unless `fit` was called, each reference is a document, so that the answers have no part in the weights.

        Raises:
            TypeError: If one of them is not text.
        """
        check_texts(answers, references)
        wanted, asked = self._sides(self._corpus([[reference] for reference in references]), answers, references)
        table = np.empty((len(answers), len(references)))
        step = max(1, _CHUNK // max(1, len(references)))
        with track(self.label, table.size) as task:
            for start in range(0, len(answers), step):
                part = slice(start, start + step)
                products = (asked.rows[part] @ wanted.rows.T).toarray()
                table[part] = self._finished(products, np.subtract.outer(asked.lengths[part], wanted.lengths))
                task.advance(products.size)
        table[:, ~wanted.weighty] = np.nan
        self._count(wanted, np.full(len(references), len(answers)))
        return table

    def _words(self, text: str) -> Words:
        return tokens(text) if self._robust else stems(text)

    def _corpus(self, references: Sequence[Sequence[str]]) -> _Corpus:
        if self._fitted is not None:
            return self._fitted[0]
        return _Corpus([list(map(self._words, given)) for given in references])

    def _sides(self, corpus: _Corpus, answers: Sequence[str], references: Sequence[str]) -> tuple[_Vectors, _Vectors]:
        """Returns the vectors of references and answers; what no reference has is left out of the answers' rows."""
        columns: dict[tuple[Words, int], int] = {}
        wanted = self._vectors(references, corpus, columns, answers=False)
        return wanted, self._vectors(answers, corpus, columns, answers=True)

    def _vectors(
        self, texts: Sequence[str], corpus: _Corpus, columns: dict[tuple[Words, int], int], *, answers: bool
    ) -> _Vectors:
        from scipy.sparse import csr_array

        values: list[float] = []
        places: list[int] = []
        ends = [0]
        lengths, weighty = np.zeros(len(texts)), np.zeros(len(texts), dtype=bool)
        for row, text in enumerate(texts):
            words = self._words(text)
            lengths[row] = len(words)
            for n in range(1, _LONGEST + 1):
                counts = Counter(_ngrams(words, n))
                weights = {gram: corpus.weight(gram) for gram in counts}
                norm = math.sqrt(sum((count * weights[gram]) ** 2 for gram, count in counts.items()))
                weighty[row] |= norm > 0
                for gram, count in counts.items():
                    if not weights[gram]:
                        continue
                    # Clipping is a sum over occurrences: min(a, b) is how many of the first a are among the first b.
                    value = (weights[gram] if self._robust and answers else count * weights[gram]) / norm
                    for occurrence in range(count if self._robust else 1):
                        key = gram, occurrence
                        place = columns.get(key) if answers else columns.setdefault(key, len(columns))
                        if place is not None:
                            places.append(place)
                            values.append(value)
            ends.append(len(places))
        shape = len(texts), max(1, len(columns))
        return _Vectors(csr_array((np.array(values), np.array(places, dtype=np.int64), ends), shape), lengths, weighty)

    def _finished(self, products: FloatArray, difference: FloatArray) -> FloatArray:
        """Returns the scores of pairs from the sums of their four products and their difference in words."""
        scores = np.minimum(products / _LONGEST, 1.0)
        if self._robust:
            scores *= np.exp(-(difference**2) / (2 * _SIGMA**2))
        return scores

    def _count(self, wanted: _Vectors, pairs: NDArray[np.int64]) -> None:
        """Counts the unscored pairs, given how many each reference is part of."""
        wordless = wanted.lengths == 0
        self._wordless += int(pairs[wordless].sum())
        self._weightless += int(pairs[~wordless & ~wanted.weighty].sum())


def _numbered(texts: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Returns the different texts, and which of them each is."""
    number: dict[str, int] = {}
    which = np.array([number.setdefault(text, len(number)) for text in texts], dtype=np.int64)
    return list(number), which


@measure(
    "cider-d",
    label="CIDEr-D",
    summary="CIDEr without stemming, with clipped counts and a length penalty; a tenth of pycocoevalcap's CIDEr",
    source="Vedantam et al., 2015",
)
class CiderD(Cider):
    """CIDEr-D, in [0, 1]: a tenth of what is printed."""

    _robust = True
