"""Every measure of an answer against a reference: one registry, one signature.

    measure = make_measure("rouge-1")
    measure.scores(["a bird on a branch"], ["bird"])      # array([1.])

A *measure* compares two texts (or an image and a text); a *metric* (hP, hR, hF) compares two nodes. The registry holds
names and where each measure is made, and imports a measure's module only when one is asked for. What a measure is, and
what measures inherit, is in `taxtune.metrics.base`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from taxtune.errors import DataError, ModelError
from taxtune.metrics.base import FloatArray, Measure, MeasureSettings, PairwiseMeasure

__all__ = [
    "MEASURES",
    "FloatArray",
    "Measure",
    "MeasureKind",
    "MeasureSettings",
    "PairwiseMeasure",
    "make_measure",
    "split_spec",
]


@dataclass(frozen=True, slots=True)
class MeasureKind:
    """An entry of the registry.

    Attributes:
        kind: The name, or the part of the specification before the colon.
        label: As the papers print it.
        summary: What it measures, in one line.
        source: Paper and section.
        factory: "module:function", called with the model's name (or None) and the settings.
        default_model: The model where the specification names none; None where the measure has no model.
        extra: The extra of taxtune that its packages come with, or None.
        needs: What it scores with besides texts, to know before a model is loaded: "image", "question".
    """

    kind: str
    label: str
    summary: str
    source: str
    factory: str
    default_model: str | None = None
    extra: str | None = None
    needs: tuple[Literal["image", "question"], ...] = ()


_MPNET = "sentence-transformers/all-mpnet-base-v2"
_DFN5B = "hf-hub:apple/DFN5B-CLIP-ViT-H-14"
_LLAMA = "local:meta-llama/Llama-3.2-3B-Instruct"
_NLI = "MoritzLaurer/mDeBERTa-v3-base-mnli-xnli"

_KINDS = (
    MeasureKind(
        "exact-match",
        "EM",
        "answer and reference are the same words, stemmed",
        "paper 1, §10",
        "taxtune.metrics.text:make_exact_match",
    ),
    MeasureKind(
        "contained",
        "Contained",
        "the reference's words stand in the answer, in a row, stemmed",
        "paper 1, §10",
        "taxtune.metrics.text:make_contained",
    ),
    MeasureKind(
        "bleu-2",
        "BLEU",
        "precision of words and pairs of words, smoothed, stemmed",
        "paper 1, §10",
        "taxtune.metrics.text:make_bleu",
    ),
    MeasureKind(
        "rouge-1",
        "ROUGE",
        "share of the reference's words in the answer, stemmed",
        "paper 1, §10",
        "taxtune.metrics.text:make_rouge",
    ),
    MeasureKind(
        "meteor",
        "METEOR",
        "matched words, stems and synonyms, and their order",
        "paper 1, §10",
        "taxtune.metrics.text:make_meteor",
    ),
    MeasureKind(
        "cider",
        "CIDEr",
        "cosine of stemmed words and runs of up to four, weighed by rarity among all answers' references",
        "paper 4 (Vedantam et al., 2015)",
        "taxtune.metrics.cider:make_cider",
    ),
    MeasureKind(
        "cider-d",
        "CIDEr-D",
        "CIDEr unstemmed, repeats clipped, other lengths discounted; a tenth of what pycocoevalcap calls CIDEr",
        "Vedantam et al., 2015",
        "taxtune.metrics.cider:make_cider_d",
    ),
    MeasureKind(
        "text-inclusion",
        "TI",
        "the reference stands in the answer as words of its own",
        "paper 2",
        "taxtune.metrics.text:make_text_inclusion",
    ),
    MeasureKind(
        "text-inclusion-literal",
        "TI (literal)",
        "the reference's letters stand in the answer, even inside a word",
        "paper 2",
        "taxtune.metrics.text:make_text_inclusion_literal",
    ),
    MeasureKind(
        "sentence",
        "SentBERT",
        "cosine of sentence embeddings; paper 2's semantic similarity",
        "paper 1, §10; paper 2",
        "taxtune.metrics.semantic:make_sentence",
        _MPNET,
        "sentence",
    ),
    MeasureKind(
        "concept",
        "CS",
        "the largest cosine of the reference with a concept of the answer or all of it",
        "paper 2",
        "taxtune.metrics.concept:make_concept",
        _MPNET,
        "measures",
    ),
    MeasureKind(
        "bertscore",
        "BERTScore",
        "F1 of greedily matched token embeddings",
        "paper 1, §10",
        "taxtune.metrics.bertscore:make_bertscore",
        "microsoft/deberta-large-mnli",
        "measures",
    ),
    MeasureKind(
        "nli-forward",
        "NLI",
        "probability that the answer entails the reference",
        "paper 1, §10",
        "taxtune.metrics.nli:make_nli_forward",
        _NLI,
    ),
    MeasureKind(
        "nli-backward",
        "NLI (back)",
        "probability that the reference entails the answer",
        "paper 1, §10",
        "taxtune.metrics.nli:make_nli_backward",
        _NLI,
    ),
    MeasureKind(
        "clip-t2t",
        "CLIP-t2t",
        "cosine of CLIP's embeddings of answer and reference",
        "paper 1, §10",
        "taxtune.metrics.clip:make_clip_t2t",
        _DFN5B,
        "clip",
    ),
    MeasureKind(
        "clip-i2t",
        "CLIP-i2t",
        "cosine of CLIP's embeddings of the answer and an image of the reference",
        "paper 1, §10",
        "taxtune.metrics.clip:make_clip_i2t",
        _DFN5B,
        "clip",
        ("image",),
    ),
    MeasureKind(
        "llama-inclusion",
        "LI",
        "a language model says whether the answer agrees with the reference",
        "paper 2",
        "taxtune.metrics.inclusion:make_llama_inclusion",
        _LLAMA,
        needs=("question",),
    ),
    MeasureKind(
        "lave",
        "LAVE",
        "a language model rates the answer 1 to 3 given question and references",
        "paper 4",
        "taxtune.metrics.lave:make_lave",
        _LLAMA,
        needs=("question",),
    ),
    MeasureKind(
        "vqa-accuracy",
        "VQA accuracy",
        "share of annotators' answers that it equals, three being enough",
        "paper 4",
        "taxtune.metrics.vqa:make_vqa_accuracy",
    ),
    MeasureKind(
        "soft-vqa-accuracy",
        "soft VQA accuracy",
        "the same with nearness in spelling instead of equality",
        "paper 4",
        "taxtune.metrics.vqa:make_soft_vqa_accuracy",
    ),
)

#: All measures by kind, in the order in which they are listed.
MEASURES: Mapping[str, MeasureKind] = {kind.kind: kind for kind in _KINDS}


def split_spec(spec: str) -> tuple[MeasureKind, str | None]:
    """Returns the kind and the model that a specification names; the kind's default model where it names none.

    Raises:
        DataError: If there is no such measure, or it takes no model.
    """
    import difflib

    name, colon, model = spec.partition(":")
    if name not in MEASURES:
        near = difflib.get_close_matches(name, MEASURES, n=1)
        raise DataError(
            "There is no such measure.",
            value=spec,
            remedy=(f"Did you mean {near[0]!r}? " if near else "") + f"There are {', '.join(MEASURES)}.",
        )
    kind = MEASURES[name]
    if colon and kind.default_model is None:
        raise DataError(f"The measure {name} has no model.", value=spec, remedy=f"Write {name}.")
    if colon and not model:
        raise DataError("The measure's model is empty.", value=spec, remedy=f"Write {name} or {name}:MODEL.")
    return kind, model or kind.default_model


def make_measure(spec: str, settings: MeasureSettings | None = None) -> Measure:
    """Returns the measure that a specification names.

    Args:
        spec: A kind of `MEASURES` ("rouge-1"), for those with a model with or without its name or folder
            ("sentence:all-MiniLM-L6-v2").
        settings: Device, batches, caches.

    Raises:
        DataError: If there is no such measure.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If a package that it needs is not installed.
    """
    kind, model = split_spec(spec)
    settings = settings or MeasureSettings()
    for name in ("batch_size", "concurrency"):
        if getattr(settings, name) < 1:
            raise ModelError(f"{name} must be at least 1.", value=getattr(settings, name))
    module, _, function = kind.factory.partition(":")
    measure: Measure = getattr(importlib.import_module(module), function)(model, settings)
    return measure
