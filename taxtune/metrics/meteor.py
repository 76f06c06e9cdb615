"""METEOR for many pairs: nltk's alignment, asked only about the words that can match.

nltk aligns an answer's words with a reference's by equality, then by stem, then by synonym, each time the latest word
that is still free first. Two things follow that make no difference to the result and much to the time. Words of the
answer that match no word of the reference can be left out, if a gap remains where they stood; and of the same word
repeated, no more than the last n can be aligned with a reference of n words. An answer of a megabyte costs no more per
reference than one of some lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.base import Identity, MeasureSettings
from taxtune.metrics.registry import measure
from taxtune.metrics.string_measure import StringMeasure, package_version
from taxtune.metrics.words import stem
from taxtune.wordnet import INSTALL, find_wordnet

__all__ = [
    "ALPHA",
    "BETA",
    "GAMMA",
    "IndexedAnswer",
    "Meteor",
    "NoSynonyms",
    "Synonyms",
    "meteor",
]

#: Parameters of Lavie and Agarwal (2007), which are nltk's too: weight of precision, shape and weight of the penalty.
ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5

FloatArray = NDArray[np.float64]

# Stands for words that match nothing. It is no word, since control characters part words.
_GAP = "\0"


class Synonyms(Protocol):
    """What nltk's METEOR asks of WordNet."""

    def synsets(self, word: str) -> Sequence[Any]:
        """Returns the word's sets of synonyms, each with `lemmas()` that have a `name()`."""
        ...


class NoSynonyms:
    """A WordNet without entries."""

    def synsets(self, word: str) -> Sequence[Any]:
        """Returns nothing."""
        return ()


class _Remembered:
    """nltk's reader, which looks each word up once."""

    def __init__(self, reader: Any) -> None:
        self.synsets = lru_cache(maxsize=200_000)(lambda word: reader.synsets(word) if word != _GAP else ())


class _Stemmer:
    """The stemmer with a memory that nltk is given."""

    def stem(self, word: str) -> str:
        return stem(word)


_STEMMER = _Stemmer()


def _synonyms(word: str, synonyms: Synonyms) -> set[str]:
    names = (lemma.name() for synset in synonyms.synsets(word) for lemma in synset.lemmas())
    return {name for name in names if "_" not in name}


@dataclass(frozen=True, slots=True)
class IndexedAnswer:
    """An answer whose words can be looked up by what they match.

    Attributes:
        length: Its number of words.
        places: The places of each word, ascending.
        by_stem: The words of each stem.
        by_synonym: The words whose stem each word is a synonym of.
    """

    length: int
    places: Mapping[str, Sequence[int]]
    by_stem: Mapping[str, Sequence[str]]
    by_synonym: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, words: Iterable[str], synonyms: Synonyms) -> IndexedAnswer:
        """Returns the index of an answer's words."""
        places: dict[str, list[int]] = {}
        length = 0
        for length, word in enumerate(words, start=1):
            places.setdefault(word, []).append(length - 1)
        by_stem: dict[str, list[str]] = {}
        by_synonym: dict[str, list[str]] = {}
        for word in places:
            by_stem.setdefault(stem(word), []).append(word)
            # nltk looks for synonyms among what is left after stemming, and so among stems.
            for synonym in _synonyms(stem(word), synonyms):
                by_synonym.setdefault(synonym, []).append(word)
        return cls(length, places, by_stem, by_synonym)

    def matching(self, reference: Sequence[str]) -> list[str]:
        """Returns the words that can be aligned with the reference, in order, with a gap for what stood between."""
        alike: set[str] = set()
        for kind in set(map(stem, reference)):
            alike.update(self.by_stem.get(kind, ()), self.by_synonym.get(kind, ()))
        found = sorted((place, word) for word in alike for place in self.places[word][-len(reference) :])
        kept: list[str] = []
        last = -1
        for place, word in found:
            if place > last + 1:
                kept.append(_GAP)
            kept.append(word)
            last = place
        return kept


def meteor(answer: IndexedAnswer, reference: Sequence[str], synonyms: Synonyms) -> float:
    """Returns the METEOR score of an answer, in [0, 1): nltk's `single_meteor_score`, to the last digit.

    Args:
        answer: The answer's words.
        reference: The reference's words.
        synonyms: The WordNet that `answer` was indexed with.
    """
    from nltk.translate.meteor_score import align_words

    hypothesis = answer.matching(reference)
    if not hypothesis:
        return 0.0
    matches, _, _ = align_words(hypothesis, reference, stemmer=_STEMMER, wordnet=synonyms)
    count = len(matches)
    if not count:
        return 0.0
    precision, recall = count / answer.length, count / len(reference)
    f_mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    chunks = 1 + sum(right != (left[0] + 1, left[1] + 1) for left, right in pairwise(matches))
    return float((1 - GAMMA * (chunks / count) ** BETA) * f_mean)


@measure("meteor", label="METEOR", summary="matched words, stems and synonyms, and their order", source="paper 1, §10")
class Meteor(StringMeasure):
    """METEOR, in [0, 1), with WordNet's synonyms where there is a WordNet (`taxtune.wordnet`).

    Args:
        model: None.
        settings: Who is told of progress.
    """

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        self._wordnet = find_wordnet()

    @property
    def notes(self) -> tuple[str, ...]:
        """Says whether synonyms are missing."""
        if self._wordnet is not None:
            return super().notes
        without = "METEOR without synonyms: there is no WordNet here, so words match by equality and stem alone."
        return (*super().notes, f"{without} {INSTALL}")

    def identity(self) -> Identity:
        """Returns the name, nltk's version, and the WordNet that synonyms are from."""
        source = "none" if self._wordnet is None else self._wordnet.source
        return super().identity() | {"meteor": f"nltk {package_version('nltk')}", "synonyms": source}

    @cached_property
    def _synonyms(self) -> Synonyms:
        return NoSynonyms() if self._wordnet is None else _Remembered(self._wordnet.reader)

    def _score(self, answer: str, reference: str) -> float:
        return meteor(self._index(answer), self.words(reference), self._synonyms)

    @cached_property
    def _index(self) -> Callable[[str], IndexedAnswer]:
        # Few, since each holds all words of its answer; callers give pairs answer by answer.
        return lru_cache(maxsize=64)(lambda answer: IndexedAnswer.of(self.words(answer), self._synonyms))

    def parts_of_answer(self, answer: str) -> Collection[str]:
        """Returns the stems of the answer and their synonyms."""
        index = self._index(answer)
        return {*index.by_stem, *index.by_synonym}

    def parts_of_reference(self, reference: str) -> Collection[str]:
        """Returns the stems of the reference."""
        return set(map(stem, self.words(reference)))
