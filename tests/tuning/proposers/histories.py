"""Past iterations as proposers see them, for their tests."""

from __future__ import annotations

from typing import Any

from taxtune.metrics.table import TemplateScores
from taxtune.objective import Aims, Objective, make_objective, read_floor
from taxtune.tuning.proposers import Goal
from taxtune.tuning.records import IterationRecord
from tests.tuning.proposers.answered import BIRDS

__all__ = ["bird_goal", "goal", "record"]

_OWN = ("value", "feasible", "reason", "parameters", "rejected", "rows")
_MEANS = {
    "hp": 0.5,
    "hr": 0.5,
    "hf": 0.5,
    "accuracy": 0.5,
    "depth": 2.0,
    "abstained": 0.0,
    "off_tree": 0.0,
}


def record(
    iteration: int, template: str | None, *, state: str = "complete", n: int = 20, **known: Any
) -> IterationRecord:
    """Returns an iteration with the scores that are named and any others."""
    own = {name: known.pop(name) for name in _OWN if name in known}
    scores = None
    if state == "complete":
        scores = TemplateScores(n=n, means={**_MEANS, **known})
    return IterationRecord(iteration, state, template, scores=scores, **own)  # type: ignore[arg-type]


def goal(objective: str | Objective = "hp", hr_floor: float | None = 0.51, **known: Any) -> Goal:
    """Returns a goal for birds, but for what is named."""
    facts: dict[str, Any] = {
        "trivial_hp": 1.0,
        "trivial_hr": 0.5,
        "domain": "bird",
        "question": "What is this?",
        "ranks": ["order", "family", "species"],
        "tuning_images": 20,
    }
    aims = Aims() if hr_floor is None else Aims(read_floor(hr_floor))
    return Goal(make_objective(objective, aims=aims), **{**facts, **known})


def bird_goal(objective: str = "hp", **known: Any) -> Goal:
    """Returns a goal on the tree of birds."""
    facts = {"taxonomy": BIRDS, "domain_node": BIRDS.resolve("bird")}
    return goal(objective, 0.3, **{**facts, **known})
