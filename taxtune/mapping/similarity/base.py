"""What a similarity is, and how one is made from its specification."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import MapperError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FloatMatrix", "Similarity", "choose_device", "make_similarity"]

FloatMatrix = NDArray[np.float32]


@runtime_checkable
class Similarity(Protocol):
    """Scores answers against names; `fit` comes before `scores`.

    Attributes:
        name: Its specification, as in "sentence:all-MiniLM-L6-v2".
        needs_images: Whether it scores the example's image instead of the answer.
        confident: The score from which the most similar name is believed where nothing else decides.
    """

    name: str
    needs_images: bool
    confident: float

    def fit(self, names: Sequence[str]) -> None:
        """Takes in the names that answers will be compared with."""

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns cosine-like scores, at most 1, of shape (answers, names)."""
        ...


def make_similarity(spec: str, *, device: str = "auto", cache_dir: Path | None = None) -> Similarity:
    """Returns the similarity that a specification names.

    Args:
        spec: "lexical"; "sentence:MODEL", a Sentence-BERT model by name or folder; "clip:MODEL", an open_clip model
            comparing text with text; or "clip-i2t:MODEL", comparing the example's image with text. The paper used
            "clip:hf-hub:apple/DFN5B-CLIP-ViT-H-14".
        device: Where the encoder runs: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.

    Raises:
        MapperError: If there is no such similarity or its model cannot be loaded.
        MissingExtraError: If its package is not installed.
    """
    kind, _, model = spec.partition(":")
    if kind == "lexical" and not model:
        from taxtune.mapping.similarity.lexical import LexicalSimilarity

        return LexicalSimilarity()
    if kind == "sentence" and model:
        from taxtune.mapping.similarity.sentence import SentenceSimilarity

        return SentenceSimilarity(model, device=device, cache_dir=cache_dir)
    if kind in ("clip", "clip-i2t") and model:
        from taxtune.mapping.similarity.clip import ClipSimilarity

        return ClipSimilarity(model, image_to_text=kind == "clip-i2t", device=device, cache_dir=cache_dir)
    raise MapperError(
        "There is no such similarity.",
        value=spec,
        remedy="Take lexical, sentence:MODEL, clip:MODEL or clip-i2t:MODEL.",
    )


def choose_device(device: str) -> str:
    """Returns the device itself, or for "auto" the best one that this machine has."""
    if device != "auto":
        return device
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
