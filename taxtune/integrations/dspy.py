"""taxtune's scores as a DSPy metric, and its examples as DSPy's (https://dspy.ai).

from taxtune.integrations import dspy as on_tree

metric = on_tree.Metric("tree.csv", "hf")
devset = on_tree.examples("photos/", "tree.csv")
dspy.Evaluate(devset=devset, metric=metric)(program)
dspy.GEPA(metric=metric, reflection_lm=..., auto="light").compile(program, trainset=devset)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.data import Example, load_examples
from taxtune.data.images import load_image
from taxtune.data.sources import Source
from taxtune.errors import DataError, MissingExtraError
from taxtune.integrations.scoring import AnswerScorer, image_value, tree_of
from taxtune.mapping import Mapper, MapperConfig
from taxtune.models.image_urls import data_url
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.objective import Objective, make_objective
from taxtune.tuning.records import TemplateScores

if TYPE_CHECKING:
    import dspy

__all__ = ["Metric", "examples"]


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
        self.scorer = AnswerScorer(taxonomy, mapper, domain)
        self.objective = make_objective(objective)
        if self.objective.needs:
            raise DataError(
                "A DSPy metric cannot be an objective that needs a measure of text.",
                value=self.objective.name,
                remedy="Use hf, f_beta, hp, hr_at_hp, ihf, accuracy, or a function of the scores.",
            )
        self.__name__ = self.objective.name  # the name in DSPy's tables
        self._answer, self._label = answer, label

    def __call__(
        self, gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> float | dspy.Prediction:
        """Returns the score of an answer, with feedback where it is about a predictor.

        Raises:
            DataError: If the prediction has no answer or the example no label; an answer without words is an answer.
            TaxonomyError: If the label is not on the tree.
        """
        answer, label = (
            _field(pred, self._answer, "prediction", "answer"),
            _field(gold, self._label, "example", "label"),
        )
        scored = self.scorer(answer, label)
        value = image_value(self.objective, scored.scores)
        return value if pred_name is None else _dspy().Prediction(score=value, feedback=scored.feedback)


def examples(
    source: Source | Sequence[Example],
    taxonomy: Taxonomy | str | Path | Mapping[str, Any],
    *,
    folder: str | Path | None = None,
    max_image_side: int | None = 1024,
) -> list[dspy.Example]:
    """Returns labelled images as DSPy's examples: `image`, the input, a `dspy.Image`; `label`, the path of the node.

    Args:
        source: As the examples of `taxtune.tune`, or examples that are read already, such as `splits.tuning`.
        taxonomy: The label tree.
        folder: Where images that are in no file are written; needed if there are any.
        max_image_side: Longer side in pixels to which larger images are scaled down.

    Raises:
        MissingExtraError: If DSPy is not installed.
        TaxtuneError: If the source is malformed, an image unreadable or a label not on the tree.
    """
    package = _dspy()
    tree = tree_of(taxonomy)
    if not (isinstance(source, list | tuple) and all(isinstance(each, Example) for each in source)):
        source = load_examples(source, tree, folder=folder)
    return [
        package.Example(
            image=package.Image(data_url(load_image(each.image), max_image_side)),
            label="/".join(tree.path(each.target)),
        ).with_inputs("image")
        for each in source
    ]


def _field(holder: Any, name: str, what: str, argument: str) -> str:
    value = holder.get(name) if hasattr(holder, "get") else getattr(holder, name, None)
    if not isinstance(value, str):
        raise DataError(
            f"The {what} has no text in the field {name!r}.",
            value=value,
            remedy=f"Name the field: Metric(..., {argument}=...).",
        )
    return value


def _dspy() -> Any:
    try:
        import dspy
    except ImportError as error:
        raise MissingExtraError("dspy", "dspy", "A metric for DSPy") from error
    return dspy
