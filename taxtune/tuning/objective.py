"""Objectives: what makes one template better than another on the tuning split.

An objective is a name, a value and, where it has one, a constraint. The built-in ones are `OBJECTIVES`; the name of any
measure ("rouge-1", "lave") or of one of the run's own metrics makes its mean the objective; and a function of the
scores is one too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from taxtune.errors import TaxtuneError
from taxtune.plugins import find_plugin, names_near, plugin_names

if TYPE_CHECKING:
    from taxtune.tuning.records import TemplateScores

__all__ = ["FLOOR_MARGIN", "OBJECTIVES", "Objective", "asks_a_model", "check_objective", "make_objective"]

#: How far above the hR of "always answer the domain's root" the default floor lies. Without a floor that answer wins:
#: it is never wrong (hP = 1) and says nothing.
FLOOR_MARGIN = 0.01
_GROUP = "taxtune.objectives"


def _always(scores: TemplateScores) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Objective:
    """What a run is tuned for.

    Attributes:
        name: Its name in records and reports.
        score: From a template's scores to the number that it is judged by.
        direction: Whether more or less of it is better.
        feasible: Whether a template counts at all; one that does not may only win where none does.
        needs: Names of the measures or metrics that must be taken of the answers, in addition to those of the run.
        shown: The scores that a proposer is shown of each past template, the main one first.
        beside: The scores that it is shown in brackets.
        told: What a proposer is told that counts: Jinja text with the variable `goal`. None takes the file
            `objective_NAME.j2` of its prompts, or a sentence with the name where there is no such file.
        hr_floor: Smallest mean hR that `feasible` asks for, in [0, 1], for the record; None where it asks for none.
    """

    name: str
    score: Callable[[TemplateScores], float]
    direction: Literal["maximize", "minimize"] = "maximize"
    feasible: Callable[[TemplateScores], bool] = _always
    needs: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    told: str | None = None
    hr_floor: float | None = None

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns what can change a value besides name and floor: of a function of one's own, a hash of its source."""
        if getattr(self.score, "__module__", None) == __name__:
            return {}
        from taxtune.models import function_identity

        return {"objective.source": function_identity(self.score)["source"], "objective.direction": self.direction}

    def value(self, scores: TemplateScores) -> float:
        """Returns the number that orders templates, larger is better whatever the direction.

        Raises:
            TaxtuneError: If the objective is not a finite number.
        """
        value = self.score(scores)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise TaxtuneError(
                f"The objective {self.name!r} is not a finite number.",
                value=value,
                remedy="Return a number for every set of scores.",
            )
        return number if self.direction == "maximize" else -number


def _floored(name: str, precision: str, recall: str, floor: float) -> Objective:
    """Precision among templates whose hR is at least the floor, ties by recall.

    A feasible template has its precision plus a millionth of its recall, so that recall decides ties only; an
    infeasible one has its shortfall in hR, below zero, so that the search is led back above the floor.
    """

    def feasible(scores: TemplateScores) -> bool:
        # The tolerance lets a mean that equals the floor but for rounding pass.
        return scores.hr >= floor - 1e-12

    def score(scores: TemplateScores) -> float:
        if not feasible(scores):
            return scores.hr - floor
        return scores.get(precision) + 1e-6 * scores.get(recall)

    shown = tuple(dict.fromkeys((precision, recall, "hr")))
    return Objective(name, score, feasible=feasible, shown=shown, hr_floor=floor)


def _plain(name: str, *beside: str, needs: tuple[str, ...] = ()) -> Objective:
    return Objective(name, lambda scores: scores.get(name), shown=(name,), beside=beside, needs=needs)


#: The built-in objectives: each is made from the smallest mean hR that those with a floor accept.
OBJECTIVES: Mapping[str, Callable[[float], Objective]] = {
    "hp": lambda floor: _floored("hp", "hp", "hr", floor),
    "hf": lambda floor: _plain("hf", "hp", "hr"),
    "ihp": lambda floor: _floored("ihp", "ihp", "ihr", floor),
    "ihf": lambda floor: _plain("ihf", "ihp", "ihr"),
    "accuracy": lambda floor: _plain("accuracy"),
}


def make_objective(
    what: str | Objective | Callable[[TemplateScores], float],
    *,
    hr_floor: float | None = None,
    trivial_hr: float = 0.0,
    metrics: tuple[str, ...] = (),
) -> Objective:
    """Returns an objective.

    Args:
        what: One of `OBJECTIVES`, the name of one of `metrics`, an installed package's (entry points
            `taxtune.objectives`: a function of the floor that returns an `Objective`), the name of a measure, a
            function of the scores, or an objective.
        hr_floor: Smallest mean hR that "hp" and "ihp" accept, in [0, 1]; just above the trivial answer's where left
            out.
        trivial_hr: hR of always answering the domain's root on the tuning split.
        metrics: Names of the run's own metrics.

    Raises:
        TaxtuneError: If there is no such objective.
    """
    if isinstance(what, Objective):
        return what
    if callable(what):
        return Objective(getattr(what, "__name__", "objective").strip("<>"), what)
    floor = min(trivial_hr + FLOOR_MARGIN, 1.0) if hr_floor is None else hr_floor
    if what in OBJECTIVES:
        return OBJECTIVES[what](floor)
    if what in metrics:
        return _plain(what, "hp", "hr", needs=(what,))
    found: Any = find_plugin(_GROUP, what)
    if found is not None:
        return _from_plugin(found, what, floor)
    check_objective(what, metrics)
    return _plain(what, "hp", "hr", needs=(what,))


def _from_plugin(found: Any, name: str, floor: float) -> Objective:
    """Returns the objective that an installed package offers, or that its function makes of the floor."""
    try:
        made = found if isinstance(found, Objective) else found(floor)
    except Exception as error:
        raise TaxtuneError(
            f"The objective {name!r}, which a package provides, cannot be created: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Objective):
        raise TaxtuneError(f"What a package adds as {name!r} is not an objective.", value=made)
    return made


def check_objective(name: str, metrics: tuple[str, ...] = ()) -> None:
    """Checks that there is an objective of this name; nothing heavy is imported.

    Raises:
        TaxtuneError: If there is none.
    """
    if name in OBJECTIVES or name in metrics or name in plugin_names(_GROUP):
        return
    from taxtune.errors import DataError
    from taxtune.metrics.registry import MEASURES, split_spec

    try:
        split_spec(name)
    except DataError:
        known = [*OBJECTIVES, *metrics, *plugin_names(_GROUP), *MEASURES]
        raise TaxtuneError("Unknown objective.", value=name, remedy=names_near(name, known)) from None


def asks_a_model(name: str) -> bool:
    """Tells whether an objective is a measure that a language model is asked for."""
    from taxtune.metrics.registry import MEASURES

    return name in MEASURES and "question" in MEASURES[name].needs
