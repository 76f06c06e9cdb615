"""BERTScore (paper 1, §10), by the package bert-score.

The tokens of answer and reference are matched greedily by their contextual embeddings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import numpy as np

from taxtune.encoders.base import folder_digest, model_folder
from taxtune.errors import MissingExtraError, ModelError
from taxtune.hardware import AdaptiveBatches, find_device
from taxtune.loading import explain_load_error, look_for_hub
from taxtune.metrics.base import (
    Advance,
    FloatArray,
    Identity,
    MeasureSettings,
    Pair,
    PairsMeasure,
    version_of,
)
from taxtune.metrics.registry import MEASURES

__all__ = ["BertScoreMeasure", "token_limit"]

_MAX_TOKENS = 512
_PAIRS = 4096  # whose embeddings bert-score holds at once
_BYTE_LEVEL = ("GPT2Tokenizer", "RobertaTokenizer")


class BertScoreMeasure(PairsMeasure):
    """F1 of the package bert-score, without idf weights and without rescaling.

    It is at most 1, and well above 0. The package scores 0 where a text has no token or the model
    gives no number; here such a pair is unscored. The weights are loaded with the first pair.

    Args:
        model: A model of Hugging Face by name or its folder, maybe with "@LAYER" behind it. By
            default the package's choice, for a model that it does not know the layer at three
            quarters of its depth, and the notes say so.
        settings: Device, batches.

    Raises:
        MissingExtraError: If bert-score is not installed.
        ModelError: If the model is not there, or has fewer layers.
    """

    kind = MEASURES["bertscore"]

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        try:
            import bert_score
        except ImportError as error:
            raise MissingExtraError("bert-score", "measures", "The measure bertscore") from error
        import transformers

        super().__init__(model, settings)
        with_layer = re.fullmatch(r"(.+)@(\d+)", model)
        source = with_layer[1] if with_layer else model
        folder = model_folder(source)
        self._source = source if folder is None else str(folder)
        if folder is None:
            look_for_hub()
        with self._loading("configuration"):
            self._config: Any = transformers.AutoConfig.from_pretrained(self._source)
        commit = None if folder else getattr(self._config, "_commit_hash", None)
        self._commit: str = commit or "main"
        name = source if folder is None else folder.resolve().name
        self._identity: Identity = {
            "measure": "bertscore",
            "model": name,
            "revision": commit if folder is None else f"sha256:{folder_digest(folder)}",
            "layer": self._layer(name, int(with_layer[2]) if with_layer else None),
            "library": version_of(bert_score),
            "transformers": version_of(transformers),
        }

    def _layer(self, name: str, layer: int | None) -> int:
        """Returns the layer whose embeddings are compared; the package's where None is given."""
        from bert_score.utils import model2layers

        depth: int = self._config.num_hidden_layers
        if layer is None:
            layer = model2layers.get(self._source)
        if layer is None:
            layer = max(1, round(0.75 * depth))
            self._notes.count(
                f"bert-score knows no best layer for {name}; layer {layer} of {depth} is used "
                "(choose another with MODEL@LAYER)."
            )
        if layer > depth:
            raise ModelError(f"The model {name!r} has {depth} layers.", value=layer)
        return layer

    def identity(self) -> Identity:
        """Returns the model, its revision, the layer and the libraries' versions."""
        return self._identity

    @contextmanager
    def _loading(self, what: str) -> Iterator[None]:
        try:
            yield
        # OSError, ValueError("Not supported"), AssertionError, HTTP errors
        except Exception as error:
            raise explain_load_error(self._source, error, what) from error

    @cached_property
    def _batches(self) -> AdaptiveBatches:
        device = find_device(self.settings.device)
        return AdaptiveBatches(self.settings.batch_size, model=self._source, device=device)

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer with its limit as `model_max_length`."""
        from transformers import AutoTokenizer

        with self._loading("tokenizer"):
            load = partial(AutoTokenizer.from_pretrained, self._source, revision=self._commit)
            tokenizer: Any = load()
            if type(tokenizer).__name__.removesuffix("Fast") in _BYTE_LEVEL:
                # Their vocabularies have words with the blank before them.
                tokenizer = load(add_prefix_space=True)
        tokenizer.model_max_length = token_limit(tokenizer, self._config)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @cached_property
    def _scorer(self) -> Any:
        from bert_score import BERTScorer

        with self._loading("weights"):
            scorer = BERTScorer(
                self._source, num_layers=self._identity["layer"], device=self._batches.device
            )
        # Checkpoints in half precision are slow on a CPU, and their scores would depend on the
        # batch.
        scorer._model = scorer._model.float().eval()
        scorer._tokenizer = self._tokenizer
        return scorer

    def _tokens(self, text: str, **options: bool) -> list[int]:
        """Returns the tokens of a text, however long it is."""
        ids: list[int] = self._tokenizer(text, verbose=False, **options)["input_ids"]
        return ids

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts that are longer than the model reads."""
        limit = self._tokenizer.model_max_length
        note = f"Texts longer than the model's limit of {limit} tokens, which are truncated: {{n}}."
        for text in {text for pair in pairs for text in pair}:
            # A token has at least a byte of the text, but for letters that are normalised to
            # several.
            may_be_long = len(text.encode()) > limit // 2
            if may_be_long and len(self._tokens(text, truncation=False)) > limit:
                self._notes.mark(note, text)

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Returns the F1 of pairs; NaN where a text has no token."""
        has_token = {}
        for text in {text for pair in pairs for text in pair}:
            has_token[text] = bool(self._tokens(text, add_special_tokens=False))
        # Those of one reference together.
        order = sorted(range(len(pairs)), key=lambda i: pairs[i][::-1])
        order = [i for i in order if all(has_token[text] for text in pairs[i])]
        scores = np.full(len(pairs), np.nan)
        for start in range(0, len(order), _PAIRS):
            group = order[start : start + _PAIRS]
            f1 = self._f1([pairs[i] for i in group])
            scores[group] = np.where(f1 == 0, np.nan, f1)
            advance(len(group))
        return scores

    def _f1(self, pairs: Sequence[Pair]) -> FloatArray:
        answers, references = zip(*pairs, strict=True)

        def compute(size: int) -> FloatArray:
            f1: FloatArray = self._scorer.score(answers, references, batch_size=size)[2].numpy()
            return f1

        return self._batches.run(compute, len(pairs))


def token_limit(tokenizer: Any, config: Any) -> int:
    """Returns the number of tokens that a model is given, special tokens included.

    It is at most 512, which every family reads.
    """
    positions = getattr(config, "max_position_embeddings", None) or 0
    limits = (tokenizer.model_max_length, positions, _MAX_TOKENS)
    return int(min(limit for limit in limits if limit > 0))
