"""What the string measures share: words, pairs compared once, references without words left unscored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.base import Identity, MeasureSettings, PairwiseMeasure
from taxtune.metrics.words import stems, tokens

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["StringMeasure", "Words", "check_texts", "package_version"]

FloatArray = NDArray[np.float64]
Words = tuple[str, ...]

# Pairs between two reports of progress.
_REPORTED = 10_000


class StringMeasure(PairwiseMeasure):
    """A measure of two texts that is 0 where the answer has no words.

    Args:
        name: The specification.
        label: As the papers print it.
        settings: Who is told of progress.
        stemmed: Whether words are compared by their stems.
    """

    def __init__(self, name: str, label: str, settings: MeasureSettings, *, stemmed: bool = False) -> None:
        super().__init__(name, label)
        self._on_progress: Callable[[int, int], None] | None = settings.on_progress
        self._stemmed = stemmed
        self._wordless = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Says how many pairs had a reference without words."""
        if not self._wordless:
            return ()
        plural = "" if self._wordless == 1 else "s"
        return (f"{self.name}: {self._wordless:,} pair{plural} unscored, since the reference holds no word.",)

    def identity(self) -> Identity:
        """Returns the name, and the stemmer with its version where words are stemmed."""
        return {"measure": self.name, "stemmer": f"nltk {package_version('nltk')} Porter" if self._stemmed else None}

    def words(self, text: str) -> Words:
        """Returns what is compared of a text."""
        return stems(text) if self._stemmed else tokens(text)

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,); equal pairs are compared once.

        Raises:
            ValueError: If there are not as many answers as references.
            TypeError: If one of them is no text.
        """
        check_texts(answers, references)
        if len(answers) != len(references):
            raise ValueError(f"{len(answers)} answers and {len(references)} references; there must be as many")
        known: dict[tuple[str, str], float] = {}
        found = np.empty(len(answers))
        for i, pair in enumerate(zip(answers, references, strict=True)):
            if pair not in known:
                known[pair] = self._pair(*pair)
            found[i] = known[pair]
            if self._on_progress is not None and ((i + 1) % _REPORTED == 0 or i + 1 == len(found)):
                self._on_progress(i + 1, len(found))
        self._wordless += int(np.isnan(found).sum())
        return found

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        Work is done only for pairs that share something, and once for texts that repeat.

        Raises:
            TypeError: If one of them is no text.
        """
        check_texts(answers, references)
        rows, row = np.unique(np.array([*answers, None], dtype=object)[:-1], return_inverse=True)
        columns, column = np.unique(np.array([*references, None], dtype=object)[:-1], return_inverse=True)
        some = np.array([self.comparable(text) for text in columns.tolist()], dtype=bool)
        table = np.full((len(rows), len(columns)), np.nan)
        if some.any() and len(rows):
            table[:, some] = self._table(rows.tolist(), columns[some].tolist())
        found: FloatArray = table[np.ix_(row, column)]
        self._wordless += int(np.isnan(found).sum())
        return found

    def comparable(self, reference: str) -> bool:
        """Tells whether a reference holds anything to compare an answer with."""
        return bool(self.words(reference))

    def _pair(self, answer: str, reference: str) -> float:
        if not self.comparable(reference):
            return float("nan")
        return self._score(answer, reference)

    @abstractmethod
    def _score(self, answer: str, reference: str) -> float:
        """Returns the score of one pair whose reference has words."""

    @abstractmethod
    def _table(self, answers: list[str], references: list[str]) -> FloatArray:
        """Returns the scores of distinct answers against distinct references that have words."""


def check_texts(*lists: Sequence[str]) -> None:
    """Raises TypeError unless each is a list of texts."""
    for texts in lists:
        if isinstance(texts, str):
            raise TypeError("answers and references are lists of texts, not one text")
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"answers and references are texts, not {text!r}; leave out what is missing")


@lru_cache(maxsize=8)
def package_version(package: str) -> str:
    """Returns the installed version of a package."""
    from importlib.metadata import version

    return version(package)
