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

from collections import UserDict
from collections.abc import Callable, Iterator, MutableMapping
from pkgutil import resolve_name
from typing import Any, TypeVar

from taxtune.errors import DataError, TaxtuneError
from taxtune.metrics.base import FunctionMeasure, Measure, MeasureKind, MeasureSettings
from taxtune.plugins import find_plugin, names_near, plugin_names

__all__ = [
    "MEASURES",
    "Measure",
    "MeasureSettings",
    "make_measure",
    "measure",
    "split_spec",
]

Made = TypeVar("Made", bound=Callable[..., Any])

_GROUP = "taxtune.measures"
_MPNET = "sentence-transformers/all-mpnet-base-v2"


class _Registry(UserDict[str, MeasureKind]):
    """Measures by name: taxtune's own, those registered in this process, and entry points."""

    def __missing__(self, name: str) -> MeasureKind:
        plugin = find_plugin(_GROUP, name)
        # Loading it has registered it where it is decorated.
        if plugin is not None and name not in self.data:
            measure(name)(plugin)
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self)

    def __iter__(self) -> Iterator[str]:
        names = [*self.data, *plugin_names(_GROUP)]
        return iter(dict.fromkeys(names))


#: All measures by kind, in the order in which they are listed.
MEASURES: MutableMapping[str, MeasureKind] = _Registry()


def _construct(made: type, model: str | None, settings: MeasureSettings) -> Measure:
    """Returns a measure; a class without a constructor of its own takes no arguments."""
    constructor = getattr(made, "__init__", None)
    has_own = constructor is not Measure.__init__
    measure: Measure = made(model, settings) if has_own else made()
    return measure


# -- taxtune's own ---------------------------------------------------------------------------------


def _own(
    kind: str,
    place: str,
    *,
    label: str,
    source: str,
    summary: str,
    default_model: str | None = None,
    extra: str | None = None,
    needs_question: bool = False,
) -> None:
    """Lists a measure whose class, "module:Class" of taxtune, is imported when it is made."""

    def make(model: str | None, settings: MeasureSettings) -> Measure:
        made = resolve_name(f"taxtune.{place}")
        return _construct(made, model, settings)

    MEASURES[kind] = MeasureKind(
        kind=kind,
        label=label,
        summary=summary,
        source=source,
        factory=make,
        default_model=default_model,
        extra=extra,
        needs_question=needs_question,
    )


_own(
    "exact-match",
    "metrics.text:ExactMatch",
    label="EM",
    source="paper 1, §10",
    summary="answer and reference are the same words, stemmed",
)
_own(
    "contained",
    "metrics.text:Contained",
    label="Contained",
    source="paper 1, §10",
    summary="the answer contains the reference's words in order, stemmed",
)
_own(
    "bleu-2",
    "metrics.text:Bleu",
    label="BLEU",
    source="paper 1, §10",
    summary="precision of words and word pairs, smoothed, stemmed",
)
_own(
    "rouge-1",
    "metrics.text:Rouge",
    label="ROUGE",
    source="paper 1, §10",
    summary="share of the reference's words in the answer, stemmed",
)
_own(
    "meteor",
    "metrics.text:Meteor",
    label="METEOR",
    source="paper 1, §10",
    summary="matching words, stems and synonyms, and their order",
)
_own(
    "cider",
    "metrics.consensus:Cider",
    label="CIDEr",
    source="paper 4 (Vedantam et al., 2015)",
    summary="cosine of stemmed n-grams (n up to 4), weighted by how rare they are among all "
    "references",
)
_own(
    "cider-d",
    "metrics.consensus:CiderD",
    label="CIDEr-D",
    source="Vedantam et al., 2015",
    summary="CIDEr without stemming, with clipped counts and a length penalty; a tenth of "
    "pycocoevalcap's CIDEr",
)
_own(
    "text-inclusion",
    "metrics.text:TextInclusion",
    label="TI",
    source="paper 2",
    summary="the answer contains the reference as whole words",
)
_own(
    "text-inclusion-literal",
    "metrics.text:LiteralInclusion",
    label="TI (literal)",
    source="paper 2",
    summary="the answer contains the reference as a substring, even inside a word",
)
_own(
    "sentence",
    "metrics.semantic:SentenceMeasure",
    label="SentBERT",
    source="paper 1, §10; 2",
    summary="cosine of sentence embeddings; paper 2's semantic similarity",
    default_model=_MPNET,
    extra="measures",
)
_own(
    "concept",
    "metrics.semantic:ConceptMeasure",
    label="CS",
    source="paper 2",
    summary="the largest cosine between the reference and the answer or one of its concepts",
    default_model=_MPNET,
    extra="measures",
)
_own(
    "bertscore",
    "metrics.bertscore:BertScoreMeasure",
    label="BERTScore",
    source="paper 1, §10",
    summary="F1 of greedily matched token embeddings",
    default_model="microsoft/deberta-large-mnli",
    extra="measures",
)
_own(
    "lave",
    "models.lave:Lave",
    label="LAVE",
    source="paper 4",
    summary="a language model rates the answer from 1 to 3, given the question and the references",
    default_model="local:meta-llama/Llama-3.2-3B-Instruct",
    needs_question=True,
)
_own(
    "vqa-accuracy",
    "metrics.consensus:VQAMeasure",
    label="VQA accuracy",
    source="paper 4",
    summary="share of annotators' answers that it equals; three are enough for 1",
)
_own(
    "soft-vqa-accuracy",
    "metrics.consensus:SoftVQAMeasure",
    label="soft VQA accuracy",
    source="paper 4",
    summary="the same with similarity in spelling instead of equality",
)
_OWN = frozenset(MEASURES)


