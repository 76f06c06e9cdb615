"""Objectives: what makes one template better than another on the tuning split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from taxtune.metrics.hierarchical import HierarchicalScores

__all__ = ["FLOOR_MARGIN", "Objective", "ObjectiveKind"]

ObjectiveKind = Literal["hp", "hf", "ihp", "ihf", "accuracy", "lave"]

#: How far above the hR of "always answer the domain's root" the default floor lies. Without a floor that answer wins:
#: it is never wrong (hP = 1) and says nothing.
FLOOR_MARGIN = 0.01


@dataclass(frozen=True, slots=True)
class Objective:
    """A set-level score with a direction: larger is better.

    Attributes:
        kind: "hp": hP among templates whose hR is at least `hr_floor`, ties by hR. "ihp": information-weighted hP with
            the same floor, ties by information-weighted hR. "hf", "ihf": their F. "accuracy": exact-node accuracy.
            "lave": the mean rating of a judge, which asks whether the question is answered and takes a correct but
            general answer for wrong or half right, the opposite of what "hp" rewards.
        hr_floor: Smallest mean hR that "hp" and "ihp" accept, in [0, 1]; None for the others.
    """

    kind: ObjectiveKind
    hr_floor: float | None = None

    @classmethod
    def make(cls, kind: ObjectiveKind, *, hr_floor: float | None, trivial_hr: float) -> Objective:
        """Returns an objective; the floor, where left out, lies just above the trivial answer's hR."""
        if kind not in ("hp", "ihp"):
            return cls(kind)
        return cls(kind, min(trivial_hr + FLOOR_MARGIN, 1.0) if hr_floor is None else hr_floor)

    def feasible(self, scores: HierarchicalScores) -> bool:
        """Tells whether the hR floor holds; always true without one."""
        # The tolerance lets a mean that equals the floor but for rounding pass.
        return self.hr_floor is None or scores.hr >= self.hr_floor - 1e-12

    def value(self, scores: HierarchicalScores) -> float:
        """Returns one number that orders templates as the objective does.

        For "hp" a feasible template has hP plus a millionth of hR, so that hR decides ties only; an infeasible one has
        its shortfall in hR, below zero, so that the search is led back above the floor. "ihp" likewise.

        Raises:
            ValueError: If the scores lack what the objective asks for.
        """
        if self.kind == "hf":
            return scores.hf
        if self.kind == "accuracy":
            return scores.accuracy
        if self.kind == "lave":
            return _needed(scores, "lave", "rating of a judge")
        if self.kind == "ihf":
            return _needed(scores, "ihf", "information-weighted hF")
        if not self.feasible(scores):
            return scores.hr - (self.hr_floor or 0.0)
        if self.kind == "ihp":
            what = "information-weighted hP"
            return _needed(scores, "ihp", what) + 1e-6 * _needed(scores, "ihr", what)
        return scores.hp + 1e-6 * scores.hr


def _needed(scores: HierarchicalScores, key: str, what: str) -> float:
    value = getattr(scores, key, None)
    if value is None:
        raise ValueError(f"the scores hold no {what}")
    return float(value)
