"""Every measure of an answer against a reference: one registry, one signature.

    measure = make_measure("rouge-1")
    measure.scores(["a bird on a branch"], ["bird"])      # array([1.])

A *measure* compares two texts (or an image and a text); a *metric* (hP, hR, hF) compares two nodes. The registry holds
names and where each measure is made, and imports a measure's module only when one is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, ModelError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MEASURES", "Measure", "MeasureKind", "MeasureSettings", "PairwiseMeasure", "make_measure", "split_spec"]

FloatArray = NDArray[np.float64]
Identity = dict[str, str | int | float | None]

# Pairs that `PairwiseMeasure.matrix` scores at a time, to bound the memory.
_CHUNK = 200_000


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """What every measure may be told; each takes what concerns it.

    Attributes:
        device: Where a model runs: "auto", "cpu", "cuda", ...
        batch_size: Texts or pairs computed at once, at least 1.
        cache_dir: Where scores and embeddings are kept; None is the user's cache folder.
        api_base: Address of an OpenAI-compatible server, for judges behind an API; None is the provider's own.
        concurrency: Calls of a judge under way at a time, at least 1.
        chunker: How concept similarity finds the concepts of an answer: "spacy", "spacy:MODEL" or "rules".
        on_progress: Called with how many pairs are done and how many there are.
    """

    device: str = "auto"
    batch_size: int = 64
    cache_dir: Path | None = None
    api_base: str | None = None
    concurrency: int = 8
    chunker: str = "spacy"
    on_progress: Callable[[int, int], None] | None = None


@runtime_checkable
class Measure(Protocol):
    """Compares answers with references.

    Attributes:
        name: Its specification: "rouge-1", "sentence:all-mpnet-base-v2".
        label: Its name as the papers print it: "ROUGE", "SentBERT".
        needs_images: Whether `scores` needs images.
        needs_questions: Whether `scores` needs the questions that were asked.
    """

    name: str
    label: str
    needs_images: bool
    needs_questions: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the scores made so far, such as texts that a model cut short."""
        ...

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,); NaN is unscored, never 0.

        Args:
            answers: Texts, n of them.
            references: As many texts.
            images: An image of each *reference*, for measures that need them.
            questions: The prompt that was asked for each answer, for judges.
        """
        ...

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns every answer's score against every reference, shape (answers, references).

        Args:
            answers: Texts.
            references: Texts.
            images: An image of each *answer*, compared with the references in the answer's place by image measures.
        """
        ...

    def identity(self) -> Identity:
        """Returns everything that can change a score, for records and caches."""
        ...


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


class PairwiseMeasure:
    """What a measure that scores pairs shares with the others: subclass it and write `scores`.

    Args:
        name: The specification.
        label: As the papers print it.
    """

    needs_images = False
    needs_questions = False

    def __init__(self, name: str, label: str) -> None:
        self.name = name
        self.label = label

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the scores made so far."""
        return ()

    def identity(self) -> Identity:
        """Returns everything that can change a score."""
        return {"measure": self.name}

    def scores(
        self,
        answers: Sequence[str],
        references: Sequence[str],
        images: Sequence[Image | None] | None = None,
        *,
        questions: Sequence[str] | None = None,
    ) -> FloatArray:
        """Returns the score of each answer against its reference, shape (n,)."""
        raise TypeError(f"{type(self).__name__} has no scores of its own.")

    def matrix(
        self, answers: Sequence[str], references: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatArray:
        """Returns every answer's score against every reference, pair by pair, shape (answers, references)."""
        table = np.empty((len(answers), len(references)))
        rows = max(1, _CHUNK // max(1, len(references)))
        for start in range(0, len(answers), rows):
            block = answers[start : start + rows]
            left = [answer for answer in block for _ in references]
            right = [reference for _ in block for reference in references]
            pictures = None if images is None else [image for image in images[start : start + rows] for _ in references]
            table[start : start + rows] = self.scores(left, right, pictures).reshape(len(block), len(references))
        return table
