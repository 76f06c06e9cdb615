"""Similarity by a CLIP model: answer to name, or image to name (paper 1, §6 and §11)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from taxtune.encoders.clip import ClipEncoder
from taxtune.errors import MapperError
from taxtune.mapping.similarity.base import FloatMatrix

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ClipSimilarity"]


class ClipSimilarity:
    """Cosine of CLIP embeddings (open_clip).

    Args:
        model: A model as open_clip names it; see `ClipEncoder`.
        image_to_text: Whether the example's image is compared with the names instead of the answer.
        device: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.
        batch_size: Texts or images encoded at once.

    Raises:
        ModelError: If the model cannot be loaded.
    """

    def __init__(
        self,
        model: str,
        *,
        image_to_text: bool = False,
        device: str = "auto",
        cache_dir: Path | None = None,
        batch_size: int = 256,
    ) -> None:
        self._encoder = ClipEncoder(model, device=device, cache_dir=cache_dir, batch_size=batch_size)
        self.name = f"{'clip-i2t' if image_to_text else 'clip'}:{model}"
        self.needs_images = image_to_text
        # Cosines of an image and its caption stay far below those of two captions.
        self.confident = 0.25 if image_to_text else 0.9
        self._names: FloatMatrix | None = None

    def fit(self, names: Sequence[str]) -> None:
        """Embeds the names, or finds them embedded on disk."""
        self._names = self._encoder.stored(names)

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns cosines, shape (answers, names).

        Raises:
            MapperError: If `fit` has not been called, or an image is needed and not given.
        """
        if self._names is None:
            raise MapperError("The CLIP similarity knows no names yet.", remedy="Call fit first.")
        if not self.needs_images:
            return np.asarray(self._encoder.texts(answers) @ self._names.T, dtype=np.float32)
        given = [image for image in images or () if image is not None]
        if len(given) != len(answers):
            raise MapperError(
                "Image-to-text similarity needs the image of every answer.",
                value=f"{len(given)} images for {len(answers)} answers",
                remedy="Give the images, or take the text-to-text similarity clip:MODEL.",
            )
        return np.asarray(self._encoder.images(given) @ self._names.T, dtype=np.float32)
