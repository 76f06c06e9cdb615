"""Measures of an answer against a reference, found by name.

    make_measure("rouge-1").scores(["a bird on a branch"], ["bird"])      # array([1.])

A *measure* compares two texts; a *metric* (hP, hR, hF) compares two nodes. taxtune's own
measures are listed here and imported when they are used; a user's may be a plain function:

    @taxtune.measure("polite", summary="whether the answer says please")
    def polite(answer: str, reference: str) -> float:
        return float("please" in answer)

Other packages add theirs by entry points of the group `taxtune.measures`.
"""

from __future__ import annotations

import importlib
from collections import UserDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, TypeVar

from taxtune.errors import DataError, TaxtuneError
from taxtune.metrics.base import (
    FloatArray,
    FunctionMeasure,
    Measure,
    MeasureKind,
    MeasureSettings,
    name_scores,
)
from taxtune.plugins import find_plugin, names_near, plugin_names

__all__ = [
    "MEASURES",
    "FloatArray",
    "FunctionMeasure",
    "Measure",
    "MeasureKind",
    "MeasureSettings",
    "make_measure",
    "measure",
    "name_scores",
    "split_spec",
]

Made = TypeVar("Made", bound=Callable[..., Any])

_GROUP = "taxtune.measures"
# Name, module and class, label, source, default model, extra and need; below these the summary.
_TABLE = """
exact-match | text:ExactMatch | EM | paper 1, §10
    answer and reference are the same words, stemmed
contained | text:Contained | Contained | paper 1, §10
    the answer contains the reference's words in order, stemmed
bleu-2 | text:Bleu | BLEU | paper 1, §10
    precision of words and word pairs, smoothed, stemmed
rouge-1 | text:Rouge | ROUGE | paper 1, §10
    share of the reference's words in the answer, stemmed
meteor | text:Meteor | METEOR | paper 1, §10
    matching words, stems and synonyms, and their order
cider | consensus:Cider | CIDEr | paper 4 (Vedantam et al., 2015)
    cosine of stemmed n-grams (n up to 4), weighted by how rare they are among all references
cider-d | consensus:CiderD | CIDEr-D | Vedantam et al., 2015
    CIDEr without stemming, with clipped counts and a length penalty; a tenth of pycocoevalcap's CIDEr
text-inclusion | text:TextInclusion | TI | paper 2
    the answer contains the reference as whole words
text-inclusion-literal | text:LiteralInclusion | TI (literal) | paper 2
    the answer contains the reference as a substring, even inside a word
sentence | semantic:SentenceMeasure | SentBERT | paper 1, §10; 2 | sentence-transformers/all-mpnet-base-v2 | measures
    cosine of sentence embeddings; paper 2's semantic similarity
concept | semantic:ConceptMeasure | CS | paper 2 | sentence-transformers/all-mpnet-base-v2 | measures
    the largest cosine between the reference and the answer or one of its concepts
bertscore | bertscore:BertScoreMeasure | BERTScore | paper 1, §10 | microsoft/deberta-large-mnli | measures
    F1 of greedily matched token embeddings
lave | judging:Lave | LAVE | paper 4 | local:meta-llama/Llama-3.2-3B-Instruct | | question
    a language model rates the answer from 1 to 3, given the question and the references
vqa-accuracy | consensus:VQAMeasure | VQA accuracy | paper 4
    share of annotators' answers that it equals; three are enough for 1
soft-vqa-accuracy | consensus:SoftVQAMeasure | soft VQA accuracy | paper 4
    the same with similarity in spelling instead of equality
"""


class _Registry(UserDict[str, MeasureKind]):
    """Measures by name: taxtune's own, those registered in this process, and those of entry points."""

    def __missing__(self, name: str) -> MeasureKind:
        plugin = find_plugin(_GROUP, name)
        # Loading it has registered it where it is decorated.
        if plugin is not None and name not in self.data:
            measure(name)(plugin)
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.data, *plugin_names(_GROUP)]))


#: All measures by kind, in the order in which they are listed.
MEASURES: MutableMapping[str, MeasureKind] = _Registry()


