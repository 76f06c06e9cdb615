"""A measure of the tests' own: the share of the reference's words that the answer has."""

from __future__ import annotations

import numpy as np

from taxtune.metrics.registry import Measure

__all__ = ["UNSCORED", "Words"]

#: An answer that holds this word is left unscored.
UNSCORED = "unscorable"


class Words(Measure):
    """Counts in `calls` how many pairs it has scored."""

    calls = 0

    @property
    def notes(self):
        return ("counts words",)

    def scores(self, answers, references, *, questions=None):
        Words.calls += len(answers)
        pairs = zip(answers, references, strict=True)
        return np.array([self._share(answer, reference) for answer, reference in pairs])

    def _share(self, answer, reference):
        said = set(answer.lower().split())
        words = reference.lower().split()
        return np.nan if UNSCORED in said else sum(word in said for word in words) / len(words)
