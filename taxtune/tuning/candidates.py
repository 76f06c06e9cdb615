"""The templates that a person may want to choose among: the objective's choice and what it passed over.

An objective decides by scores and bounds; people decide by how many labels are wrong and how many
are exact. Of the templates that were asked about no fewer images than the winner, the candidates are

- the most careful one that is certified: with the fewest wrong labels;
- the best estimate: what the objective would take if nothing had to be proven;
- the boldest: with the most exact labels;
- the baseline;

and the one that the objective takes. None of them but the last may be beaten by another template that
was asked about no fewer images: on those that both were asked about, that has no more wrong and no
fewer exact, and one of them better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from taxtune.objective import Constraint, Objective
from taxtune.tuning.records import Candidate, IterationRecord, Role, Selection, outcomes_of
from taxtune.tuning.selection import ConstraintTest, Standings

__all__ = ["MOST", "beats", "with_candidates"]

#: The most candidates of a run.
MOST = 4
# The confidence of the bound of hP where the objective holds nothing with one.
_CONFIDENCE = 0.9


def with_candidates(
    selection: Selection, records: Sequence[IterationRecord], objective: Objective
) -> Selection:
    """Returns the choice of a winner with the candidates of the run, the most careful first."""
    entered = []
    for record in records:
        is_able = record.scores is not None and not record.cut_short
        if is_able and (len(record.rows) >= selection.images or record.iteration == 0):
            entered.append(record)
    described = {}
    estimate = selection.winner
    for images in {len(record.rows) for record in entered}:
        group = [record for record in entered if len(record.rows) == images]
        standings = Standings.of(group, objective, records[0].scores)
        for candidate in _described(standings, objective):
            described[candidate.iteration] = candidate
        if images == selection.images:
            estimate = group[standings.best_estimate].iteration
    unbeaten = []
    for record in entered:
        rivals = [other for other in entered if len(other.rows) >= len(record.rows)]
        if not any(beats(other, record) for other in rivals):
            unbeaten.append(described[record.iteration])
    winner = described[selection.winner]
    chosen = [replace(winner, taken=True)]
    for role, candidate in _roles(unbeaten, described[estimate], winner):
        _add(chosen, candidate, role)
    chosen = sorted(chosen[:MOST], key=_carefulness)
    return replace(selection, candidates=tuple(chosen))


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


def _described(standings: Standings, objective: Objective) -> Iterator[Candidate]:
    """Yields templates that were asked about the same images, as candidates without a role."""
    confidences = [held.confidence for held in objective.constraints if held.confidence > 0.5]
    confidence = confidences[-1] if confidences else _CONFIDENCE
    test = ConstraintTest.of(Constraint("hp", 0.0, confidence), standings.finalists, None)
    for position, record in enumerate(standings.finalists):
        hp = test.held(position)
        yield Candidate(
            iteration=record.iteration,
            roles=(),
            outcomes=outcomes_of(record.rows),
            hp=hp.mean,
            low=hp.low,
            confidence=confidence,
            certified=bool(standings.certified[position]) if confidences else None,
            held=standings.held(position),
        )


def _roles(
    unbeaten: Sequence[Candidate], estimate: Candidate, winner: Candidate
) -> Iterator[tuple[Role, Candidate]]:
    """Yields each role with the template that fills it, as far as there is one, by importance.

    Args:
        unbeaten: The templates that no other beats.
        estimate: The one that is most likely best.
        winner: The one that the objective takes.
    """
    certified = [each for each in unbeaten if each.certified]
    if certified:
        yield "most careful", min(certified, key=_carefulness)
    if estimate in (*unbeaten, winner):
        yield "best estimate", estimate
    bolder = [each for each in unbeaten if each.iteration > 0]
    if bolder:
        yield "boldest", max(bolder, key=_boldness)
    for each in unbeaten:
        if each.iteration == 0:
            yield "baseline", each


def _add(chosen: list[Candidate], candidate: Candidate, role: Role) -> None:
    """Adds a candidate, or its role to one with the same counts, which says the same to a person.

    Only the baseline is called the baseline.
    """
    for place, other in enumerate(chosen):
        is_alike = role != "baseline" and other.outcomes.counts == candidate.outcomes.counts
        if is_alike or other.iteration == candidate.iteration:
            chosen[place] = replace(other, roles=(*other.roles, role))
            return
    chosen.append(replace(candidate, roles=(role,)))


def _carefulness(candidate: Candidate) -> tuple[float, float, int]:
    outcomes = candidate.outcomes
    images = max(outcomes.images, 1)
    return outcomes.wrong / images, outcomes.exact / images, candidate.iteration


def _boldness(candidate: Candidate) -> tuple[float, float]:
    outcomes = candidate.outcomes
    images = max(outcomes.images, 1)
    return outcomes.exact / images, -outcomes.wrong / images
