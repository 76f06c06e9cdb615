"""CLIP (paper 1, §10): the answer against the reference's name, or against an image of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from taxtune.encoders import FloatMatrix
from taxtune.encoders.clip import ClipEncoder
from taxtune.errors import DataError
from taxtune.metrics.base import FloatArray, Identity, MeasureSettings, check_lengths
from taxtune.metrics.model_pairs import Advance, Pair, is_empty, whole
from taxtune.metrics.registry import measure
from taxtune.metrics.semantic import CosineMeasure
from taxtune.metrics.text_model import version_of
from taxtune.progress import track

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ClipImageMeasure", "ClipTextMeasure"]

_DEFAULT = "hf-hub:apple/DFN5B-CLIP-ViT-H-14"
# Vectors of images and of texts that are kept while the measure lives; 4 KB each for a large model.
_KEPT = 100_000
# Rows whose images are held at once.
_BLOCK = 512


@measure(
    "clip-t2t",
    label="CLIP-t2t",
    summary="cosine of CLIP's embeddings of answer and reference",
    source="paper 1, §10",
    default_model=_DEFAULT,
)
class ClipTextMeasure(CosineMeasure):
    """CLIP-t2t: the cosine of the text embeddings of answer and reference, in [-1, 1].

    Args:
        model: A model as open_clip names it: "hf-hub:OWNER/MODEL", "local-dir:FOLDER" or "ARCHITECTURE@WEIGHTS".
        settings: Device, batches, caches.

    Raises:
        ModelError: If the model cannot be loaded.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        self._clip = ClipEncoder(
            model, device=settings.device, cache_dir=settings.cache_dir, batch_size=settings.batch_size
        )
        super().__init__(model, self._clip, settings)

    def identity(self) -> Identity:
        """Returns the kind, the model, a digest of its weights and the library's version."""
        import open_clip

        return {**super().identity(), "library": version_of(open_clip)}

    def note_texts(self, texts: Sequence[str]) -> None:
        """Counts the texts that fill the model's context."""
        limit = self._clip.context_length
        # A token has at least a byte of the text, but for letters that are normalised to several.
        long = [text for text in texts if len(text.encode()) > limit // 2]
        what = f"Texts that fill the model's limit of {limit} tokens and may be truncated"
        for text, cut in zip(long, self._clip.truncated(long), strict=True):
            if cut:
                self._notes.mark(f"{what}: {{n}}.", text)


@measure(
    "clip-i2t",
    label="CLIP-i2t",
    summary="cosine of CLIP's embeddings of the answer and an image of the reference",
    source="paper 1, §10",
    default_model=_DEFAULT,
    needs=("image",),
)
class ClipImageMeasure(ClipTextMeasure):
    """CLIP-i2t: the cosine of the answer's text embedding and the embedding of an image, in [-1, 1].

    In `scores` it is an image of the reference, in `matrix` an image takes the answer's place. A pair without an image
    is unscored (NaN) and counted; what the reference is called plays no part in `scores`.

    Args:
        model: A model as open_clip names it.
        settings: Device, batches, caches.

    Raises:
        ModelError: If the model cannot be loaded.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        self._pictures: dict[str, Image] = {}
        self._text_vectors: dict[str, FloatMatrix] = {}
        self._image_vectors: dict[str, FloatMatrix] = {}

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the cosine of each answer and an image of its reference, shape (n,); NaN where there is no image.

        The images are taken one after the other and let go, so that the sequence may open them when asked.

        Raises:
            DataError: If there are not as many answers, references and images, or no images at all.
        """
        check_lengths(answers, references)
        scores = np.full(len(answers), np.nan)
        missing: list[int] = []
        with track(self.label, len(answers)) as task:
            for rows in self._blocks(images, len(answers)):
                keys = self._take_in(images, rows, missing)
                places: dict[Pair, list[int]] = {}
                for place, key in keys.items():
                    if is_empty(answers[place]):
                        self._notes.count("Pairs with an empty answer, which score 0: {n}.")
                        scores[place] = 0.0
                    else:
                        places.setdefault((whole(answers[place]), key), []).append(place)
                self.note_texts(list(dict.fromkeys(answer for answer, _ in places)))
                unscored = self.look_up_and_compute(places, scores)
                self._notes.count("Pairs left unscored because the model returned no number: {n}.", unscored)
                self._pictures.clear()
                task.advance(rows.stop - rows.start)
        self._note_missing(missing, len(answers))
        return scores

    def scores_many(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the cosine of each answer and its image, once however many references there are; see `scores`."""
        return self.scores(answers, [given[0] if given else "" for given in references], images)

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Encodes each different answer and each different image once; pairs are (answer, key of an image)."""
        if len(self._text_vectors) > _KEPT:
            self._text_vectors.clear()
        fresh = [text for text in dict.fromkeys(answer for answer, _ in pairs) if text not in self._text_vectors]
        self._text_vectors.update(zip(fresh, self.vectors(fresh), strict=True))
        self._encode_images(list(dict.fromkeys(key for _, key in pairs)))
        scores = [float(self._text_vectors[answer] @ self._image_vectors[key]) for answer, key in pairs]
        advance(len(pairs))
        return np.clip(np.array(scores, dtype=np.float64), -1, 1)

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns the cosine of every answer's image with every reference, shape (answers, references).

        Raises:
            DataError: If there are not as many images as answers, or none at all.
        """
        table = np.full((len(answers), len(references)), np.nan)
        missing: list[int] = []
        names: FloatMatrix | None = None
        with track(self.label, len(answers)) as task:
            for rows in self._blocks(images, len(answers)):
                keys = self._take_in(images, rows, missing)
                if keys:
                    names = self.stored([whole(reference) for reference in references]) if names is None else names
                    self._encode_images(list(dict.fromkeys(keys.values())))
                    table[list(keys)] = np.clip(
                        np.stack([self._image_vectors[key] for key in keys.values()]) @ names.T, -1, 1
                    )
                self._pictures.clear()
                task.advance(rows.stop - rows.start)
        self._note_missing(missing, len(answers))
        blank = [is_empty(reference) for reference in references]
        table[:, blank] = np.nan
        self._notes.count("Empty references, whose pairs are left unscored: {n}.", sum(blank))
        return table

    def _blocks(self, images: Sequence[Image | None] | None, rows: int) -> list[slice]:
        """Returns slices of rows whose images are held at once.

        Raises:
            DataError: If there are no images, or not one a row.
        """
        if images is None:
            if rows:
                raise self._no_images(rows)
        elif len(images) != rows:
            raise DataError("There must be one image per row.", value=f"{len(images)} images for {rows} rows")
        return [slice(start, min(start + _BLOCK, rows)) for start in range(0, rows, _BLOCK)]

    def _take_in(self, images: Sequence[Image | None] | None, rows: slice, missing: list[int]) -> dict[int, str]:
        """Returns a key of the content of each row's image; rows without one go to `missing`."""
        keys: dict[int, str] = {}
        known: dict[int, tuple[Image, str]] = {}  # by object, which stays alive here: one image may stand in many rows
        for row in range(rows.start, rows.stop):
            image = images[row] if images is not None else None
            if image is None:
                missing.append(row)
            elif id(image) in known:
                keys[row] = known[id(image)][1]
            else:
                picture = image.convert("RGB")
                content = hashlib.sha256(f"{picture.size}".encode() + picture.tobytes())
                keys[row] = f"image:{content.hexdigest()}"
                known[id(image)] = image, keys[row]
                self._pictures.setdefault(keys[row], image)
        return keys

    def _note_missing(self, missing: Sequence[int], rows: int) -> None:
        """Counts the rows without an image; all of them is an error."""
        if rows and len(missing) == rows:
            raise self._no_images(rows)
        told = ", ".join(str(row + 1) for row in missing[:10]) + (", …" if len(missing) > 10 else "")
        self._notes.count(f"Rows left unscored because they have no image (row {told}): {{n}}.", len(missing))

    def _no_images(self, rows: int) -> DataError:
        told = "row 1 has none" if rows == 1 else f"rows 1 to {rows:,} have none"
        return DataError(
            f"{self.label} needs images, but {told}.",
            remedy="Give images, or use clip-t2t, which compares texts.",
        )

    def _encode_images(self, keys: Sequence[str]) -> None:
        """Encodes the images that no earlier call has encoded."""
        if len(self._image_vectors) > _KEPT:
            self._image_vectors.clear()
        fresh = [key for key in keys if key not in self._image_vectors]
        vectors = self._clip.images([self._pictures[key] for key in fresh])
        for key, vector in zip(fresh, vectors, strict=True):
            good = bool(np.isfinite(vector).all()) and abs(float(np.linalg.norm(vector)) - 1) < 0.01
            self._image_vectors[key] = vector if good else np.full_like(vector, np.nan)
