"""Embeddings of image files on disk, by the files' content, so that a model encodes a picture once."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.data.images import check_images, content_hash, load_image
from taxtune.encoders.base import FloatMatrix
from taxtune.errors import ImageError

if TYPE_CHECKING:
    from taxtune.encoders.clip import ClipEncoder

__all__ = ["ImageStore", "checked_images", "stored_images"]

# Part of every key: to be raised when `load_image` comes to make other pixels of the same file.
_SCHEMA = 1
_BATCH = 500
_DAMAGED = ("not a database", "malformed", "no such column", "has no column")

Vector = NDArray[np.float32]


def stored_images(
    encoder: ClipEncoder,
    files: Sequence[Path],
    *,
    sha256: Sequence[str] | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> FloatMatrix:
    """Returns a unit vector for each image file, from disk where a file of this content was encoded before.

    Files are known by a hash of their bytes, so that neither names nor dates matter. Only those that the store lacks
    are decoded; what it has was decoded whole when it was encoded.

    Args:
        encoder: A CLIP model.
        files: The images.
        sha256: Their content hashes, "" for one that is not known; None where none is.
        on_progress: Called with the number of images just done.

    Returns:
        Shape (images, dimensions).

    Raises:
        ImageError: If an image is missing or cannot be read, or is not what its hash says.
    """
    store = ImageStore(encoder.cache_dir)
    identity = {**encoder.identity, "preprocessing": encoder.preprocessing}
    known = list(sha256) if sha256 is not None else [""] * len(files)
    parts: list[FloatMatrix] = []
    for start in range(0, len(files), encoder.batch_size):
        batch = files[start : start + encoder.batch_size]
        hashes = [
            given or content_hash(file)
            for file, given in zip(batch, known[start : start + encoder.batch_size], strict=True)
        ]
        vectors = dict(zip(hashes, store.get(identity, hashes), strict=True))
        fresh = {key: file for key, file in zip(hashes, batch, strict=True) if vectors[key] is None}
        if fresh:
            made = encoder.images([load_image(file, sha256=key) for key, file in fresh.items()])
            store.put(identity, list(fresh), made)
            vectors.update(zip(fresh, made, strict=True))
        parts.append(np.stack([vector for key in hashes if (vector := vectors[key]) is not None]))
        if on_progress is not None:
            on_progress(len(batch))
    return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)


def checked_images(
    encoder: ClipEncoder, files: Sequence[Path], *, on_progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """Returns the content hashes of image files, once all that the store lacks were read to their end.

    Args:
        encoder: The CLIP model that is to encode them.
        files: The images.
        on_progress: Called with the number of files decoded so far and their total.

    Raises:
        ImageError: If images cannot be used; it names all of them.
    """
    hashes = {file: _hash(file) for file in dict.fromkeys(files)}
    identity = {**encoder.identity, "preprocessing": encoder.preprocessing}
    known = ImageStore(encoder.cache_dir).get(identity, list(hashes.values()))
    fresh = [file for file, vector in zip(hashes, known, strict=True) if vector is None]
    hashes.update(check_images(fresh, on_progress=on_progress))
    return [hashes[file] for file in files]


def _hash(file: Path) -> str:
    """Returns the content hash, or "" of a file that cannot be read, which the check is to tell with the others."""
    try:
        return content_hash(file)
    except ImageError:
        return ""


class ImageStore:
    """A SQLite file of vectors. Where it cannot be opened, vectors are computed and not kept.

    A file that is damaged, or is no such store, is moved aside (`images.sqlite.damaged`) and a new one is begun.
    Several processes may share a file.

    Args:
        folder: Where the file `images.sqlite` lies; None is the user's cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            from platformdirs import user_cache_path

            folder = user_cache_path("taxtune") / "embeddings"
        self.path = folder / "images.sqlite"

    def get(self, identity: Mapping[str, str | int | None], hashes: Sequence[str]) -> list[Vector | None]:
        """Returns the kept vector of each image, or None.

        Args:
            identity: Everything about the model and its preprocessing that can change a vector.
            hashes: The SHA-256 of each file's bytes.
        """
        if not hashes or not self.path.exists():
            return [None] * len(hashes)
        keys = _keys(identity, hashes)
        found: dict[bytes, Vector] = {}
        try:
            with closing(self._open()) as connection:
                for start in range(0, len(keys), _BATCH):
                    part = keys[start : start + _BATCH]
                    marks = ",".join("?" * len(part))
                    for key, vector in connection.execute(
                        f"SELECT key, vector FROM images WHERE key IN ({marks})", part
                    ):
                        found[key] = np.frombuffer(vector, dtype="<f4").astype(np.float32)
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            self._set_aside_if_damaged(error)
            return [None] * len(hashes)
        return [found.get(key) for key in keys]

    def put(self, identity: Mapping[str, str | int | None], hashes: Sequence[str], vectors: FloatMatrix) -> None:
        """Keeps vectors, all or none; what is no direction (NaN, zeros) is not kept, so that it is tried again."""
        sound = np.isfinite(vectors).all(axis=1) & (vectors != 0).any(axis=1)
        rows = [
            (key, vector.astype("<f4").tobytes())
            for key, vector, keep in zip(_keys(identity, hashes), vectors, sound, strict=True)
            if keep
        ]
        if not rows:
            return
        try:
            with closing(self._open()) as connection, connection:
                connection.executemany("INSERT INTO images (key, vector) VALUES (?, ?) ON CONFLICT DO NOTHING", rows)
        except (sqlite3.Error, OSError) as error:
            self._set_aside_if_damaged(error)  # a cache that cannot be written to costs time, nothing else

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=30)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE IF NOT EXISTS images (key BLOB PRIMARY KEY, vector BLOB)")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _set_aside_if_damaged(self, error: Exception) -> None:
        if isinstance(error, TypeError | ValueError) or any(word in str(error).lower() for word in _DAMAGED):
            try:
                os.replace(self.path, self.path.with_name(f"{self.path.name}.damaged"))
                for suffix in ("-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
            except OSError:
                return


def _keys(identity: Mapping[str, str | int | None], hashes: Sequence[str]) -> list[bytes]:
    head = json.dumps([_SCHEMA, dict(identity)], sort_keys=True).encode()
    return [hashlib.sha256(head + key.encode()).digest() for key in hashes]
