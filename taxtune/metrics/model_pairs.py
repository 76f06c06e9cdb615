"""The base of measures of pairs: equal pairs are computed once, kept on disk by content, and counted where unscored."""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from taxtune.metrics.base import (
    FloatArray,
    Identity,
    Images,
    MeasureSettings,
    PairwiseMeasure,
    Questions,
    Texts,
    check_texts,
)
from taxtune.progress import track
from taxtune.store import Identity as StoreIdentity
from taxtune.store import Store, cache_folder

__all__ = ["Advance", "ModelMeasure", "Notes", "Pair", "PairsMeasure", "ScoreStore", "is_empty", "whole"]

Pair = tuple[str, str]
Advance = Callable[[int], None]

_MAX_CHARACTERS = 100_000
_SCHEMA = 2
_KEY_BYTES = 16  # of millions of pairs no two meet in 128 bits


def is_empty(text: str) -> bool:
    """Tells whether a text has nothing but blanks."""
    return not text.strip()


def whole(text: str) -> str:
    """Returns the part of a text that a model is given: well-formed, stripped, at most 100,000 characters.

    Halves of surrogate pairs, which no tokenizer takes, become question marks. No text model reads more than some
    thousand tokens, so that the rest cannot change a score.
    """
    return text.strip()[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


class ScoreStore(Store[tuple[str, ...], float]):
    """Scores by the compared texts, in `scores.sqlite`, so that a model compares the same two texts once. A cache.

    A score that is no finite number is not kept, so that it is computed again.
    """

    table = "scores"
    columns: ClassVar[Mapping[str, str]] = {"key": "BLOB PRIMARY KEY", "score": "REAL"}
    precious = False

    def __init__(self, folder: Path | str | None = None) -> None:
        super().__init__(cache_folder(folder) / "scores.sqlite")

    def keys(self, identity: StoreIdentity, items: Sequence[tuple[str, ...]]) -> list[bytes]:
        """Returns the key of each item: a hash of the identity and of its texts."""
        described = json.dumps([_SCHEMA, dict(identity)], sort_keys=True).encode()
        head = hashlib.blake2b(described, digest_size=_KEY_BYTES)
        keys = []
        for item in items:
            digest = head.copy()
            # JSON keeps the parts apart: ("ab", "c") is not ("a", "bc"). Half surrogate pairs are escaped.
            digest.update(json.dumps(item).encode())
            keys.append(digest.digest())
        return keys

    def row(self, identity: StoreIdentity, item: tuple[str, ...], value: float) -> tuple[float] | None:
        """Returns the row of a score."""
        return (float(value),) if math.isfinite(value) else None

    def value(self, row: Sequence[Any]) -> float:
        """Returns the score of a row."""
        return float(row[0])


class Notes:
    """Sentences with a number in them: how often something happened, or to how many different texts."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._texts: dict[str, set[int]] = {}

    def count(self, sentence: str, times: int = 1) -> None:
        """Counts an event, under a sentence with {n} where the number goes."""
        if times:
            self._times[sentence] = self._times.get(sentence, 0) + times

    def mark(self, sentence: str, text: str) -> None:
        """Counts a text once, however often it occurs."""
        self._texts.setdefault(sentence, set()).add(hash(text))

    def told(self) -> tuple[str, ...]:
        """Returns the sentences with their numbers."""
        counts = {**self._times, **{sentence: len(texts) for sentence, texts in self._texts.items()}}
        return tuple(sentence.replace("{n}", f"{number:,}") for sentence, number in counts.items())


class PairsMeasure(PairwiseMeasure):
    """A measure that computes the scores of different pairs, keeping them in a store if it has one: write `compute`."""

    #: Pairs computed before their scores are kept.
    block = 1_000_000

    def __init__(self, settings: MeasureSettings, *, model: str | None = None, store: ScoreStore | None = None) -> None:
        super().__init__(None if model is None else f"{self.kind.kind}:{model}")
        self.settings = settings
        self._store = store
        self._notes = Notes()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the scores computed so far."""
        return self._notes.told()

    @abstractmethod
    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns the scores of different pairs of `as_pair`, NaN where there is no number; `advance` counts pairs."""

    def as_pair(self, answer: str, reference: str) -> Pair:
        """Returns the texts that are compared of an answer and its reference."""
        return answer, reference

    def settled(self, answer: str, reference: str) -> float | None:
        """Returns the score of a pair that need not be computed, counting it in the notes; None for all others."""
        return None

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts in the notes what concerns pairs, whether or not their scores are known."""

    def store_identity(self) -> Identity:
        """Returns the identity that scores are kept under."""
        return self.identity()

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,).

        Raises:
            ModelError: If the model cannot be loaded or run.
        """
        check_texts(answers, references)
        scores = np.full(len(answers), np.nan)
        places: dict[Pair, list[int]] = {}
        for place, (answer, reference) in enumerate(zip(answers, references, strict=True)):
            settled = self.settled(answer, reference)
            if settled is None:
                places.setdefault(self.as_pair(answer, reference), []).append(place)
            else:
                scores[place] = settled
        self.note_pairs(list(places))
        with track(self.label, len(places)) as task:
            self.look_up_and_compute(places, scores, task.advance)
        return scores

    def look_up_and_compute(
        self, places: Mapping[Pair, list[int]], scores: FloatArray, advance: Advance = lambda _: None
    ) -> None:
        """Fills in `scores` at the places of each different pair, from disk or from the model; counts the unscored."""
        pairs = list(places)
        identity = self.store_identity()
        kept = [None] * len(pairs) if self._store is None else self._store.get(identity, pairs)
        known = {pair: score for pair, score in zip(pairs, kept, strict=True) if score is not None}
        waiting = [pair for pair in pairs if pair not in known]
        advance(len(known))
        for start in range(0, len(waiting), self.block):
            block = waiting[start : start + self.block]
            fresh = self.compute(block, advance).tolist()
            if self._store is not None:
                self._store.put(identity, zip(block, fresh, strict=True))
            known.update(zip(block, fresh, strict=True))
        unscored = 0
        for pair, score in known.items():
            scores[places[pair]] = score if math.isfinite(score) else np.nan
            unscored += len(places[pair]) if not math.isfinite(score) else 0
        self._notes.count("Pairs left unscored because the model returned no number: {n}.", unscored)


class ModelMeasure(PairsMeasure):
    """A measure by a model, with its scores kept on disk: give it an `identity` and `compute`.

    An empty answer says nothing and gets 0, the score of unrelated texts, without asking the model; a pair with an
    empty reference is unscored (NaN), and so is one for which the model gives no number. All are counted in `notes`.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        super().__init__(settings, model=model, store=ScoreStore(settings.cache_dir))

    def as_pair(self, answer: str, reference: str) -> Pair:
        """Returns the texts that the model is given."""
        return whole(answer), whole(reference)

    def settled(self, answer: str, reference: str) -> float | None:
        """Returns 0 for an empty answer, NaN for an empty reference."""
        if is_empty(reference):
            self._notes.count("Pairs left unscored because the reference is empty: {n}.")
            return float("nan")
        if is_empty(answer):
            self._notes.count("Pairs with an empty answer, which score 0: {n}.")
            return 0.0
        return None
