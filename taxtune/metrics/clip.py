"""CLIP (paper 1, §10): the answer against the reference's name, or against an image of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.encoders import FloatMatrix
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.vectors import VectorStore
from taxtune.errors import DataError
from taxtune.metrics.base import FloatArray, Identity, Images, MeasureSettings, Questions, Texts, check_texts
from taxtune.metrics.model_pairs import is_empty, whole
from taxtune.metrics.semantic import CosineMeasure, unit_or_nan
from taxtune.metrics.text_model import version_of
from taxtune.progress import track

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ClipImageMeasure", "ClipTextMeasure"]


class ClipTextMeasure(CosineMeasure):
    """CLIP-t2t: the cosine of the text embeddings of answer and reference, in [-1, 1].

    The model is named as in open_clip: "hf-hub:OWNER/MODEL", "local-dir:FOLDER" or "ARCHITECTURE@WEIGHTS".
    """

    cut_note = "Texts that fill the model's limit of {limit} tokens and may be truncated"

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        self._clip = ClipEncoder(
            model, device=settings.device, cache_dir=settings.cache_dir, batch_size=settings.batch_size
        )
        super().__init__(model, self._clip, settings)

    def identity(self) -> Identity:
        """Returns the kind, the model, a digest of its weights and the library's version."""
        import open_clip

        return {**super().identity(), "library": version_of(open_clip)}


class ClipImageMeasure(ClipTextMeasure):
    """CLIP-i2t: the cosine of the answer's text embedding and the embedding of an image, in [-1, 1].

    In `scores` it is an image of the reference, in `matrix` an image replaces the answer. A pair without an image is
    unscored (NaN) and counted; the reference's name plays no part in `scores`. Images are taken one after the other and
    released, so that the sequence may open them when they are read; their vectors are kept on disk by content.
    """

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the cosine of each answer and an image of its reference, shape (n,); NaN where there is no image.

        Raises:
            DataError: If there are not as many answers, references and images, or no images at all.
        """
        check_texts(answers, references)
        pictures = self._image_vectors(images, len(answers))
        texts = list(dict.fromkeys(whole(answer) for answer in answers if not is_empty(answer)))
        self.note_texts(texts)
        vectors = dict(zip(texts, self.vectors(texts), strict=True))
        scores = np.full(len(answers), np.nan)
        for i, (answer, picture) in enumerate(zip(answers, pictures, strict=True)):
            if picture is not None:
                scores[i] = 0.0 if is_empty(answer) else np.clip(vectors[whole(answer)] @ picture, -1, 1)
        empty = sum(is_empty(answer) for answer, picture in zip(answers, pictures, strict=True) if picture is not None)
        self._notes.count("Pairs with an empty answer, which score 0: {n}.", empty)
        unscored = int(np.isnan(scores).sum()) - sum(picture is None for picture in pictures)
        self._notes.count("Pairs left unscored because the model returned no number: {n}.", unscored)
        return scores

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """Returns the cosine of each answer and its image, once however many references there are; see `scores`."""
        return self.scores(answers, [given[0] if given else "" for given in references], images)

    def matrix(self, answers: Texts, references: Texts, images: Images = None) -> FloatArray:
        """Returns the cosine of every answer's image with every reference, shape (answers, references).

        Raises:
            DataError: If there are not as many images as answers, or none at all.
        """
        table = np.full((len(answers), len(references)), np.nan)
        rows = {i: vector for i, vector in enumerate(self._image_vectors(images, len(answers))) if vector is not None}
        if rows:
            names = self.stored([whole(reference) for reference in references])
            table[list(rows)] = np.clip(np.stack(list(rows.values())) @ names.T, -1, 1)
        table[:, [is_empty(reference) for reference in references]] = np.nan
        self._notes.count("Empty references, whose pairs are left unscored: {n}.", sum(map(is_empty, references)))
        return table

    def _image_vectors(self, images: Images, rows: int) -> list[FloatMatrix | None]:
        """Returns the unit vector of each row's image, from disk where an equal image was encoded before.

        Raises:
            DataError: If there are no images at all, or not as many as rows.
        """
        if images is not None and len(images) != rows:
            raise DataError("There must be one image per row.", value=f"{len(images)} images for {rows} rows")
        store = VectorStore(self.settings.cache_dir)
        identity = {**self._clip.identity, "preprocessing": self._clip.preprocessing, "pixels": 1}
        vectors: list[FloatMatrix | None] = [None] * rows
        known: dict[str, FloatMatrix] = {}
        step = self.settings.batch_size
        with track(self.label, rows) as task:
            for start in range(0, rows if images is not None else 0, step):
                pictures: dict[str, Image] = {}
                keys: dict[int, str] = {}
                for row in range(start, min(start + step, rows)):
                    if images is not None and (image := images[row]) is not None:
                        pixels = image.convert("RGB")
                        keys[row] = hashlib.sha256(f"{pixels.size}".encode() + pixels.tobytes()).hexdigest()
                        pictures[keys[row]] = image
                new = [key for key in pictures if key not in known]
                known.update({k: v for k, v in zip(new, store.get(identity, new), strict=True) if v is not None})
                fresh = [key for key in new if key not in known]
                encoded = unit_or_nan(self._clip.images([pictures[key] for key in fresh]))
                store.put(identity, zip(fresh, encoded, strict=True))
                known.update(zip(fresh, encoded, strict=True))
                for row, key in keys.items():
                    vectors[row] = known[key]
                task.advance(min(step, rows - start))
        missing = [row + 1 for row, vector in enumerate(vectors) if vector is None]
        if rows and len(missing) == rows:
            which = "row 1 has none" if rows == 1 else f"rows 1 to {rows:,} have none"
            remedy = "Give images, or use clip-t2t, which compares texts."
            raise DataError(f"{self.label} needs images, but {which}.", remedy=remedy)
        first = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        self._notes.count(f"Rows left unscored because they have no image (row {first}): {{n}}.", len(missing))
        return vectors
