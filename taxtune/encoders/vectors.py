"""Embeddings on disk, so that a model encodes an image, or the names of a taxonomy, once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from taxtune.data.images import check_images, content_hash, load_image
from taxtune.encoders.base import FloatMatrix
from taxtune.errors import ImageError
from taxtune.progress import track
from taxtune.store import Identity, Store, cache_folder

if TYPE_CHECKING:
    from taxtune.encoders.clip import ClipEncoder

__all__ = ["VectorStore", "checked_images", "stored_embeddings", "stored_images"]

# Part of every key: to be raised when `load_image` comes to make other pixels of the same file.
_SCHEMA = 1
# Names whose vectors are one row: far below the largest value that SQLite holds.
_NAMES_A_ROW = 4096


class VectorStore(Store[str, FloatMatrix]):
    """Vectors of images by a hash of their content, and of names by that of a list of them. A cache.

    What is no direction (NaN, zeros) is not kept, so that it is computed again.

    Args:
        folder: Folder of the file; None is the user's cache folder.
    """

    table = "images"
    columns: ClassVar[Mapping[str, str]] = {"key": "BLOB PRIMARY KEY", "vector": "BLOB"}
    precious = False

    def __init__(self, folder: Path | None = None) -> None:
        super().__init__(cache_folder(folder, "embeddings") / f"{self.table}.sqlite")

    def keys(self, identity: Identity, items: Sequence[str]) -> list[bytes]:
        """The key of each content hash."""
        head = json.dumps([_SCHEMA, dict(identity)], sort_keys=True).encode()
        return [hashlib.sha256(head + item.encode()).digest() for item in items]

    def row(self, identity: Identity, item: str, value: FloatMatrix) -> tuple[bytes] | None:
        """The vectors as bytes."""
        rows = np.atleast_2d(value)
        sound = np.isfinite(rows).all() and (rows != 0).any(axis=1).all()
        return (value.astype("<f4").tobytes(),) if sound else None

    def value(self, row: Sequence[Any]) -> FloatMatrix:
        """The vectors of a row, end to end; their number is not part of it."""
        return np.frombuffer(row[0], dtype="<f4").astype(np.float32)


class _NameStore(VectorStore):
    table = "names"


def stored_embeddings(
    identity: Identity,
    names: Sequence[str],
    encode: Callable[[Sequence[str]], FloatMatrix],
    cache_dir: Path | None,
) -> FloatMatrix:
    """The embeddings of the names, from disk where this list of names was embedded before.

    The whole list is the key, since the last digits of a vector depend on the texts that it was encoded with.

    Args:
        identity: Everything about the model that can change an embedding.
        names: The texts.
        encode: Makes unit vectors of texts, shape (texts, dimensions).
        cache_dir: The folder; None is the user's cache folder.
    """
    store = _NameStore(cache_dir)
    digest = hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()
    keys = {f"{digest} {start}": start for start in range(0, len(names), _NAMES_A_ROW)}
    known = [vectors for vectors in store.get(identity, list(keys)) if vectors is not None]
    if keys and len(known) == len(keys) and sum(map(len, known)) % len(names) == 0:
        return np.concatenate(known).reshape(len(names), -1)
    embeddings = np.ascontiguousarray(encode(names), dtype=np.float32)
    store.put(
        identity, [(key, embeddings[start : start + _NAMES_A_ROW]) for key, start in keys.items()]
    )
    return embeddings


def stored_images(
    encoder: ClipEncoder, files: Sequence[Path], *, sha256: Sequence[str] | None = None
) -> FloatMatrix:
    """A unit vector for each image file, shape (images, dimensions), from disk where it was encoded before.

    Files are known by a hash of their bytes; only those that the store lacks are decoded.

    Args:
        encoder: A CLIP model.
        files: The images.
        sha256: Their content hashes, "" for one that is not known; None where none is.

    Raises:
        ImageError: If an image is missing, cannot be read, or is not what its hash says.
    """
    store, identity = VectorStore(encoder.cache_dir), _of_images(encoder)
    parts: list[FloatMatrix] = []
    with track("encoding images", len(files)) as task:
        for start in range(0, len(files), encoder.batch_size):
            chosen = slice(start, start + encoder.batch_size)
            batch = files[chosen]
            known = sha256[chosen] if sha256 is not None else [""] * len(batch)
            hashes = [given or content_hash(file) for file, given in zip(batch, known, strict=True)]
            vectors = dict(zip(hashes, store.get(identity, hashes), strict=True))
            fresh = {
                key: file for key, file in zip(hashes, batch, strict=True) if vectors[key] is None
            }
            if fresh:
                made = encoder.images([load_image(file, sha256=key) for key, file in fresh.items()])
                store.put(identity, zip(fresh, made, strict=True))
                vectors.update(zip(fresh, made, strict=True))
            parts.append(
                np.stack([vector for key in hashes if (vector := vectors[key]) is not None])
            )
            task.advance(len(batch))
    return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)


def checked_images(encoder: ClipEncoder, files: Sequence[Path]) -> list[str]:
    """The content hashes of image files, once all that the store lacks were read to their end.

    Raises:
        ImageError: If images cannot be used; it names all of them.
    """
    hashes = {file: _hash(file) for file in dict.fromkeys(files)}
    known = VectorStore(encoder.cache_dir).get(_of_images(encoder), list(hashes.values()))
    fresh = [file for file, vector in zip(hashes, known, strict=True) if vector is None]
    hashes.update(check_images(fresh))
    return [hashes[file] for file in files]


def _of_images(encoder: ClipEncoder) -> Identity:
    """Returns everything about a model and its preprocessing that can change an image's vector."""
    return {**encoder.identity, "preprocessing": encoder.preprocessing}


def _hash(file: Path) -> str:
    """The content hash, or "" of a file that cannot be read, which the check is to tell with the others."""
    try:
        return content_hash(file)
    except ImageError:
        return ""
