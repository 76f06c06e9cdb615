"""Text to the node with the most similar name: what a measure does alone, and how Algorithm 1 uses it.

A node's score is the highest over its names. Paper 1 (§6.1) has no rule for ties, which are common: `nearest_nodes` has
three, none of which sees the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.errors import DataError, MapperError
from taxtune.metrics.registry import MEASURES, Measure, MeasureSettings, make_measure
from taxtune.progress import track
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.encoders import FloatMatrix
    from taxtune.mapping import Similarity

__all__ = [
    "ALGORITHM",
    "ALONE",
    "DEFAULT",
    "UNPLACED",
    "MeasureSimilarity",
    "NodeNames",
    "Scorer",
    "measure_scorer",
    "nearest_nodes",
    "similarity_scorer",
    "split_name",
    "tree_names",
    "unique_names",
]

IntArray = NDArray[np.int64]

#: The ways of placing: the nearest name, the paper's listing, taxtune's default mapper.
ALONE, ALGORITHM, DEFAULT = "alone", "Algorithm 1", "default"
#: The "node" of an answer that a measure left unscored.
UNPLACED = -1

# Scores that differ by less are equal: the same fraction computed in another order differs in the last digits.
_TIE = 1e-6
# Texts scored at once; bounds the memory of the matrix of texts and names.
_BATCH = 256


class NodeNames(NamedTuple):
    """The distinct names, the column of each node's names, node by node, and where each node's columns start."""

    vocabulary: tuple[str, ...]
    columns: IntArray
    starts: IntArray

    @classmethod
    def of(cls, names: Sequence[Sequence[str]]) -> NodeNames:
        """The columns of the names of each node, at least one each."""
        codes, vocabulary = pd.factorize(np.array([name for group in names for name in group], dtype=object))
        return cls(tuple(vocabulary), codes, np.cumsum([0] + [len(group) for group in names[:-1]]))

    def best(self, scores: NDArray[np.floating]) -> FloatMatrix:
        """From scores of shape (answers, vocabulary) to the best of each node, (answers, nodes); NaN where all are."""
        best: FloatMatrix = np.fmax.reduceat(np.asarray(scores, np.float32)[:, self.columns], self.starts, axis=1)
        return best


def tree_names(taxonomy: Taxonomy, which: str = "all", form: Callable[[str], str] = str) -> NodeNames:
    """Returns "all" names of a tree's nodes or the "common" one (paper 1, §11), each passed through `form`."""
    nodes = range(len(taxonomy))
    names = [taxonomy.names(v) if which == "all" else (taxonomy.common_name(v),) for v in nodes]
    return NodeNames.of([tuple(map(form, group)) for group in names])


@dataclass(frozen=True, slots=True)
class Scorer:
    """A similarity that scores answers against the names of a tree's nodes.

    Attributes:
        name: As it is printed: "ROUGE", "all-MiniLM-L6-v2".
        spec: Its specification.
        similarity: A mapper's similarity; a measure is a `MeasureSimilarity`.
        names: The names that it compares answers with.
    """

    name: str
    spec: str
    similarity: Similarity
    names: NodeNames

    @property
    def kind(self) -> str:
        """The specification's part before the colon."""
        return self.spec.partition(":")[0]

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that can change a score."""
        if isinstance(self.similarity, MeasureSimilarity):
            return dict(self.similarity.measure.identity())
        return {"similarity": self.spec}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the scores made so far."""
        return self.similarity.measure.notes if isinstance(self.similarity, MeasureSimilarity) else ()

    def tables(
        self, texts: Sequence[str], form: Callable[[str], str] = str
    ) -> Iterator[tuple[Sequence[str], FloatMatrix]]:
        """Yields distinct texts, some at a time, with their scores of shape (texts, nodes), NaN where there is none.

        A text is passed through `form` before it is scored.
        """
        score = getattr(self.similarity, "table", self.similarity.scores)
        with track(self.name, len(texts)) as task:
            for start in range(0, len(texts), _BATCH):
                batch = texts[start : start + _BATCH]
                yield batch, self.names.best(score([*map(form, batch)]))
                task.advance(len(batch))


