"""Scores of an image's texts by a CLIP model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from taxtune.encoders.base import FloatMatrix
from taxtune.encoders.clip import ClipEncoder
from taxtune.encoders.vectors import checked_images, stored_images
from taxtune.errors import ImageError, shortened
from taxtune.metrics.score_store import ScoreStore
from taxtune.studies.granularity.score_matrix import check_vectors
from taxtune.studies.progress import late_progress
from taxtune.studies.specificity.hard_negatives import NEGATIVES, POSITIVES, ImageTexts

__all__ = ["KINDS", "ScoredTexts", "check_files", "image_hashes", "score_with_clip"]

FloatArray = NDArray[np.float64]
KINDS = (*POSITIVES, *NEGATIVES)
# Texts embedded between two steps of the progress bar.
_TEXTS = 1024


@dataclass(frozen=True, slots=True)
class ScoredTexts:
    """The scores of the texts of every image.

    Attributes:
        name: Where the scores are from.
        images: The images' ids.
        scores: For each image, the scores of its texts by kind; a kind may be missing.
        notes: What to know about them, with counts.
    """

    name: str
    images: tuple[str, ...]
    scores: tuple[Mapping[str, FloatArray], ...]
    notes: tuple[str, ...] = ()


def check_files(names: Sequence[str], folder: Path) -> None:
    """Checks that images are in their folder.

    Raises:
        ImageError: If not; it counts them and names some.
    """
    if not folder.is_dir():
        raise ImageError("There is no such folder of images.", file=folder, remedy="Check the path.")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ImageError(
            f"{len(missing):,} of {len(names):,} images are not in the folder:\n"
            + "\n".join(f"  {name}" for name in shortened(missing, 10)),
            file=folder,
            remedy="\nGive the folder that the captions file means.",
        )


def image_hashes(encoder: ClipEncoder, made: Sequence[ImageTexts], folder: Path) -> list[str]:
    """Returns the content hash of every image, once those that were not encoded before are known to be sound.

    Raises:
        ImageError: If images cannot be used; it names all of them.
    """
    with late_progress("images checked") as show:
        return checked_images(encoder, [folder / item.file_name for item in made], on_progress=show)


def score_with_clip(
    encoder: ClipEncoder,
    name: str,
    made: Sequence[ImageTexts],
    folder: Path,
    hashes: Sequence[str],
    *,
    on_progress: Callable[[int], object] | None = None,
    on_texts: Callable[[int, int], object] | None = None,
) -> ScoredTexts:
    """Returns the cosine of every image with each of its texts (paper 3, eq. 1).

    Embeddings of images, and of texts that images share, as captions are, are kept on disk. Altered captions, of which
    there are as many as 100 an image, are embedded batch by batch, so that memory holds few of them at a time; of these
    the scores are kept.

    Args:
        encoder: A CLIP model.
        name: How it is called in tables.
        made: The texts.
        folder: The folder of the images.
        hashes: The content hashes of the images, as `image_hashes` gives them.
        on_progress: Called with the number of images just done.
        on_texts: Called, before the images, with the number of shared texts that are embedded and their total.

    Raises:
        ImageError: If an image was changed or lost since it was hashed.
        ModelError: If the model gives no vector for an image or a text.
    """
    shared = {t: i for i, t in enumerate(dict.fromkeys(t for m in made for k in KINDS[:-1] for t in m.texts[k]))}
    vectors = _embedded(encoder, list(shared), on_texts)
    check_vectors(encoder.name, {"texts": vectors})
    kept = ScoreStore(encoder.cache_dir)
    scores: list[Mapping[str, FloatArray]] = []
    for start in range(0, len(made), encoder.batch_size):
        batch = made[start : start + encoder.batch_size]
        files = [folder / item.file_name for item in batch]
        of_batch = hashes[start : start + encoder.batch_size]
        images = stored_images(encoder, files, sha256=of_batch)
        check_vectors(encoder.name, {f"images, {batch[0].file_name} to {batch[-1].file_name}": images})
        altered = _altered(encoder, kept, batch, of_batch, images)
        for image, item, of_altered in zip(images, batch, altered, strict=True):
            scores.append(
                {
                    kind: of_altered if kind == "altered" else _cosines(image, shared, vectors, texts)
                    for kind, texts in item.texts.items()
                }
            )
        if on_progress is not None:
            on_progress(len(batch))
    return ScoredTexts(name, tuple(item.image for item in made), tuple(scores), _cut(encoder, made))


def _altered(
    encoder: ClipEncoder, kept: ScoreStore, batch: Sequence[ImageTexts], hashes: Sequence[str], images: FloatMatrix
) -> list[FloatArray]:
    """Returns the cosines of images with their altered captions; the scores are kept on disk, the many vectors not."""
    identity = {**encoder.identity, "kind": "clip image and text", "preprocessing": encoder.preprocessing}
    items = [(key, text) for key, item in zip(hashes, batch, strict=True) for text in item.texts["altered"]]
    known = kept.get(identity, items)
    values = np.array([math.nan if score is None else score for score in known], dtype=np.float64)
    owner = np.repeat(np.arange(len(batch)), [len(item.texts["altered"]) for item in batch])
    fresh = np.flatnonzero(np.isnan(values))
    if fresh.size:
        texts = {text: i for i, text in enumerate(dict.fromkeys(items[i][1] for i in fresh.tolist()))}
        vectors = encoder.texts(list(texts))
        check_vectors(encoder.name, {"altered captions": vectors})
        rows = vectors[[texts[items[i][1]] for i in fresh.tolist()]]
        values[fresh] = np.einsum("ij,ij->i", rows, images[owner[fresh]])
        kept.put(identity, [(items[i], float(values[i])) for i in fresh.tolist()])
    return [values[owner == i] for i in range(len(batch))]


def _embedded(encoder: ClipEncoder, texts: list[str], on_texts: Callable[[int, int], object] | None) -> FloatMatrix:
    parts = []
    for start in range(0, len(texts), _TEXTS):
        parts.append(encoder.stored(texts[start : start + _TEXTS]))
        if on_texts is not None:
            on_texts(min(start + _TEXTS, len(texts)), len(texts))
    return np.concatenate(parts)


def _cosines(image: FloatMatrix, rows: Mapping[str, int], vectors: FloatMatrix, texts: Sequence[str]) -> FloatArray:
    if not texts:
        return np.zeros(0)
    return np.asarray(vectors[[rows[text] for text in texts]] @ image, dtype=np.float64)


def _cut(encoder: ClipEncoder, made: Sequence[ImageTexts]) -> tuple[str, ...]:
    """Returns a note for every kind of text that the model cannot read to the end."""
    notes = []
    for kind in ("caption", "multi", "narrative"):
        texts = list(dict.fromkeys(text for item in made for text in item.texts[kind]))
        cut = int(encoder.truncated(texts).sum()) if texts else 0
        if cut:
            notes.append(
                f"{encoder.name}: {cut:,} of {len(texts):,} texts ({(POSITIVES | NEGATIVES)[kind]}) fill the "
                f"{encoder.context_length} tokens that the model reads; their ends count for nothing."
            )
    return tuple(notes)
