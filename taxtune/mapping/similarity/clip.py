"""Similarity by a CLIP model: answer to name, or image to name (paper 1, §6 and §11)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.errors import MapperError, MissingExtraError
from taxtune.mapping.similarity.base import FloatMatrix, choose_device
from taxtune.mapping.similarity.store import stored_embeddings

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ClipSimilarity"]


class ClipSimilarity:
    """Cosine of CLIP embeddings (open_clip; extra `clip`).

    Args:
        model: A model as open_clip names it: "hf-hub:apple/DFN5B-CLIP-ViT-H-14" (the paper's), "local-dir:FOLDER", or
            "ViT-B-32@TAG" with the tag or file of its weights behind the @.
        image_to_text: Whether the example's image is compared with the names instead of the answer.
        device: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.
        batch_size: Texts or images encoded at once.

    Raises:
        MissingExtraError: If open_clip is not installed.
        MapperError: If the model cannot be loaded.
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
        try:
            import open_clip
        except ImportError as error:
            raise MissingExtraError("open_clip_torch", "clip", "The CLIP similarity") from error
        self.name = f"{'clip-i2t' if image_to_text else 'clip'}:{model}"
        self.needs_images = image_to_text
        # Cosines of an image and its caption stay far below those of two captions.
        self.confident = 0.25 if image_to_text else 0.9
        self.cache_dir, self.batch_size = cache_dir, batch_size
        self._device = choose_device(device)
        architecture, _, weights = model.partition("@")
        try:
            self._model, _, self._preprocess = open_clip.create_model_and_transforms(
                architecture, pretrained=weights or None, device=self._device
            )
            self._tokenizer = open_clip.get_tokenizer(architecture)
        except Exception as error:  # the library raises whatever its parts raise: RuntimeError, OSError, HTTP errors
            raise MapperError(
                # Shortened, as open_clip lists every architecture that it knows.
                f"The CLIP model cannot be loaded: {shorten(str(error), 300, placeholder=' …')}",
                value=model,
                remedy="Give hf-hub:OWNER/MODEL, local-dir:FOLDER or ARCHITECTURE@WEIGHTS.",
            ) from error
        self._model.eval()
        self._identity = {"kind": "clip", "model": model, "weights": _weights_digest(self._model)}
        self._names: FloatMatrix | None = None

    def fit(self, names: Sequence[str]) -> None:
        """Embeds the names, or finds them embedded on disk."""
        self._names = stored_embeddings(self._identity, names, self._encode_texts, self.cache_dir)

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns cosines, shape (answers, names).

        Raises:
            MapperError: If `fit` has not been called, or an image is needed and not given.
        """
        if self._names is None:
            raise MapperError("The CLIP similarity knows no names yet.", remedy="Call fit first.")
        if not self.needs_images:
            return np.asarray(self._encode_texts(answers) @ self._names.T, dtype=np.float32)
        given = [image for image in images or () if image is not None]
        if len(given) != len(answers):
            raise MapperError(
                "Image-to-text similarity needs the image of every answer.",
                value=f"{len(given)} images for {len(answers)} answers",
                remedy="Give the images, or take the text-to-text similarity clip:MODEL.",
            )
        return np.asarray(self._encode_images(given) @ self._names.T, dtype=np.float32)

    def _encode_texts(self, texts: Sequence[str]) -> FloatMatrix:
        return self._in_batches(texts, lambda batch: self._model.encode_text(self._tokenizer(batch).to(self._device)))

    def _encode_images(self, images: Sequence[Image]) -> FloatMatrix:
        import torch

        def encode(batch: list[Image]) -> Any:
            pixels = torch.stack([self._preprocess(image.convert("RGB")) for image in batch])
            return self._model.encode_image(pixels.to(self._device))

        return self._in_batches(images, encode)

    def _in_batches(self, items: Sequence[Any], encode: Any) -> FloatMatrix:
        import torch

        parts = []
        with torch.inference_mode():
            for start in range(0, len(items), self.batch_size):
                vectors = encode(list(items[start : start + self.batch_size])).float()
                parts.append(torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy())
        return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)


def _weights_digest(model: Any) -> str:
    """Returns a hash of a few values of every parameter: what tells two sets of weights of one name apart."""
    import hashlib

    digest = hashlib.sha256()
    for name, parameter in model.state_dict().items():
        sample = parameter.detach().flatten()[:64].float().cpu().numpy()
        digest.update(name.encode() + str(tuple(parameter.shape)).encode() + sample.tobytes())
    return digest.hexdigest()
