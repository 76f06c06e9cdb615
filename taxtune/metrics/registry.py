"""Measures of an answer against a reference, found by name.

    make_measure("rouge-1").scores(["a bird on a branch"], ["bird"])      # array([1.])

A *measure* compares two texts (or an image and a text); a *metric* (hP, hR, hF) compares two nodes. taxtune's own
measures are listed here and imported when they are used; a user's may be a plain function:

    @taxtune.measure("polite", summary="whether the answer says please")
    def polite(answer: str, reference: str) -> float:
        return float("please" in answer)

Other packages add theirs by entry points of the group `taxtune.measures`.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections import UserDict
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, SupportsFloat, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError, TaxtuneError
from taxtune.plugins import find_plugin, names_near, plugin_names
from taxtune.progress import track_each

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.models import ModelSettings

__all__ = [
    "MEASURES",
    "FloatArray",
    "FunctionMeasure",
    "Identity",
    "Images",
    "ManyReferencesMeasure",
    "Measure",
    "MeasureKind",
    "MeasureSettings",
    "Questions",
    "Texts",
    "check_texts",
    "make_measure",
    "measure",
    "name_scores",
    "split_spec",
]

FloatArray = NDArray[np.float64]
Identity = dict[str, str | int | float | None]
Texts = Sequence[str]
Questions: TypeAlias = "Sequence[str] | None"
Images: TypeAlias = "Sequence[Image | None] | None"
Need = Literal["image", "question"]
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
bertscore | text_models:BertScoreMeasure | BERTScore | paper 1, §10 | microsoft/deberta-large-mnli | measures
    F1 of greedily matched token embeddings
nli-forward | text_models:NliMeasure | NLI | paper 1, §10 | MoritzLaurer/mDeBERTa-v3-base-mnli-xnli
    probability that the answer entails the reference
nli-backward | text_models:NliBackwardMeasure | NLI (back) | paper 1, §10 | MoritzLaurer/mDeBERTa-v3-base-mnli-xnli
    probability that the reference entails the answer
clip-t2t | semantic:ClipTextMeasure | CLIP-t2t | paper 1, §10 | hf-hub:apple/DFN5B-CLIP-ViT-H-14
    cosine of CLIP's embeddings of answer and reference
clip-i2t | semantic:ClipImageMeasure | CLIP-i2t | paper 1, §10 | hf-hub:apple/DFN5B-CLIP-ViT-H-14 | | image
    cosine of CLIP's embeddings of the answer and an image of the reference
llama-inclusion | lave:LlamaInclusion | LI | paper 2 | local:meta-llama/Llama-3.2-3B-Instruct | | question
    a language model decides whether the answer agrees with the reference
lave | lave:Lave | LAVE | paper 4 | local:meta-llama/Llama-3.2-3B-Instruct | | question
    a language model rates the answer from 1 to 3, given the question and the references
vqa-accuracy | consensus:VQAMeasure | VQA accuracy | paper 4
    share of annotators' answers that it equals; three are enough for 1
soft-vqa-accuracy | consensus:SoftVQAMeasure | soft VQA accuracy | paper 4
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


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """Settings of all measures; each takes those that concern it.

    Attributes:
        device: Where a model runs: "auto", "cpu", "cuda", ...
        batch_size: Texts or pairs computed at once, at least 1.
        cache_dir: Folder of judges' replies and embeddings; None is the user's cache folder.
        api_base: Address of an OpenAI-compatible server, for judges behind an API; None is the provider's own.
        concurrency: Concurrent calls of a judge, at least 1.
        judge: Settings of a judge's model; made from the settings above where left out.
    """

    device: str = "auto"
    batch_size: int = 64
    cache_dir: Path | None = None
    api_base: str | None = None
    concurrency: int = 8
    judge: ModelSettings | None = None


class Measure(ABC):
    """Compares answers with references: subclass it and write `scores`.

    Attributes:
        name: Its specification: "rouge-1", "sentence:all-mpnet-base-v2"; by default its kind.
        label: Its name as the papers print it: "ROUGE", "SentBERT".
        needs_images: Whether `scores` needs images.
        needs_questions: Whether `scores` needs the prompts.
        consensus: Whether references are answers of several people, to be counted, and no alternatives as names are.
    """

    kind: ClassVar[MeasureKind]  # the registry sets it and the needs
    needs_images = False
    needs_questions = False
    consensus: ClassVar[bool] = False

    def __init__(self, name: str | None = None, label: str | None = None) -> None:
        self.name = self.kind.kind if name is None else name
        self.label = self.kind.label if label is None else label

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the scores computed so far, such as the number of texts that a model truncated."""
        return ()

    @abstractmethod
    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer against its reference, shape (n,); NaN is unscored, never 0.

        `images` are of the *references*, `questions` are the prompts of the answers, for measures that need them.
        """

    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer with all its references, shape (n,); by default that of the best one.

        NaN where none gave a score. `images` and `questions` are those of the answers.
        """
        owner = [i for i, (_, given) in enumerate(zip(answers, references, strict=True)) for _ in given]
        scores = self.scores(
            [answers[i] for i in owner],
            [reference for given in references for reference in given],
            None if images is None else [images[i] for i in owner],
            questions=None if questions is None else [questions[i] for i in owner],
        )
        best = np.full(len(answers), np.nan)
        np.fmax.at(best, np.array(owner, dtype=np.int64), scores)  # fmax takes the number where the other is NaN
        return best

    def matrix(self, answers: Texts, references: Texts, images: Images = None) -> FloatArray:
        """Every answer's score against every reference, shape (answers, references).

        `images` are those of the answers, which image measures compare with the references instead of the answer.
        """
        table = np.empty((len(answers), len(references)))
        for i, answer in enumerate(answers):
            pictures = None if images is None else [images[i]] * len(references)
            table[i] = self.scores([answer] * len(references), references, pictures)
        return table

    def identity(self) -> Identity:
        """Everything that can change a score, for records and caches."""
        return {"measure": self.name}


