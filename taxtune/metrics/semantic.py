"""Cosine of embeddings: SentenceBERT (paper 1, §10), which is paper 2's semantic similarity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.encoders import FloatMatrix, TextEncoder
from taxtune.encoders.vectors import stored_embeddings
from taxtune.metrics.base import FloatArray, Identity, MeasureSettings
from taxtune.metrics.model_pairs import Advance, ModelMeasure, Pair, is_empty, whole
from taxtune.metrics.registry import measure

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MPNET", "CosineMeasure", "SentenceMeasure"]

#: The default model of measures that compare sentence embeddings.
MPNET = "sentence-transformers/all-mpnet-base-v2"

# Texts sorted by length at a time: long enough that a batch holds texts of one length.
_SLAB = 16_384


class CosineMeasure(ModelMeasure):
    """Cosine of the unit vectors of answer and reference, in [-1, 1].

    Args:
        model: The model's name or folder.
        encoder: What turns texts into unit vectors.
        settings: Device, batches, caches.
    """

    def __init__(self, model: str, encoder: TextEncoder, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        self.encoder = encoder

    def identity(self) -> Identity:
        """Returns the measure's kind and the identity of its encoder."""
        return {"measure": self.name.partition(":")[0], **self.encoder.identity}

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that the encoder cuts short."""

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts of the pairs that the encoder cuts short."""
        self.note_texts(list(dict.fromkeys(text for pair in pairs for text in pair)))

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Encodes each different text once and returns the cosines."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = self.vectors(texts, lambda n: advance(n * len(pairs) // max(1, len(texts))))
        place = {text: i for i, text in enumerate(texts)}
        left = np.array([place[answer] for answer, _ in pairs], dtype=np.intp)
        right = np.array([place[reference] for _, reference in pairs], dtype=np.intp)
        scores = np.empty(len(pairs))
        for start in range(0, len(pairs), _SLAB):
            part = slice(start, start + _SLAB)
            scores[part] = np.einsum("ij,ij->i", vectors[left[part]], vectors[right[part]], dtype=np.float64)
        return np.clip(scores, -1, 1)

    def vectors(self, texts: Sequence[str], advance: Advance | None = None) -> FloatMatrix:
        """Returns the unit vectors of different texts, the longest encoded first; NaN where the model gives none."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        parts: list[FloatMatrix] = []
        for start in range(0, len(order), self.settings.batch_size):
            parts.append(self.encoder.texts([texts[i] for i in order[start : start + self.settings.batch_size]]))
            if advance is not None:
                advance(len(parts[-1]))
        vectors = np.empty((len(texts), parts[0].shape[1] if parts else 1), dtype=np.float32)
        vectors[order] = np.concatenate(parts) if parts else vectors
        return _checked(vectors)

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        The vectors of the references are kept on disk for this list of them.
        """
        names = self.stored([whole(reference) for reference in references])
        return self._filled(answers, references, lambda texts: self._table(texts, names))

    def _table(self, answers: Sequence[str], names: FloatMatrix) -> NDArray[np.floating]:
        """Returns the score of each of some different answers with each name's vector."""
        return self.vectors(answers) @ names.T

    def stored(self, references: Sequence[str]) -> FloatMatrix:
        """Returns the unit vectors of a list of references, from disk where it was encoded before."""
        self.note_texts(references)
        return stored_embeddings(self.encoder.identity, references, self.vectors, self.settings.cache_dir)

    def _filled(
        self, answers: Sequence[str], references: Sequence[str], score: Callable[[Sequence[str]], NDArray[np.floating]]
    ) -> FloatArray:
        """Returns the table of scores, each different answer scored once; empty texts are treated as in `scores`."""
        cleaned = [whole(answer) for answer in answers]
        distinct = [text for text in dict.fromkeys(cleaned) if not is_empty(text)]
        self.note_texts(distinct)
        row = {text: i for i, text in enumerate(distinct)}
        scored = np.empty((0, len(references)))
        if distinct:
            scored = np.clip(score(distinct).astype(np.float64), -1, 1)
        table = np.zeros((len(answers), len(references)))
        for place, text in enumerate(cleaned):
            if text in row:
                table[place] = scored[row[text]]
        blank = [is_empty(reference) for reference in references]
        table[:, blank] = np.nan
        self._notes.count("Empty answers, which score 0: {n}.", sum(map(is_empty, answers)))
        self._notes.count("Empty references, whose pairs are left unscored: {n}.", sum(blank))
        self._notes.count(
            "Pairs left unscored because the model returned no number: {n}.",
            int(np.isnan(table[:, ~np.array(blank)]).sum()),
        )
        return table


def _checked(vectors: FloatMatrix) -> FloatMatrix:
    """Puts NaN for rows that are no unit vectors: a vector of zeros would make a cosine of 0 that nobody measured."""
    norms = np.linalg.norm(vectors, axis=1)
    good = np.isfinite(norms) & (np.abs(norms - 1) < 0.01)
    if good.all():
        return vectors
    vectors = vectors.copy()
    vectors[~good] = np.nan
    return vectors


@measure(
    "sentence",
    label="SentBERT",
    summary="cosine of sentence embeddings; paper 2's semantic similarity",
    source="paper 1, §10; paper 2",
    default_model=MPNET,
    extra="measures",
)
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

        self._sentences = SentenceEncoder(
            model, device=settings.device, cache_dir=settings.cache_dir, batch_size=settings.batch_size
        )
        super().__init__(model, self._sentences, settings)

    def identity(self) -> Identity:
        """Returns the kind, the model, its version and that of the library."""
        import sentence_transformers

        from taxtune.metrics.text_model import version_of

        return {**super().identity(), "library": version_of(sentence_transformers)}

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that are longer than the model reads."""
        limit = self._sentences.token_limit
        for text, cut in zip(texts, self._sentences.truncated(texts), strict=True):
            if cut:
                self._notes.mark(
                    f"Texts longer than the model's limit of {limit} tokens, which are truncated: {{n}}.",
                    text,
                )
