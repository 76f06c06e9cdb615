"""taxtune's scores as a scorer of `mlflow.genai.evaluate` (https://mlflow.org/docs/latest/genai/eval-monitor/).

from taxtune.integrations import mlflow as on_tree

data = [{"inputs": {"image": "1.jpg"}, "outputs": "a mallard", "expectations": {"label": "mallard"}}]
mlflow.genai.evaluate(data=data, scorers=[on_tree.scorer("tree.csv")])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.errors import DataError, TaxtuneError
from taxtune.integrations.scoring import AnswerScorer, ScoredAnswer
from taxtune.mapping import Mapper, MapperConfig
from taxtune.metrics.ranks import rank_of, rank_scores
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import TemplateScores

if TYPE_CHECKING:
    from mlflow.entities import Feedback
    from mlflow.genai.scorers import Scorer

__all__ = ["scorer"]

_SCORES = tuple(f.name for f in fields(TemplateScores) if f.name not in ("n", "ranks", "measures", "target_bits"))
_AT_RANK = ("precision", "recall")


def scorer(
    taxonomy: Taxonomy | str | Path | Mapping[str, Any],
    scores: Sequence[str] = ("hp", "hr", "accuracy"),
    *,
    mapper: Mapper | MapperConfig | None = None,
    domain: str | None = None,
    answer: str = "answer",
    label: str = "label",
    name: str = "taxtune",
) -> Scorer:
    """Returns a scorer for `mlflow.genai.evaluate`: how right free-text answers are on a taxonomy.

    An answer is placed once, and each of its scores is a feedback of its own ("hp", "hr"), which MLflow averages over
    the rows. The rationale says where the answer was placed. A row without an answer, or without a label on the
    tree, has an error in place of a value, and no part in a mean.

    Args:
        taxonomy: The label tree: a `Taxonomy`, a file that `read_taxonomy` reads, or nested dicts.
        scores: What to score: names of `taxtune.metrics` ("hp", "hr", "ihp", "accuracy", "depth", "abstained",
            "off_tree", ...), and "precision.RANK" and "recall.RANK" for what is said at a rank; rows that have nothing
            at this rank have no such feedback. "hf" is each answer's own, whose mean is not the hF of the means.
        mapper: How answers are placed on the tree: a `Mapper` of this tree, or its settings.
        domain: Label of what all images show; the root where left out.
        answer: Where `outputs` are a dict, the key of the answer.
        label: The key in `expectations` of the true label, or of its path with slashes.
        name: What MLflow calls the scorer.

    Raises:
        TaxtuneError: If the tree cannot be read.
        DataError: If there is no such score.
    """
    from mlflow.genai.scorers import scorer as made_scorer

    judge = AnswerScorer(taxonomy, mapper, domain)
    known = (*_SCORES, *(f"{kind}.{rank}" for kind in _AT_RANK for rank in _ranks(judge.taxonomy)))
    for each in scores:
        if each not in known:
            raise DataError("There is no such score.", value=each, remedy=f"Use some of {', '.join(known)}.")

    def hierarchical(outputs: Any, expectations: Any) -> list[Feedback]:
        from mlflow.entities import Feedback

        try:
            found = judge(_text(outputs, answer, "outputs"), _text(expectations, label, "expectations"))
        except TaxtuneError as error:
            return [Feedback(name=each, error=error) for each in scores]
        values = _values(judge.taxonomy, found, scores, judge.mapper.config.off_tree)
        where = f"Placed on {'/'.join(found.placement.path)} ({found.placement.stage}). {found.feedback}"
        return [Feedback(name=key, value=value, rationale=where) for key, value in values.items() if value is not None]

    return made_scorer(hierarchical, name=name, description="Hierarchical precision and recall on a taxonomy")


def _values(tree: Taxonomy, found: ScoredAnswer, scores: Sequence[str], off_tree_as: str) -> dict[str, float | None]:
    values: dict[str, float | None] = {key: found.scores.get(key) for key in scores if key in _SCORES}
    if len(values) < len(scores):
        as_child = [found.placement.off_tree and off_tree_as == "child"]
        for at in rank_scores(tree, [found.placement.node], [found.target], off_tree=as_child):
            values |= {f"{kind}.{at.rank}": getattr(at, kind) for kind in _AT_RANK}
    return {key: values.get(key) for key in scores}


def _ranks(tree: Taxonomy) -> tuple[str, ...]:
    """Returns the ranks below the root, in the order of the nodes."""
    return tuple(dict.fromkeys(rank_of(tree, node) for node in range(len(tree)) if node != tree.root))


def _text(holder: Any, key: str, what: str) -> str:
    """Returns a text, or a dict's text under a key.

    Raises:
        DataError: If there is none. An empty text is an answer, one that says nothing.
    """
    value = holder.get(key) if isinstance(holder, Mapping) else holder if what == "outputs" else None
    if not isinstance(value, str):
        raise DataError(f"The row has no text in {what}[{key!r}].", value=value)
    return value
