"""What an encoder is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import ModelError

__all__ = ["FloatMatrix", "TextEncoder", "folder_digest", "model_folder"]

FloatMatrix = NDArray[np.float32]

# Files of a model that can change a vector.
_CONTENT = (".json", ".safetensors", ".bin", ".txt")


@runtime_checkable
class TextEncoder(Protocol):
    """Turns texts into unit vectors.

    Attributes:
        name: Its specification, as in "sentence:all-MiniLM-L6-v2".
        identity: Everything about the model that can change a vector.
    """

    name: str
    identity: dict[str, str | int | None]

    def texts(self, texts: Sequence[str]) -> FloatMatrix:
        """Returns a unit vector for each text, shape (texts, dimensions)."""
        ...

    def stored(self, texts: Sequence[str]) -> FloatMatrix:
        """Returns the same, from disk where this list of texts was encoded before."""
        ...


def model_folder(model: str) -> Path | None:
    """Returns the folder that a model is named by; None for a name on Hugging Face.

    Raises:
        ModelError: If it is a path, and no folder is there.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise ModelError(
            "The folder of the model does not exist.", value=model, remedy="Check the path."
        )
    return None


def folder_digest(folder: Path) -> str:
    """Returns a hash of the contents of a model's folder: its configuration and its weights."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.suffix not in _CONTENT:
            continue
        digest.update(str(file.relative_to(folder)).encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
