"""Embeddings of names on disk, so that a model encodes the names of a taxonomy once."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from taxtune.encoders.base import FloatMatrix

__all__ = ["folder_digest", "stored_embeddings"]

_SCHEMA = 1


def stored_embeddings(
    identity: Mapping[str, str | int | None],
    names: Sequence[str],
    encode: Callable[[Sequence[str]], FloatMatrix],
    cache_dir: Path | None,
) -> FloatMatrix:
    """Returns the embeddings of the names, from disk where they are there and whole.

    The file's name is a hash of the model's identity and of every name in order; a file that cannot be read or has the
    wrong shape is made again. Where the folder cannot be written to, the embeddings are computed and not kept.

    Args:
        identity: Everything about the model that can change an embedding.
        names: What to embed.
        encode: Embeds texts as unit vectors, shape (texts, dimensions).
        cache_dir: The folder; None is the user's cache folder.
    """
    if cache_dir is None:
        from platformdirs import user_cache_path

        cache_dir = user_cache_path("taxtune") / "embeddings"
    key = json.dumps([_SCHEMA, dict(identity), list(names)], sort_keys=True, ensure_ascii=False)
    path = cache_dir / f"{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.npz"
    stored = _read(path, len(names))
    if stored is not None:
        return stored
    embeddings = np.ascontiguousarray(encode(names), dtype=np.float32)
    _write(path, embeddings)
    return embeddings


def folder_digest(folder: Path) -> str:
    """Returns a hash of the contents of a model's folder: its configuration and its weights."""
    digest = hashlib.sha256()
    for file in sorted(
        p for p in folder.rglob("*") if p.is_file() and p.suffix in (".json", ".safetensors", ".bin", ".txt")
    ):
        digest.update(str(file.relative_to(folder)).encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _read(path: Path, rows: int) -> FloatMatrix | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            embeddings = np.asarray(file["embeddings"], dtype=np.float32)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    whole = embeddings.ndim == 2 and len(embeddings) == rows and bool(np.isfinite(embeddings).all())
    return embeddings if whole else None


def _write(path: Path, embeddings: FloatMatrix) -> None:
    """Writes beside the file and renames, so that a reader never meets half of one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, embeddings=embeddings)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
