"""Metrics of each answer besides hP, hR and accuracy: the user's functions, and measures of text.

A measure compares an answer with the names of its target, the label and its preferred common name.
One that asks a language model is shown the run's own question, not the template: a template must
not be able to talk to the judge of its answers, and the same answer has the same rating whatever
template brought it about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.errors import DataError, TaxtuneError
from taxtune.metrics.base import name_scores
from taxtune.metrics.table import SCORES, TemplateScores
from taxtune.policies.paths import FloatArray
from taxtune.progress import note
from taxtune.tuning.records import ModelUsage, SampleResult

if TYPE_CHECKING:
    from taxtune.data import Example
    from taxtune.metrics.registry import Measure
    from taxtune.models.judging import Verdicts
    from taxtune.taxonomy import Taxonomy

__all__ = ["FunctionMetric", "MeasureMetric", "Metric", "MetricValues", "as_metrics"]


@dataclass(frozen=True, slots=True)
class MetricValues:
    """What a metric says of a template's answers.

    Attributes:
        values: One a row, shape (n,); NaN where there is none.
        remarks: What it says of each value, such as a judge's rationale; None for nothing.
        reasons: Why there is no value, or None.
        account: What a language model was asked, in numbers; None where none was.
        retryable: Calls that failed and may succeed later.
    """

    values: FloatArray
    remarks: tuple[str | None, ...] = ()
    reasons: tuple[str | None, ...] = ()
    account: ModelUsage | None = None
    retryable: int = 0


class FunctionMetric:
    """A function from a `SampleResult` to a number, or to None for no value; records have its `name`."""

    def __init__(self, name: str, function: Callable[[SampleResult], float | bool | None]) -> None:
        self.name = name
        self.function = function

    def take(self, rows: Sequence[SampleResult], examples: Sequence[Example]) -> MetricValues:
        """Returns the function's value of each row that has an answer.

        Raises:
            TaxtuneError: If the function fails, or returns what is neither a number nor None.
        """
        values = [self._value(row) for row in rows]
        return MetricValues(np.array(values, dtype=np.float64))

    def _value(self, row: SampleResult) -> float:
        try:
            value = self.function(row)
            return math.nan if value is None else float(value)
        except Exception as error:
            raise TaxtuneError(
                f"The metric {self.name!r} failed on the answer to {row.image}: "
                f"{type(error).__name__}: {error}.",
                value=row.answer,
                remedy="Fix the function, which returns a number, True, False or None; answers so far "
                "are saved.",
            ) from error

    def identity(self) -> dict[str, Any]:
        """Returns the function's identity."""
        from taxtune.models import function_identity

        return dict(function_identity(self.function))


class MeasureMetric:
    """A measure ("rouge-1", "lave") of the answer against its target's label and common name.

    Further aliases are there to be found in answers, and may mean less or more than the label.

    Args:
        name: What it is called in records.
        measure: The measure.
        taxonomy: The label tree.
        question: The run's own question.
    """

    def __init__(self, name: str, measure: Measure, taxonomy: Taxonomy, question: str) -> None:
        self.name = name
        self.measure = measure
        self._taxonomy = taxonomy
        self._question = question

    def take(self, rows: Sequence[SampleResult], examples: Sequence[Example]) -> MetricValues:
        """Returns the measure of each row's answer; `examples` are their images and targets.

        Raises:
            TaxtuneError: If the measure cannot be taken at all.
        """
        answers = [row.answer or "" for row in rows]
        tree = self._taxonomy
        references = []
        for row in rows:
            names = (tree.labels[row.target], tree.common_name(row.target))
            references.append(list(dict.fromkeys(names)))
        questions = [self._question] * len(rows)
        rate = getattr(self.measure, "rate", None)
        if rate is None:
            return MetricValues(name_scores(self.measure, answers, references, questions=questions))
        verdicts: Verdicts = rate(answers, references, questions)
        reasons: list[str | None] = []
        for value, reply, problem in zip(
            verdicts.values, verdicts.replies, verdicts.problems, strict=True
        ):
            reason = None
            if np.isnan(value):
                reason = problem or "the judge was not asked"
                if reply is not None:
                    reason = "the judge's reply holds no rating"
            reasons.append(reason)
        missing = [reason for reason in reasons if reason is not None]
        if missing:
            counts = f"{len(missing)} of {len(answers)}"
            note(f"{counts} answers have no rating; the first: {missing[0]}")
        return MetricValues(
            values=verdicts.values,
            remarks=verdicts.replies,
            reasons=tuple(reasons),
            account=verdicts.usage,
            retryable=verdicts.retryable,
        )

    def identity(self) -> dict[str, Any]:
        """Returns the settings that can change a value."""
        return dict(self.measure.identity())

    def check(self) -> list[str]:
        """Checks that a judge can be asked, without asking; returns what the user should know."""
        check = getattr(self.measure, "check", list)
        return list(check() or ())


Metric = FunctionMetric | MeasureMetric
"""Gives each answer a number; the mean of them is a score of the template."""


def as_metrics(given: Mapping[str, Callable[[SampleResult], Any]] | None) -> dict[str, Metric]:
    """Returns a run's own metrics by name.

    Args:
        given: Functions of a row, by the name that their means are to have.

    Raises:
        DataError: If a name is taken by a score that every run has, or what it names cannot be
            called.
    """
    taken = {*SCORES, *(field.name for field in fields(TemplateScores))}
    metrics: dict[str, Metric] = {}
    for name, function in (given or {}).items():
        if name in taken or not name.replace("_", "").replace("-", "").isalnum():
            raise DataError(
                "This name cannot be used for a metric.",
                value=name,
                remedy=f"Use letters, digits and dashes, and none of {', '.join(sorted(taken))}.",
            )
        if not callable(function):
            raise DataError(
                f"The metric {name!r} is not a function.",
                value=function,
                remedy="Give a function that takes a row.",
            )
        metrics[name] = FunctionMetric(name, function)
    return metrics
