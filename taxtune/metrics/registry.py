"""Every measure of an answer against a reference, found by name.

    make_measure("rouge-1").scores(["a bird on a branch"], ["bird"])      # array([1.])

A *measure* compares two texts (or an image and a text); a *metric* (hP, hR, hF) compares two nodes. taxtune's own
measures are listed here and imported when they are used; a user's may be a plain function:

    @taxtune.measure("polite", summary="whether the answer says please")
    def polite(answer: str, reference: str) -> float:
        return float("please" in answer)

Its name then stands wherever a measure's name does. Other packages add theirs by entry points of the group
`taxtune.measures`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from taxtune.errors import DataError, ModelError, TaxtuneError
from taxtune.metrics.base import FloatArray, FunctionMeasure, Measure, MeasureSettings, PairwiseMeasure
from taxtune.plugins import find_plugin, names_near, plugin_names

__all__ = [
    "MEASURES",
    "FloatArray",
    "Measure",
    "MeasureKind",
    "MeasureSettings",
    "PairwiseMeasure",
    "make_measure",
    "measure",
    "split_spec",
]

Need = Literal["image", "question"]
Made = TypeVar("Made", bound=Callable[..., Any])

_GROUP = "taxtune.measures"
# taxtune's own measures in the order in which they are listed: name, module and class, label, source, default model,
# extra and need; below these the summary.
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
cider | cider:Cider | CIDEr | paper 4 (Vedantam et al., 2015)
    cosine of stemmed n-grams (n up to 4), weighted by how rare they are among all references
cider-d | cider:CiderD | CIDEr-D | Vedantam et al., 2015
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
nli-forward | nli:NliMeasure | NLI | paper 1, §10 | MoritzLaurer/mDeBERTa-v3-base-mnli-xnli
    probability that the answer entails the reference
nli-backward | nli:NliBackwardMeasure | NLI (back) | paper 1, §10 | MoritzLaurer/mDeBERTa-v3-base-mnli-xnli
    probability that the reference entails the answer
clip-t2t | clip:ClipTextMeasure | CLIP-t2t | paper 1, §10 | hf-hub:apple/DFN5B-CLIP-ViT-H-14
    cosine of CLIP's embeddings of answer and reference
clip-i2t | clip:ClipImageMeasure | CLIP-i2t | paper 1, §10 | hf-hub:apple/DFN5B-CLIP-ViT-H-14 | | image
    cosine of CLIP's embeddings of the answer and an image of the reference
llama-inclusion | inclusion:make_llama_inclusion | LI | paper 2 | local:meta-llama/Llama-3.2-3B-Instruct | | question
    a language model decides whether the answer agrees with the reference
lave | lave:make_lave | LAVE | paper 4 | local:meta-llama/Llama-3.2-3B-Instruct | | question
    a language model rates the answer from 1 to 3, given the question and the references
vqa-accuracy | vqa:VQAMeasure | VQA accuracy | paper 4
    share of annotators' answers that it equals; three are enough for 1
soft-vqa-accuracy | vqa:SoftVQAMeasure | soft VQA accuracy | paper 4
    the same with similarity in spelling instead of equality
"""


@dataclass(frozen=True, slots=True)
class MeasureKind:
    """An entry of the registry.

    Attributes:
        kind: The name, or the part of the specification before the colon.
        label: As the papers print it.
        summary: Its definition in one line.
        source: Paper and section.
        factory: Called with the model's name (or None) and the settings; returns the measure.
        default_model: The model where the specification names none; None where the measure has no model.
        extra: The extra of taxtune that its packages come with, or None.
        needs: Its inputs besides texts: "image", "question".
    """

    kind: str
    label: str
    summary: str
    source: str
    factory: Callable[[str | None, MeasureSettings], Measure]
    default_model: str | None = None
    extra: str | None = None
    needs: tuple[Need, ...] = ()


