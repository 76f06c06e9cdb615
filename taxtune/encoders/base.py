"""What an encoder is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import ModelError
from taxtune.models.checkpoint import is_gguf
from taxtune.shell import program

__all__ = ["FloatMatrix", "TextEncoder", "check_encoder", "folder_digest", "how_to_get", "hub_name", "is_lost_folder"]

FloatMatrix = NDArray[np.float32]


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
        """A unit vector for each text, shape (texts, dimensions)."""
        ...

    def stored(self, texts: Sequence[str]) -> FloatMatrix:
        """The same, from disk where this list of texts was encoded before."""
        ...


def is_lost_folder(model: str) -> bool:
    """Tells whether a model's name can only be that of a folder, and there is none."""
    return (model.startswith((".", "/", "~")) or model.count("/") > 1) and not Path(model).expanduser().is_dir()


def check_encoder(model: str) -> None:
    """Checks that a name may be that of an encoder of texts.

    Raises:
        ModelError: If it is that of a GGUF file.
    """
    if is_gguf(model):
        raise ModelError(
            "A GGUF file is read as a language model, which writes texts and does not encode them.",
            value=model,
            remedy="Give the Hugging Face name or the folder of an encoder.",
        )


def hub_name(model: str) -> str | None:
    """Returns an encoder's name on Hugging Face; None for a folder, or one that only open_clip knows."""
    name = model.removeprefix("hf-hub:")
    if model.startswith((".", "/", "~", "local-dir:")) or name.count("/") > 1 or "@" in name:
        return None
    return name if "/" in name else f"sentence-transformers/{name}"


def how_to_get(model: str) -> str:
    """The sentence that says how the weights of a model of Hugging Face come onto this machine."""
    name = hub_name(model)
    if name is None:
        return "Check the path, and that the folder is complete."
    return f"Run `{program('hf')} download {name}` while online, or give the folder of a copy."


def folder_digest(folder: Path) -> str:
    """A hash of the contents of a model's folder: its configuration and its weights."""
    digest = hashlib.sha256()
    for file in sorted(
        p for p in folder.rglob("*") if p.is_file() and p.suffix in (".json", ".safetensors", ".bin", ".txt")
    ):
        digest.update(str(file.relative_to(folder)).encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
