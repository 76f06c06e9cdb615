"""The templates that a person may want to choose among: the objective's choice and what it passed over.

An objective decides by scores and bounds; people decide by how many labels are wrong and how many
are exact. Of the templates that went beyond the first rung, the candidates are

- the most careful one that is certified: with the fewest wrong labels;
- the best estimate: what the objective would take if nothing had to be proven;
- the boldest: with the most exact labels;
- the baseline;

and the one that the objective takes. None of them but the last may be beaten by another template: on
the images that both were asked about, that has no more wrong and no fewer exact, and one of them
better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from taxtune.metrics.outcomes import Outcomes
from taxtune.objective import Objective
from taxtune.tuning.records import (
    Candidate,
    IterationRecord,
    Role,
    Selection,
    outcomes_of,
)
from taxtune.tuning.selection import Standings, lower_bound, typical_loss

__all__ = ["MOST", "beats", "with_candidates"]

#: The most candidates of a run.
MOST = 4
# The confidence of the bound of hP where the objective holds hP with none.
_CONFIDENCE = 0.9


def with_candidates(
    selection: Selection, records: Sequence[IterationRecord], objective: Objective
) -> Selection:
    """Returns the choice of a winner with the candidates of the run, the most careful first.

    Args:
        selection: The choice.
        records: All iterations.
        objective: What was tuned for.
    """
    found = _Field.of(selection, records, objective)
    roles = found.roles()
    candidates = []
    for iteration in list(roles)[:MOST]:
        candidate = found.candidate(iteration, roles[iteration])
        candidates.append(replace(candidate, taken=iteration == selection.winner))
    candidates.sort(key=_carefulness)
    return replace(selection, candidates=tuple(candidates))


def _carefulness(candidate: Candidate) -> tuple[float, float, int]:
    outcomes = candidate.outcomes
    images = max(outcomes.images, 1)
    return outcomes.wrong / images, outcomes.exact / images, candidate.iteration


def beats(record: IterationRecord, other: IterationRecord) -> bool:
    """Tells whether a template has no more wrong and no fewer exact labels than another, and one better.

    They are compared on the images that both have an answer to.
    """
    pairs = zip(record.rows, other.rows, strict=False)
    both = [(own, its) for own, its in pairs if own.counts and its.counts]
    own = outcomes_of(pair[0] for pair in both)
    its = outcomes_of(pair[1] for pair in both)
    no_worse = own.wrong <= its.wrong and own.exact >= its.exact
    return no_worse and (own.wrong < its.wrong or own.exact > its.exact)


@dataclass(frozen=True)
class _Field:
    """The templates that the candidates are chosen from.

    Attributes:
        winner: The iteration that the objective takes.
        objective: What was tuned for.
        standings: What is known of the templates, by how many images they were asked about.
        outcomes: What became of each template's answers, by iteration.
        unbeaten: The iterations that no other beats.
    """

    winner: int
    objective: Objective
    standings: dict[int, Standings]
    outcomes: dict[int, Outcomes]
    unbeaten: list[int]

    @classmethod
    def of(
        cls, selection: Selection, records: Sequence[IterationRecord], objective: Objective
    ) -> _Field:
        """Finds the templates that were asked about most images, and the baseline."""
        able = [record for record in records if record.scores is not None and not record.cut_short]
        first = min(len(record.rows) for record in able)
        further = [record for record in able if len(record.rows) > first]
        entered = further or able
        entered += [record for record in able[:1] if record not in entered]  # the baseline
        groups: dict[int, list[IterationRecord]] = {}
        for record in entered:
            groups.setdefault(len(record.rows), []).append(record)
        baseline = records[0].scores
        standings = {}
        for images, group in groups.items():
            standings[images] = Standings.of(group, objective, baseline)
        unbeaten = []
        for record in entered:
            if not any(beats(other, record) for other in entered):
                unbeaten.append(record.iteration)
        return cls(
            winner=selection.winner,
            objective=objective,
            standings=standings,
            outcomes={record.iteration: outcomes_of(record.rows) for record in entered},
            unbeaten=unbeaten,
        )

    def roles(self) -> dict[int, list[Role]]:
        """Returns the candidates with what they are, in the order of their importance."""
        roles: dict[int, list[Role]] = {self.winner: []}
        for role, iteration in self._filled().items():
            if iteration is None:
                continue
            twin = self._twin(iteration, roles)
            roles.setdefault(iteration if twin is None else twin, []).append(role)
        return roles

    def _filled(self) -> dict[Role, int | None]:
        """Returns the iteration that fills each role, None where no unbeaten one does."""
        standings, _ = self._place(self.winner)
        certified = []
        for record, is_certified in zip(standings.finalists, standings.certified, strict=True):
            if is_certified and record.iteration in self.unbeaten and self._is_proven:
                certified.append(record.iteration)
        estimate = standings.finalists[standings.best_estimate].iteration
        return {
            "most careful": min(certified, key=self._wrong, default=None),
            "best estimate": estimate if estimate in self.unbeaten else None,
            "boldest": max(self.unbeaten, key=self._exact, default=None),
            "baseline": 0 if 0 in self.unbeaten else None,
        }

    @property
    def _is_proven(self) -> bool:
        """Whether anything is held with a confidence, so that a template can be certified."""
        return any(held.confidence > 0.5 for held in self.objective.constraints)

    def _wrong(self, iteration: int) -> tuple[float, float]:
        outcomes = self.outcomes[iteration]
        return outcomes.wrong, -outcomes.exact

    def _exact(self, iteration: int) -> tuple[float, float]:
        outcomes = self.outcomes[iteration]
        images = max(outcomes.images, 1)
        return outcomes.exact / images, -outcomes.wrong / images

    def _twin(self, iteration: int, others: dict[int, list[Role]]) -> int | None:
        """Returns another with the same counts, which says the same to a person."""
        own = self.outcomes[iteration]
        for other in others:
            its = self.outcomes[other]
            same = (own.images, own.wrong, own.exact) == (its.images, its.wrong, its.exact)
            if same:
                return other
        return None

    def _place(self, iteration: int) -> tuple[Standings, int]:
        """Returns the standings that have an iteration, and its position in them."""
        for standings in self.standings.values():
            for position, record in enumerate(standings.finalists):
                if record.iteration == iteration:
                    return standings, position
        raise LookupError(iteration)

    def candidate(self, iteration: int, roles: Sequence[Role]) -> Candidate:
        """Returns an iteration as a candidate."""
        standings, position = self._place(iteration)
        hp = [record.table.column("hp") for record in standings.finalists]
        known = [values[~np.isnan(values)] for values in hp]
        confidence = _CONFIDENCE
        for held in self.objective.constraints:
            if held.measure == "hp" and held.confidence > 0.5:
                confidence = held.confidence
        typical = typical_loss(np.concatenate(known))
        return Candidate(
            iteration=iteration,
            roles=tuple(roles),
            outcomes=self.outcomes[iteration],
            hp=float(known[position].mean()),
            low=lower_bound(known[position], confidence, known, typical),
            confidence=confidence,
            certified=bool(standings.certified[position]) if self._is_proven else None,
            held=standings.held(position),
        )
