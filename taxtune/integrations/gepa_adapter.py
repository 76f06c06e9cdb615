"""What gepa needs of an experiment: what its templates score on images, and feedback to reflect on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from taxtune.data import Example
from taxtune.errors import ModelError, TemplateError
from taxtune.integrations.scoring import feedback, image_scores, image_value
from taxtune.models import AnswerStore
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.proposers.evidence import hidden_answers
from taxtune.tuning.records import Judged, SampleResult, Usage, sum_judged
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from gepa import EvaluationBatch

__all__ = ["COMPONENT", "REFUSED", "Adapter"]

COMPONENT = "template"
"""The one text of a gepa candidate."""
REFUSED = -math.inf
"""The score of a template that is refused: it was asked nothing, and cannot be better than any."""

REMEDY = "Continue with resume=True when the model answers again; answers and replies so far are saved."


class Adapter:
    """gepa's `GEPAAdapter` for an experiment: candidates are templates, and examples its tuning images.

    A template that the run would refuse scores `REFUSED` without being asked. gepa needs a number for every image: one
    without an answer gets the mean of the others in its batch, which leaves it out of the batch's mean; where none was
    answered it is NaN, by which gepa accepts nothing.

    Args:
        experiment: What is tuned.
        store: Where answers are kept; None asks again.
        score: From a row to a number, larger is better; `taxtune.integrations.scoring.image_value` where left out.
    """

    propose_new_texts = None  # gepa's own, which asks its reflection model

    def __init__(
        self, experiment: Experiment, store: AnswerStore | None, *, score: Callable[[SampleResult], float] | None = None
    ) -> None:
        self.experiment = experiment
        self.examples = list(experiment.splits.tuning)
        self.seed = {COMPONENT: experiment.prompt.baseline}
        self.seen: dict[str, None] = {}
        #: What was asked and not in the store: pairs of a template and an image's id, and what that consumed.
        self.asked: list[tuple[str, str]] = []
        self.usage = Usage()
        self.judged: Judged | None = None
        self._evaluator = experiment.evaluator(store)
        self._score = score or self.value
        self._numbers = {example.id: number for number, example in enumerate(self.examples, 1)}

    def value(self, row: SampleResult) -> float:
        """Returns what an answer is worth for the experiment's objective."""
        assert row.node is not None
        scores = image_scores(
            self.experiment.taxonomy,
            self._evaluator.information,
            row.node,
            row.target,
            abstained=row.abstained,
            off_tree=row.off_tree,
            off_tree_as=self.experiment.off_tree,
            measures={name: value for name, value in row.measures.items() if value is not None},
        )
        return image_value(self.experiment.objective, scores)

    def evaluate(
        self, batch: list[Example], candidate: Mapping[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[SampleResult, str | None]:
        """Returns the answers to a template and what each is worth.

        Raises:
            ModelError: If the model cannot be asked, or answers none of the images for a reason that may pass.
        """
        from gepa import EvaluationBatch

        template = candidate[COMPONENT]
        self.seen[template] = None
        try:
            self.experiment.check(template)
        except TemplateError as error:
            rows = [
                SampleResult(
                    e.id,
                    e.image.name,
                    e.target,
                    "/".join(self.experiment.taxonomy.path(e.target)),
                    failure=f"Refused: {error}",
                )
                for e in batch
            ]
            return EvaluationBatch([None] * len(batch), [REFUSED] * len(batch), rows, num_metric_calls=0)
        evaluation = self._evaluator.evaluate(template, batch)
        self.asked += [
            (template, row.example) for row in evaluation.rows if row.answer is not None and not row.from_store
        ]
        self.usage += replace(evaluation.usage, from_store=0)
        self.judged = sum_judged([*filter(None, (self.judged, evaluation.judged))])
        values = [None if row.node is None or row.unrated else float(self._score(row)) for row in evaluation.rows]
        known = [value for value in values if value is not None]
        if not known and evaluation.retryable:
            raise ModelError(
                f"None of {len(batch)} images has an answer; the first: {evaluation.failures[0]}",
                remedy=REMEDY,
            )
        mean = fmean(known) if known else math.nan
        return EvaluationBatch(
            [row.answer for row in evaluation.rows],
            [mean if value is None else value for value in values],
            list(evaluation.rows) if capture_traces else None,
        )

    def make_reflective_dataset(
        self,
        candidate: Mapping[str, str],
        eval_batch: EvaluationBatch[SampleResult, str | None],
        components_to_update: Sequence[str],
    ) -> dict[str, list[dict[str, str]]]:
        """Returns the answers that there are, names hidden, each with how much of it is right."""
        tree, domain = self.experiment.taxonomy, self.experiment.domain
        rows = list(eval_batch.trajectories or ())
        prompt = render(candidate[COMPONENT], self.experiment.variables)
        hidden = hidden_answers(rows, self.experiment.goal(), template=prompt)
        records = [
            {
                "Image": f"{self._numbers[row.example]} of {len(self.examples)}",
                "Answer": answer.said,
                "Feedback": feedback(
                    tree, domain, row.node, row.target, abstained=row.abstained, off_tree=row.off_tree
                ),
                "Score": f"{value:.2f}",
            }
            for row, answer, value in zip(rows, hidden, eval_batch.scores, strict=True)
            if row.node is not None and answer is not None
        ]
        return dict.fromkeys(components_to_update, records)
