"""Embeddings on disk, so that a model encodes an image, or the names of a taxonomy, once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from taxtune.encoders.base import FloatMatrix
from taxtune.store import Identity, Store, cache_folder

__all__ = ["VectorStore", "stored_embeddings"]

# Part of every key: to be raised when `load_image` comes to make other pixels of the same file.
_SCHEMA = 1
# Names whose vectors are one row: far below the largest value that SQLite holds.
_NAMES_A_ROW = 4096


class VectorStore(Store[str, FloatMatrix]):
    """Vectors of images by a hash of their content, and of names by that of a list of them.

    A cache.

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
        """Returns the key of each content hash."""
        head = json.dumps([_SCHEMA, dict(identity)], sort_keys=True).encode()
        return [hashlib.sha256(head + item.encode()).digest() for item in items]

    def row(self, identity: Identity, item: str, value: FloatMatrix) -> tuple[bytes] | None:
        """Returns the vectors as bytes; None if one of them is no direction."""
        rows = np.atleast_2d(value)
        if not np.isfinite(rows).all() or not (rows != 0).any(axis=1).all():
            return None
        return (value.astype("<f4").tobytes(),)

    def value(self, row: Sequence[Any]) -> FloatMatrix:
        """Returns the vectors of a row, end to end; their number is not part of it."""
        return np.frombuffer(row[0], dtype="<f4").astype(np.float32)


class _NameStore(VectorStore):
    table = "names"


def stored_embeddings(
    identity: Identity,
    names: Sequence[str],
    encode: Callable[[Sequence[str]], FloatMatrix],
    cache_dir: Path | None,
) -> FloatMatrix:
    """Returns the embeddings of names, from disk if this list of names was embedded before.

    The whole list is the key, since the last digits of a vector depend on the texts that it was
    encoded with.

    Args:
        identity: Everything about the model that can change an embedding.
        names: The texts.
        encode: Makes unit vectors of texts, shape (texts, dimensions).
        cache_dir: The folder; None is the user's cache folder.
    """
    store = _NameStore(cache_dir)
    digest = hashlib.sha256(json.dumps(list(names)).encode()).hexdigest()
    starts = range(0, len(names), _NAMES_A_ROW)
    keys = [f"{digest} {start}" for start in starts]
    known = [vectors for vectors in store.get(identity, keys) if vectors is not None]
    if keys and len(known) == len(keys) and sum(map(len, known)) % len(names) == 0:
        return np.concatenate(known).reshape(len(names), -1)
    embeddings = np.ascontiguousarray(encode(names), dtype=np.float32)
    parts = [embeddings[start : start + _NAMES_A_ROW] for start in starts]
    store.put(identity, zip(keys, parts, strict=True))
    return embeddings
