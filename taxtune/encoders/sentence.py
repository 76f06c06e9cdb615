"""Sentence-BERT models."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.encoders.base import FloatMatrix, folder_digest, model_folder
from taxtune.encoders.vectors import stored_embeddings
from taxtune.errors import MissingExtraError
from taxtune.hardware import AdaptiveBatches, find_device
from taxtune.loading import explain_load_error, look_for_hub, quiet_progress
from taxtune.untrusted import well_formed

__all__ = ["SentenceEncoder"]


class SentenceEncoder:
    """A sentence encoder (sentence-transformers; extra `measures`).

    Args:
        model: A model by name ("all-MiniLM-L6-v2") or the folder of one.
        device: "auto", "cpu", "cuda", ...
        cache_dir: Folder of the embeddings that `stored` keeps; None is the user's cache folder.
        batch_size: Texts encoded at once, at least 1.

    Attributes:
        name: "sentence:MODEL".
        identity: Everything about the model that can change a vector.
        token_limit: Tokens of a text that the model reads, special tokens included; None where it
            knows no limit.

    Raises:
        MissingExtraError: If sentence-transformers is not installed.
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
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtraError(
                "sentence-transformers", "measures", f"The sentence encoder {model}"
            ) from error
        self.name = f"sentence:{model}"
        self.cache_dir = cache_dir
        self.batch_size = batch_size
        device = find_device(device)
        folder = model_folder(model)
        self._batches = AdaptiveBatches(batch_size, model=model, device=device)
        if folder is None:
            look_for_hub()
        try:
            # What is on this machine is loaded at once; only a download deserves a bar.
            with quiet_progress() if folder else nullcontext():
                self._model: Any = SentenceTransformer(str(folder or model), device=device)
        # The library raises whatever its parts raise: OSError, ValueError, HTTP errors.
        except Exception as error:
            called = model if folder or "/" in model else f"sentence-transformers/{model}"
            raise explain_load_error(called, error, "configuration") from error
        self.identity: dict[str, str | int | None] = {
            "kind": "sentence",
            "model": model,
            "version": folder_digest(folder) if folder else self._commit(),
        }
        limit = getattr(self._model, "max_seq_length", None)
        self.token_limit: int | None = None if limit is None else int(limit)

    def _commit(self) -> str | None:
        """Returns the commit of a model on Hugging Face, where it is known."""
        transformer = getattr(self._model[0], "auto_model", None)
        config = getattr(transformer, "config", None)
        return getattr(config, "_commit_hash", None)

    def texts(self, texts: Sequence[str]) -> FloatMatrix:
        """Returns a unit vector for each text, shape (texts, dimensions).

        Text beyond the model's length is cut.
        """
        texts = [well_formed(text) for text in texts]

        def encode(size: int) -> Any:
            # The library sorts the texts by length and cuts batches itself.
            return self._model.encode(
                texts, batch_size=size, normalize_embeddings=True, show_progress_bar=False
            )

        return np.asarray(self._batches.run(encode, len(texts)), dtype=np.float32)

    def truncated(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Tells of each text whether it has more tokens than the model reads."""
        flags = np.zeros(len(texts), dtype=bool)
        if self.token_limit is None:
            return flags
        for i, text in enumerate(texts):
            # A token has at least a byte of the text, but for letters that are normalised to
            # several.
            if len(text.encode("utf-8", "replace")) > self.token_limit // 2:
                tokens = self._model.tokenizer(text, truncation=False, verbose=False)["input_ids"]
                flags[i] = len(tokens) > self.token_limit
        return flags

    def stored(self, texts: Sequence[str]) -> FloatMatrix:
        """Returns the same as `texts`, from disk where this list was encoded before."""
        return stored_embeddings(self.identity, texts, self.texts, self.cache_dir)
