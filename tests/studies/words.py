"""A measure of the tests' own: the share of the reference's words that the answer has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.registry import Measure

__all__ = ["UNSCORED", "Words"]

#: An answer that holds this word is left unscored.
UNSCORED = "unscorable"


class Words(Measure):
    """Counts in `calls` how many pairs it has scored."""

    calls = 0

    @property
    def notes(self) -> tuple[str, ...]:
        return ("counts words",)

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        *,
        questions: Sequence[str] | None = None,
    ) -> NDArray[np.float64]:
        Words.calls += len(answers)
        pairs = zip(answers, references, strict=True)
        return np.array([self._share(answer, reference) for answer, reference in pairs])

    def _share(self, answer: str, reference: str) -> float:
        said = set(answer.lower().split())
        words = reference.lower().split()
        return np.nan if UNSCORED in said else sum(word in said for word in words) / len(words)
