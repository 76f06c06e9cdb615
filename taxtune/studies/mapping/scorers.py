"""What finds the nearest name: a measure or a mapper's similarity, by one specification and under a name to print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import DataError
from taxtune.studies.mapping.nearest import MeasureSimilarity, NodeNames

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.mapping import Similarity
    from taxtune.metrics.registry import MeasureSettings

__all__ = ["Scorer", "measure_label", "measure_scorer", "similarity_scorer", "split_name", "unique_names"]


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores answers against the names of a tree.

    Attributes:
        name: As it is printed: "ROUGE", "all-MiniLM-L6-v2".
        spec: Its specification.
        kind: The specification's part before the colon.
        similarity: It, as a mapper's similarity.
        score: From answers and their images to scores with the names, NaN where there is none.
        identity: Everything that can change a score.
        notes: What the user should know about the scores made so far.
        names: What it scores, as columns of nodes, where that is not the tree's names.
    """

    name: str
    spec: str
    kind: str
    similarity: Similarity
    score: Callable[[Sequence[str], Sequence[Image | None] | None], NDArray[np.floating]]
    identity: dict[str, Any]
    notes: Callable[[], tuple[str, ...]]
    names: NodeNames | None = None


def split_name(text: str) -> tuple[str | None, str]:
    """Returns the name that a specification is given, "NAME=SPEC", or None, and the specification.

    Raises:
        DataError: If one of them is empty.
    """
    name, equals, spec = text.partition("=")
    if not equals or ":" in name or "/" in name:  # a colon or a slash belongs to the model, and so does the rest
        name, spec = "", text
    elif not name.strip():
        raise DataError("The name before = is empty.", value=text, remedy="Write NAME=SPEC, or SPEC alone.")
    if not spec.strip():
        raise DataError("The specification is empty.", value=text, remedy="Write lexical, rouge-1, sentence:MODEL, …")
    return name.strip() or None, spec.strip()


def measure_scorer(text: str, names: Sequence[str], settings: MeasureSettings | None = None) -> Scorer:
    """Returns what a measure's specification names, or the mapper's own "lexical" similarity.

    Args:
        text: "SPEC" or "NAME=SPEC".
        names: The names that answers are compared with.
        settings: For measures with models.

    Raises:
        DataError: If there is no such measure.
        MapperError: If the measure is a judge.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If a package that it needs is not installed.
    """
    from taxtune.metrics.registry import make_measure

    name, spec = split_name(text)
    if spec == "lexical":
        return similarity_scorer(text, names)
    measure = make_measure(spec, settings)
    similarity = MeasureSimilarity(measure)
    similarity.fit(names)
    return Scorer(
        name or measure_label(spec, measure.label),
        spec,
        spec.partition(":")[0],
        similarity,
        similarity.table,
        dict(measure.identity()),
        lambda: measure.notes,
    )


def similarity_scorer(
    text: str, names: Sequence[str], *, device: str = "auto", cache_dir: Path | None = None
) -> Scorer:
    """Returns what a mapper's similarity's specification names.

    Args:
        text: "SPEC" or "NAME=SPEC", where SPEC is what a recipe's `mapper.similarity` may be.
        names: The names that answers are compared with.
        device: Where an encoder runs.
        cache_dir: Where embeddings of names are kept.

    Raises:
        MapperError: If there is no such similarity.
        ModelError: If its model cannot be loaded.
        MissingExtraError: If a package that it needs is not installed.
    """
    from taxtune.mapping import make_similarity

    name, spec = split_name(text)
    similarity = make_similarity(spec, device=device, cache_dir=cache_dir)
    similarity.fit(names)
    kind, _, model = spec.partition(":")
    label = f"{kind} {_short(model)}" if model else spec
    return Scorer(name or label, spec, kind, similarity, similarity.scores, {"similarity": spec}, tuple)


def measure_label(spec: str, label: str) -> str:
    """Returns how a measure is printed: its label, with the model where that is not the default one."""
    from taxtune.metrics.registry import MEASURES

    kind, _, model = spec.partition(":")
    default = MEASURES[kind].default_model if kind in MEASURES else None
    return label if model in ("", default) else f"{label} {_short(model)}"


def unique_names(scorers: Sequence[Scorer]) -> None:
    """Checks that scorers can be told apart by name.

    Raises:
        DataError: If two have the same name.
    """
    seen: dict[str, str] = {}
    for scorer in scorers:
        if scorer.name in seen:
            raise DataError(
                f"Two are called {scorer.name!r}: {seen[scorer.name]} and {scorer.spec}.",
                remedy="Leave one out, or name them: NAME=SPEC.",
            )
        seen[scorer.name] = scorer.spec


def _short(model: str) -> str:
    return model.rstrip("/").rsplit("/", 1)[-1]
