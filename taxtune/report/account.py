"""What a run is for, what its images can prove, and what it cost, in words."""

from __future__ import annotations

from collections.abc import Iterable

from taxtune.metrics.names import meaning, metric_name
from taxtune.report.scores import number
from taxtune.tuning.objective import Constraint, ObjectiveSpec
from taxtune.tuning.power import PowerAnalysis
from taxtune.tuning.records import ModelUsage, Usage

__all__ = ["account_lines", "cost_line", "goal_in_words", "power_in_words"]


def _duration(seconds: float) -> str:
    """Returns a time in its largest unit: "12 s", "3 min", "2.5 h"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def cost_line(usage: Usage) -> str:
    """Returns the calls of a run, their price and the time in a line."""
    asked = {"": usage.vlm, "LLM ": usage.proposer, "judge ": usage.judge}
    asked = {who: each for who, each in asked.items() if not who or each != ModelUsage()}
    parts = [f"{each.calls:,} {who}call{'' if each.calls == 1 else 's'}" for who, each in asked.items()]
    parts.insert(1, f"{usage.vlm.from_store:,} cached")
    unknown = any(each.cost_usd is None and each.calls for each in asked.values())
    if usage.cost_usd is not None or not unknown:
        usd = usage.cost_usd or 0.0
        parts.append(("under $0.01" if 0 < usd < 0.005 else f"${usd:,.2f}") + (" and more" if unknown else ""))
    else:
        parts.append("price unknown")
    return ", ".join([*parts, _duration(usage.seconds)])


def account_lines(usage: Usage) -> list[tuple[str, str]]:
    """Returns the calls of a run and their cost as named lines, one per model."""
    lines = [("VLM calls", _asked(usage.vlm))]
    others = (("LLM calls", usage.proposer), ("judge calls", usage.judge))
    lines += [(name, _asked(each)) for name, each in others if each != ModelUsage()]
    return [*lines, ("time", _duration(usage.seconds))]


def _asked(usage: ModelUsage) -> str:
    parts = [f"{usage.calls:,}"]
    if usage.from_store:
        parts.append(f"{usage.from_store:,} more from the store")
    if usage.tokens:
        parts.append(f"{usage.tokens:,} tokens")
    if usage.cost_usd is None:
        parts.append("price unknown")
    elif usage.cost_usd:
        parts.append(f"${usage.cost_usd:,.2f}" if usage.cost_usd >= 0.01 else "less than $0.01")
    return ", ".join(parts)


def goal_in_words(spec: ObjectiveSpec) -> str:
    """Returns the goal in words: "the highest hR, with hP at least 0.980 (90 % confidence)"."""
    what = meaning(spec.objective) if spec.measure is None else metric_name(spec.measure)
    return ", ".join([f"the highest {what}", *(f"with {_held(each)}" for each in spec.constraints)])


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