def nearest_nodes(
    taxonomy: Taxonomy, table: FloatMatrix, *, ties: str = "deepest", rng: np.random.Generator | None = None
) -> tuple[IntArray, IntArray]:
    """Picks the most similar node of each answer.

    Args:
        taxonomy: The tree.
        table: Scores, shape (answers, nodes); NaN is never the highest.
        ties: Where several nodes share the highest score: the "deepest" of them (of equally deep ones the one with the
            smallest number), their lowest common "ancestor", or one of them at "random".
        rng: What "random" draws from; None is a new generator of seed 0.

    Returns:
        Nodes, shape (answers,), `UNPLACED` where all scores are NaN; and the number of nodes with the highest score.
    """
    rng = rng or np.random.default_rng(0)
    nodes, tied = np.full(len(table), UNPLACED, dtype=np.int64), np.zeros(len(table), dtype=np.int64)
    for i, row in enumerate(table):
        if np.isnan(row).all():
            continue
        best = np.flatnonzero(row >= np.nanmax(row) - _TIE)
        tied[i] = len(best)
        if ties == "deepest":
            nodes[i] = best[np.argmax(taxonomy.depth[best])]
        else:
            nodes[i] = taxonomy.common_ancestor(best.tolist()) if ties == "ancestor" else rng.choice(best)
    return nodes, tied


def split_name(text: str) -> tuple[str | None, str]:
    """Returns the name in "NAME=SPEC", or None, and the specification; raises a DataError if one of them is empty."""
    name, equals, spec = text.partition("=")
    if not equals or ":" in name or "/" in name:  # a colon or a slash belongs to the model, and so does the rest
        name, spec = "", text
    elif not name.strip():
        raise DataError("The name before = is empty.", value=text, remedy="Write NAME=SPEC, or SPEC alone.")
    if not spec.strip():
        raise DataError("The specification is empty.", value=text, remedy="Write lexical, rouge-1, sentence:MODEL, …")
    return name.strip() or None, spec.strip()


def unique_names(scorers: Iterable[Scorer]) -> None:
    """Raises a DataError if two scorers have the same name."""
    names = [scorer.name for scorer in scorers]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"Two measures are called {doubled!r}.", remedy="Name them with NAME=SPEC.")


# -- measures and similarities ----------------------------------------------------------------------------------------


class MeasureSimilarity:
    """A measure as a mapper's similarity, so that Algorithm 1 can run with it; names are its references.

    Args:
        measure: A measure that compares two texts.

    Raises:
        MapperError: If the measure is a judge that needs the questions.
    """

    needs_images = False
    confident = 1.0  # the score from which the default preset believes the most similar name

    def __init__(self, measure: Measure) -> None:
        if measure.needs_questions:
            raise MapperError(
                "A judge rates one answer and one reference, and cannot be asked about every name of a tree.",
                value=measure.name,
                remedy="Use a measure that compares texts.",
            )
        self.measure, self.name = measure, measure.name
        self._names: tuple[str, ...] | None = None

    def fit(self, names: Sequence[str]) -> None:
        """Takes in the names."""
        self._names = tuple(names)

    def table(self, answers: Sequence[str]) -> NDArray[np.floating]:
        """Returns the measure's scores, shape (answers, names), NaN where it has none; call `fit` first."""
        if self._names is None:
            raise MapperError("The measure has no names yet.", value=self.name, remedy="Call fit first.")
        # Names shared by several nodes are scored once.
        columns, distinct = pd.factorize(np.array(self._names, dtype=object))
        return np.asarray(self.measure.matrix(list(answers), list(distinct)))[:, columns]

    def scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> FloatMatrix:
        """Returns the scores, shape (answers, names), -1 where the measure has none."""
        return np.asarray(np.nan_to_num(self.table(answers), nan=-1.0), dtype=np.float32)


def measure_scorer(text: str, names: NodeNames, settings: MeasureSettings) -> Scorer:
    """Returns the scorer of a measure, "SPEC" or "NAME=SPEC"; "lexical" is the mapper's similarity.

    Raises:
        TaxtuneError: If there is no such measure, it is a judge, or its model cannot be loaded.
    """
    name, spec = split_name(text)
    if spec == "lexical":
        return similarity_scorer(text, names)
    measure = make_measure(spec, settings)
    similarity = MeasureSimilarity(measure)
    similarity.fit(names.vocabulary)
    # A measure's label, with its model where that is not the default one.
    kind, _, model = spec.partition(":")
    shown = measure.label if model in ("", MEASURES[kind].default_model) else f"{measure.label} {_short(model)}"
    return Scorer(name or shown, spec, similarity, names)


def similarity_scorer(text: str, names: NodeNames, *, device: str = "auto", cache_dir: Path | None = None) -> Scorer:
    """Returns the scorer of a mapper's similarity, "SPEC" or "NAME=SPEC" (see `taxtune.mapping.make_similarity`)."""
    from taxtune.mapping import make_similarity

    name, spec = split_name(text)
    similarity = make_similarity(spec, device=device, cache_dir=cache_dir)
    similarity.fit(names.vocabulary)
    kind, _, model = spec.partition(":")
    return Scorer(name or (f"{kind} {_short(model)}" if model else spec), spec, similarity, names)


def _short(model: str) -> str:
    return model.rstrip("/").rsplit("/", 1)[-1]
