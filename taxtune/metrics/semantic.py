"""Cosines of embeddings: SentenceBERT (paper 1, §10), which is paper 2's semantic similarity, and concept similarity.

Concept similarity (paper 2) compares the reference with each concept of the answer, which length does not dilute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from taxtune.encoders import FloatMatrix, TextEncoder
from taxtune.encoders.vectors import stored_embeddings
from taxtune.metrics.base import FloatArray, Identity, Images, MeasureSettings, Texts
from taxtune.metrics.chunks import MAX_CHARACTERS, make_chunker
from taxtune.metrics.model_pairs import Advance, ModelMeasure, Pair, is_empty, whole
from taxtune.metrics.text_model import version_of

__all__ = ["MPNET", "ConceptMeasure", "CosineMeasure", "SentenceMeasure", "unit_or_nan"]

#: The default model of measures that compare sentence embeddings.
MPNET = "sentence-transformers/all-mpnet-base-v2"


class CosineMeasure(ModelMeasure):
    """Cosine of the unit vectors of answer and reference, in [-1, 1]; of several parts of an answer the largest.

    Args:
        model: The model's name or folder.
        encoder: Makes unit vectors of texts.
        settings: Device, batches, caches.
    """

    #: The note on truncated texts, with {limit} for the encoder's `token_limit`.
    cut_note = "Texts longer than the model's limit of {limit} tokens, which are truncated"

    def __init__(self, model: str, encoder: TextEncoder, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        self.encoder = encoder

    def identity(self) -> Identity:
        """Returns the measure's kind and the identity of its encoder."""
        return {"measure": self.name.partition(":")[0], **self.encoder.identity}

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that the encoder cuts short."""
        encoder: Any = self.encoder
        for text, cut in zip(texts, encoder.truncated(texts), strict=True):
            if cut:
                self._notes.mark(self.cut_note.format(limit=encoder.token_limit) + ": {n}.", text)

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts of the pairs that the encoder cuts short."""
        self.note_texts(list(dict.fromkeys(text for pair in pairs for text in pair)))

    def parts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns the parts of each answer that are compared, at least one each; here the whole."""
        return [(answer,) for answer in answers]

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Encodes each different text once and returns the cosines."""
        answers = list(dict.fromkeys(answer for answer, _ in pairs))
        parts = dict(zip(answers, self.parts(answers), strict=True))
        texts = list(dict.fromkeys([text for found in parts.values() for text in found] + [r for _, r in pairs]))
        vectors = dict(zip(texts, self.vectors(texts), strict=True))
        sides = {answer: np.array([vectors[text] for text in found], dtype=float) for answer, found in parts.items()}
        # Not nanmax: an answer with a part that has no vector is unscored.
        scores = [np.max(sides[answer] @ vectors[reference].astype(float)) for answer, reference in pairs]
        advance(len(pairs))
        return np.clip(np.array(scores, dtype=np.float64), -1, 1)

    def vectors(self, texts: Sequence[str]) -> FloatMatrix:
        """Returns the unit vectors of different texts, the longest encoded first; NaN where the model gives none."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        step = self.settings.batch_size
        batches = [[texts[i] for i in order[start : start + step]] for start in range(0, len(order), step)]
        parts = [self.encoder.texts(batch) for batch in batches]
        vectors = np.empty((len(texts), parts[0].shape[1] if parts else 1), dtype=np.float32)
        vectors[order] = np.concatenate(parts) if parts else vectors
        return unit_or_nan(vectors)

    def matrix(self, answers: Texts, references: Texts, images: Images = None) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        Each different answer is encoded once; the vectors of the references are kept on disk for this list of them.
        """
        names = self.stored([whole(reference) for reference in references])
        distinct = {text: i for i, text in enumerate(dict.fromkeys(map(whole, answers))) if not is_empty(text)}
        self.note_texts(list(distinct))
        parts = self.parts(list(distinct))
        texts = list(dict.fromkeys(text for found in parts for text in found))
        vectors = dict(zip(texts, self.vectors(texts), strict=True))
        table = np.zeros((len(answers), len(references)))
        rows = {
            answer: np.clip((np.array([vectors[text] for text in found]) @ names.T).max(axis=0), -1, 1)
            for answer, found in zip(distinct, parts, strict=True)
        }
        for place, answer in enumerate(map(whole, answers)):
            if answer in rows:
                table[place] = rows[answer]
        self._notes.count("Empty answers, which score 0: {n}.", sum(map(is_empty, answers)))
        self.leave_out_blank(table, references)
        return table

    def leave_out_blank(self, table: FloatArray, references: Sequence[str]) -> None:
        """Puts NaN into the columns of empty references, and counts them and the pairs without a number."""
        blank = np.array([is_empty(reference) for reference in references], dtype=bool)
        unscored = int(np.isnan(table[:, ~blank]).sum())
        table[:, blank] = np.nan
        self._notes.count("Empty references, whose pairs are left unscored: {n}.", int(blank.sum()))
        self._notes.count("Pairs left unscored because the model returned no number: {n}.", unscored)

    def stored(self, references: Sequence[str]) -> FloatMatrix:
        """Returns the unit vectors of a list of references, from disk where it was encoded before."""
        self.note_texts(references)
        return stored_embeddings(self.encoder.identity, references, self.vectors, self.settings.cache_dir)


