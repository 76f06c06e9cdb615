"""BERTScore (paper 1, §10): tokens of answer and reference matched greedily by their contextual embeddings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from taxtune.errors import MissingExtraError, ModelError
from taxtune.hardware import AdaptiveBatches, find_device
from taxtune.metrics.base import FloatArray, Identity, MeasureSettings
from taxtune.metrics.model_pairs import Advance, ModelMeasure, Pair
from taxtune.metrics.text_model import find_text_model, load_error, load_tokenizer, version_of

__all__ = ["BertScoreMeasure"]

_TOKENS = 500_000  # whose embeddings the package holds at once: 2 GB of a large model


class BertScoreMeasure(ModelMeasure):
    """F1 of the package bert-score, without idf weights and without rescaling; at most 1, and well above 0.

    The package scores 0 where a text has no token or the model gives no number; here such a pair is unscored.

    Args:
        model: A model by name or its folder, with "@LAYER" behind it for another layer than the package's choice. For a
            model that the package does not know, the layer at three quarters of its depth is used, near which its
            authors found the best one for most models, and the notes say so.
        settings: Device, batches, caches.

    Raises:
        MissingExtraError: If bert-score is not installed.
        ModelError: If the model is not there, or has fewer layers.
    """

    block = 65_536  # pairs between two writes to the disk

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        try:
            import bert_score
            from bert_score.utils import model2layers
        except ImportError as error:
            raise MissingExtraError("bert-score", "measures", "The measure bertscore") from error
        with_layer = re.fullmatch(r"(.+)@(\d+)", model)
        self._model = find_text_model(with_layer[1] if with_layer else model)
        self._version = version_of(bert_score)
        depth = getattr(self._model.config, "num_hidden_layers", None)
        if not isinstance(depth, int) or depth < 1:
            raise ModelError("The model's configuration does not give its number of layers.", value=self._model.name)
        layer = int(with_layer[2]) if with_layer else model2layers.get(self._model.source)
        if layer is None:
            layer = max(1, round(0.75 * depth))
            self._notes.count(
                f"bert-score knows no best layer for {self._model.name}; layer {layer} of {depth} is used "
                "(choose another with MODEL@LAYER)."
            )
        if not 0 <= layer <= depth:
            raise ModelError(f"The model {self._model.name!r} has {depth} layers.", value=layer)
        self.layer = int(layer)

    def identity(self) -> Identity:
        """Returns the model, its revision, the layer and the libraries' versions."""
        import transformers

        return {
            "measure": "bertscore",
            "model": self._model.name,
            "revision": self._model.revision,
            "layer": self.layer,
            "library": self._version,
            "transformers": version_of(transformers),
        }

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self._model, blank_first=True)

    @cached_property
    def _scorer(self) -> Any:
        from bert_score import BERTScorer

        tokenizer = self._tokenizer
        try:
            scorer = BERTScorer(self._model.source, num_layers=self.layer, device=self._batches.device)
        except Exception as error:  # OSError, ValueError("Not supported"), AssertionError
            raise load_error(self._model.source, error, "weights") from error
        # Checkpoints in half precision are slow on a CPU, and their scores would depend on the batch.
        scorer._model, scorer._tokenizer = scorer._model.float().eval(), tokenizer
        return scorer

    @cached_property
    def _batches(self) -> AdaptiveBatches:
        device = find_device(self.settings.device)
        return AdaptiveBatches(self.settings.batch_size, model=self._model.name, device=device)

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts that are longer than the model reads."""
        for text in dict.fromkeys(text for pair in pairs for text in pair):
            if len(text.encode()) > 256:  # a token has at least a byte, but for letters normalised to several
                limit = self._tokenizer.model_max_length
                if len(self._tokenizer(text, truncation=False, verbose=False)["input_ids"]) > limit:
                    self._notes.mark(
                        f"Texts longer than the model's limit of {limit} tokens, which are truncated: {{n}}.", text
                    )

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns the F1 of pairs, those of one reference together; a text is encoded once for all of its pairs."""
        scores = np.full(len(pairs), np.nan)
        for group in self._groups(pairs):
            score = partial(self._scorer.score, *zip(*(pairs[i] for i in group), strict=True))
            f1 = self._batches.run(lambda size, score=score: score(batch_size=size)[2].numpy(), len(group))  # type: ignore[misc]
            scores[group] = np.where(f1 == 0, np.nan, f1)
            advance(len(group))
        return scores

    def _groups(self, pairs: Sequence[Pair]) -> Iterator[list[int]]:
        """Yields the numbers of pairs whose embeddings fit into the memory together; texts without a token in none."""
        texts = {text for pair in pairs for text in pair}
        wordless = {t for t in texts if not self._tokenizer(t, add_special_tokens=False, verbose=False)["input_ids"]}
        group: list[int] = []
        held: set[str] = set()
        size = 0
        for i in sorted(range(len(pairs)), key=lambda i: pairs[i][::-1]):
            if wordless.intersection(pairs[i]):
                continue
            fresh = set(pairs[i]) - held
            size += sum(min(self._tokenizer.model_max_length, len(text.encode()) + 2) for text in fresh)
            if group and size > _TOKENS:
                yield group
                group, held, size = [], set(), 0
            group.append(i)
            held |= fresh
        if group:
            yield group