def _own(row: str, summary: str) -> MeasureKind:
    """The entry of a measure of the table, whose module is imported when it is made."""
    name, made_by, label, source, *rest = (cell.strip() for cell in row.split("|"))
    default_model, extra, need = (*(cell or None for cell in rest), None, None, None)[:3]
    module, _, attribute = made_by.partition(":")

    def make(model: str | None, settings: MeasureSettings) -> Measure:
        made_of = getattr(importlib.import_module(f"taxtune.metrics.{module}"), attribute)
        made_of.kind, made_of.needs_questions = MEASURES[name], need == "question"
        made: Measure = made_of(model, settings)
        return made

    return MeasureKind(
        name, label, summary.strip(), source, make, default_model, extra, need == "question"
    )


_LINES = _TABLE.strip().splitlines()
MEASURES.update({kind.kind: kind for kind in map(_own, _LINES[::2], _LINES[1::2])})
_OWN = frozenset(MEASURES)


def measure(
    name: str,
    *,
    label: str | None = None,
    summary: str = "",
    source: str = "",
    needs_question: bool = False,
    default_model: str | None = None,
) -> Callable[[Made], Made]:
    """Registers a measure under a name, as a decorator.

    It decorates a function `(answer, reference) -> float`, where larger is better and None or NaN leaves the pair
    unscored; or a subclass of `Measure`, whose constructor, if it has one, takes a model's name (or None) and settings.

    Args:
        name: The name, without a colon.
        label: As tables print it; by default the name.
        summary: Its definition in one line; by default the first line of the docstring.
        source: Paper and section.
        needs_question: Whether a function takes the question as its third argument, and a class needs the questions.
        default_model: The model where the specification names none, for measures with a model.

    Raises:
        TaxtuneError: If the name has a colon or is that of one of taxtune's own measures.
    """
    if not name or ":" in name or name != name.strip():
        raise TaxtuneError("The name of a measure must be one word without a colon.", value=name)
    if name in _OWN:
        raise TaxtuneError(
            "taxtune already has a measure with this name.", value=name, remedy="Use another name."
        )

    def register(made: Made) -> Made:
        described = summary or (made.__doc__ or "").strip().partition("\n")[0]

        def make(model: str | None, settings: MeasureSettings) -> Measure:
            if not isinstance(made, type):
                return FunctionMeasure(name, label or name, made, needs_question=needs_question)
            bare = getattr(made, "__init__", None) is Measure.__init__
            measure: Measure = made() if bare else made(model, settings)
            return measure

        kind = MeasureKind(
            name, label or name, described, source, make, default_model, None, needs_question
        )
        if isinstance(made, type):
            made.kind, made.needs_questions = kind, needs_question  # type: ignore[attr-defined]
        MEASURES[name] = kind
        return made

    return register


def split_spec(spec: str) -> tuple[MeasureKind, str | None]:
    """The kind and the model that a specification names; the kind's default model where it names none.

    Raises:
        DataError: If there is no such measure, or it takes no model.
    """
    name, colon, model = spec.partition(":")
    kind = MEASURES.get(name)
    if kind is None:
        raise DataError("Unknown measure.", value=spec, remedy=names_near(name, MEASURES))
    if colon and kind.default_model is None:
        raise DataError(f"The measure {name} has no model.", value=spec, remedy=f"Write {name}.")
    if colon and not model:
        raise DataError(
            "The measure's model is empty.", value=spec, remedy=f"Write {name} or {name}:MODEL."
        )
    return kind, model or kind.default_model


def make_measure(
    spec: str | Measure | Callable[[str, str], float], settings: MeasureSettings | None = None
) -> Measure:
    """The measure that a specification names.

    Args:
        spec: A kind of `MEASURES` ("rouge-1"), maybe with a model's name or folder ("sentence:all-MiniLM-L6-v2"); a
            function `(answer, reference) -> float`; or a measure, which is returned as it is.
        settings: Device, batches, caches.

    Raises:
        DataError: If there is no such measure.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If a package that it needs is not installed.
    """
    if isinstance(spec, Measure):
        return spec
    if not isinstance(spec, str):
        name = getattr(spec, "__name__", type(spec).__name__)
        return FunctionMeasure(name, name, spec)
    kind, model = split_spec(spec)
    return kind.factory(model, settings or MeasureSettings())
