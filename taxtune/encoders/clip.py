"""CLIP models: texts and images in one space."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.encoders.base import FloatMatrix
from taxtune.encoders.vectors import stored_embeddings
from taxtune.errors import ModelError
from taxtune.hardware import AdaptiveBatches, find_device
from taxtune.loading import explain_load_error, is_out_of_reach, look_for_hub
from taxtune.untrusted import well_formed

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["ClipEncoder"]


class ClipEncoder:
    """A CLIP model (open_clip).

    Args:
        model: A model as open_clip names it: "hf-hub:apple/DFN5B-CLIP-ViT-H-14" (paper 1's),
            "local-dir:FOLDER", or "ViT-B-32@TAG" with the tag or file of its weights behind the @.
        device: "auto", "cpu", "cuda", ...
        cache_dir: Folder of the embeddings that `stored` keeps; None is the user's cache folder.
        batch_size: Texts or images encoded at once, at least 1.

    Attributes:
        name: "clip:MODEL".
        identity: Everything about the model that can change a vector.
        preprocessing: Description of an image's preprocessing.
        context_length: Tokens of a text that the model reads.

    Raises:
        ModelError: If the model cannot be loaded, or the device is not there.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        cache_dir: Path | None = None,
        batch_size: int = 256,
    ) -> None:
        self.name = f"clip:{model}"
        self.cache_dir = cache_dir
        self.batch_size = batch_size
        self._device = find_device(device)
        # An image takes far more memory than a text.
        self._text_batches = self._batches(model, "text")
        self._image_batches = self._batches(model, "image")
        if not model.startswith("local-dir:"):
            look_for_hub()
        self._load(model)
        self.context_length = int(getattr(self._tokenizer, "context_length", None) or 77)
        self.identity: dict[str, str | int | None] = {
            "kind": "clip",
            "model": model,
            "weights": _weights_digest(self._model),
        }
        # Functions show with their address, which is another in every process.
        self.preprocessing = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(self._preprocess))

    def _batches(self, model: str, item: str) -> AdaptiveBatches:
        return AdaptiveBatches(self.batch_size, model=model, device=self._device, item=item)

    def _load(self, model: str) -> None:
        import open_clip

        architecture, _, weights = model.partition("@")
        try:
            # Where there are no weights, other ways to make a model give random ones and a warning.
            self._model, self._preprocess = open_clip.create_model_from_pretrained(
                architecture, pretrained=weights or None, device=self._device
            )
            self._tokenizer = open_clip.get_tokenizer(architecture)
        # The library raises whatever its parts raise: RuntimeError, OSError, HTTP errors.
        except Exception as error:
            if model.startswith("hf-hub:") and is_out_of_reach(error):
                name = model.removeprefix("hf-hub:")
                raise explain_load_error(name, error, "configuration") from error
            # Shortened, as open_clip lists every architecture that it knows.
            reason = shorten(str(error), 300, placeholder=" …")
            raise ModelError(
                f"The CLIP model cannot be loaded: {reason}",
                value=model,
                remedy="Give hf-hub:OWNER/MODEL, local-dir:FOLDER or ARCHITECTURE@WEIGHTS.",
            ) from error
        self._model.eval()

    def texts(self, texts: Sequence[str]) -> FloatMatrix:
        """Returns a unit vector for each text, shape (texts, dimensions).

        See `truncated` for long ones.
        """

        def encode(batch: Sequence[str]) -> Any:
            return self._model.encode_text(self._tokens(batch).to(self._device))

        return self._in_batches(self._text_batches, texts, encode)

    def stored(self, texts: Sequence[str]) -> FloatMatrix:
        """Returns the same as `texts`, from disk where this list was encoded before."""
        return stored_embeddings(self.identity, texts, self.texts, self.cache_dir)

    def images(self, images: Sequence[Image]) -> FloatMatrix:
        """Returns a unit vector for each image, shape (images, dimensions)."""
        import torch

        def encode(batch: Sequence[Image]) -> Any:
            pixels = torch.stack([self._preprocess(image.convert("RGB")) for image in batch])
            return self._model.encode_image(pixels.to(self._device))

        return self._in_batches(self._image_batches, images, encode)

    def truncated(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Tells of each text whether it fills the context: its end may not have been read."""
        flags = np.zeros(len(texts), dtype=bool)
        # A token has at least a byte of the text, but for letters that are normalised to several.
        sizes = [len(text.encode("utf-8", "replace")) for text in texts]
        long = np.flatnonzero(np.array(sizes) > self.context_length // 2)
        for start in range(0, len(long), self.batch_size):
            rows = long[start : start + self.batch_size]
            tokens = self._tokens(["", *(texts[row] for row in rows)])
            # Shorter texts end in padding, which is the last token of an empty text.
            flags[rows] = (tokens[1:, -1] != tokens[0, -1]).numpy()
        return flags

    def _tokens(self, texts: Sequence[str]) -> Any:
        return self._tokenizer([well_formed(text) for text in texts])

    def _in_batches(
        self, batches: AdaptiveBatches, items: Sequence[Any], encode: Callable[..., Any]
    ) -> FloatMatrix:
        import torch

        def compute(batch: Sequence[Any]) -> list[FloatMatrix]:
            with torch.inference_mode():
                unit = torch.nn.functional.normalize(encode(batch).float(), dim=-1)
            return list(unit.cpu().numpy())

        rows = batches.map(items, compute)
        return np.stack(rows) if rows else np.zeros((0, 1), dtype=np.float32)


def _weights_digest(model: Any) -> str:
    """Returns a hash of a few values of every parameter.

    It tells two sets of weights of one name apart.
    """
    digest = hashlib.sha256()
    for name, parameter in model.state_dict().items():
        sample = parameter.detach().flatten()[:64].float().cpu().numpy()
        digest.update(name.encode())
        digest.update(str(tuple(parameter.shape)).encode())
        digest.update(sample.tobytes())
    return digest.hexdigest()
