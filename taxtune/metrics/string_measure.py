"""What the string measures share: words, and references without words, which are left unscored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.base import Identity, MeasureSettings, check_texts
from taxtune.metrics.model_pairs import Advance, Pair, PairsMeasure
from taxtune.metrics.words import stems, tokens

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["StringMeasure", "Words", "package_version"]

FloatArray = NDArray[np.float64]
Words = tuple[str, ...]


class StringMeasure(PairsMeasure):
    """A measure of two texts that is 0 where the answer has no words.

    Args:
        model: None.
        settings: Who is told of progress.
    """

    #: Whether words are compared by their stems.
    stemmed: ClassVar[bool] = False

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__(settings)
        self._wordless = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Says how many pairs had a reference without words."""
        if not self._wordless:
            return ()
        plural = "" if self._wordless == 1 else "s"
        return (f"{self.name}: {self._wordless:,} pair{plural} unscored: the reference contains no words.",)

    def identity(self) -> Identity:
        """Returns the name, and the stemmer with its version where words are stemmed."""
        return {"measure": self.name, "stemmer": f"nltk {package_version('nltk')} Porter" if self.stemmed else None}

    def words(self, text: str) -> Words:
        """Returns what is compared of a text."""
        return stems(text) if self.stemmed else tokens(text)

    def settle(self, answer: str, reference: str, scores: FloatArray, place: int) -> bool:
        """Leaves a pair unscored whose reference holds nothing to compare with."""
        wordless = not self.comparable(reference)
        self._wordless += wordless
        return wordless

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns the scores of pairs."""
        scores = np.empty(len(pairs))
        for i, pair in enumerate(pairs):
            scores[i] = self._score(*pair)
            advance(1)
        return scores

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        Only pairs that share something are compared, and texts that repeat once. Of 1,000 answers and 10,000 labels
        few pairs do.

        Raises:
            TypeError: If one of them is not text.
        """
        check_texts(answers, references)
        rows, row = np.unique(np.array([*answers, None], dtype=object)[:-1], return_inverse=True)
        columns, column = np.unique(np.array([*references, None], dtype=object)[:-1], return_inverse=True)
        table = np.zeros((len(rows), len(columns)))
        having: dict[str, list[int]] = {}
        for place, reference in enumerate(columns.tolist()):
            if not self.comparable(reference):
                table[:, place] = np.nan
            else:
                for part in self.parts_of_reference(reference):
                    having.setdefault(part, []).append(place)
        for line, answer in enumerate(rows.tolist()):
            found = {place for part in self.parts_of_answer(answer) for place in having.get(part, ())}
            for place in found:
                table[line, place] = self._score(answer, columns[place])
        scores: FloatArray = table[np.ix_(row, column)]
        self._wordless += int(np.isnan(scores).sum())
        return scores

    def parts_of_answer(self, answer: str) -> Collection[str]:
        """Returns what of an answer a reference must have a part of to score more than 0."""
        return set(self.words(answer))

    def parts_of_reference(self, reference: str) -> Collection[str]:
        """Returns the parts of a reference."""
        return set(self.words(reference))

    def comparable(self, reference: str) -> bool:
        """Tells whether a reference holds anything to compare an answer with."""
        return bool(self.words(reference))

    @abstractmethod
    def _score(self, answer: str, reference: str) -> float:
        """Returns the score of one pair whose reference has words."""


@lru_cache(maxsize=8)
def package_version(package: str) -> str:
    """Returns the installed version of a package."""
    from importlib.metadata import version

    return version(package)
