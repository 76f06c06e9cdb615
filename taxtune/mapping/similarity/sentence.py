"""Similarity of meaning by a Sentence-BERT model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from taxtune.encoders.sentence import SentenceEncoder
from taxtune.errors import MapperError
from taxtune.mapping.similarity.base import FloatMatrix

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["SentenceSimilarity"]


class SentenceSimilarity:
    """Cosine of sentence embeddings (sentence-transformers; extra `measures`).

    Args:
        model: A model by name ("all-MiniLM-L6-v2") or the folder of one.
        device: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.
        batch_size: Texts encoded at once.

    Raises:
        MissingExtraError: If sentence-transformers is not installed.
        ModelError: If the model cannot be loaded.
    """

    needs_images = False
    confident = 0.8

    def __init__(
        self, model: str, *, device: str = "auto", cache_dir: Path | None = None, batch_size: int = 256
    ) -> None:
        self._encoder = SentenceEncoder(model, device=device, cache_dir=cache_dir, batch_size=batch_size)
        self.name = self._encoder.name
        self._names: FloatMatrix | None = None

    def fit(self, names: Sequence[str]) -> None:
        """Embeds the names, or finds them embedded on disk."""
        self._names = self._encoder.stored(names)

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns cosines, shape (answers, names); images are not looked at.

        Raises:
            MapperError: If `fit` has not been called.
        """
        if self._names is None:
            raise MapperError("The sentence similarity knows no names yet.", remedy="Call fit first.")
        return np.asarray(self._encoder.texts(answers) @ self._names.T, dtype=np.float32)
