"""The offline default: TF-IDF over character n-grams, which sees shared words and near spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.errors import MapperError
from taxtune.mapping.normalize import fold_words
from taxtune.mapping.similarity.base import FloatMatrix

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["LexicalSimilarity"]


class LexicalSimilarity:
    """Cosine of TF-IDF vectors over character n-grams inside words, after folding (scikit-learn).

    Args:
        ngram_range: Shortest and longest character n-gram.
    """

    name = "lexical"
    needs_images = False
    #: What is spelt like a name has been read as one before a similarity is asked.
    confident = None

    def __init__(self, ngram_range: tuple[int, int] = (2, 4)) -> None:
        self.ngram_range = ngram_range
        self._vectorizer: Any = None
        self._names: Any = None

    def fit(self, names: Sequence[str]) -> None:
        """Takes in the names; about two seconds for 30,000."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(
            analyzer="char_wb", ngram_range=self.ngram_range, lowercase=False, sublinear_tf=True, dtype=np.float32
        )
        self._names = self._vectorizer.fit_transform([_folded(name) for name in names]).T.tocsr()

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns cosines in [0, 1], shape (answers, names); images are not looked at.

        Raises:
            MapperError: If `fit` has not been called.
        """
        if self._vectorizer is None:
            raise MapperError("The lexical similarity knows no names yet.", remedy="Call fit first.")
        product = self._vectorizer.transform([_folded(answer) for answer in answers]) @ self._names
        return np.asarray(product.toarray(), dtype=np.float32)


def _folded(text: str) -> str:
    # A name in a script without Latin letters folds to its own words; an empty one would make an empty vocabulary.
    return " ".join(fold_words(text)) or "∅"
