"""From a specification ("lexical", "sentence:MODEL", "clip:MODEL") to a similarity; encoders are loaded when chosen."""

from __future__ import annotations

from pathlib import Path

from taxtune.errors import MapperError
from taxtune.mapping.similarity.base import Similarity

__all__ = ["make_similarity"]


def make_similarity(spec: str, *, device: str = "auto", cache_dir: Path | None = None) -> Similarity:
    """Returns the similarity that a specification names.

    Args:
        spec: "lexical"; "sentence:MODEL", a Sentence-BERT model by name or folder; "clip:MODEL", an open_clip model
            comparing text with text; or "clip-i2t:MODEL", comparing the example's image with text. The paper used
            "clip:hf-hub:apple/DFN5B-CLIP-ViT-H-14".
        device: Where the encoder runs: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.

    Raises:
        MapperError: If there is no such similarity.
        ModelError: If its model cannot be loaded.
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