# -- everybody's -----------------------------------------------------------------------------------


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

    It decorates a function `(answer, reference) -> float`, where larger is better and None or NaN
    leaves the pair unscored; or a subclass of `Measure`, whose constructor, if it has one, takes a
    model's name (or None) and settings.

    Args:
        name: The name, without a colon.
        label: As tables print it; by default the name.
        summary: Its definition in one line; by default the first line of the docstring.
        source: Paper and section.
        needs_question: Whether a function takes the question as its third argument, and a class
            needs the questions.
        default_model: The model where the specification names none, for measures with a model.

    Raises:
        TaxtuneError: If the name has a colon or is that of one of taxtune's own measures.
    """
    is_one_word = name != "" and name == name.strip()
    if not is_one_word or ":" in name:
        raise TaxtuneError("The name of a measure must be one word without a colon.", value=name)
    if name in _OWN:
        raise TaxtuneError(
            "taxtune already has a measure with this name.", value=name, remedy="Use another name."
        )

    shown = label or name

    def register(made: Made) -> Made:
        def make(model: str | None, settings: MeasureSettings) -> Measure:
            if isinstance(made, type):
                return _construct(made, model, settings)
            return FunctionMeasure(name, shown, made, needs_question=needs_question)

        docstring = (made.__doc__ or "").strip()
        first_line, _, _ = docstring.partition("\n")
        kind = MeasureKind(
            kind=name,
            label=shown,
            summary=summary or first_line,
            source=source,
            factory=make,
            default_model=default_model,
            needs_question=needs_question,
        )
        if isinstance(made, type):
            made.kind = kind  # type: ignore[attr-defined]
            made.needs_questions = needs_question  # type: ignore[attr-defined]
        MEASURES[name] = kind
        return made

    return register


def split_spec(spec: str) -> tuple[MeasureKind, str | None]:
    """Returns the kind and the model that a specification names.

    The model is the kind's default one where the specification names none.

    Raises:
        DataError: If there is no such measure, or it takes no model.
    """
    name, colon, model = spec.partition(":")
    kind = MEASURES.get(name)
    if kind is None:
        remedy = names_near(name, MEASURES)
        raise DataError("Unknown measure.", value=spec, remedy=remedy)
    if colon and kind.default_model is None:
        remedy = f"Write {name}."
        raise DataError(f"The measure {name} has no model.", value=spec, remedy=remedy)
    if colon and not model:
        remedy = f"Write {name} or {name}:MODEL."
        raise DataError("The measure's model is empty.", value=spec, remedy=remedy)
    return kind, model or kind.default_model


def make_measure(
    spec: str | Measure | Callable[[str, str], float], settings: MeasureSettings | None = None
) -> Measure:
    """Returns the measure that a specification names.

    Args:
        spec: A kind of `MEASURES` ("rouge-1"), maybe with a model's name or folder
            ("sentence:all-MiniLM-L6-v2"); a function `(answer, reference) -> float`; or a measure,
            which is returned as it is.
        settings: Device, batches, caches.

    Raises:
        DataError: If there is no such measure.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If a package that it needs is not installed.
    """
    if isinstance(spec, Measure):
        return spec
    if not isinstance(spec, str):
        type_name = type(spec).__name__
        name = getattr(spec, "__name__", type_name)
        return FunctionMeasure(name, name, spec)
    kind, model = split_spec(spec)
    if settings is None:
        settings = MeasureSettings()
    return kind.factory(model, settings)
