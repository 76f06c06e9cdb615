"""Measures by text models of Hugging Face: BERTScore and textual entailment (paper 1, §10).

BERTScore matches the tokens of answer and reference greedily by their contextual embeddings; entailment is whether what
the answer says implies what the reference says, and the reverse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from taxtune.encoders.base import folder_digest, model_folder
from taxtune.errors import MissingExtraError, ModelError
from taxtune.hardware import AdaptiveBatches, find_device
from taxtune.loading import explain_load_error, look_for_hub
from taxtune.metrics.base import Advance, FloatArray, Identity, MeasureSettings, Pair, PairsMeasure, version_of

__all__ = ["BertScoreMeasure", "NliBackwardMeasure", "NliMeasure", "TextModelMeasure", "as_sentence", "token_limit"]

_MAX_TOKENS = 512
_PAIRS = 4096  # whose embeddings bert-score holds at once
# How names become sentences; part of the measure's identity. A change of `as_sentence` is a change of this.
_WORDING = "1: This is a(n) NAME."

# A text with one of these words, or that ends a sentence, is one already.
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|shows?|depicts?|displays?|features?|contains?|appears?|seems?|looks?|belongs?)\b",
    re.IGNORECASE,
)
_ENDS = tuple(".!?。！？…؟।")
_DETERMINED = re.compile(
    r"(?:an?|the|this|that|these|those|some|one|two|three|several|many|my|its|their)\s", re.IGNORECASE
)


class TextModelMeasure(PairsMeasure):
    """A measure by a text model of Hugging Face, whose weights are loaded with the first pair.

    Args:
        model: What the measure is named by.
        settings: Device, batches.
        source: The model's name or folder; by default `model`.

    Raises:
        ModelError: If the model is not there.
    """

    #: Whether RoBERTa's tokenizers put a blank before the first word, as bert-score has them do.
    blank_first: ClassVar[bool] = False

    def __init__(self, model: str, settings: MeasureSettings, source: str | None = None) -> None:
        from transformers import AutoConfig

        super().__init__(settings, model=model)
        folder = model_folder(source or model)
        self._source = source or model if folder is None else str(folder)
        if folder is None:
            look_for_hub()
        with self._loading("configuration"):
            self._config: Any = AutoConfig.from_pretrained(self._source)
        commit = None if folder else getattr(self._config, "_commit_hash", None)
        self._commit: str = commit or "main"
        revision = commit if folder is None else f"sha256:{folder_digest(folder)}"
        self._about: Identity = {"model": self._source if folder is None else folder.name, "revision": revision}

    def identity(self) -> Identity:
        """The model, its revision and the version of transformers."""
        import transformers

        return {"measure": self.kind.kind, **self._about, "transformers": version_of(transformers)}

    @contextmanager
    def _loading(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # OSError, ValueError, HTTP errors
            raise explain_load_error(self._source, error, what) from error

    @cached_property
    def _batches(self) -> AdaptiveBatches:
        return AdaptiveBatches(self.settings.batch_size, model=self._source, device=find_device(self.settings.device))

    @cached_property
    def _tokenizer(self) -> Any:
        """The tokenizer with its limit as `model_max_length` and a token for padding."""
        from transformers import AutoTokenizer

        with self._loading("tokenizer"):
            load = partial(AutoTokenizer.from_pretrained, self._source, revision=self._commit)
            tokenizer: Any = load()
            family = type(tokenizer).__name__.removesuffix("Fast")
            if self.blank_first and family in ("GPT2Tokenizer", "RobertaTokenizer"):
                tokenizer = load(add_prefix_space=True)
        tokenizer.model_max_length = token_limit(tokenizer, self._config)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    def note_long(self, note: str, *texts: str) -> None:
        """Counts texts that the model is given together and that are longer than it reads."""
        # A token has at least a byte of the text, but for letters that are normalised to several.
        if sum(len(text.encode()) for text in texts) > 256:
            limit = self._tokenizer.model_max_length
            if len(self._tokenizer(*texts, truncation=False, verbose=False)["input_ids"]) > limit:
                self._notes.mark(note.replace("{limit}", str(limit)), "\0".join(texts))


def token_limit(tokenizer: Any, config: Any) -> int:
    """The number of tokens that a model is given, special tokens included: at most 512, which every family reads."""
    limits = tokenizer.model_max_length, getattr(config, "max_position_embeddings", None) or 0, _MAX_TOKENS
    return int(min(limit for limit in limits if limit > 0))


# -- BERTScore ---------------------------------------------------------------------------------------------------------


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
        self._about["library"] = version_of(bert_score)
        depth = self._config.num_hidden_layers
        layer = int(with_layer[2]) if with_layer else model2layers.get(self._source)
        self.layer: int = max(1, round(0.75 * depth)) if layer is None else layer
        self._about["layer"] = self.layer
        if layer is None:
            known = f"bert-score knows no best layer for {self._about['model']}"
            self._notes.count(f"{known}; layer {self.layer} of {depth} is used (choose another with MODEL@LAYER).")
        if self.layer > depth:
            raise ModelError(f"The model {self._about['model']!r} has {depth} layers.", value=self.layer)

    @cached_property
    def _scorer(self) -> Any:
        from bert_score import BERTScorer

        with self._loading("weights"):
            scorer = BERTScorer(self._source, num_layers=self.layer, device=self._batches.device)
        # Checkpoints in half precision are slow on a CPU, and their scores would depend on the batch.
        scorer._model, scorer._tokenizer = scorer._model.float().eval(), self._tokenizer
        return scorer

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the texts that are longer than the model reads."""
        for text in dict.fromkeys(text for pair in pairs for text in pair):
            self.note_long("Texts longer than the {limit} tokens that the model reads, which are truncated: {n}.", text)

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


