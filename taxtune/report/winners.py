"""The winning templates in the report, with what is certain of them and how much of it was luck."""

from __future__ import annotations

from typing import Any

from taxtune.report import wording
from taxtune.report.summary import verdict
from taxtune.report.wording import Result
from taxtune.tuning.records import TuneResult

__all__ = ["section"]


def section(result: Result) -> dict[str, Any] | None:
    """Returns the winners and the baseline, None where nothing was tuned."""
    winners = [winner for run in wording.result_runs(result) if (winner := _winner(run)) is not None]
    baseline = next((held.template for held in result.heldout if held.name == "baseline"), None)
    if not winners and baseline is None:
        return None
    title = "Winning templates" if len(winners) > 1 else "Winning template"
    return {"title": title, "winners": winners, "baseline": baseline}


def _winner(run: TuneResult) -> dict[str, Any] | None:
    record = next((record for record in run.iterations if record.iteration == run.winner), None)
    if record is None or record.template is None:
        return None
    return {
        "objective": wording.metric_name(run.objective),
        "key": run.objective,
        "iteration": record.iteration,
        "template": record.template,
        "parameters": record.parameters,
        "policy": wording.placed_by(run),
        "verdict": verdict(run),
    }
