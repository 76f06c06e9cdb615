"""Measures of text under each prompt, and what each gains over the baseline prompt (paper 2, prompts and reasoning)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taxtune.answers.measured import mean_interval
from taxtune.errors import DataError
from taxtune.mapping.unwrap import unwrap
from taxtune.metrics.registry import Measure
from taxtune.metrics.statistics import Interval, PairedDifference, Sample, paired_bootstrap
from taxtune.report.output import Cell, Table
from taxtune.studies.text_scores import text_scores

if TYPE_CHECKING:
    from taxtune.studies.prompts import PromptsSettings
    from taxtune.studies.prompts.study import Arrow, PromptedModel

__all__ = ["Gain", "gains_table", "measured_gains", "placed_gains"]


@dataclass(frozen=True, slots=True)
class Gain:
    """A measure of one model's answers under one prompt, and its gain over the baseline prompt.

    Attributes:
        model: The model.
        prompt: The prompt.
        measure: The measure, as tables print it.
        scored: Number of answers with a score.
        missing: Number of examples without an answer.
        unscored: Number of answers that the measure gives no score.
        mean: The mean over the scored answers; None where there is none.
        both: Number of examples with a score under both prompts.
        gain: The mean difference to the baseline prompt on these; None for the baseline, and where there are none.
    """

    model: str
    prompt: str
    measure: str
    scored: int
    missing: int
    unscored: int
    mean: Interval | None
    both: int
    gain: PairedDifference | None


def placed_gains(
    models: Mapping[str, PromptedModel],
    scores: Mapping[tuple[str, str], Mapping[str, Interval]],
    arrows: Sequence[Arrow],
) -> list[Gain]:
    """Returns hP and hR of every prompt, to stand beside the measures of text.

    Args:
        models: The models with their prompts.
        scores: The scores by model and prompt.
        arrows: The way from each model's baseline prompt to its others.
    """
    ways = {(arrow.model, arrow.end): arrow for arrow in arrows}
    found = []
    for (name, prompt), of in scores.items():
        scored, missing, *_ = models[name].prompts[prompt].counts
        way = ways.get((name, prompt))
        for metric, shown in (("hp", "hP"), ("hr", "hR")):
            both, gain = (scored, None) if way is None else (way.n, way.differences[metric])
            found.append(Gain(name, prompt, shown, scored, missing, 0, of[metric], both, gain))
    return found


def measured_gains(
    models: Mapping[str, PromptedModel],
    starts: Mapping[str, str],
    measure: Measure,
    settings: PromptsSettings,
    told: Mapping[str, Any],
) -> list[Gain]:
    """Returns a measure of every prompt's answers and its gain over the baseline prompt.

    Args:
        models: The models with their prompts and answers.
        starts: The baseline prompt of each.
        measure: The measure.
        settings: What of a reply it sees, and which of a target's names.
        told: Resamples, seed and confidence.

    Raises:
        DataError: If a model's answers are not there as text.
    """
    found = []
    for name, model in models.items():
        if set(model.rows) != set(model.prompts):
            raise DataError(f"{name} has no answers as text to measure.", value=measure.name)
        scores = text_scores(
            model.rows,
            measure,
            model.taxonomy,
            reference=settings.reference,
            question_column=settings.question_column,
            read=_answer if settings.reply == "answer" else str,
        )
        start = scores[starts[name]]
        for prompt, values in scores.items():
            answered, missing, *_ = model.prompts[prompt].counts
            scored = int((~np.isnan(values)).sum())
            both, gain = (scored, None) if prompt == starts[name] else _paired(values, start, told)
            mean = mean_interval(values, **told)
            found.append(Gain(name, prompt, measure.label, scored, missing, answered - scored, mean, both, gain))
    return found


def _answer(reply: str) -> str:
    """Returns what a reply says as the mapper reads it: without reasoning before the answer, markup and list marks."""
    return "\n".join(unwrap(reply).lines)


def _paired(
    values: NDArray[np.float64], start: NDArray[np.float64], told: Mapping[str, Any]
) -> tuple[int, PairedDifference | None]:
    both = ~np.isnan(values) & ~np.isnan(start)
    if not both.any():
        return 0, None
    there, here = (Sample.mean("gain", some[both]) for some in (values, start))
    return int(both.sum()), paired_bootstrap((there, here), **told)["gain"]


def gains_table(found: Sequence[Gain], reply: str) -> Table:
    """Returns the means and the gains, a row for each model, prompt and measure, those of a prompt in a row.

    Args:
        found: The gains.
        reply: What of a reply the measures have seen, as the settings say it.
    """
    from taxtune.report.scores import number, signed

    rows: list[tuple[Cell, ...]] = []
    prompts = list(dict.fromkeys((one.model, one.prompt) for one in found))
    for one in sorted(found, key=lambda one: prompts.index((one.model, one.prompt))):
        mean, gain = one.mean, one.gain
        rows.append(
            (
                one.model,
                one.prompt,
                one.measure,
                one.scored,
                one.missing,
                one.unscored,
                *((None, None) if mean is None else (mean.estimate, f"{number(mean.low)} to {number(mean.high)}")),
                one.both,
                *(
                    (None,) * 3
                    if gain is None
                    else (gain.difference, f"{signed(gain.low)} to {signed(gain.high)}", gain.p_value)
                ),
            )
        )
    columns = ("scored", "missing", "unscored", "mean", "mean 95 %", "in both", "gain", "gain 95 %", "p")
    whole = "Measures of text see the whole reply, reasoning included."
    answer = "Measures of text see what the mapper reads: without reasoning before “Answer:”, or in <think>."
    return Table(
        "gains",
        "Measures under each prompt, and their gains over the baseline prompt",
        ("model", "prompt", "measure", *columns),
        tuple(rows),
        {"p": 4},
        (
            "Gain: the mean difference to the baseline prompt on the examples that have a score under both, with the "
            "interval and the p-value of the paired bootstrap.",
            whole if reply == "whole" else answer,
        ),
    )
