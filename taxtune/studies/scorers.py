"""Answers that people have placed on a tree, and similarities that find the node with the most similar name.

A node's score is the highest over its names. Paper 1 (§6.1) has no rule for ties, which are common: `nearest_nodes` has
three, none of which sees the truth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.answers.records import read_records
from taxtune.answers.targets import Target, rows_error, target_finder
from taxtune.errors import DataError, MapperError
from taxtune.metrics.registry import MEASURES, Measure, make_measure
from taxtune.progress import track
from taxtune.studies.settings import ModelSettings
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

    from taxtune.encoders import FloatMatrix
    from taxtune.mapping import Similarity

__all__ = [
    "UNPLACED",
    "AnnotatedAnswers",
    "MeasureSimilarity",
    "NodeNames",
    "Scorer",
    "make_scorers",
    "nearest_nodes",
    "read_annotated",
    "split_name",
    "tree_names",
]

IntArray = NDArray[np.int64]

#: The "node" of an answer that a measure left unscored.
UNPLACED = -1

# Scores that differ by less are equal: the same fraction computed in another order differs in the last digits.
_TIE = 1e-6
# Texts scored at once; bounds the memory of the matrix of texts and names.
_BATCH = 256


# -- answers that people have placed ----------------------------------------------------------------------------------


class AnnotatedAnswers(NamedTuple):
    """Answers that people have placed, notes on them, and file, row and reason of each row that is left out.

    `frame` has one row per answer: row (its line in the file, from 1), answer, target (a node), acceptable (a set of
    nodes, the target included) and style (None where the file has none).
    """

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    excluded: tuple[dict[str, Any], ...] = ()


def read_annotated(
    path: str | Path, taxonomy: Taxonomy, part: Domain | None = None
) -> AnnotatedAnswers:
    """Reads answers that people have placed; those without an answer, or with a node outside `part`, are left out.

    The file has the columns answer (an empty text in JSONL says nothing), node (a label, an alias or a path; an answer
    without one names nothing on the tree, so that its target is the root) and, if it likes, also (further acceptable
    nodes: a list, or a cell with ";" or "|" between them) and style (to group answers by).

    Raises:
        DataError: If the file cannot be read, lacks a column, has rows that cannot be used, or none that is left.
    """
    file = str(path)
    records = read_records(path, what="annotated answers")
    columns = sorted({name for _, record in records for name in record})
    for name in ("answer", "node"):
        if name not in columns:
            raise DataError(f"The file has no column {name!r}.", file=file, value=columns)
    find = target_finder(taxonomy, part)
    label = "" if part is None else part.label
    rows: list[dict[str, Any]] = []
    problems: list[tuple[int, str]] = []
    excluded: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for line, record in records:
        answer = record.get("answer")
        is_empty = record.get("node") in (None, []) or not str(record["node"]).strip()
        target = Target("", node=taxonomy.root) if is_empty else find(record["node"])
        others = [find(item) for item in _items(record.get("also"))]
        if target.outside or answer is None:
            reason = f"node outside {label}" if target.outside else "no answer"
            excluded.append({"file": file, "row": line, "reason": reason})
            continue
        problem = _problem(answer, target, others)
        if problem is not None:
            problems.append((line, problem))
            continue
        acceptable = [other.node for other in others if other.node is not None]
        row = {"row": line, "answer": answer, "target": target.node}
        row["acceptable"] = frozenset((target.node, *acceptable))
        style = record.get("style")
        row["style"] = None if style in (None, "") else str(style)
        rows.append(row)
        counts["nothing"] += is_empty
        counts["moved"] += target.moved
        counts["outside"] += len(acceptable) < len(others)
    if problems:
        raise rows_error(problems, file, len(records), remedy="Correct these rows.")
    reasons = Counter(row["reason"] for row in excluded)
    if not rows:
        raise DataError("No usable rows are left.", file=file, value=dict(reasons))
    meanings = {
        "nothing": "name no node, so their target is the root" + (f", {label}" if label else ""),
        "moved": "have the path of another tree as their node; it was found by its last name",
        "outside": f"have acceptable nodes outside {label}, which are ignored",
    }
    notes = []
    for reason, count in reasons.items():
        notes.append(f"{count:,} of {len(records):,} rows are left out: {reason}")
    for what, meaning in meanings.items():
        if counts[what]:
            notes.append(f"{counts[what]:,} of {len(rows):,} answers {meaning}")
    frame = pd.DataFrame(rows, dtype=object).astype({"row": int, "target": int})
    return AnnotatedAnswers(frame, tuple(notes), tuple(excluded))


def _problem(answer: object, target: Target, others: Sequence[Target]) -> str | None:
    """Returns the problem of a row; None where it can be used."""
    if not isinstance(answer, str):
        return f"answer is not text: {answer!r}"
    if target.problem:
        return f"node{target.problem_after}"
    for other in others:
        if other.problem:
            return f"also{other.problem_after}"
    return None


def _items(value: object) -> list[object]:
    """Returns the entries of a list, or of a cell with ";" or "|" between them."""
    if value is None or isinstance(value, list):
        return value or []
    if not isinstance(value, str):
        return [value]
    parts = [part.strip() for part in re.split("[;|]", value)]
    return [part for part in parts if part]


# -- names and scores -------------------------------------------------------------------------------------------------


class NodeNames(NamedTuple):
    """The distinct names, the column of each node's names, node by node, and where each node's columns start."""

    vocabulary: tuple[str, ...]
    columns: IntArray
    starts: IntArray

    @classmethod
    def of(cls, names: Sequence[Sequence[str]]) -> NodeNames:
        """The columns of the names of each node, at least one each."""
        flat = [name for group in names for name in group]
        codes, vocabulary = pd.factorize(np.array(flat, dtype=object))
        starts = np.cumsum([0] + [len(group) for group in names[:-1]])
        return cls(tuple(vocabulary), codes, starts)

    def best(self, scores: NDArray[np.floating]) -> FloatMatrix:
        """From scores of shape (answers, vocabulary) to the best of each node, (answers, nodes); NaN where all are."""
        of_names = np.asarray(scores, np.float32)[:, self.columns]
        best: FloatMatrix = np.fmax.reduceat(of_names, self.starts, axis=1)
        return best


def tree_names(
    taxonomy: Taxonomy, which: str = "all", form: Callable[[str], str] = str
) -> NodeNames:
    """Returns "all" names of a tree's nodes or the "common" one (paper 1, §11), each passed through `form`."""
    names = []
    for node in range(len(taxonomy)):
        own = taxonomy.names(node) if which == "all" else [taxonomy.common_name(node)]
        names.append([form(name) for name in own])
    return NodeNames.of(names)