class _Registry(MutableMapping[str, MeasureKind]):
    """Measures by name: taxtune's own, those registered in this process, and those of entry points."""

    def __init__(self) -> None:
        self._kinds: dict[str, MeasureKind] = {}

    def __getitem__(self, name: str) -> MeasureKind:
        if name not in self._kinds:
            plugin = find_plugin(_GROUP, name)
            # Loading it has registered it where it is decorated.
            if plugin is not None and name not in self._kinds:
                measure(name)(plugin)
        return self._kinds[name]

    def __setitem__(self, name: str, kind: MeasureKind) -> None:
        self._kinds[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._kinds, *plugin_names(_GROUP)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


#: All measures by kind, in the order in which they are listed.
MEASURES: MutableMapping[str, MeasureKind] = _Registry()


def _own(row: str, summary: str) -> MeasureKind:
    """Returns the entry of a measure of the table, whose module is imported when it is made."""
    name, made_by, label, source, *rest = (cell.strip() for cell in row.split("|"))
    default_model, extra, need = (*(cell or None for cell in rest), None, None, None)[:3]
    module, _, attribute = made_by.partition(":")

    def make(model: str | None, settings: MeasureSettings) -> Measure:
        maker = getattr(importlib.import_module(f"taxtune.metrics.{module}"), attribute)
        if isinstance(maker, type):
            maker.kind, maker.needs_images, maker.needs_questions = MEASURES[name], need == "image", need == "question"  # type: ignore[attr-defined]
        made: Measure = maker(model, settings)
        return made

    needs: Any = () if need is None else (need,)
    return MeasureKind(name, label, summary.strip(), source, make, default_model, extra, needs)


_LINES = _TABLE.strip().splitlines()
MEASURES.update({kind.kind: kind for kind in map(_own, _LINES[::2], _LINES[1::2])})
_OWN = frozenset(MEASURES)


def measure(
    name: str,
    *,
    label: str | None = None,
    summary: str = "",
    source: str = "",
    batched: bool = False,
    needs: Sequence[Need] = (),
    default_model: str | None = None,
    extra: str | None = None,
    factory: bool = False,
) -> Callable[[Made], Made]:
    """Registers a measure under a name; used as a decorator, it returns what it decorates unchanged.

    It decorates a function `(answer, reference) -> float`, where larger is better; a subclass of `PairwiseMeasure`,
    whose constructor, if it has one, takes the name of a model (or None) and the settings; or a function that makes a
    measure from these. A score of None or NaN leaves a pair unscored.

    Args:
        name: The name, without a colon.
        label: As tables print it; by default the name.
        summary: Its definition in one line; by default the first line of the docstring.
        source: Paper and section.
        batched: Whether the function takes lists, and returns as many numbers.
        needs: Further arguments of the function, "question", "image" or both, in this order.
        default_model: The model where the specification names none, for measures with a model.
        extra: The extra of taxtune that its packages come with.
        factory: Whether the function makes a measure rather than being one.

    Raises:
        TaxtuneError: If the name has a colon or is that of one of taxtune's own measures.
    """
    if not name or ":" in name or name != name.strip():
        raise TaxtuneError("The name of a measure must be one word without a colon.", value=name)
    if name in _OWN:
        raise TaxtuneError("taxtune already has a measure with this name.", value=name, remedy="Use another name.")

    def register(made: Made) -> Made:
        described = summary or (made.__doc__ or "").strip().partition("\n")[0]
        is_class = isinstance(made, type)

        def make(model: str | None, settings: MeasureSettings) -> Measure:
            if not is_class and not factory:
                return FunctionMeasure(name, label or name, made, batched=batched, needs=needs)
            bare = is_class and getattr(made, "__init__", None) is PairwiseMeasure.__init__
            measure: Measure = made() if bare else made(model, settings)
            return measure

        kind = MeasureKind(name, label or name, described, source, make, default_model, extra, tuple(needs))
        if is_class:
            made.kind, made.needs_images, made.needs_questions = kind, "image" in needs, "question" in needs  # type: ignore[attr-defined]
        MEASURES[name] = kind
        return made

    return register


def split_spec(spec: str) -> tuple[MeasureKind, str | None]:
    """Returns the kind and the model that a specification names; the kind's default model where it names none.

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
        raise DataError("The measure's model is empty.", value=spec, remedy=f"Write {name} or {name}:MODEL.")
    return kind, model or kind.default_model


def make_measure(spec: str | Measure | Callable[[str, str], float], settings: MeasureSettings | None = None) -> Measure:
    """Returns the measure that a specification names.

    Args:
        spec: A kind of `MEASURES` ("rouge-1"), for those with a model with or without its name or folder
            ("sentence:all-MiniLM-L6-v2"); a function `(answer, reference) -> float`, registered or not; or a measure,
            which is returned as it is.
        settings: Device, batches, caches.

    Raises:
        DataError: If there is no such measure.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If a package that it needs is not installed.
    """
    settings = settings or MeasureSettings()
    if isinstance(spec, Measure):
        return spec
    if not isinstance(spec, str):
        name = getattr(spec, "__name__", type(spec).__name__)
        return FunctionMeasure(name, name, spec)
    kind, model = split_spec(spec)
    for name in ("batch_size", "concurrency"):
        if getattr(settings, name) < 1:
            raise ModelError(f"{name} must be at least 1.", value=getattr(settings, name))
    return kind.factory(model, settings)
