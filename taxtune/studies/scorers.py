"""Answers that people have placed on a tree, and similarities that find the node with the most similar name.

A node's score is the highest over its names. Paper 1 (§6.1) has no rule for ties, which are common: `nearest_nodes` has
three, none of which sees the truth.
"""

from __future__ import annotations

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
    file, records = str(path), read_records(path, what="annotated answers")
    columns = sorted({name for _, record in records for name in record})
    if lacking := next((name for name in ("answer", "node") if name not in columns), None):
        raise DataError(f"The file has no column {lacking!r}.", file=file, value=columns)
    find, label = target_finder(taxonomy, part), "" if part is None else part.label
    rows: list[tuple[Any, ...]] = []
    problems: list[tuple[int, str]] = []
    excluded: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for line, record in records:
        answer, style = record.get("answer"), record.get("style")
        empty = record.get("node") in (None, []) or not str(record["node"]).strip()
        target = Target("", node=taxonomy.root) if empty else find(record["node"])
        others = [find(item) for item in _items(record.get("also"))]
        if target.outside or answer is None:
            reason = f"node outside {label}" if target.outside else "no answer"
            excluded.append({"file": file, "row": line, "reason": reason})
        elif not isinstance(answer, str):
            problems.append((line, f"answer is not text: {answer!r}"))
        elif target.problem:
            problems.append((line, f"node{target.problem_after}"))
        elif wrong := next((other for other in others if other.problem), None):
            problems.append((line, f"also{wrong.problem_after}"))
        else:
            acceptable = [other.node for other in others if other.node is not None]
            counts += Counter(
                nothing=empty, moved=target.moved, outside=len(acceptable) < len(others)
            )
            style = None if style in (None, "") else str(style)
            rows.append((line, answer, target.node, frozenset((target.node, *acceptable)), style))
    if problems:
        raise rows_error(problems, file, len(records), remedy="Correct these rows.")
    reasons = Counter(one["reason"] for one in excluded)
    if not rows:
        raise DataError("No usable rows are left.", file=file, value=dict(reasons))
    told = {
        "nothing": "name no node, so their target is the root" + (f", {label}" if label else ""),
        "moved": "have the path of another tree as their node; it was found by its last name",
        "outside": f"have acceptable nodes outside {label}, which are ignored",
    }
    notes = [
        f"{count:,} of {len(records):,} rows are left out: {reason}"
        for reason, count in reasons.items()
    ]
    notes += [
        f"{counts[what]:,} of {len(rows):,} answers {text}"
        for what, text in told.items()
        if counts[what]
    ]
    frame = pd.DataFrame(
        rows, columns=["row", "answer", "target", "acceptable", "style"], dtype=object
    )
    return AnnotatedAnswers(
        frame.astype({"row": int, "target": int}), tuple(notes), tuple(excluded)
    )


def _items(value: object) -> list[object]:
    if isinstance(value, str):
        return [part.strip() for part in value.replace("|", ";").split(";") if part.strip()]
    return value if isinstance(value, list) else [] if value is None else [value]


# -- names and scores -------------------------------------------------------------------------------------------------


class NodeNames(NamedTuple):
    """The distinct names, the column of each node's names, node by node, and where each node's columns start."""

    vocabulary: tuple[str, ...]
    columns: IntArray
    starts: IntArray

    @classmethod
    def of(cls, names: Sequence[Sequence[str]]) -> NodeNames:
        """The columns of the names of each node, at least one each."""
        codes, vocabulary = pd.factorize(
            np.array([name for group in names for name in group], dtype=object)
        )
        return cls(tuple(vocabulary), codes, np.cumsum([0] + [len(group) for group in names[:-1]]))

    def best(self, scores: NDArray[np.floating]) -> FloatMatrix:
        """From scores of shape (answers, vocabulary) to the best of each node, (answers, nodes); NaN where all are."""
        best: FloatMatrix = np.fmax.reduceat(
            np.asarray(scores, np.float32)[:, self.columns], self.starts, axis=1
        )
        return best


def tree_names(
    taxonomy: Taxonomy, which: str = "all", form: Callable[[str], str] = str
) -> NodeNames:
    """Returns "all" names of a tree's nodes or the "common" one (paper 1, §11), each passed through `form`."""
    nodes = range(len(taxonomy))
    names = [taxonomy.names(v) if which == "all" else (taxonomy.common_name(v),) for v in nodes]
    return NodeNames.of([tuple(map(form, group)) for group in names])


