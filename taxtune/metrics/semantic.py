"""Cosines of embeddings: SentenceBERT and CLIP (paper 1, §10), semantic and concept similarity (paper 2).

Concept similarity compares the reference with each concept of the answer, which length does not dilute.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from taxtune.encoders import FloatMatrix, TextEncoder
from taxtune.encoders.vectors import stored_embeddings
from taxtune.errors import DataError
from taxtune.metrics.chunks import MAX_CHARACTERS, make_chunker
from taxtune.metrics.model_pairs import EMPTY_ANSWER, NO_NUMBER, Advance, Pair, PairsMeasure, version_of
from taxtune.metrics.registry import FloatArray, Identity, Images, MeasureSettings, Questions, Texts, check_texts
from taxtune.progress import track

__all__ = ["MPNET", "ClipImageMeasure", "ClipTextMeasure", "ConceptMeasure", "CosineMeasure", "SentenceMeasure"]

#: The default model of measures that compare sentence embeddings.
MPNET = "sentence-transformers/all-mpnet-base-v2"


class CosineMeasure(PairsMeasure):
    """Cosine of the unit vectors of answer and reference, in [-1, 1]; of several parts of an answer the largest.

    Args:
        model: The model's name or folder.
        encoder: Makes unit vectors of texts.
        settings: Device, batches, cache of embeddings.
    """

    #: The note on truncated texts, with {limit} for the encoder's `token_limit`.
    cut_note = "Texts longer than the model's limit of {limit} tokens, which are truncated"

    def __init__(self, model: str, encoder: TextEncoder, settings: MeasureSettings) -> None:
        super().__init__(settings, model=model)
        self.encoder = encoder

    def identity(self) -> Identity:
        """The measure's kind and the identity of its encoder."""
        return {"measure": self.name.partition(":")[0], **self.encoder.identity}

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that the encoder cuts short."""
        encoder: Any = self.encoder
        for text, cut in zip(texts, encoder.truncated(texts), strict=True):
            if cut:
                self._notes.mark(self.cut_note.format(limit=encoder.token_limit) + ": {n}.", text)

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
        names = stored_embeddings(self.encoder.identity, references, self.vectors, self.settings.cache_dir)
        sides, _ = self._encoded(answers, [])
        return np.stack([np.clip((sides[answer] @ names.T).max(axis=0), -1, 1) for answer in answers])

    def _encoded(
        self, answers: Sequence[str], references: Sequence[str]
    ) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """The vectors of each answer's parts, shape (parts, dimensions), and those of all texts."""
        parts = self.parts(answers)
        texts = [*dict.fromkeys([*(text for some in parts for text in some), *references])]
        vectors = dict(zip(texts, self.vectors(texts).astype(float), strict=True))
        return {a: np.array([vectors[t] for t in some]) for a, some in zip(answers, parts, strict=True)}, vectors

    def vectors(self, texts: Sequence[str]) -> FloatMatrix:
        """The unit vectors of different texts, the longest encoded first; NaN where the model gives none."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        step = self.settings.batch_size
        batches = [[texts[i] for i in order[start : start + step]] for start in range(0, len(order), step)]
        found = np.concatenate([self.encoder.texts(batch) for batch in batches])
        vectors = np.empty_like(found)
        vectors[order] = found
        return _unit_or_nan(vectors)


def _unit_or_nan(vectors: FloatMatrix) -> FloatMatrix:
    """NaN for vectors of shape (n, dimensions) that are no unit vectors: zeros would make a cosine of 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(np.isfinite(norms) & (np.abs(norms - 1) < 0.01), vectors, np.float32(np.nan))


class SentenceMeasure(CosineMeasure):
    """SentBERT: the cosine of two sentence embeddings, in [-1, 1] (paper 1, §10; paper 2's semantic similarity).

    Raises:
        MissingExtraError: If sentence-transformers is not installed.
        ModelError: If the model cannot be loaded.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        from taxtune.encoders.sentence import SentenceEncoder

        options = {"device": settings.device, "cache_dir": settings.cache_dir, "batch_size": settings.batch_size}
        super().__init__(model, SentenceEncoder(model, **options), settings)  # type: ignore[arg-type]

    def identity(self) -> Identity:
        """The kind, the model, its version and that of the library."""
        import sentence_transformers

        return {**super().identity(), "library": version_of(sentence_transformers)}


class ConceptMeasure(SentenceMeasure):
    """The largest cosine of the reference with a noun chunk, a named entity or all of the answer, in [-1, 1].

    "@CHUNKER" behind the model chooses what cuts the answer: "spacy" as in the paper (the default), "spacy:MODEL" or
    "rules"; "concept:@rules" is that with the default model.

    Raises:
        MissingExtraError: If sentence-transformers or spaCy is not installed.
        ModelError: If a model cannot be loaded; for spaCy's the message says how to get it and how to do without.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        named = re.fullmatch(r"(.*)@(rules|spacy(?::.+)?)", model)
        # First, as its pipeline is absent more often than the encoder.
        self.chunker = make_chunker(named[2] if named else "spacy")
        super().__init__((named[1] if named else model) or MPNET, settings)
        self.name = f"concept:{model}"

    def identity(self) -> Identity:
        """The kind, the encoder's identity and the chunker's."""
        return {**super().identity(), **self.chunker.identity}

    @property
    def notes(self) -> tuple[str, ...]:
        """The source of the concepts, and what was truncated or left unscored."""
        return (f"Concepts are found by {self.chunker.source}.", *super().notes)

    def parts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """Each answer with its chunks."""
        for answer in answers:
            if len(answer) > MAX_CHARACTERS:
                searched = f"Answers of which only the first {MAX_CHARACTERS:,} characters are searched for concepts"
                self._notes.mark(f"{searched}: {{n}}.", answer)
        chunks = self.chunker.chunks(answers)
        return [tuple(dict.fromkeys([answer, *some])) for answer, some in zip(answers, chunks, strict=True)]


