"""BERTScore (paper 1, §10): tokens of answer and reference matched greedily by their contextual embeddings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from taxtune.errors import MissingExtraError, ModelError
from taxtune.loading import explain_load_error
from taxtune.metrics.model_pairs import Advance, Pair, TextModelMeasure, version_of
from taxtune.metrics.registry import FloatArray, Identity, MeasureSettings

__all__ = ["BertScoreMeasure"]

_PAIRS = 4096  # whose embeddings the package holds at once


class BertScoreMeasure(TextModelMeasure):
    """F1 of the package bert-score, without idf weights and without rescaling; at most 1, and well above 0.

    The package scores 0 where a text has no token or the model gives no number; here such a pair is unscored.

    Args:
        model: A model by name or its folder, maybe with "@LAYER" behind it. By default the package's choice, for a
            model that it does not know the layer at three quarters of its depth, and the notes say so.
        settings: Device, batches.

    Raises:
        MissingExtraError: If bert-score is not installed.
        ModelError: If the model is not there, or has fewer layers.
    """

    blank_first = True

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        try:
            import bert_score
            from bert_score.utils import model2layers
        except ImportError as error:
            raise MissingExtraError("bert-score", "measures", "The measure bertscore") from error
        with_layer = re.fullmatch(r"(.+)@(\d+)", model)
        super().__init__(model, settings, with_layer[1] if with_layer else None)
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
        """The model, its revision, the layer and the libraries' versions."""
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
    def _scorer(self) -> Any:
        from bert_score import BERTScorer

        tokenizer = self._tokenizer
        try:
            scorer = BERTScorer(self._model.source, num_layers=self.layer, device=self._batches.device)
        except Exception as error:  # OSError, ValueError("Not supported"), AssertionError
            raise explain_load_error(self._model.source, error, "weights") from error
        # Checkpoints in half precision are slow on a CPU, and their scores would depend on the batch.
        scorer._model, scorer._tokenizer = scorer._model.float().eval(), tokenizer
        return scorer

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts that are longer than the model reads."""
        for text in dict.fromkeys(text for pair in pairs for text in pair):
            self.note_long(text)

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """The F1 of pairs, those of one reference together; NaN where a text has no token."""
        scores = np.full(len(pairs), np.nan)
        texts = {text for pair in pairs for text in pair}
        wordless = {t for t in texts if not self._tokenizer(t, add_special_tokens=False, verbose=False)["input_ids"]}
        order = sorted(range(len(pairs)), key=lambda i: pairs[i][::-1])
        order = [i for i in order if wordless.isdisjoint(pairs[i])]
        for start in range(0, len(order), _PAIRS):
            group = order[start : start + _PAIRS]
            score = partial(self._scorer.score, *zip(*(pairs[i] for i in group), strict=True))
            f1 = self._batches.run(lambda size, score=score: score(batch_size=size)[2].numpy(), len(group))  # type: ignore[misc]
            scores[group] = np.where(f1 == 0, np.nan, f1)
            advance(len(group))
        return scores
