"""Measures of pairs, each different pair computed once."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from taxtune.metrics.registry import FloatArray, Images, Measure, MeasureSettings, Questions, Texts, check_texts
from taxtune.progress import track

__all__ = [
    "EMPTY_ANSWER",
    "NO_NUMBER",
    "Advance",
    "Notes",
    "Pair",
    "PairsMeasure",
    "version_of",
]

Pair = tuple[str, str]
Advance = Callable[[int], None]

EMPTY_ANSWER = "Pairs with an empty answer, which score 0: {n}."
EMPTY_REFERENCE = "Pairs left unscored because the reference is empty: {n}."
NO_NUMBER = "Pairs left unscored because the model returned no number: {n}."
_MAX_CHARACTERS = 100_000


class Notes:
    """Sentences with a number in them: how often something happened, or to how many different texts."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._texts: dict[str, set[int]] = {}

    def count(self, sentence: str, times: int = 1) -> None:
        """Counts an event, under a sentence with {n} where the number goes."""
        self._times[sentence] += times

    def mark(self, sentence: str, text: str) -> None:
        """Counts a text once, however often it occurs."""
        self._texts.setdefault(sentence, set()).add(hash(text))

    def sentences(self) -> tuple[str, ...]:
        """The sentences with their numbers, without those that are 0."""
        counts = {**self._times, **{sentence: len(texts) for sentence, texts in self._texts.items()}}
        return tuple(sentence.replace("{n}", f"{number:,}") for sentence, number in counts.items() if number)


class PairsMeasure(Measure):
    """A measure that computes the scores of different pairs: write `compute`.

    An answer that is empty scores 0, the score of unrelated texts; a pair with an empty reference is unscored (NaN),
    and so is one for which the model gives no number. All are counted in `notes`.
    """

    def __init__(self, settings: MeasureSettings, *, model: str | None = None) -> None:
        super().__init__(None if model is None else f"{self.kind.kind}:{model}")
        self.settings = settings
        self._notes = Notes()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the scores computed so far."""
        return self._notes.sentences()

    @abstractmethod
    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """The scores of different pairs of prepared texts, NaN where there is no number; `advance` counts pairs."""

    def prepared(self, text: str) -> str:
        """A text as it is compared: stripped, at most 100,000 characters, no halves of surrogate pairs."""
        return text.strip()[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")

    def is_empty(self, text: str) -> bool:
        """Tells whether a text has nothing to compare."""
        return not text.strip()

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts in the notes the texts that are cut."""

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer against its reference, shape (n,).

        Raises:
            ModelError: If the model cannot be loaded or run.
        """
        check_texts(answers, references)
        scores = np.full(len(answers), np.nan)
        rows: dict[Pair, list[int]] = {}
        for row, (answer, reference) in enumerate(zip(answers, references, strict=True)):
            if self.is_empty(reference):
                self._notes.count(EMPTY_REFERENCE)
            elif self.is_empty(answer):
                self._notes.count(EMPTY_ANSWER)
                scores[row] = 0.0
            else:
                rows.setdefault((self.prepared(answer), self.prepared(reference)), []).append(row)
        pairs = list(rows)
        self.note_pairs(pairs)
        with track(self.label, len(pairs)) as task:
            computed = self.compute(pairs, task.advance).tolist() if pairs else []
        for pair, score in zip(pairs, computed, strict=True):
            scores[rows[pair]] = score
            self._notes.count(NO_NUMBER, len(rows[pair]) * (score != score))
        return scores

    def matrix(self, answers: Texts, references: Texts, images: Images = None) -> FloatArray:
        """Every answer's score against every reference, shape (answers, references); each different text once.

        Raises:
            ModelError: If the model cannot be loaded or run.
        """
        check_texts(answers, references, paired=False)
        table = np.full((len(answers), len(references)), np.nan)
        columns = [i for i, reference in enumerate(references) if not self.is_empty(reference)]
        rows: dict[str, list[int]] = {}
        for row, answer in enumerate(answers):
            if self.is_empty(answer):
                table[row, columns] = 0.0
            else:
                rows.setdefault(self.prepared(answer), []).append(row)
        empty = len(answers) - sum(map(len, rows.values()))
        self._notes.count(EMPTY_ANSWER, empty * len(columns))
        self._notes.count(EMPTY_REFERENCE, len(answers) * (len(references) - len(columns)))
        if rows and columns:
            computed = self.table(list(rows), [self.prepared(references[i]) for i in columns])
            for same, values in zip(rows.values(), computed, strict=True):
                table[np.ix_(same, columns)] = values
        self._notes.count(NO_NUMBER, int(np.isnan(table[:, columns]).sum()))
        return table

    def table(self, answers: Sequence[str], references: Sequence[str]) -> FloatArray:
        """The scores of different prepared answers against prepared references, shape (answers, references)."""
        table = np.empty((len(answers), len(references)))
        for row, answer in enumerate(answers):
            pairs = [(answer, reference) for reference in references]
            self.note_pairs(pairs)
            table[row] = self.compute(pairs, lambda done: None)
        return table


def version_of(module: Any) -> str:
    """A library with its major and minor version."""
    return f"{module.__name__} {'.'.join(str(module.__version__).split('.')[:2])}"
