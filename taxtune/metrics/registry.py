"""Every measure of an answer against a reference, found by name.

    make_measure("rouge-1").scores(["a bird on a branch"], ["bird"])      # array([1.])

A *measure* compares two texts (or an image and a text); a *metric* (hP, hR, hF) compares two nodes. A measure is
registered beside its definition, and may be a plain function:

    @taxtune.measure("polite", summary="whether the answer says please")
    def polite(answer: str, reference: str) -> float:
        return float("please" in answer)

Its name then stands wherever a measure's name does. Other packages add theirs by entry points of the group
`taxtune.measures`. A module that defines measures is imported when one of them is asked for.
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

_GROUP = "taxtune.measures"
# The modules of taxtune's own measures, in the order in which these are listed.
_OWN = {
    "exact-match": "text",
    "contained": "text",
    "bleu-2": "text",
    "rouge-1": "text",
    "meteor": "meteor",
    "cider": "cider",
    "cider-d": "cider",
    "text-inclusion": "text",
    "text-inclusion-literal": "text",
    "sentence": "semantic",
    "concept": "concept",
    "bertscore": "bertscore",
    "nli-forward": "nli",
    "nli-backward": "nli",
    "clip-t2t": "clip",
    "clip-i2t": "clip",
    "llama-inclusion": "inclusion",
    "lave": "lave",
    "vqa-accuracy": "vqa",
    "soft-vqa-accuracy": "vqa",
}

Need = Literal["image", "question"]
Made = TypeVar("Made", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class MeasureKind:
    """An entry of the registry.

    Attributes:
        kind: The name, or the part of the specification before the colon.
        label: As the papers print it.
        summary: What it measures, in one line.
        source: Paper and section.
        factory: Called with the model's name (or None) and the settings; returns the measure.
        default_model: The model where the specification names none; None where the measure has no model.
        extra: The extra of taxtune that its packages come with, or None.
        needs: What it scores with besides texts, to know before a model is loaded: "image", "question".
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
        if name not in self._kinds and name in _OWN:
            importlib.import_module(f"taxtune.metrics.{_OWN[name]}")
        elif name not in self._kinds:
            found = find_plugin(_GROUP, name)
            # Loading it has registered it where it is decorated.
            if found is not None and name not in self._kinds:
                measure(name)(found)
        return self._kinds[name]

    def __setitem__(self, name: str, kind: MeasureKind) -> None:
        self._kinds[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*_OWN, *self._kinds, *plugin_names(_GROUP)]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._kinds or name in list(iter(self))


#: All measures by kind, in the order in which they are listed.
MEASURES: MutableMapping[str, MeasureKind] = _Registry()


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

    It decorates a function `(answer, reference) -> float`, where larger is better; a batched function of two lists that
    returns as many numbers; a subclass of `PairwiseMeasure`, whose constructor, if it has one, is given the name of a
    model (or None) and the settings; or a function that makes a measure from these. A score of None or NaN leaves a
    pair unscored.

    Args:
        name: The name, without a colon.
        label: As tables print it; the name where left out.
        summary: What it measures, in one line; the first line of the docstring where left out.
        source: Where it is from.
        batched: Whether the function takes lists.
        needs: What the function is given after answer and reference, "question", "image" or both, in this order.
        default_model: The model where a specification names none, for measures with a model.
        extra: The extra of taxtune that its packages come with.
        factory: Whether the function makes a measure rather than being one.

    Raises:
        TaxtuneError: If the name is not one, or is that of one of taxtune's own measures.
    """
    if not name or ":" in name or name != name.strip():
        raise TaxtuneError("The name of a measure must be one word without a colon.", value=name)

    def register(made: Made) -> Made:
        if name in _OWN and not made.__module__.startswith("taxtune.metrics."):
            raise TaxtuneError("taxtune already has a measure with this name.", value=name, remedy="Use another name.")
        said = summary or (made.__doc__ or "").strip().partition("\n")[0]
        is_class = isinstance(made, type)

        def make(model: str | None, settings: MeasureSettings) -> Measure:
            if not is_class and not factory:
                return FunctionMeasure(name, label or name, made, settings, batched=batched, needs=needs)
            bare = is_class and getattr(made, "__init__", None) is PairwiseMeasure.__init__
            measure: Measure = made() if bare else made(model, settings)
            return measure

        kind = MeasureKind(name, label or name, said, source, make, default_model, extra, tuple(needs))
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
        return FunctionMeasure(name, name, spec, settings)
    kind, model = split_spec(spec)
    for name in ("batch_size", "concurrency"):
        if getattr(settings, name) < 1:
            raise ModelError(f"{name} must be at least 1.", value=getattr(settings, name))
    return kind.factory(model, settings)
