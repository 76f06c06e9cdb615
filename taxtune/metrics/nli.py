"""Textual entailment (paper 1, §10): whether what the answer says implies what the reference says, and the reverse."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from taxtune.errors import ModelError
from taxtune.loading import explain_load_error
from taxtune.metrics.model_pairs import Advance, Pair, TextModelMeasure, version_of
from taxtune.metrics.registry import FloatArray, Identity, MeasureSettings

__all__ = ["WORDING", "NliBackwardMeasure", "NliMeasure", "as_sentence", "entailment_label"]

#: How names become sentences; part of the measure's identity. A change of `as_sentence` is a change of this.
WORDING = "1: This is a(n) NAME."

# A text with one of these words, or that ends a sentence, is one already.
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|shows?|depicts?|displays?|features?|contains?|appears?|seems?|looks?|belongs?)\b",
    re.IGNORECASE,
)
_ENDS = tuple(".!?。！？…؟।")
_DETERMINED = re.compile(
    r"(?:an?|the|this|that|these|those|some|one|two|three|several|many|my|its|their)\s", re.IGNORECASE
)


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


def entailment_label(labels: Mapping[int, str], model: str) -> int:
    """The number of the label that stands for entailment in a model's configuration.

    Raises:
        ModelError: If none does; the message names the labels.
    """
    entails = ("entailment", "entail", "entails", "entailed")
    numbers = [number for number, label in labels.items() if str(label).strip().lower() in entails]
    if len(numbers) != 1:
        raise ModelError(
            f"The model {model!r} does not say which of its labels stands for entailment.",
            value=", ".join(str(label) for label in labels.values()),
            remedy="Use a model trained on natural language inference, with a label called 'entailment'.",
        )
    return int(numbers[0])


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
    cut_note = "Different pairs longer than the {limit} tokens that the model reads, cut in the longer text: {n}."

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        super().__init__(model, settings)
        self._label = entailment_label(self._model.config.id2label, self._model.name)

    def identity(self) -> Identity:
        """The direction, the model, its revision, the wording and the library's version."""
        import transformers

        return {
            "measure": self.kind.kind,
            "model": self._model.name,
            "revision": self._model.revision,
            "label": self._label,
            "wording": WORDING,
            "library": version_of(transformers),
        }

    @cached_property
    def _network(self) -> Any:
        import torch
        from transformers import AutoModelForSequenceClassification

        device = self._batches.device  # before the weights are read
        try:
            network = AutoModelForSequenceClassification.from_pretrained(
                self._model.source, revision=self._model.commit or "main", dtype=torch.float32
            )
        except Exception as error:
            raise explain_load_error(self._model.source, error, "weights") from error
        if network.config.pad_token_id is None:
            network.config.pad_token_id = self._tokenizer.pad_token_id
        return network.to(device).eval()

    def prepared(self, text: str) -> str:
        """The text as a sentence."""
        return as_sentence(super().prepared(text))

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts the pairs that are longer than the model reads."""
        for pair in pairs:
            self.note_long(*pair)

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
