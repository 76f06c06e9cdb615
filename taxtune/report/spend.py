"""The report's account of what a run took: by who was asked, and for the model that is tuned by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from taxtune.report import wording
from taxtune.report.wording import Result
from taxtune.tuning.records import (
    ComparisonResult,
    HeldoutResult,
    IterationRecord,
    Judged,
    TuneResult,
    Usage,
    sum_faults,
    sum_judged,
    sum_usage,
)

__all__ = ["Spent", "section", "spent"]

_COLUMNS = {
    "asked": "new replies",
    "from_store": "from the store",
    "read": "tokens read",
    "written": "tokens written",
    "usd": "cost",
    "seconds": "seconds",
}


@dataclass(frozen=True, slots=True)
class Spent:
    """What one kind of asking took.

    Attributes:
        name: Who was asked, and at what stage.
        asked: Replies that were given now.
        from_store: Replies that were in the store; None where nothing is kept.
        read: Tokens sent.
        written: Tokens written.
        usd: Cost in US dollars; None where no price is known.
        seconds: Wall-clock seconds; None where they are part of another kind's.
        faults: Calls that failed, those made again included, by the kind of fault.
    """

    name: str
    asked: int
    from_store: int | None
    read: int
    written: int
    usd: float | None
    seconds: float | None
    faults: dict[str, int] = field(default_factory=dict)


def section(result: Result) -> dict[str, Any] | None:
    """Returns what was asked of whom and what it took, None where nothing was.

    Args:
        result: A tuning run, or several compared.
    """
    runs = wording.result_runs(result)
    titles = wording.run_titles(result)
    groups = [(title, spent(run.iterations, run.heldout)) for title, run in zip(titles, runs, strict=True)]
    if not runs and isinstance(result, ComparisonResult):
        groups = [("Evaluated", spent((), result.heldout))]
    kinds = [kind for _, found in groups for kind in found]
    if not kinds:
        return None
    most = {name: max((getattr(kind, name) or 0 for kind in kinds), default=0) for name in _COLUMNS}
    return {
        "title": "What it took",
        "columns": list(_COLUMNS.values()),
        "groups": [{"name": name, "rows": [_row(kind, most) for kind in found]} for name, found in groups if found],
        "total": _row(_total(kinds), {}),
        "priced": any(kind.usd for kind in kinds),
        "proposed": any(kind.seconds is None for kind in kinds),
        "unparted": any(_unparted(run) for run in runs),
    }


def spent(iterations: Sequence[IterationRecord], heldout: Sequence[HeldoutResult] = ()) -> list[Spent]:
    """Returns what a run took, by kind; kinds that took nothing are left out.

    Args:
        iterations: Every iteration, the baseline first.
        heldout: The templates that were asked about the held-out images.
    """
    searched = [each for each in iterations if each.iteration > 0]
    stages = {
        "baseline": [_less(each.usage, each.race) for each in iterations if each.iteration == 0],
        "search": [_less(each.usage, each.race) for each in searched],
        "race": [each.race for each in iterations],
        "held-out": [each.usage for each in heldout],
    }
    found = [_model(f"VLM, {name}", sum_usage(usages)) for name, usages in stages.items() if usages]
    proposer = _proposer(iterations)
    accounts = [*(each.judged for each in iterations), *(each.judged for each in heldout)]
    judged = sum_judged([each for each in accounts if each is not None])
    found += [each for each in (proposer, None if judged is None else _judge(judged)) if each is not None]
    return [each for each in found if each.asked or each.from_store or each.read or each.faults]


def _less(usage: Usage, part: Usage) -> Usage:
    """Returns what of a usage is left without a part of it."""
    left: dict[str, Any] = {}
    for each in fields(Usage):
        whole, taken = getattr(usage, each.name), getattr(part, each.name)
        if isinstance(whole, dict):
            left[each.name] = {
                key: count - taken.get(key, 0) for key, count in whole.items() if count > taken.get(key, 0)
            }
        else:
            left[each.name] = whole if whole is None or taken is None else whole - taken
    return Usage(**left)


def _model(name: str, usage: Usage) -> Spent:
    return Spent(
        name,
        usage.asked,
        usage.from_store,
        usage.vlm_prompt_tokens,
        usage.vlm_completion_tokens,
        usage.vlm_cost_usd,
        usage.seconds,
        usage.vlm_faults,
    )


def _proposer(iterations: Sequence[IterationRecord]) -> Spent | None:
    usage = sum_usage([each.usage for each in iterations])
    if not (usage.proposer_prompt_tokens or usage.proposer_completion_tokens or usage.proposer_faults):
        return None
    from taxtune.tuning.account import account_of

    asked = account_of(iterations).proposer
    return Spent(
        "proposer's model",
        0 if asked is None else asked.calls,
        None,
        usage.proposer_prompt_tokens,
        usage.proposer_completion_tokens,
        usage.proposer_cost_usd,
        None,
        usage.proposer_faults,
    )


def _judge(judged: Judged) -> Spent:
    return Spent(
        "judge",
        judged.asked,
        judged.from_store,
        judged.prompt_tokens,
        judged.completion_tokens,
        judged.cost_usd,
        None,
        judged.faults,
    )


def _total(kinds: Sequence[Spent]) -> Spent:
    costs = [kind.usd for kind in kinds if kind.usd is not None]
    return Spent(
        "all",
        sum(kind.asked for kind in kinds),
        sum(kind.from_store or 0 for kind in kinds),
        sum(kind.read for kind in kinds),
        sum(kind.written for kind in kinds),
        sum(costs) if costs else None,
        sum(kind.seconds or 0 for kind in kinds),
        sum_faults(kind.faults for kind in kinds),
    )


def _row(kind: Spent, most: dict[str, float]) -> dict[str, Any]:
    """Returns a row of the table, with each number's share of the largest of its column in per cent."""
    cells = []
    for name in _COLUMNS:
        value = getattr(kind, name)
        share = f"{100 * (value or 0) / most[name]:.1f}%" if most.get(name) and value is not None else None
        # Nothing was paid for, so that there is no price to know.
        free = name == "usd" and not kind.asked
        cells.append(("–" if free else _written(name, value), share))
    failed = ", ".join(f"{fault.replace('_', ' ')} {count:,}" for fault, count in kind.faults.items())
    return {"name": kind.name, "cells": cells, "failed": failed or "none"}


def _written(name: str, value: float | None) -> str:
    if value is None:
        return "unknown" if name == "usd" else "–"
    if name == "usd":
        return f"${value:,.2f}" if value >= 0.01 else "less than $0.01" if value else "$0"
    return f"{value:,.1f}" if name == "seconds" and value < 100 else f"{value:,.0f}"


def _unparted(run: TuneResult) -> bool:
    """Tells whether a run raced without its records saying what that took."""
    asked = {len(record.rows) for record in run.iterations if record.state == "complete"}
    return len(asked) > 1 and not any(record.race.asked or record.race.from_store for record in run.iterations)
