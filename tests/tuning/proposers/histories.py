"""Past iterations as proposers see them, for their tests."""

from __future__ import annotations

from typing import Any

from taxtune.metrics.table import TemplateScores
from taxtune.objective import Aims, make_objective, read_floor
from taxtune.tuning.proposers import Goal
from taxtune.tuning.records import IterationRecord

__all__ = ["goal", "record"]


def record(
    iteration: int, template: str | None, *, state: str = "complete", **known: Any
) -> IterationRecord:
    """An iteration with the scores that are named and any others."""
    own = {
        key: known.pop(key)
        for key in ("value", "feasible", "reason", "parameters", "rejected")
        if key in known
    }
    scores = None
    if state == "complete":
        n = known.pop("n", 20)
        means = {"hp": 0.5, "hr": 0.5, "hf": 0.5, "accuracy": 0.5, "depth": 2.0}
        means |= {"abstained": 0.0, "off_tree": 0.0, **known}
        scores = TemplateScores(n=n, means=means)
    return IterationRecord(iteration, state, template, scores=scores, **own)  # type: ignore[arg-type]


def goal(objective: str = "hp", hr_floor: float | None = None, *rest: Any, **more: Any) -> Goal:
    """A goal; the arguments after the floor are those of `Goal` after its objective."""
    aims = Aims() if hr_floor is None else Aims(read_floor(hr_floor))
    return Goal(make_objective(objective, aims=aims), *rest, **more)
