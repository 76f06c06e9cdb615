"""A measure small enough to work out by hand, for tests of what uses measures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.registry import Measure, MeasureKind, MeasureSettings

#: An answer that holds this word is left unscored.
UNSCORED = "unscorable"


class Words(Measure):
    """The share of the reference's words that the answer has."""

    calls = 0

    @property
    def notes(self) -> tuple[str, ...]:
        return ("counts words",)

    def scores(
        self, answers: Sequence[str], references: Sequence[str], *, questions: Sequence[str] | None = None
    ) -> NDArray[np.float64]:
        Words.calls += len(answers)
        found = []
        for answer, reference in zip(answers, references, strict=True):
            said, asked = set(answer.lower().split()), reference.lower().split()
            found.append(np.nan if UNSCORED in said else sum(word in said for word in asked) / len(asked))
        return np.array(found)


def make(model: str | None, settings: MeasureSettings) -> Words:
    return Words("words", "Words")


KIND = MeasureKind("words", "Words", "share of the reference's words in the answer", "made up", make)
