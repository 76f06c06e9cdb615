"""Concept similarity (paper 2): the reference against each concept of the answer, which length does not dilute."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from taxtune.encoders import FloatMatrix
from taxtune.metrics.base import FloatArray, Identity, MeasureSettings
from taxtune.metrics.chunks import MAX_CHARACTERS, make_chunker
from taxtune.metrics.model_pairs import Advance, Pair
from taxtune.metrics.registry import measure
from taxtune.metrics.semantic import MPNET, SentenceMeasure

__all__ = ["ConceptMeasure"]

# Numbers in a table of concepts and references, to bound the memory.
_CELLS = 20_000_000


@measure(
    "concept",
    label="CS",
    summary="the largest cosine between the reference and the answer or one of its concepts",
    source="paper 2",
    default_model=MPNET,
    extra="measures",
)
class ConceptMeasure(SentenceMeasure):
    """The largest cosine of the reference with a noun chunk, a named entity or all of the answer, in [-1, 1].

    It is never below the cosine of the whole answer. The chunker of the settings cuts the answer: "spacy" as in the
    paper, "spacy:MODEL" or "rules". "@CHUNKER" behind the model goes before the settings, so that any command that
    takes measures can choose: "concept:MODEL@rules", or "concept:@rules" with the default model.

    Args:
        model: A Sentence-BERT model by name, or the folder of one; with or without "@CHUNKER".
        settings: Device, batches, caches, and the chunker.

    Raises:
        MissingExtraError: If sentence-transformers or spaCy is not installed.
        ModelError: If a model cannot be loaded; for spaCy's the message says how to get it and how to do without.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        asked = re.fullmatch(r"(.*)@(rules|spacy(?::.+)?)", model)
        # First, as its pipeline is absent more often than the encoder.
        self.chunker = make_chunker(asked[2] if asked else settings.chunker)
        super().__init__((asked[1] if asked else model) or MPNET, settings)
        self.name = f"concept:{model}"

    def identity(self) -> Identity:
        """Returns the kind, the encoder's identity and the chunker's."""
        return {**super().identity(), **self.chunker.identity}

    @property
    def notes(self) -> tuple[str, ...]:
        """Says what found the concepts, and what was cut short or left unscored."""
        return (f"Concepts are found by {self.chunker.source}.", *super().notes)

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that the encoder or the chunker cuts short."""
        super().note_texts(texts)
        for text in texts:
            if len(text) > MAX_CHARACTERS:
                self._notes.mark(
                    f"Texts longer than {MAX_CHARACTERS:,} characters, of which only the beginning is searched for "
                    f"concepts: {{n}}.",
                    text,
                )

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Encodes each different concept and reference once and returns the largest cosine of each pair."""
        answers = list(dict.fromkeys(answer for answer, _ in pairs))
        concepts = dict(zip(answers, self._concepts(answers), strict=True))
        texts = list(dict.fromkeys([text for found in concepts.values() for text in found] + [r for _, r in pairs]))
        vectors = self.vectors(texts, lambda n: advance(n * len(pairs) // max(1, len(texts))))
        place = {text: i for i, text in enumerate(texts)}
        rows = {answer: [place[text] for text in found] for answer, found in concepts.items()}
        # Not nanmax: an answer with a concept that has no vector is unscored.
        scores = [np.max(vectors[rows[answer]] @ vectors[place[reference]]) for answer, reference in pairs]
        return np.clip(np.array(scores, dtype=np.float64), -1, 1)

    def _table(self, answers: Sequence[str], names: FloatMatrix) -> FloatArray:
        """Returns the largest cosine of each of some different answers with each name."""
        found = self._concepts(answers)
        texts = list(dict.fromkeys(text for concepts in found for text in concepts))
        vectors = self.vectors(texts)
        place = {text: i for i, text in enumerate(texts)}
        table = np.empty((len(answers), len(names)))
        for block in _blocks([len(concepts) for concepts in found], max(1, _CELLS // max(1, len(names)))):
            rows = [place[text] for concepts in found[block] for text in concepts]
            starts = [0, *accumulate(len(concepts) for concepts in found[block])][:-1]
            table[block] = np.maximum.reduceat(vectors[rows] @ names.T, starts, axis=0)
        return table

    def _concepts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns the chunks of each answer and the whole of it; never none."""
        return [
            tuple(dict.fromkeys([answer, *chunks]))
            for answer, chunks in zip(answers, self.chunker.chunks(answers), strict=True)
        ]


def _blocks(lengths: Sequence[int], limit: int) -> list[slice]:
    """Returns slices of as many entries as stay within a limit together, at least one each."""
    blocks, start, total = [], 0, 0
    for i, length in enumerate(lengths):
        if i > start and total + length > limit:
            blocks.append(slice(start, i))
            start, total = i, 0
        total += length
    return [*blocks, slice(start, len(lengths))] if len(lengths) else []