class Scorer(NamedTuple):
    """A similarity that scores answers against the names of a tree's nodes, and its name and specification.

    A measure is a `MeasureSimilarity`.
    """

    name: str
    spec: str
    similarity: Similarity
    names: NodeNames

    @property
    def notes(self) -> Sequence[str]:
        """The notes of a measure; a similarity has none."""
        if isinstance(self.similarity, MeasureSimilarity):
            return self.similarity.measure.notes
        return ()

    def identity(self) -> dict[str, Any]:
        """Returns the record of the measure or similarity that makes the scores."""
        if isinstance(self.similarity, MeasureSimilarity):
            return dict(self.similarity.measure.identity())
        return {"similarity": self.spec}

    def tables(
        self, texts: Sequence[str], form: Callable[[str], str] = str
    ) -> Iterator[tuple[Sequence[str], FloatMatrix]]:
        """Yields texts, some at a time, with the scores of their `form`, shape (texts, nodes); NaN is unscored."""
        score = getattr(self.similarity, "table", self.similarity.scores)
        with track(self.name, len(texts)) as task:
            for start in range(0, len(texts), _BATCH):
                batch = texts[start : start + _BATCH]
                scores = score([form(text) for text in batch])
                yield batch, self.names.best(scores)
                task.advance(len(batch))


def make_scorers(
    texts: Sequence[str], names: NodeNames, settings: ModelSettings, *, measures: bool
) -> list[Scorer]:
    """Returns the scorers of `measures` or of a mapper's similarities, each "SPEC" or "NAME=SPEC".

    "lexical" is always the mapper's similarity; `names` are those that answers are compared with.

    Raises:
        TaxtuneError: If there is no such measure or similarity, a measure is a judge, two have the same name, or a
            model cannot be loaded.
    """
    scorers: dict[str, Scorer] = {}
    for text in texts:
        name, spec = split_name(text)
        is_measure = measures and spec != "lexical"
        shown, similarity = (_measure if is_measure else _similarity)(spec, settings)
        similarity.fit(names.vocabulary)
        name = name or shown
        if name in scorers:
            raise DataError(
                f"Two measures are called {name!r}.", remedy="Name them with NAME=SPEC."
            )
        scorers[name] = Scorer(name, spec, similarity, names)
    return list(scorers.values())


