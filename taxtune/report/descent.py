"""The report's templates as a tree of descent: what each was made from, what was changed, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from taxtune.metrics.statistics import Interval
from taxtune.report import wording
from taxtune.report.uncertainty import counted_scores, tuning_interval
from taxtune.report.wording import Result
from taxtune.report.words import Piece, most_alike, word_differences
from taxtune.tuning.records import IterationRecord, TuneResult

__all__ = ["Origin", "origins", "section"]

#: Templates that are less alike have nothing to do with one another: the later one is shown as it is.
NEW = 0.3


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a template comes from.

    Attributes:
        parents: The iterations that it was made from, the first of which it stands below.
        likeness: How alike it and the first are, in [0, 1]; None where the parents are recorded.
    """

    parents: tuple[int, ...]
    likeness: float | None = None


def section(result: Result) -> dict[str, Any] | None:
    """Returns how the templates of each run came about, None where nothing was tuned.

    Args:
        result: A tuning run, or several compared.
    """
    titled = zip(wording.run_titles(result), wording.result_runs(result), strict=True)
    runs = [
        {"title": title, **_run(run)}
        for title, run in titled
        if sum(each.template is not None for each in run.iterations) > 1
    ]
    return {"title": "How the templates came about", "runs": runs} if runs else None


def origins(records: Sequence[IterationRecord]) -> dict[int, Origin]:
    """Returns where each template but the first comes from, by iteration.

    A proposer that knows what it started from says so as its parameter "parent": the numbers of iterations, with commas
    between. Of the others nobody knows, and a template is put below the earlier one that is most like it.

    Args:
        records: The iterations in order; those without a template are left out.
    """
    known = [record for record in records if record.template is not None]
    found = {}
    for place, record in enumerate(known[1:], start=1):
        earlier = known[:place]
        parents = _recorded(record, {each.iteration for each in earlier})
        if parents:
            found[record.iteration] = Origin(parents)
            continue
        best, likeness = most_alike(record.template or "", [each.template or "" for each in earlier])
        found[record.iteration] = Origin((earlier[best].iteration,), likeness)
    return found


def _recorded(record: IterationRecord, earlier: set[int]) -> tuple[int, ...]:
    numbers = [part.strip() for part in str(record.parameters.get("parent", "")).split(",")]
    if not all(number.isascii() and number.isdigit() and int(number) in earlier for number in numbers):
        return ()
    return tuple(map(int, numbers))


def _run(run: TuneResult) -> dict[str, Any]:
    records = {record.iteration: record for record in run.iterations}
    known = [record for record in run.iterations if record.template is not None]
    found = origins(known)
    measures = counted_scores(run)
    intervals = {record.iteration: [tuning_interval(record, measure) for measure in measures] for record in known}
    ends = [each[0] for each in intervals.values() if each[0] is not None]
    low, high = min((each.low for each in ends), default=0.0), max((each.high for each in ends), default=1.0)
    first = intervals[known[0].iteration][0]
    items: dict[int, dict[str, Any]] = {}
    for record in known:
        origin = found.get(record.iteration)
        parent = None if origin is None else records[origin.parents[0]]
        items[record.iteration] = {
            "iteration": record.iteration,
            "winner": record.iteration == run.winner,
            "front": record.iteration in run.pareto,
            "trouble": _trouble(record, run),
            "origin": "" if origin is None else _origin(origin),
            "pieces": _pieces(parent, record, origin),
            "slots": _slots(parent, record),
            "scores": _scores(record, measures, intervals[record.iteration]),
            "images": len(record.rows),
            "bar": _bar(intervals[record.iteration][0], first, low, high),
            "refused": [_refused(template, reason, known, record) for template, reason in record.rejected],
            "drafts": sum(turn.tool == "try_draft" for turn in record.trace),
            "children": [],
        }
    for iteration, origin in found.items():
        items[origin.parents[0]]["children"].append(items[iteration])
    line = _line(run.winner, found) if run.winner in items else []
    return {
        "recorded": sum(origin.likeness is None for origin in found.values()),
        "guessed": sum(origin.likeness is not None for origin in found.values()),
        "line": [items[iteration] for iteration in line],
        "tree": [items[known[0].iteration]],
        "templates": len(known),
        "without": [
            {
                "iteration": record.iteration,
                "reason": record.reason or record.state,
                "refused": [_refused(template, reason, known, record) for template, reason in record.rejected],
            }
            for record in run.iterations
            if record.template is None
        ],
    }


def _line(winner: int, found: dict[int, Origin]) -> list[int]:
    """Returns the iterations from the first to the winner, each made from the one before."""
    line = [winner]
    while line[-1] in found:
        line.append(found[line[-1]].parents[0])
    return line[::-1]


def _origin(origin: Origin) -> str:
    if origin.likeness is None:
        return f"made from {' and '.join(map(str, origin.parents))}"
    if origin.likeness < NEW:
        return f"like none before (most like {origin.parents[0]}: {100 * origin.likeness:.0f} % of the words)"
    return f"most like {origin.parents[0]}: {100 * origin.likeness:.0f} % of the words"


def _pieces(parent: IterationRecord | None, record: IterationRecord, origin: Origin | None) -> list[Piece]:
    new = origin is None or (origin.likeness is not None and origin.likeness < NEW)
    if new or parent is None:
        return [Piece("same", record.template or "")]
    return word_differences(parent.template or "", record.template or "")


def _slots(parent: IterationRecord | None, record: IterationRecord) -> list[tuple[str, str, str]]:
    """Returns the parameters that differ from the parent's, where both are described by the same ones."""
    if parent is None or parent.parameters.keys() != record.parameters.keys():
        return []
    both = [(name, parent.parameters[name], value) for name, value in record.parameters.items()]
    return [(name, before, after) for name, before, after in both if before != after and name != "parent"]


def _scores(
    record: IterationRecord, measures: Sequence[str], intervals: Sequence[Interval | None]
) -> list[tuple[str, str, str]]:
    return [
        (
            wording.metric_name(measure),
            wording.number(wording.score_of(record.scores, measure), measure),
            wording.interval(ends, measure),
        )
        for measure, ends in zip(measures, intervals, strict=True)
        if ends is not None
    ]


def _bar(ends: Interval | None, first: Interval | None, low: float, high: float) -> dict[str, str] | None:
    """Returns where an interval, its score and the first template's score lie between the ends of all, in per cent."""
    if ends is None or high - low < 1e-9:
        return None
    places = {"low": ends.low, "high": ends.high, "score": ends.estimate}
    if first is not None:
        places["first"] = first.estimate
    return {name: f"{4 + 92 * (value - low) / (high - low):.1f}%" for name, value in places.items()}


def _trouble(record: IterationRecord, run: TuneResult) -> str:
    if record.state != "complete":
        return f"{record.state}: {record.reason}" if record.reason else record.state
    if record.feasible or record.scores is None:
        return ""
    missed = [
        f"{wording.metric_name(each.measure)} below {wording.number(each.bound(run.baseline.scores), each.measure)}"
        for each in run.constraints
        if each.missed(record.scores, run.baseline.scores)
    ]
    return " and ".join(missed) or "misses what the objective demands"


def _refused(
    template: str, reason: str, known: Sequence[IterationRecord], record: IterationRecord
) -> tuple[str, list[Piece]]:
    """Returns why a template was refused, and its differences from the earlier one that is most like it."""
    earlier = [each.template or "" for each in known if each.iteration < record.iteration]
    if not earlier:
        return reason, [Piece("same", template)]
    best, likeness = most_alike(template, earlier)
    return reason, [Piece("same", template)] if likeness < NEW else word_differences(earlier[best], template)
