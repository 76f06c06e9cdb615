"""BERTScore (paper 1, §10): tokens of answer and reference matched greedily by their contextual embeddings."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.errors import MissingExtraError, ModelError
from taxtune.hardware import AdaptiveBatches, find_device
from taxtune.metrics.base import FloatArray, Identity, MeasureSettings
from taxtune.metrics.model_pairs import Advance, ModelMeasure, Pair
from taxtune.metrics.registry import measure
from taxtune.metrics.text_model import find_text_model, load_error, quiet_loading, token_limit, version_of

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["BertScoreMeasure"]

# Of token embeddings at a time, in bytes; past it those of earlier texts are let go.
_KEPT_BYTES = 2 * 1024**3
# What the batch size is multiplied with to bound the tokens of a batch of pairs.
_TOKENS_A_PAIR = 128
# Answers and references of a part of a matrix.
_TILE = 512


@measure(
    "bertscore",
    label="BERTScore",
    summary="F1 of greedily matched token embeddings",
    source="paper 1, §10",
    default_model="microsoft/deberta-large-mnli",
    extra="measures",
)
class BertScoreMeasure(ModelMeasure):
    """F1 of BERTScore, without idf weights and without rescaling; at most 1, and for unrelated texts well above 0.

    Tokens, layer, embeddings and matching are the package bert-score's; what is ours is that a text is encoded once
    for all of its pairs, and that a NaN stays one (the package makes it 0). Where none of a token's cosines is
    positive, the match counts 0, as it does in the package for all but the longest texts of a batch.

    Args:
        model: A model by name or its folder, with "@LAYER" behind it where another layer than the package's choice is
            wanted. For a model that the package does not know the layer at three quarters of its depth is taken, near
            which the package's authors found the best one for most models, and the notes say so.
        settings: Device, batches, caches.

    Raises:
        MissingExtraError: If bert-score is not installed.
        ModelError: If the model is not there, or has fewer layers.
    """

    block = 16_384  # pairs between two writes to the disk

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        try:
            import bert_score
        except ImportError as error:
            raise MissingExtraError("bert-score", "measures", "The measure bertscore") from error
        asked = re.fullmatch(r"(.+)@(\d+)", model)
        self._model = find_text_model(asked[1] if asked else model)
        if "t5" in self._model.source and "t5" not in self._model.config.model_type:
            raise ModelError(
                "The package bert-score treats every model with 't5' in its name or path as a T5 model.",
                value=self._model.source,
                remedy="Rename the folder.",
            )
        self.layer = self._layer(int(asked[2]) if asked else None)
        self._version = version_of(bert_score)
        self._kept: dict[str, Any] = {}
        self._kept_bytes = 0

    def _layer(self, asked: int | None) -> int:
        from bert_score.utils import model2layers

        depth = getattr(self._model.config, "num_hidden_layers", None)
        if not isinstance(depth, int) or depth < 1:
            raise ModelError("The model's configuration does not give its number of layers.", value=self._model.name)
        layer = asked if asked is not None else model2layers.get(self._model.source)
        if layer is None:
            layer = max(1, round(0.75 * depth))
            self._notes.count(
                f"bert-score knows no best layer for {self._model.name}; layer {layer} of {depth} is used "
                "(choose another with MODEL@LAYER).",
            )
        if not 0 <= layer <= depth:
            raise ModelError(f"The model {self._model.name!r} has {depth} layers.", value=layer)
        return int(layer)

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

    # -- the model, loaded when the first text is encoded --------------------------------------------------------------

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        source = self._model.source
        try:
            tokenizer = AutoTokenizer.from_pretrained(source, revision=self._model.commit or "main")
            if type(tokenizer).__name__.removesuffix("Fast") in ("GPT2Tokenizer", "RobertaTokenizer"):
                # The package asks for a blank before the first word at each call; newer tokenizers only at loading.
                tokenizer = AutoTokenizer.from_pretrained(
                    source, revision=self._model.commit or "main", add_prefix_space=True
                )
        except Exception as error:
            raise load_error(source, error, "tokenizer") from error
        tokenizer.model_max_length = token_limit(tokenizer, self._model.config)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @cached_property
    def _network(self) -> Any:
        from bert_score.utils import get_model

        device = self._device  # before the weights are read
        try:
            with quiet_loading(self._model):
                network = get_model(self._model.source, self.layer)
        except Exception as error:  # OSError, ValueError("Not supported"), AssertionError
            raise load_error(self._model.source, error, "weights") from error
        # Checkpoints in half precision are slow on a CPU, and their scores would depend on the batch.
        return network.float().to(device).eval()

    @cached_property
    def _device(self) -> str:
        return find_device(self.settings.device)

    @cached_property
    def _texts(self) -> AdaptiveBatches:
        return AdaptiveBatches(self.settings.batch_size, model=self._model.name, device=self._device)

    # -- scores --------------------------------------------------------------------------------------------------------

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts that are longer than the model reads."""
        for text in dict.fromkeys(text for pair in pairs for text in pair):
            # A token has at least a byte of the text, but for letters that are normalised to several.
            positions = getattr(self._model.config, "max_position_embeddings", None) or 512
            if len(text.encode()) > min(positions, 512) // 2:
                limit = self._tokenizer.model_max_length
                if len(self._tokenizer(text.strip(), truncation=False, verbose=False)["input_ids"]) > limit:
                    what = f"Texts longer than the model's limit of {limit} tokens, which are truncated"
                    self._notes.mark(f"{what}: {{n}}.", text)

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """Encodes each different text once and matches the tokens of each pair."""
        scores = np.full(len(pairs), np.nan)
        # Pairs of one reference follow each other, so that its embeddings are let go once at most.
        for group in self._groups(pairs, sorted(range(len(pairs)), key=lambda i: pairs[i][::-1])):
            self._encode(list(dict.fromkeys(text for i in group for text in pairs[i])))
            lengths = {i: max(len(self._kept[text][1]) for text in pairs[i]) for i in group}
            group.sort(key=lambda i: -lengths[i])
            start = 0
            while start < len(group):
                # Tokens rather than pairs bound a batch: short labels go by the thousand.
                size = max(1, self.settings.batch_size * _TOKENS_A_PAIR // (lengths[group[start]] + 1))
                batch = group[start : start + size]
                matching = AdaptiveBatches(size, model=self._model.name, device=self._device, item="pair")
                scores[batch] = matching.map([pairs[i] for i in batch], self._match)
                advance(len(batch))
                start += size
        return scores

    def _groups(self, pairs: Sequence[Pair], order: Sequence[int]) -> Iterator[list[int]]:
        """Yields the numbers of pairs whose embeddings fit into the memory together, letting earlier ones go."""
        width = 4 * int(getattr(self._model.config, "hidden_size", 1024))
        limit = self._tokenizer.model_max_length
        group: list[int] = []
        new: set[str] = set()
        size = 0
        for i in order:
            fresh = [text for text in dict.fromkeys(pairs[i]) if text not in self._kept and text not in new]
            if group and size > _KEPT_BYTES // 2:
                yield group
                if self._kept_bytes > _KEPT_BYTES // 2:
                    self._kept.clear()
                    self._kept_bytes = 0
                group, new, size = [], set(), 0
                fresh = [text for text in dict.fromkeys(pairs[i]) if text not in self._kept]
            group.append(i)
            new.update(fresh)
            size += sum(width * min(limit, len(text.encode()) + 2) for text in fresh)
        if group:
            yield group
        if self._kept_bytes > _KEPT_BYTES // 2:
            self._kept.clear()
            self._kept_bytes = 0

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns every answer's score against every reference, in square tiles, shape (answers, references)."""
        # A text's embeddings serve many pairs before they are let go.
        table = np.empty((len(answers), len(references)))
        for left in range(0, len(answers), _TILE):
            for right in range(0, len(references), _TILE):
                tile = slice(left, left + _TILE), slice(right, right + _TILE)
                table[tile] = super().matrix(answers[tile[0]], references[tile[1]])
        return table

    def _encode(self, texts: Sequence[str]) -> None:
        """Embeds the tokens of the texts that are not kept: text -> (embeddings, weights)."""
        fresh = sorted((text for text in texts if text not in self._kept), key=lambda text: -len(text))
        for text, entry in zip(fresh, self._texts.map(fresh, self._embed), strict=True):
            self._kept[text] = entry
            self._kept_bytes += entry[0].numel() * 4

    def _embed(self, texts: Sequence[str]) -> list[tuple[Any, Any]]:
        from bert_score.utils import get_bert_embedding

        tokenizer = self._tokenizer
        # Every token weighs the same but for the ones that frame a text.
        weights: dict[int | None, float] = defaultdict(lambda: 1.0)
        weights[tokenizer.sep_token_id] = weights[tokenizer.cls_token_id] = 0.0
        embeddings, mask, idf = get_bert_embedding(list(texts), self._network, tokenizer, weights, device=self._device)
        embeddings, idf = embeddings.cpu(), idf.cpu()
        return [
            (embeddings[i, :length].clone(), idf[i, :length].clone())
            for i, length in enumerate(mask.sum(dim=1).tolist())
        ]

    def _match(self, pairs: Sequence[Pair]) -> list[float]:
        """Returns the F1 of pairs whose texts are embedded."""
        import torch
        from bert_score.utils import greedy_cos_idf

        scores = [math.nan] * len(pairs)
        good = [i for i, pair in enumerate(pairs) if all(map(self._can_match, pair))]
        if good:
            left = self._padded([pairs[i][0] for i in good])
            right = self._padded([pairs[i][1] for i in good])
            with torch.inference_mode():
                f1 = greedy_cos_idf(*right, *left)[2].cpu()
            for i, score in zip(good, f1.tolist(), strict=True):
                scores[i] = score
        return scores

    def _can_match(self, text: str) -> bool:
        """Tells whether a text has a token of its own (a zero-width blank has none) and a number for each."""
        vectors, weights = self._kept[text]
        return bool(weights.sum() > 0 and vectors.isfinite().all())

    def _padded(self, texts: Sequence[str]) -> list[Any]:
        """Returns embeddings, mask and weights of embedded texts, one row a text."""
        import torch

        place = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        entries = [self._kept[text] for text in place]
        lengths = torch.tensor([len(weights) for _, weights in entries])
        # One column more than the longest needs: with padding in every row, no score depends on its batch.
        width = int(lengths.max()) + 1
        embeddings = torch.ones(len(entries), width, entries[0][0].shape[1])
        weights = torch.zeros(len(entries), width)
        for row, (vectors, its_weights) in enumerate(entries):
            embeddings[row, : len(vectors)] = vectors
            weights[row, : len(its_weights)] = its_weights
        mask = (torch.arange(width)[None, :] < lengths[:, None]).float()
        # Each different text is padded and sent once; the device makes the copies that the matching writes into.
        rows = torch.tensor([place[text] for text in texts], device=self._device)
        return [tensor.to(self._device)[rows] for tensor in (embeddings, mask, weights)]