def unit_or_nan(vectors: FloatMatrix) -> FloatMatrix:
    """Returns vectors of shape (n, dimensions) with NaN for those that are no unit vectors.

    A vector of zeros would make a cosine of 0 that nobody measured.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(np.isfinite(norms) & (np.abs(norms - 1) < 0.01), vectors, np.float32(np.nan))


class SentenceMeasure(CosineMeasure):
    """SentBERT: the cosine of two sentence embeddings, in [-1, 1] (paper 1, §10; paper 2's semantic similarity).

    Paper 2 speaks of [0, 1]; a cosine of embeddings can be negative, and is given as it is.

    Args:
        model: A Sentence-BERT model by name, or the folder of one.
        settings: Device, batches, caches.

    Raises:
        MissingExtraError: If sentence-transformers is not installed.
        ModelError: If the model cannot be loaded.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        from taxtune.encoders.sentence import SentenceEncoder

        options = {"device": settings.device, "cache_dir": settings.cache_dir, "batch_size": settings.batch_size}
        super().__init__(model, SentenceEncoder(model, **options), settings)  # type: ignore[arg-type]

    def identity(self) -> Identity:
        """Returns the kind, the model, its version and that of the library."""
        import sentence_transformers

        return {**super().identity(), "library": version_of(sentence_transformers)}


class ConceptMeasure(SentenceMeasure):
    """The largest cosine of the reference with a noun chunk, a named entity or all of the answer, in [-1, 1].

    The chunker of the settings cuts the answer: "spacy" as in the paper, "spacy:MODEL" or "rules". "@CHUNKER" behind
    the model goes before the settings, so that any command that takes measures can choose: "concept:MODEL@rules", or
    "concept:@rules" with the default model.

    Args:
        model: A Sentence-BERT model by name, or the folder of one; with or without "@CHUNKER".
        settings: Device, batches, caches, and the chunker.

    Raises:
        MissingExtraError: If sentence-transformers or spaCy is not installed.
        ModelError: If a model cannot be loaded; for spaCy's the message says how to get it and how to do without.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        named = re.fullmatch(r"(.*)@(rules|spacy(?::.+)?)", model)
        # First, as its pipeline is absent more often than the encoder.
        self.chunker = make_chunker(named[2] if named else settings.chunker)
        super().__init__((named[1] if named else model) or MPNET, settings)
        self.name = f"concept:{model}"

    def identity(self) -> Identity:
        """Returns the kind, the encoder's identity and the chunker's."""
        return {**super().identity(), **self.chunker.identity}

    @property
    def notes(self) -> tuple[str, ...]:
        """The source of the concepts, and what was truncated or left unscored."""
        return (f"Concepts are found by {self.chunker.source}.", *super().notes)

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that the encoder or the chunker cuts short."""
        super().note_texts(texts)
        what = f"Texts longer than {MAX_CHARACTERS:,} characters, of which only the beginning is searched for concepts"
        for text in texts:
            if len(text) > MAX_CHARACTERS:
                self._notes.mark(f"{what}: {{n}}.", text)

    def parts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns each answer with its chunks."""
        chunks = self.chunker.chunks(answers)
        return [tuple(dict.fromkeys([answer, *found])) for answer, found in zip(answers, chunks, strict=True)]
