"""METEOR (Lavie and Agarwal 2007; paper 1, §10): nltk's, over the words and stems of the other string measures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property, lru_cache
from typing import Any

from taxtune.metrics.base import Identity, MeasureSettings
from taxtune.metrics.registry import measure
from taxtune.metrics.string_measure import StringMeasure, package_version
from taxtune.metrics.words import stem
from taxtune.wordnet import INSTALL, WordNet, find_wordnet

__all__ = ["Meteor"]


class _Stemmer:
    """The stemmer with a memory that nltk is given."""

    def stem(self, word: str) -> str:
        return stem(word)


class _Synonyms:
    """What nltk's METEOR asks of WordNet, each word looked up once; nothing where there is no WordNet."""

    def __init__(self, wordnet: WordNet | None) -> None:
        self.synsets = lru_cache(maxsize=200_000)(lambda word: [] if wordnet is None else wordnet.reader.synsets(word))

    def of(self, word: str) -> set[str]:
        """Returns the synonyms that nltk takes, those of one word."""
        names = (lemma.name() for synset in self.synsets(word) for lemma in synset.lemmas())
        return {name for name in names if "_" not in name}


@measure("meteor", label="METEOR", summary="matching words, stems and synonyms, and their order", source="paper 1, §10")
class Meteor(StringMeasure):
    """METEOR, in [0, 1), with WordNet's synonyms where there is a WordNet (`taxtune.wordnet`).

    Args:
        model: None.
        settings: Who is told of progress.
    """

    def __init__(self, model: str | None, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        self._wordnet = find_wordnet()
        self._synonyms = _Synonyms(self._wordnet)

    @property
    def notes(self) -> tuple[str, ...]:
        """Says where synonyms are from, or that there are none."""
        if self._wordnet is not None:
            return (*super().notes, f"METEOR's synonyms are from {self._wordnet.source}.")
        without = "METEOR without synonyms: WordNet is not installed, so only equal words and stems match."
        return (*super().notes, f"{without} {INSTALL}")

    def identity(self) -> Identity:
        """Returns the name, nltk's version, and the WordNet that synonyms are from."""
        source = "none" if self._wordnet is None else self._wordnet.source
        return super().identity() | {"meteor": f"nltk {package_version('nltk')}", "synonyms": source}

    @cached_property
    def _nltks(self) -> Any:
        from nltk.translate.meteor_score import single_meteor_score

        return single_meteor_score

    def _score(self, answer: str, reference: str) -> float:
        words: Sequence[str] = self.words(answer)
        return float(self._nltks(self.words(reference), words, stemmer=_Stemmer(), wordnet=self._synonyms))

    def parts_of_answer(self, answer: str) -> Collection[str]:
        """Returns the stems of the answer and their synonyms: nltk looks these up by stem."""
        found = set(map(stem, self.words(answer)))
        return found.union(*map(self._synonyms.of, found))

    def parts_of_reference(self, reference: str) -> Collection[str]:
        """Returns the stems of the reference."""
        return set(map(stem, self.words(reference)))