# -- entailment --------------------------------------------------------------------------------------------------------


def as_sentence(text: str) -> str:
    """A name as a sentence ("field sparrow" becomes "This is a field sparrow."); a sentence as it is.

    A text that ends as a sentence does, or has a common verb of descriptions, stays. The article goes by the first
    letter; plurals and names in Latin get one too, which entailment models forgive.
    """
    text = " ".join(text.split())
    if text.endswith(_ENDS):
        return text
    if _VERB.search(text):
        return f"{text}."
    if _DETERMINED.match(text):
        return f"This is {text[0].lower()}{text[1:]}."
    return f"This is {'an' if text[:1].lower() in 'aeiou' else 'a'} {text}."


class NliMeasure(TextModelMeasure):
    """Probability in [0, 1] that the answer entails the reference, both as sentences (`as_sentence`).

    A more specific answer scores high: "This is a field sparrow." entails "This is a bird.".

    Args:
        model: A sequence classifier with a label "entailment", by name or its folder.
        settings: Device, batches.

    Raises:
        ModelError: If the model is not there, or has no label for entailment.
    """

    #: Whether the reference is the premise and the answer the hypothesis.
    backward: ClassVar[bool] = False

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        labels: dict[int, str] = self._config.id2label
        named = [i for i, label in labels.items() if label.strip().lower().startswith("entail")]
        if len(named) != 1:
            raise ModelError(
                f"The model {self._about['model']!r} does not say which of its labels stands for entailment.",
                value=", ".join(labels.values()),
                remedy="Use a model trained on natural language inference, with a label called 'entailment'.",
            )
        self._label = int(named[0])
        self._about |= {"label": self._label, "wording": _WORDING}

    @cached_property
    def _network(self) -> Any:
        import torch
        from transformers import AutoModelForSequenceClassification

        device = self._batches.device  # before the weights are read
        with self._loading("weights"):
            network = AutoModelForSequenceClassification.from_pretrained(
                self._source, revision=self._commit, dtype=torch.float32
            )
        if network.config.pad_token_id is None:
            network.config.pad_token_id = self._tokenizer.pad_token_id
        return network.to(device).eval()

    def prepared(self, text: str) -> str:
        """The text as a sentence."""
        return as_sentence(super().prepared(text))

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the pairs that are longer than the model reads."""
        note = "Different pairs longer than the {limit} tokens that the model reads, cut in the longer text: {n}."
        for pair in pairs:
            self.note_long(note, *pair)

    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """The probability that each answer entails its reference, or the reverse; the longest pairs go first."""
        order = sorted(range(len(pairs)), key=lambda i: -sum(map(len, pairs[i])))
        scores = np.empty(len(pairs))
        scores[order] = self._batches.map([pairs[i] for i in order], self._classify, advance=advance)
        return scores

    def _classify(self, pairs: Sequence[Pair]) -> list[float]:
        import torch

        texts = [list(side) for side in zip(*pairs, strict=True)]
        if self.backward:
            texts.reverse()
        batch = self._tokenizer(*texts, truncation="longest_first", padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = self._network(**batch.to(self._network.device)).logits.float()
        return [float(p) for p in torch.softmax(logits, dim=-1)[:, self._label].cpu()]


class NliBackwardMeasure(NliMeasure):
    """Probability in [0, 1] that the reference entails the answer: a more general answer scores high."""

    backward = True
