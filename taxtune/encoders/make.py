"""From a specification to an encoder of texts; models are loaded when chosen."""

from __future__ import annotations

from pathlib import Path

from taxtune.encoders.base import TextEncoder
from taxtune.errors import ModelError

__all__ = ["make_text_encoder"]


def make_text_encoder(spec: str, *, device: str = "auto", cache_dir: Path | None = None) -> TextEncoder:
    """Returns the encoder that a specification names.

    Args:
        spec: "sentence:MODEL", a Sentence-BERT model by name or folder, or "clip:MODEL", the text side of an open_clip
            model.
        device: "auto", "cpu", "cuda", ...
        cache_dir: Where stored embeddings are kept; None is the user's cache folder.

    Raises:
        ModelError: If there is no such encoder or its model cannot be loaded.
        MissingExtraError: If its package is not installed.
    """
    kind, _, model = spec.partition(":")
    if kind == "sentence" and model:
        from taxtune.encoders.sentence import SentenceEncoder

        return SentenceEncoder(model, device=device, cache_dir=cache_dir)
    if kind == "clip" and model:
        from taxtune.encoders.clip import ClipEncoder

        return ClipEncoder(model, device=device, cache_dir=cache_dir)
    raise ModelError("There is no such text encoder.", value=spec, remedy="Take sentence:MODEL or clip:MODEL.")
