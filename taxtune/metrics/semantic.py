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
from taxtune.metrics.model_pairs import Advance, ModelMeasure, Pair, is_empty, version_of, whole
from taxtune.metrics.registry import FloatArray, Identity, Images, MeasureSettings, Questions, Texts, check_texts
from taxtune.progress import track

__all__ = ["MPNET", "ClipImageMeasure", "ClipTextMeasure", "ConceptMeasure", "CosineMeasure", "SentenceMeasure"]

#: The default model of measures that compare sentence embeddings.
MPNET = "sentence-transformers/all-mpnet-base-v2"


class CosineMeasure(ModelMeasure):
    """Cosine of the unit vectors of answer and reference, in [-1, 1]; of several parts of an answer the largest.

    Args:
        model: The model's name or folder.
        encoder: Makes unit vectors of texts.
        settings: Device, batches, cache of embeddings.
    """

    #: The note on truncated texts, with {limit} for the encoder's `token_limit`.
    cut_note = "Texts longer than the model's limit of {limit} tokens, which are truncated"

    def __init__(self, model: str, encoder: TextEncoder, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
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

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts of the pairs that the encoder cuts short."""
        self.note_texts(list(dict.fromkeys(text for pair in pairs for text in pair)))

    def parts(self, answers: Sequence[str]) -> list[tuple[str, ...]]:
        """The parts of each answer that are compared, at least one each; here the whole."""
        return [(answer,) for answer in answers]

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """The cosines; each different text is encoded once."""
        answers = list(dict.fromkeys(answer for answer, _ in pairs))
        parts = dict(zip(answers, self.parts(answers), strict=True))
        texts = list(dict.fromkeys([text for some in parts.values() for text in some] + [r for _, r in pairs]))
        vectors = dict(zip(texts, self.vectors(texts), strict=True))
        sides = {answer: np.array([vectors[text] for text in some], dtype=float) for answer, some in parts.items()}
        # Not nanmax: an answer with a part that has no vector is unscored.
        scores = [np.max(sides[answer] @ vectors[reference].astype(float)) for answer, reference in pairs]
        advance(len(pairs))
        return np.clip(np.array(scores, dtype=np.float64), -1, 1)

    def vectors(self, texts: Sequence[str]) -> FloatMatrix:
        """The unit vectors of different texts, the longest encoded first; NaN where the model gives none."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        step = self.settings.batch_size
        batches = [[texts[i] for i in order[start : start + step]] for start in range(0, len(order), step)]
        parts = [self.encoder.texts(batch) for batch in batches]
        vectors = np.empty((len(texts), parts[0].shape[1] if parts else 1), dtype=np.float32)
        vectors[order] = np.concatenate(parts) if parts else vectors
        return _unit_or_nan(vectors)

    def matrix(self, answers: Texts, references: Texts, images: Images = None) -> FloatArray:
        """Every answer's score against every reference, shape (answers, references).

        Each different answer is encoded once; the vectors of the references are kept on disk for this list of them.
        """
        names = self._names(references)
        distinct = [text for text in dict.fromkeys(map(whole, answers)) if not is_empty(text)]
        self.note_texts(distinct)
        parts = self.parts(distinct)
        texts = list(dict.fromkeys(text for some in parts for text in some))
        vectors = dict(zip(texts, self.vectors(texts), strict=True))
        rows = {
            answer: np.clip((np.array([vectors[text] for text in some]) @ names.T).max(axis=0), -1, 1)
            for answer, some in zip(distinct, parts, strict=True)
        }
        table = np.zeros((len(answers), len(references)))
        for i, answer in enumerate(map(whole, answers)):
            table[i] = rows.get(answer, 0.0)
        self._notes.count("Empty answers, which score 0: {n}.", sum(map(is_empty, answers)))
        return self._without_blank(table, references)

    def _names(self, references: Sequence[str]) -> FloatMatrix:
        """The unit vectors of a list of references, from disk where it was encoded before."""
        names = [whole(reference) for reference in references]
        self.note_texts(names)
        return stored_embeddings(self.encoder.identity, names, self.vectors, self.settings.cache_dir)

    def _without_blank(self, table: FloatArray, references: Sequence[str]) -> FloatArray:
        """NaN in the columns of empty references, which are counted as are other pairs without a number."""
        blank = np.array([is_empty(reference) for reference in references], dtype=bool)
        unscored = int(np.isnan(table[:, ~blank]).sum())
        table[:, blank] = np.nan
        self._notes.count("Empty references, whose pairs are left unscored: {n}.", int(blank.sum()))
        self._notes.count("Pairs left unscored because the model returned no number: {n}.", unscored)
        return table


def _unit_or_nan(vectors: FloatMatrix) -> FloatMatrix:
    """NaN for vectors of shape (n, dimensions) that are no unit vectors: zeros would make a cosine of 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(np.isfinite(norms) & (np.abs(norms - 1) < 0.01), vectors, np.float32(np.nan))


class SentenceMeasure(CosineMeasure):
    """SentBERT: the cosine of two sentence embeddings, in [-1, 1] (paper 1, §10; paper 2's semantic similarity).

    Args:
        model: A Sentence-BERT model by name, or the folder of one.
        settings: Device, batches, cache of embeddings.

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

    The chunker of the settings cuts the answer: "spacy" as in the paper, "spacy:MODEL" or "rules". "@CHUNKER" behind
    the model goes before the settings: "concept:MODEL@rules", or "concept:@rules" with the default model.

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
        """The kind, the encoder's identity and the chunker's."""
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
        """Each answer with its chunks."""
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
        texts = list(dict.fromkeys(whole(answer) for answer in answers if not is_empty(answer)))
        self.note_texts(texts)
        vectors = dict(zip(texts, self.vectors(texts), strict=True))
        scores = np.full(len(answers), np.nan)
        for i, picture in pictures.items():
            blank = is_empty(answers[i])
            scores[i] = 0.0 if blank else np.clip(vectors[whole(answers[i])] @ picture, -1, 1)
            self._notes.count("Pairs with an empty answer, which score 0: {n}.", int(blank))
        unscored = int(np.isnan(scores[list(pictures)]).sum())
        self._notes.count("Pairs left unscored because the model returned no number: {n}.", unscored)
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
        rows = self._image_vectors(images, len(answers))
        if rows:
            cosines = np.clip(np.stack(list(rows.values())) @ self._names(references).T, -1, 1)
            table[list(rows)] = self._without_blank(cosines, references)
        return table

    def _image_vectors(self, images: Images, n: int) -> dict[int, FloatMatrix]:
        """The unit vector of the image of each row that has one.

        Raises:
            DataError: If there are no images at all, or not as many as rows.
        """
        if images is not None and len(images) != n:
            raise DataError("There must be one image per row.", value=f"{len(images)} images for {n} rows")
        keys: dict[int, str] = {}
        step = self.settings.batch_size
        with track(self.label, n) as task:
            for start in range(0, n if images is not None else 0, step):
                fresh: dict[str, Any] = {}
                for row in range(start, min(start + step, n)):
                    if images is not None and (image := images[row]) is not None:
                        pixels = image.convert("RGB")
                        keys[row] = hashlib.sha256(f"{pixels.size}".encode() + pixels.tobytes()).hexdigest()
                        if keys[row] not in self._pictures:
                            fresh[keys[row]] = image
                encoded = _unit_or_nan(self._clip.images(list(fresh.values())))
                self._pictures.update(zip(fresh, encoded, strict=True))
                task.advance(min(step, n - start))
        missing = [row + 1 for row in range(n) if row not in keys]
        if n and len(missing) == n:
            which = "row 1 has none" if n == 1 else f"rows 1 to {n:,} have none"
            remedy = "Give images, or use clip-t2t, which compares texts."
            raise DataError(f"{self.label} needs images, but {which}.", remedy=remedy)
        first = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        self._notes.count(f"Rows left unscored because they have no image (row {first}): {{n}}.", len(missing))
        return {row: self._pictures[key] for row, key in keys.items()}