def _measure(spec: str, settings: ModelSettings) -> tuple[str, Similarity]:
    """Returns a measure as a similarity, and its name in tables."""
    kind, _, model = spec.partition(":")
    measure = make_measure(spec, settings.measure_settings())
    name = measure.label
    if model not in ("", MEASURES[kind].default_model):
        name = f"{name} {_short(model)}"
    return name, MeasureSimilarity(measure)


def _similarity(spec: str, settings: ModelSettings) -> tuple[str, Similarity]:
    """Returns a mapper's similarity and its name in tables."""
    from taxtune.mapping import make_similarity

    kind, _, model = spec.partition(":")
    similarity = make_similarity(spec, device=settings.device, cache_dir=settings.cache_dir)
    return f"{kind} {_short(model)}" if model else spec, similarity


def _short(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2]


def nearest_nodes(
    taxonomy: Taxonomy,
    table: FloatMatrix,
    *,
    ties: str = "deepest",
    rng: np.random.Generator | None = None,
) -> tuple[IntArray, IntArray]:
    """Picks the most similar node of each answer.

    Args:
        taxonomy: The tree.
        table: Scores, shape (answers, nodes); NaN is never the highest.
        ties: Where several nodes share the highest score: the "deepest" of them (of equally deep ones the one with the
            smallest number), their lowest common "ancestor", or one of them at "random".
        rng: The generator that "random" draws from; None is a new one of seed 0.

    Returns:
        Nodes, shape (answers,), `UNPLACED` where all scores are NaN; and the number of nodes with the highest score.
    """
    rng = rng or np.random.default_rng(0)
    nodes = np.full(len(table), UNPLACED, dtype=np.int64)
    tied = np.zeros(len(table), dtype=np.int64)
    for i, row in enumerate(table):
        if np.isnan(row).all():
            continue
        best = np.flatnonzero(row >= np.nanmax(row) - _TIE)
        tied[i] = len(best)
        if ties == "deepest":
            nodes[i] = best[np.argmax(taxonomy.depth[best])]
        elif ties == "ancestor":
            nodes[i] = taxonomy.common_ancestor(best.tolist())
        else:
            nodes[i] = rng.choice(best)
    return nodes, tied


def split_name(text: str) -> tuple[str | None, str]:
    """Returns the name in "NAME=SPEC", or None, and the specification; raises a DataError if one of them is empty."""
    name, equals, spec = text.partition("=")
    # A colon or a slash belongs to the model, and so does the rest.
    if not equals or ":" in name or "/" in name:
        name, spec = "", text
    elif not name.strip():
        remedy = "Write NAME=SPEC, or SPEC alone."
        raise DataError("The name before = is empty.", value=text, remedy=remedy)
    if not spec.strip():
        remedy = "Write lexical, rouge-1, sentence:MODEL, …"
        raise DataError("The specification is empty.", value=text, remedy=remedy)
    return name.strip() or None, spec.strip()


class MeasureSimilarity:
    """A measure of two texts as a mapper's similarity, so that Algorithm 1 can run with it; names are its references.

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
        self.measure = measure
        self.name = measure.name

    def fit(self, names: Sequence[str]) -> None:
        """Takes in the names."""
        # Names shared by several nodes are scored once.
        self._columns, distinct = pd.factorize(np.array(names, dtype=object))
        self._names = list(distinct)

    def table(self, answers: Sequence[str]) -> NDArray[np.floating]:
        """Returns the measure's scores, shape (answers, names), NaN where it has none; call `fit` first."""
        scores = np.asarray(self.measure.matrix(list(answers), self._names))
        return scores[:, self._columns]

    def scores(
        self, answers: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatMatrix:
        """Returns the scores, shape (answers, names), -1 where the measure has none."""
        scores = np.nan_to_num(self.table(answers), nan=-1.0)
        return np.asarray(scores, dtype=np.float32)