class ClipTextMeasure(CosineMeasure):
    """CLIP-t2t: the cosine of the text embeddings of answer and reference, in [-1, 1].

    The model is named as in open_clip: "hf-hub:OWNER/MODEL", "local-dir:FOLDER" or "ARCHITECTURE@WEIGHTS".
    """

    cut_note = "Texts that fill the model's limit of {limit} tokens and may be truncated"

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        from taxtune.encoders.clip import ClipEncoder

        self._clip = ClipEncoder(
            model, device=settings.device, cache_dir=settings.cache_dir, batch_size=settings.batch_size
        )
        super().__init__(model, self._clip, settings)
        self._pictures: dict[str, FloatMatrix] = {}

    def identity(self) -> Identity:
        """The kind, the model, a digest of its weights and the library's version."""
        import open_clip

        return {**super().identity(), "library": version_of(open_clip)}


class ClipImageMeasure(ClipTextMeasure):
    """CLIP-i2t: the cosine of the answer's text embedding and the embedding of an image, in [-1, 1].

    In `scores` it is an image of the reference, in `matrix` an image replaces the answer. A pair without an image is
    unscored (NaN) and counted. Images are taken one after the other and released, so that the sequence may open them
    when they are read; equal ones are encoded once.
    """

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The cosine of each answer and an image of its reference, shape (n,); NaN where there is no image.

        Raises:
            DataError: If there are not as many answers, references and images, or no images at all.
        """
        check_texts(answers, references)
        pictures = self._image_vectors(images, len(answers))
        texts = [*dict.fromkeys(self.prepared(answers[row]) for row in pictures if not self.is_empty(answers[row]))]
        self.note_texts(texts)
        vectors = dict(zip(texts, self.vectors(texts), strict=True)) if texts else {}
        scores = np.full(len(answers), np.nan)
        for row, picture in pictures.items():
            empty = self.is_empty(answers[row])
            scores[row] = 0.0 if empty else np.clip(vectors[self.prepared(answers[row])] @ picture, -1, 1)
            self._notes.count(EMPTY_ANSWER, int(empty))
        self._notes.count(NO_NUMBER, int(np.isnan(scores[list(pictures)]).sum()))
        return scores

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The cosine of each answer and its image, once however many references there are; see `scores`."""
        return self.scores(answers, [given[0] if given else "" for given in references], images)

    def matrix(self, answers: Texts, references: Texts, images: Images = None) -> FloatArray:
        """The cosine of every answer's image with every reference, shape (answers, references).

        Raises:
            DataError: If there are not as many images as answers, or none at all.
        """
        table = np.full((len(answers), len(references)), np.nan)
        pictures = self._image_vectors(images, len(answers))
        columns = [i for i, reference in enumerate(references) if not self.is_empty(reference)]
        names = [self.prepared(references[i]) for i in columns]
        if pictures and names:
            self.note_texts(names)
            vectors = stored_embeddings(self.encoder.identity, names, self.vectors, self.settings.cache_dir)
            table[np.ix_(list(pictures), columns)] = np.clip(np.stack(list(pictures.values())) @ vectors.T, -1, 1)
        return table

    def _image_vectors(self, images: Images, n: int) -> dict[int, FloatMatrix]:
        """The unit vector of the image of each row that has one.

        Raises:
            DataError: If there are no images at all, or not as many as rows.
        """
        if n and (images is None or all(image is None for image in images)):
            remedy = "Give images, or use clip-t2t, which compares texts."
            raise DataError(f"{self.label} needs images, but no row has one.", remedy=remedy)
        images = images or []
        if len(images) != n:
            raise DataError("There must be one image per row.", value=f"{len(images)} images for {n} rows")
        keys: dict[int, str] = {}
        step = self.settings.batch_size
        with track(self.label, n) as task:
            for start in range(0, n, step):
                fresh: dict[str, Any] = {}
                for row in range(start, min(start + step, n)):
                    if (image := images[row]) is not None:
                        pixels = image.convert("RGB")
                        keys[row] = hashlib.sha256(f"{pixels.size}".encode() + pixels.tobytes()).hexdigest()
                        if keys[row] not in self._pictures:
                            fresh[keys[row]] = image
                encoded = _unit_or_nan(self._clip.images(list(fresh.values())))
                self._pictures.update(zip(fresh, encoded, strict=True))
                task.advance(min(step, n - start))
        self._notes.count("Rows left unscored because they have no image: {n}.", n - len(keys))
        return {row: self._pictures[key] for row, key in keys.items()}
