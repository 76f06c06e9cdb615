"""Similarity of meaning by a Sentence-BERT model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.errors import MapperError, MissingExtraError
from taxtune.mapping.similarity.base import FloatMatrix, choose_device
from taxtune.mapping.similarity.store import folder_digest, stored_embeddings

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["SentenceSimilarity"]


class SentenceSimilarity:
    """Cosine of sentence embeddings (sentence-transformers; extra `sentence`).

    Args:
        model: A model by name ("all-MiniLM-L6-v2") or the folder of one.
        device: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.
        batch_size: Texts encoded at once.

    Raises:
        MissingExtraError: If sentence-transformers is not installed.
        MapperError: If the model cannot be loaded.
    """

    needs_images = False
    confident = 0.8

    def __init__(
        self, model: str, *, device: str = "auto", cache_dir: Path | None = None, batch_size: int = 256
    ) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtraError("sentence-transformers", "sentence", "The sentence similarity") from error
        self.name = f"sentence:{model}"
        self.cache_dir, self.batch_size = cache_dir, batch_size
        try:
            self._model: Any = SentenceTransformer(model, device=choose_device(device))
        except Exception as error:  # the library raises whatever its parts raise: OSError, ValueError, HTTP errors
            said = " ".join(str(error).split()).rstrip(".")
            raise MapperError(
                f"The sentence model cannot be loaded: {said if len(said) <= 200 else said[:199] + '…'}.",
                value=model,
                remedy="Give a model's name or its folder; without a connection its folder, or use 'lexical'.",
            ) from error
        self._identity = {"kind": "sentence", "model": model, "version": _version(model, self._model)}
        self._names: FloatMatrix | None = None

    def fit(self, names: Sequence[str]) -> None:
        """Embeds the names, or finds them embedded on disk."""
        self._names = stored_embeddings(self._identity, names, self._encode, self.cache_dir)

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns cosines, shape (answers, names); images are not looked at.

        Raises:
            MapperError: If `fit` has not been called.
        """
        if self._names is None:
            raise MapperError("The sentence similarity knows no names yet.", remedy="Call fit first.")
        return np.asarray(self._encode(answers) @ self._names.T, dtype=np.float32)

    def _encode(self, texts: Sequence[str]) -> FloatMatrix:
        vectors = self._model.encode(
            list(texts), batch_size=self.batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)


def _version(model: str, loaded: Any) -> str | None:
    """Returns what tells apart two models of one name: the folder's content, or the hub's commit."""
    if Path(model).is_dir():
        return folder_digest(Path(model))
    config = getattr(getattr(loaded[0], "auto_model", None), "config", None)
    commit = getattr(config, "_commit_hash", None)
    return None if commit is None else str(commit)
