"""Embeddings of image files, each of which is read and encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from taxtune.encoders.base import FloatMatrix
from taxtune.encoders.vectors import VectorStore
from taxtune.errors import ImageError
from taxtune.images import check_images, content_hash, load_image
from taxtune.progress import track
from taxtune.store import Identity

if TYPE_CHECKING:
    from taxtune.encoders.clip import ClipEncoder

__all__ = ["checked_images", "stored_images"]


def stored_images(
    encoder: ClipEncoder, files: Sequence[Path], *, sha256: Sequence[str] | None = None
) -> FloatMatrix:
    """Returns a unit vector for each image file, shape (images, dimensions).

    Files are known by a hash of their bytes; only those that the store lacks are decoded.

    Args:
        encoder: A CLIP model.
        files: The images.
        sha256: Their content hashes, "" for one that is not known; None where none is.

    Raises:
        ImageError: If an image is missing, cannot be read, or is not what its hash says.
    """
    hashes = list(sha256) if sha256 is not None else [""] * len(files)
    batches = [np.zeros((0, 1), dtype=np.float32)] if not files else []
    with track("encoding images", len(files)) as task:
        for start in range(0, len(files), encoder.batch_size):
            batch = slice(start, start + encoder.batch_size)
            batches.append(_stored_batch(encoder, files[batch], hashes[batch]))
            task.advance(len(files[batch]))
    return np.concatenate(batches)


def _stored_batch(
    encoder: ClipEncoder, files: Sequence[Path], hashes: Sequence[str]
) -> FloatMatrix:
    store = VectorStore(encoder.cache_dir)
    identity = _identity_with_preprocessing(encoder)
    keys = [known or content_hash(file) for file, known in zip(files, hashes, strict=True)]
    vectors: dict[str, FloatMatrix] = {}
    new: dict[str, Path] = {}
    for key, file, vector in zip(keys, files, store.get(identity, keys), strict=True):
        if vector is None:
            new[key] = file
        else:
            vectors[key] = vector
    if new:
        encoded = encoder.images([load_image(file, sha256=key) for key, file in new.items()])
        store.put(identity, zip(new, encoded, strict=True))
        vectors.update(zip(new, encoded, strict=True))
    return np.stack([vectors[key] for key in keys])


def checked_images(encoder: ClipEncoder, files: Sequence[Path]) -> list[str]:
    """Returns the content hashes of images, once all that the store lacks were read to their end.

    Raises:
        ImageError: If images cannot be used; it names all of them.
    """
    hashes = {file: _hash_or_blank(file) for file in dict.fromkeys(files)}
    identity = _identity_with_preprocessing(encoder)
    vectors = VectorStore(encoder.cache_dir).get(identity, list(hashes.values()))
    new = [file for file, vector in zip(hashes, vectors, strict=True) if vector is None]
    hashes.update({file: checked.sha256 for file, checked in check_images(new).items()})
    return [hashes[file] for file in files]


def _identity_with_preprocessing(encoder: ClipEncoder) -> Identity:
    """Returns everything about a model and its preprocessing that can change an image's vector."""
    return {**encoder.identity, "preprocessing": encoder.preprocessing}


def _hash_or_blank(file: Path) -> str:
    """Returns the content hash, "" for a file that cannot be read: the check names all of them."""
    try:
        return content_hash(file)
    except ImageError:
        return ""
