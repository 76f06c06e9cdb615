"""BERTScore (paper 1, §10): the tokens of answer and reference matched greedily by their contextual embeddings."""

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


class BertScoreMeasure(PairsMeasure):
    """F1 of the package bert-score, without idf weights and without rescaling; at most 1, and well above 0.

    The package scores 0 where a text has no token or the model gives no number; here such a pair is unscored. The
    weights are loaded with the first pair.

    Args:
        model: A model of Hugging Face by name or its folder, maybe with "@LAYER" behind it. By default the package's
            choice, for a model that it does not know the layer at three quarters of its depth, and the notes say so.
        settings: Device, batches.

    Raises:
        MissingExtraError: If bert-score is not installed.
        ModelError: If the model is not there, or has fewer layers.
    """

    kind = MEASURES["bertscore"]

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        try:
            import bert_score
            from bert_score.utils import model2layers
        except ImportError as error:
            raise MissingExtraError("bert-score", "measures", "The measure bertscore") from error
        import transformers

        super().__init__(settings, model=model)
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
        name, depth = (
            source if folder is None else folder.resolve().name,
            self._config.num_hidden_layers,
        )
        layer = int(with_layer[2]) if with_layer else model2layers.get(self._source)
        if layer is None:
            layer = max(1, round(0.75 * depth))
            known = f"bert-score knows no best layer for {name}"
            self._notes.count(
                f"{known}; layer {layer} of {depth} is used (choose another with MODEL@LAYER)."
            )
        if layer > depth:
            raise ModelError(f"The model {name!r} has {depth} layers.", value=layer)
        self._identity: Identity = {
            "measure": "bertscore",
            "model": name,
            "revision": commit if folder is None else f"sha256:{folder_digest(folder)}",
            "layer": layer,
            "library": version_of(bert_score),
            "transformers": version_of(transformers),
        }

    def identity(self) -> Identity:
        """The model, its revision, the layer and the libraries' versions."""
        return self._identity

    @contextmanager
    def _loading(self, what: str) -> Iterator[None]:
        try:
            yield
        except (
            Exception
        ) as error:  # OSError, ValueError("Not supported"), AssertionError, HTTP errors
            raise explain_load_error(self._source, error, what) from error

    @cached_property
    def _batches(self) -> AdaptiveBatches:
        return AdaptiveBatches(
            self.settings.batch_size, model=self._source, device=find_device(self.settings.device)
        )

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer with its limit as `model_max_length`; RoBERTa's put a blank before the first word."""
        from transformers import AutoTokenizer

        with self._loading("tokenizer"):
            load = partial(AutoTokenizer.from_pretrained, self._source, revision=self._commit)
            tokenizer: Any = load()
            if type(tokenizer).__name__.removesuffix("Fast") in (
                "GPT2Tokenizer",
                "RobertaTokenizer",
            ):
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
        # Checkpoints in half precision are slow on a CPU, and their scores would depend on the batch.
        scorer._model, scorer._tokenizer = scorer._model.float().eval(), self._tokenizer
        return scorer

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts that are longer than the model reads."""
        limit = self._tokenizer.model_max_length
        note = f"Texts longer than the model's limit of {limit} tokens, which are truncated: {{n}}."
        # A token has at least a byte of the text, but for letters that are normalised to several.
        for text in {text for pair in pairs for text in pair if len(text.encode()) > limit // 2}:
            if len(self._tokenizer(text, truncation=False, verbose=False)["input_ids"]) > limit:
                self._notes.mark(note, text)

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """The F1 of pairs, those of one reference together; NaN where a text has no token."""
        scores = np.full(len(pairs), np.nan)
        texts = {text for pair in pairs for text in pair}
        wordless = {
            t
            for t in texts
            if not self._tokenizer(t, add_special_tokens=False, verbose=False)["input_ids"]
        }
        order = sorted(range(len(pairs)), key=lambda i: pairs[i][::-1])
        order = [i for i in order if wordless.isdisjoint(pairs[i])]
        for start in range(0, len(order), _PAIRS):
            group = order[start : start + _PAIRS]
            candidates = [pairs[i][0] for i in group]
            references = [pairs[i][1] for i in group]
            f1 = self._batches.run(partial(self._f1, candidates, references), len(group))
            scores[group] = np.where(f1 == 0, np.nan, f1)
            advance(len(group))
        return scores

    def _f1(self, candidates: list[str], references: list[str], batch_size: int) -> FloatArray:
        """Returns the F1 of candidates and references, pair by pair."""
        scores = self._scorer.score(candidates, references, batch_size=batch_size)
        return np.asarray(scores[2].numpy())


def token_limit(tokenizer: Any, config: Any) -> int:
    """The number of tokens that a model is given, special tokens included: at most 512, which every family reads."""
    limits = (
        tokenizer.model_max_length,
        getattr(config, "max_position_embeddings", None) or 0,
        _MAX_TOKENS,
    )
    return int(min(limit for limit in limits if limit > 0))
