"""Objectives: what makes one template better than another on the tuning split.

An objective is a name, a number to maximise and the constraints under which it counts. The built-in
ones are `OBJECTIVES`; the name of any measure ("rouge-1", "lave") or of one of the run's own
metrics makes its mean the objective; and a function of the scores is one too. Which template wins
by it, given how few images there are, is decided in `selection.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from taxtune.errors import TaxtuneError
from taxtune.plugins import names_near

if TYPE_CHECKING:
    from taxtune.metrics.table import TemplateScores

__all__ = [
    "OBJECTIVES",
    "Aims",
    "Constraint",
    "Objective",
    "ObjectiveSpec",
    "asks_a_model",
    "check_objective",
    "make_objective",
    "read_floor",
]

_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a template must reach to count.

    Attributes:
        measure: The score that is held: "hp", "hr".
        least: Its smallest mean, or, where `of` says so, the share of another template's.
        confidence: With what confidence it must be reached on new images of the same kind, judged
            by a one-sided bound; 0.5 takes the mean on the tuning images for granted.
        of: "baseline" where `least` is a share of the baseline's mean.
    """

    measure: str
    least: float
    confidence: float = 0.5
    of: Literal["baseline"] | None = None

    def bound(self, baseline: TemplateScores | None = None) -> float:
        """Returns the smallest mean; of a share, 0 as long as nothing is known of the baseline."""
        if self.of is None:
            return self.least
        return 0.0 if baseline is None else self.least * baseline.get(self.measure)

    def missed(self, scores: TemplateScores, baseline: TemplateScores | None = None) -> float:
        """Returns the amount by which a mean misses the bound, 0 where it does not."""
        # The tolerance lets a mean that equals the bound but for rounding pass.
        short = self.bound(baseline) - scores.get(self.measure)
        return short if short > 1e-12 else 0.0


@dataclass(frozen=True, slots=True)
class ObjectiveSpec:
    """What is tuned for, without the function that computes it.

    Attributes:
        objective: The objective's name.
        measure: The score that it maximises; None where it is computed from several.
        constraints: What a template must reach to count.
    """

    objective: str
    measure: str | None
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class Objective:
    """What a run is tuned for.

    Attributes:
        name: Its name in records and reports.
        score: From a template's scores to the number that it is judged by; larger is better.
        constraints: What a template must reach to count; one that does not may only win where none
            does.
        needs: Names of the measures or metrics that must be taken of the answers, in addition to
            those of the run.
        shown: The scores that a proposer is shown of each past template, the main one first.
        beside: The scores that it is shown in brackets.
    """

    name: str
    score: Callable[[TemplateScores], float]
    constraints: tuple[Constraint, ...] = ()
    needs: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def identity(self) -> dict[str, Any]:
        """Returns the constraints, and the source of a function: all that can change a value."""
        held = {}
        for constraint in self.constraints:
            text = f"at least {constraint.least:g}"
            if constraint.of:
                text += " of the baseline's"
            if constraint.confidence != 0.5:
                text += f" with confidence {constraint.confidence:g}"
            held[f"objective.{constraint.measure}"] = text
        if getattr(self.score, "__module__", None) == __name__:
            return held
        from taxtune.models import function_identity

        return {**held, "objective.source": function_identity(self.score)["source"]}

    @property
    def spec(self) -> ObjectiveSpec:
        """The objective as a record has it."""
        measure = self.shown[0] if self.shown else None
        return ObjectiveSpec(self.name, measure, self.constraints)

    @property
    def held_to_baseline(self) -> bool:
        """Whether a constraint is a share of what the baseline has."""
        return any(each.of == "baseline" for each in self.constraints)

    def feasible(self, scores: TemplateScores, baseline: TemplateScores | None = None) -> bool:
        """Returns whether the means meet every constraint, whatever their confidence."""
        return not any(each.missed(scores, baseline) for each in self.constraints)

    def aimed(self, scores: TemplateScores) -> float:
        """Returns the number that is maximised, whatever the constraints.

        Raises:
            TaxtuneError: If the objective is not a finite number.
        """
        value: object = self.score(scores)
        if not isinstance(value, Real) or not math.isfinite(value):
            raise TaxtuneError(
                f"The objective {self.name!r} is not a finite number.",
                value=value,
                remedy="Return a number for every set of scores.",
            )
        return float(value)

    def value(self, scores: TemplateScores, baseline: TemplateScores | None = None) -> float:
        """Returns the number that orders templates by their means alone; larger is better.

        A template that misses a constraint has by how much it does, below zero, so that a search is
        led back.

        Raises:
            TaxtuneError: If the objective is not a finite number.
        """
        missed = sum(each.missed(scores, baseline) for each in self.constraints)
        return -missed if missed else self.aimed(scores)


