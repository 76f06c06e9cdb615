"""What measures of pairs share: equal pairs computed once, kept by content, counted where they cannot be scored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.metrics.base import (
    FloatArray,
    Identity,
    MeasureSettings,
    PairwiseMeasure,
    check_lengths,
    check_texts,
)
from taxtune.metrics.score_store import ScoreStore
from taxtune.progress import track

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Advance", "ModelMeasure", "Notes", "Pair", "PairsMeasure", "is_empty", "whole"]

Pair = tuple[str, str]
_MAX_CHARACTERS = 100_000
Advance = Callable[[int], None]


def is_empty(text: str) -> bool:
    """Tells whether a text has nothing but blanks."""
    return not text.strip()


def whole(text: str) -> str:
    """Returns what a model is given of a text: well-formed, without blanks around it, at most 100,000 characters.

    Halves of surrogate pairs, which no tokenizer takes, become question marks. No text model here reads more than some
    thousand tokens, so that what lies beyond the limit cannot change a score; it would only be tokenized for nothing.
    """
    return text.strip()[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


class Notes:
    """Sentences with a number in them: how often something happened, or to how many different texts."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._texts: dict[str, set[int]] = {}

    def count(self, sentence: str, times: int = 1) -> None:
        """Counts what happened, under a sentence with {n} where the number goes."""
        if times:
            self._times[sentence] = self._times.get(sentence, 0) + times

    def mark(self, sentence: str, text: str) -> None:
        """Counts a text once, however often it is met."""
        self._texts.setdefault(sentence, set()).add(hash(text))

    def told(self) -> tuple[str, ...]:
        """Returns the sentences with their numbers."""
        counts = {**self._times, **{sentence: len(texts) for sentence, texts in self._texts.items()}}
        return tuple(sentence.replace("{n}", f"{number:,}") for sentence, number in counts.items())


class PairsMeasure(PairwiseMeasure):
    """A measure that computes the scores of different pairs: subclass it and write `compute`.

    Equal pairs are computed once; where there is a store, scores are kept in it by content.

    Args:
        settings: Device, batches, caches.
        model: The model, for measures that have one.
        store: Where scores are kept, or None.
    """

    #: Pairs computed before their scores are kept.
    block = 1_000_000

    def __init__(self, settings: MeasureSettings, *, model: str | None = None, store: ScoreStore | None = None) -> None:
        super().__init__(None if model is None else f"{self.kind.kind}:{model}")
        self.settings = settings
        self._store = store
        self._notes = Notes()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the scores made so far."""
        return self._notes.told()

    @abstractmethod
    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns the scores of pairs, all different and unsettled; NaN where there is no number.

        Args:
            pairs: What `as_pair` made of answers and references.
            advance: To be called with how many more pairs are done.
        """

    def as_pair(self, answer: str, reference: str) -> Pair:
        """Returns what is compared of an answer and its reference."""
        return answer, reference

    def settle(self, answer: str, reference: str, scores: FloatArray, place: int) -> bool:
        """Scores a pair that need not be computed, and tells whether it did."""
        return False

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts what deserves a word about pairs, whether their scores are known or recomputed."""

    def store_identity(self) -> Identity:
        """Returns under what the scores are kept."""
        return self.identity()

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,); NaN is unscored.

        Raises:
            DataError: If there are not as many answers as references.
            TypeError: If one of them is not text.
            ModelError: If the model cannot be loaded or run.
        """
        check_texts(answers, references)
        check_lengths(answers, references)
        scores = np.full(len(answers), np.nan)
        places: dict[Pair, list[int]] = {}
        for place, (answer, reference) in enumerate(zip(answers, references, strict=True)):
            if not self.settle(answer, reference, scores, place):
                places.setdefault(self.as_pair(answer, reference), []).append(place)
        self.note_pairs(list(places))
        with track(self.label, len(places)) as task:
            unscored = self.look_up_and_compute(places, scores, task.advance)
        self._notes.count("Pairs left unscored because the model returned no number: {n}.", unscored)
        return scores

    def look_up_and_compute(
        self, places: dict[Pair, list[int]], scores: FloatArray, advance: Advance = lambda _: None
    ) -> int:
        """Fills in the scores of pairs, from disk or from the model; returns how many places the model left without.

        Args:
            places: Where in `scores` each different pair stands.
            scores: Written to.
            advance: Called with how many more pairs are done.
        """
        pairs = list(places)
        identity = self.store_identity()
        waiting: list[Pair] = []
        kept = [None] * len(pairs) if self._store is None else self._store.get(identity, pairs)
        for pair, score in zip(pairs, kept, strict=True):
            if score is None:
                waiting.append(pair)
            else:
                scores[places[pair]] = score
        advance(len(pairs) - len(waiting))
        unscored = 0
        for start in range(0, len(waiting), self.block):
            block = waiting[start : start + self.block]
            fresh = self.compute(block, advance)
            if self._store is not None:
                self._store.put(identity, zip(block, fresh.tolist(), strict=True))
            for pair, score in zip(block, fresh, strict=True):
                scores[places[pair]] = score
                if not np.isfinite(score):
                    scores[places[pair]] = np.nan
                    unscored += len(places[pair])
        return unscored


class ModelMeasure(PairsMeasure):
    """A measure that asks a model about pairs, and keeps its scores on disk: give it an `identity` and `compute`.

    An empty answer says nothing and gets 0, the score of unrelated texts, without asking the model; a pair with an
    empty reference is unscored (NaN), and so is one for which the model gives no number. All are counted in `notes`.

    Args:
        model: The model's name or folder.
        settings: Device, batches, caches.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        super().__init__(settings, model=model, store=ScoreStore(settings.cache_dir))

    def as_pair(self, answer: str, reference: str) -> Pair:
        """Returns what the model is shown of an answer and its reference."""
        return whole(answer), whole(reference)

    def settle(self, answer: str, reference: str, scores: FloatArray, place: int) -> bool:
        """Scores a pair that needs no model, and tells whether it did."""
        if is_empty(reference):
            self._notes.count("Pairs left unscored because the reference is empty: {n}.")
            return True
        if is_empty(answer):
            self._notes.count("Pairs with an empty answer, which score 0: {n}.")
            scores[place] = 0.0
            return True
        return False
