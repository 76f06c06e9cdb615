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
from taxtune.integrations.scoring import AnswerScorer
from taxtune.mapping import Mapper, MapperConfig
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import TemplateScores

if TYPE_CHECKING:
    from mlflow.entities import Feedback
    from mlflow.genai.scorers import Scorer

__all__ = ["scorer"]

_SCORES = tuple(f.name for f in fields(TemplateScores) if f.name not in ("n", "ranks", "measures", "target_bits"))


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
    the rows. The rationale tells the placement. A row without an answer, or without a label on the tree, has an error
    and no value, and no part in a mean.

    Args:
        taxonomy: The label tree: a `Taxonomy`, a file that `read_taxonomy` reads, or nested dicts.
        scores: Names of scores ("hp", "hr", "ihp", "accuracy", "depth", "abstained", "off_tree", ...). "hf" is each
            answer's own, whose mean is not the hF of the means.
        mapper: Places answers on the tree: a `Mapper` of this tree, or its settings.
        domain: Label of the domain, which all images show; the root where left out.
        answer: Where `outputs` are a dict, the key of the answer.
        label: The key in `expectations` of the true label, or of its path with slashes.
        name: The scorer's name in MLflow.

    Raises:
        TaxtuneError: If the tree cannot be read.
        DataError: If there is no such score.
    """
    from mlflow.genai.scorers import scorer as made_scorer

    place = AnswerScorer(taxonomy, mapper, domain)
    for key in scores:
        if key not in _SCORES:
            raise DataError("There is no such score.", value=key, remedy=f"Use some of {', '.join(_SCORES)}.")

    def hierarchical(outputs: Any, expectations: Any) -> list[Feedback]:
        from mlflow.entities import Feedback

        try:
            scored = place(_text(outputs, answer, "outputs"), _text(expectations, label, "expectations"))
        except TaxtuneError as error:
            return [Feedback(name=key, error=error) for key in scores]
        where = f"Placed on {'/'.join(scored.placement.path)} ({scored.placement.stage}). {scored.feedback}"
        return [Feedback(name=key, value=scored.scores.get(key), rationale=where) for key in scores]

    return made_scorer(hierarchical, name=name, description="Hierarchical precision and recall on a taxonomy")


def _text(holder: Any, key: str, what: str) -> str:
    """Returns a text, or a dict's text under a key.

    Raises:
        DataError: If there is none. An empty text is an answer, one that says nothing.
    """
    value = holder.get(key) if isinstance(holder, Mapping) else holder if what == "outputs" else None
    if not isinstance(value, str):
        raise DataError(f"The row has no text in {what}[{key!r}].", value=value)
    return value