@dataclass(frozen=True, slots=True)
class Aims:
    """What the built-in objectives are made from.

    Attributes:
        hr_floor: What "hp", "ihp" and "aurc" hold: see `read_floor`.
        hp_target: The precision that "hr_at_hp" and "ihr_at_ihp" hold, in (0, 1].
        confidence: The confidence with which they hold it, in [0.5, 1).
    """

    hr_floor: Constraint = Constraint("hr", 0.8, of="baseline")
    hp_target: float = 0.98
    confidence: float = 0.9


def read_floor(text: float | str) -> Constraint:
    """Returns a floor of hR: a number in [0, 1], or "80%", a share of the baseline's hR.

    Raises:
        TaxtuneError: If it is neither.
    """
    share = _SHARE.fullmatch(text) if isinstance(text, str) else None
    least = float(share[1]) / 100 if share else text
    if not isinstance(least, int | float) or isinstance(least, bool) or not 0 <= least <= 1:
        raise TaxtuneError(
            "This is not a floor of hR.",
            value=text,
            remedy="Give a number from 0 to 1, or a share of the baseline's hR such as '80%'.",
        )
    return Constraint("hr", float(least), of="baseline" if share else None)


def _held(name: str, aim: str, constraint: Constraint, *shown: str) -> Objective:
    shown = tuple(dict.fromkeys((aim, *shown, constraint.measure)))
    return Objective(name, lambda scores: scores.get(aim), constraints=(constraint,), shown=shown)


def _plain(name: str, *beside: str, needs: tuple[str, ...] = ()) -> Objective:
    return Objective(
        name, lambda scores: scores.get(name), shown=(name,), beside=beside, needs=needs
    )


def _selective_hp(scores: TemplateScores) -> float:
    value = scores.selective_hp
    if value is None:
        raise TaxtuneError(
            "AURC needs a confidence of every answer, which these do not have.",
            remedy="Use the mapper's default preset, or self-consistency.",
        )
    return value


#: The built-in objectives, each from what it is made of.
OBJECTIVES: Mapping[str, Callable[[Aims], Objective]] = {
    "hr_at_hp": lambda aims: _held(
        "hr_at_hp", "hr", Constraint("hp", aims.hp_target, aims.confidence)
    ),
    "hp": lambda aims: _held("hp", "hp", aims.hr_floor),
    "hf": lambda aims: _plain("hf", "hp", "hr"),
    "ihr_at_ihp": lambda aims: _held(
        "ihr_at_ihp", "ihr", Constraint("ihp", aims.hp_target, aims.confidence)
    ),
    "ihp": lambda aims: _held("ihp", "ihp", aims.hr_floor, "ihr"),
    "ihf": lambda aims: _plain("ihf", "ihp", "ihr"),
    "accuracy": lambda aims: _plain("accuracy"),
    "aurc": lambda aims: replace(_held("aurc", "selective_hp", aims.hr_floor), score=_selective_hp),
}


def make_objective(
    what: str | Objective | Callable[[TemplateScores], float],
    *,
    aims: Aims | None = None,
    metrics: tuple[str, ...] = (),
) -> Objective:
    """Returns an objective.

    Args:
        what: One of `OBJECTIVES`, the name of one of `metrics` or of a measure, a function of the
            scores, or an objective.
        aims: What the built-in ones are made from.
        metrics: Names of the run's own metrics.

    Raises:
        TaxtuneError: If there is no such objective.
    """
    if isinstance(what, Objective):
        return what
    if callable(what):
        return Objective(getattr(what, "__name__", "objective").strip("<>"), what)
    if what in OBJECTIVES:
        return OBJECTIVES[what](aims or Aims())
    check_objective(what, metrics)
    return _plain(what, "hp", "hr", needs=(what,))


def check_objective(name: str, metrics: tuple[str, ...] = ()) -> None:
    """Raises a `TaxtuneError` if there is no objective of this name. Nothing heavy is imported."""
    if name in OBJECTIVES or name in metrics:
        return
    from taxtune.errors import DataError
    from taxtune.metrics.registry import MEASURES, split_spec

    try:
        split_spec(name)
    except DataError:
        known = [*OBJECTIVES, *metrics, *MEASURES]
        raise TaxtuneError(
            "Unknown objective.", value=name, remedy=names_near(name, known)
        ) from None


def asks_a_model(name: str) -> bool:
    """Returns whether an objective is a measure that a language model is asked for."""
    from taxtune.metrics.registry import MEASURES

    return name in MEASURES and MEASURES[name].needs_question