class FunctionMeasure(Measure):
    """A measure that is a function of a pair. Equal pairs are scored once.

    Args:
        name: Its name.
        label: As tables print it.
        function: Called with answer, reference and what it needs. It returns a finite number, or None or NaN to leave
            the pair unscored.
        needs: Its further arguments, in this order: "question", "image".
    """

    def __init__(self, name: str, label: str, function: Callable[..., Any], *, needs: Sequence[str] = ()) -> None:
        super().__init__(name, label)
        self._function, self._needs = function, needs
        self.needs_images, self.needs_questions = "image" in needs, "question" in needs

    def identity(self) -> Identity:
        """The name, and where the function is defined."""
        where = [getattr(self._function, key, "") for key in ("__module__", "__qualname__")]
        return {"measure": self.name, "function": ".".join(filter(None, where)) or repr(self._function)}

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer against its reference, shape (n,); NaN is unscored.

        Raises:
            DataError: If numbers of answers and references differ, or an argument of the function is missing.
            TaxtuneError: If the function returns no finite number for a pair.
        """
        check_texts(answers, references)
        columns: list[Sequence[Any]] = [answers, references]
        for need in self._needs:
            column = questions if need == "question" else images
            if column is None or len(column) != len(answers):
                raise DataError(f"{self.name} needs the {need} of every answer.")
            columns.append(column)
        # Images cannot be looked up by their content, but one object is one image.
        rows = list(zip(*columns, strict=True))
        keys = [tuple(cell if isinstance(cell, str) else id(cell) for cell in row) for row in rows]
        distinct = dict(zip(keys, rows, strict=True))
        scores = {key: self._score(*distinct[key]) for key in track_each(list(distinct), self.label)}
        return np.array([scores[key] for key in keys], dtype=np.float64)

    def _score(self, answer: str, reference: str, *more: Any) -> float:
        value = self._function(answer, reference, *more)
        is_number = isinstance(value, SupportsFloat) and not isinstance(value, str)
        score = float("nan") if value is None else float(value) if is_number else float("inf")
        if math.isinf(score):
            raise TaxtuneError(
                f"The measure {self.name} did not return a finite number for the answer {answer!r:.120} and the "
                f"reference {reference!r:.120}.",
                value=value,
                remedy="Return None for a pair that cannot be scored.",
            )
        return score


class ManyReferencesMeasure(Measure):
    """A measure that is defined for all references of an answer at once: subclass it and write `scores_many`."""

    @abstractmethod
    def scores_many(
        self, answers: Texts, references: Sequence[Texts], images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer with all its references; see `Measure.scores_many`."""

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer with its one reference, shape (n,); see `scores_many`."""
        return self.scores_many(answers, [[reference] for reference in references], images, questions=questions)


def name_scores(
    measure: Measure, answers: Texts, names: Sequence[Texts], images: Images = None, *, questions: Questions = None
) -> FloatArray:
    """The score of each answer with the names of its target, any of which is right, shape (n,).

    Measures of consensus take each name as a reference of its own, and the best one counts: under VQA accuracy an
    answer that gives one of a target's two names would otherwise score 1/6.
    """
    if measure.consensus:
        return Measure.scores_many(measure, answers, names, images, questions=questions)
    return measure.scores_many(answers, names, images, questions=questions)


def check_texts(answers: Sequence[str], references: Sequence[Any], *, paired: bool = True) -> None:
    """Checks that answers and references are lists of texts and, if `paired`, that there are as many of each.

    Raises:
        DataError: If there are more or fewer references than answers.
        TypeError: If one of them is not text.
    """
    for texts in (answers, references):
        if isinstance(texts, str):
            raise TypeError("answers and references are lists of texts, not one text")
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"answers and references are texts, not {text!r}; remove missing ones")
    if paired and len(answers) != len(references):
        raise DataError(
            "The number of references must equal the number of answers.",
            value=f"{len(answers)} answers, {len(references)} references",
            remedy="Give one reference for each answer.",
        )


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
        made_of.kind, made_of.needs_images, made_of.needs_questions = (
            MEASURES[name],
            need == "image",
            need == "question",
        )
        made: Measure = made_of(model, settings)
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
    needs: Sequence[Need] = (),
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
        needs: Further arguments of the function, "question", "image" or both, in this order.
        default_model: The model where the specification names none, for measures with a model.

    Raises:
        TaxtuneError: If the name has a colon or is that of one of taxtune's own measures.
    """
    if not name or ":" in name or name != name.strip():
        raise TaxtuneError("The name of a measure must be one word without a colon.", value=name)
    if name in _OWN:
        raise TaxtuneError("taxtune already has a measure with this name.", value=name, remedy="Use another name.")

    def register(made: Made) -> Made:
        described = summary or (made.__doc__ or "").strip().partition("\n")[0]

        def make(model: str | None, settings: MeasureSettings) -> Measure:
            if not isinstance(made, type):
                return FunctionMeasure(name, label or name, made, needs=needs)
            bare = getattr(made, "__init__", None) is Measure.__init__
            measure: Measure = made() if bare else made(model, settings)
            return measure

        kind = MeasureKind(name, label or name, described, source, make, default_model, None, tuple(needs))
        if isinstance(made, type):
            made.kind, made.needs_images, made.needs_questions = kind, "image" in needs, "question" in needs  # type: ignore[attr-defined]
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
        raise DataError("The measure's model is empty.", value=spec, remedy=f"Write {name} or {name}:MODEL.")
    return kind, model or kind.default_model


def make_measure(spec: str | Measure | Callable[[str, str], float], settings: MeasureSettings | None = None) -> Measure:
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
