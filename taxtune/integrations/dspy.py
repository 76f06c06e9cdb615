"""taxtune's scores as a DSPy metric (https://dspy.ai).

from taxtune.integrations.dspy import Metric

metric = Metric("tree.csv", "hf")
dspy.Evaluate(devset=devset, metric=metric)(program)
dspy.GEPA(metric=metric, reflection_lm=..., auto="light").compile(program, trainset=devset)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.errors import DataError
from taxtune.integrations.scoring import feedback, image_value
from taxtune.mapping import Mapper, MapperConfig
from taxtune.metrics.information import leaf_information
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.tuning.objective import Objective, make_objective
from taxtune.tuning.records import SampleResult, TemplateScores

if TYPE_CHECKING:
    import dspy

__all__ = ["Metric"]


class Metric:
    """A metric for DSPy: how right a program's free-text answer is on a taxonomy.

    Called as `metric(example, pred, trace=None)` it returns a number. Called with the name of a predictor, as
    `dspy.GEPA` does, it returns a `dspy.Prediction` with `score` and `feedback`, which names no label. Safe to call
    from several threads. A program that raises never reaches it: see `failure_score` of `dspy.Evaluate`, 0 by default.

    Args:
        taxonomy: The label tree: a `Taxonomy`, a file that `read_taxonomy` reads, or nested dicts.
        objective: An objective, as in `taxtune.tune`, but for measures of text; of one image, so that a constraint on a
            mean becomes a weight (`taxtune.integrations.scoring.image_value`).
        mapper: Places answers on the tree: a `Mapper` of this tree, or its settings.
        domain: Label of the domain, which all images show; the root where left out.
        answer: The program's output field with the answer.
        label: The examples' field with the true label, or its path with slashes.

    Raises:
        TaxtuneError: If the tree cannot be read, or there is no such objective.
        DataError: If the objective needs a measure.
    """

    def __init__(
        self,
        taxonomy: Taxonomy | str | Path | Mapping[str, Any],
        objective: str | Objective | Callable[[TemplateScores], float] = "hf",
        *,
        mapper: Mapper | MapperConfig | None = None,
        domain: str | None = None,
        answer: str = "answer",
        label: str = "label",
    ) -> None:
        if not isinstance(taxonomy, Taxonomy):
            nested = isinstance(taxonomy, Mapping)
            taxonomy = Taxonomy.from_dict(taxonomy) if nested else read_taxonomy(taxonomy)  # type: ignore[arg-type]
        self.taxonomy = taxonomy
        self.mapper = mapper if isinstance(mapper, Mapper) else Mapper(taxonomy, config=mapper)
        self.domain = taxonomy.root if domain is None else taxonomy.resolve(domain)
        self.objective = make_objective(objective)
        if self.objective.needs:
            raise DataError(
                "A DSPy metric cannot be an objective that needs a measure of text.",
                value=self.objective.name,
                remedy="Use hf, f_beta, hp, hr_at_hp, ihf, accuracy, or a function of the scores.",
            )
        self.__name__ = self.objective.name  # the name in DSPy's tables
        self._information = leaf_information(taxonomy)
        self._answer, self._label = answer, label
        self._lock = threading.Lock()

    def __call__(
        self, gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> float | dspy.Prediction:
        """Returns the score of an answer, with feedback where it is about a predictor.

        Raises:
            DataError: If the prediction has no answer or the example no label; an answer without words is an answer.
            TaxonomyError: If the label is not on the tree.
        """
        target = self.taxonomy.resolve(_field(gold, self._label, "example", "label"))
        with self._lock:
            (at,) = self.mapper.place([_field(pred, self._answer, "prediction", "answer")])
        row = SampleResult("", "", target, "", node=at.node, abstained=at.abstained, off_tree=at.off_tree)
        off_tree = self.mapper.config.off_tree
        value = image_value(self.objective, self.taxonomy, self._information, row, off_tree=off_tree)
        if pred_name is None:
            return value
        import dspy

        return dspy.Prediction(score=value, feedback=feedback(self.taxonomy, self.domain, row))


def _field(holder: Any, name: str, what: str, argument: str) -> str:
    value = holder.get(name) if hasattr(holder, "get") else getattr(holder, name, None)
    if not isinstance(value, str):
        raise DataError(
            f"The {what} has no text in the field {name!r}.",
            value=value,
            remedy=f"Name the field: Metric(..., {argument}=...).",
        )
    return value
