"""What is tuned for, and what the tuning images can prove, in words."""

from __future__ import annotations

from collections.abc import Iterable

from taxtune.metrics.names import meaning, metric_name
from taxtune.report.scores import number
from taxtune.tuning.objective import Constraint, ObjectiveSpec
from taxtune.tuning.power import PowerAnalysis

__all__ = ["goal_in_words", "power_in_words"]


def goal_in_words(spec: ObjectiveSpec) -> str:
    """Returns the goal in words: "the highest hR, with hP at least 0.980 (90 % confidence)"."""
    what = meaning(spec.objective) if spec.measure is None else metric_name(spec.measure)
    head = f"the {'highest' if spec.direction == 'maximize' else 'lowest'} {what}"
    return ", ".join([head, *(f"with {_held(each)}" for each in spec.constraints)])


def power_in_words(powers: Iterable[PowerAnalysis]) -> list[str]:
    """Returns the bound that the tuning images can prove of each score that is held with a confidence."""
    lines = []
    for power in dict.fromkeys(powers):
        name, images = metric_name(power.measure), f"{power.images:,} image{'' if power.images == 1 else 's'}"
        text = (
            f"without a single error, {images} prove {name} {number(power.provable, power.measure)} with "
            f"{100 * power.confidence:g} % confidence"
        )
        if (more := power.needed - power.images) > 0:
            text += f": label {more:,} more photo{'' if more == 1 else 's'}, or raise data.tuning, to prove "
            text += number(power.goal, power.measure)
        lines.append(text)
    return lines


def _held(constraint: Constraint) -> str:
    name = metric_name(constraint.measure)
    if constraint.of is not None:
        return f"{name} at least {constraint.least:.0%}".replace("%", " %") + " of the baseline's"
    sure = "" if constraint.confidence == 0.5 else f" ({constraint.confidence:.0%} confidence)".replace("%", " %")
    return f"{name} at least {number(constraint.least)}{sure}"