class Scorer(NamedTuple):
    """A similarity that scores answers against the names of a tree's nodes, and its name and specification.

    A measure is a `MeasureSimilarity`.
    """

    name: str
    spec: str
    similarity: Similarity
    names: NodeNames

    def tables(
        self, texts: Sequence[str], form: Callable[[str], str] = str
    ) -> Iterator[tuple[Sequence[str], FloatMatrix]]:
        """Yields texts, some at a time, with the scores of their `form`, shape (texts, nodes); NaN is unscored."""
        score = getattr(self.similarity, "table", self.similarity.scores)
        with track(self.name, len(texts)) as task:
            for start in range(0, len(texts), _BATCH):
                batch = texts[start : start + _BATCH]
                yield batch, self.names.best(score([*map(form, batch)]))
                task.advance(len(batch))


def make_scorers(
    texts: Sequence[str], names: NodeNames, settings: ModelSettings, *, measures: bool
) -> list[Scorer]:
    """Returns the scorers of `measures` or of a mapper's similarities, each "SPEC" or "NAME=SPEC".

    "lexical" is always the mapper's similarity; `names` are what answers are compared with.

    Raises:
        TaxtuneError: If there is no such measure or similarity, a measure is a judge, two have the same name, or a
            model cannot be loaded.
    """
    from taxtune.mapping import make_similarity

    scorers = []
    for text in texts:
        name, spec = split_name(text)
        kind, _, model = spec.partition(":")
        short = model.rstrip("/").rsplit("/", 1)[-1]
        similarity: Similarity
        if measures and spec != "lexical":
            measure = make_measure(spec, settings.measure_settings())
            similarity = MeasureSimilarity(measure)
            shown = (
                measure.label
                if model in ("", MEASURES[kind].default_model)
                else f"{measure.label} {short}"
            )
        else:
            similarity = make_similarity(spec, device=settings.device, cache_dir=settings.cache_dir)
            shown = f"{kind} {short}" if model else spec
        similarity.fit(names.vocabulary)
        scorers.append(Scorer(name or shown, spec, similarity, names))
    shown_names = [scorer.name for scorer in scorers]
    if doubled := next((name for name in shown_names if shown_names.count(name) > 1), None):
        raise DataError(f"Two measures are called {doubled!r}.", remedy="Name them with NAME=SPEC.")
    return scorers


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
        rng: What "random" draws from; None is a new generator of seed 0.

    Returns:
        Nodes, shape (answers,), `UNPLACED` where all scores are NaN; and the number of nodes with the highest score.
    """
    rng = rng or np.random.default_rng(0)
    nodes, tied = (
        np.full(len(table), UNPLACED, dtype=np.int64),
        np.zeros(len(table), dtype=np.int64),
    )
    for i, row in enumerate(table):
        if np.isnan(row).all():
            continue
        best = np.flatnonzero(row >= np.nanmax(row) - _TIE)
        tied[i] = len(best)
        if ties == "deepest":
            nodes[i] = best[np.argmax(taxonomy.depth[best])]
        else:
            nodes[i] = (
                taxonomy.common_ancestor(best.tolist()) if ties == "ancestor" else rng.choice(best)
            )
    return nodes, tied


def split_name(text: str) -> tuple[str | None, str]:
    """Returns the name in "NAME=SPEC", or None, and the specification; raises a DataError if one of them is empty."""
    name, equals, spec = text.partition("=")
    if (
        not equals or ":" in name or "/" in name
    ):  # a colon or a slash belongs to the model, and so does the rest
        name, spec = "", text
    elif not name.strip():
        raise DataError(
            "The name before = is empty.", value=text, remedy="Write NAME=SPEC, or SPEC alone."
        )
    if not spec.strip():
        raise DataError(
            "The specification is empty.",
            value=text,
            remedy="Write lexical, rouge-1, sentence:MODEL, …",
        )
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
        self.measure, self.name = measure, measure.name

    def fit(self, names: Sequence[str]) -> None:
        """Takes in the names."""
        # Names shared by several nodes are scored once.
        self._columns, distinct = pd.factorize(np.array(names, dtype=object))
        self._names = list(distinct)

    def table(self, answers: Sequence[str]) -> NDArray[np.floating]:
        """Returns the measure's scores, shape (answers, names), NaN where it has none; call `fit` first."""
        return np.asarray(self.measure.matrix(list(answers), self._names))[:, self._columns]

    def scores(
        self, answers: Sequence[str], images: Sequence[Image | None] | None = None
    ) -> FloatMatrix:
        """Returns the scores, shape (answers, names), -1 where the measure has none."""
        return np.asarray(np.nan_to_num(self.table(answers), nan=-1.0), dtype=np.float32)
