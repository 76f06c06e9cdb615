"""Every iteration of the search, in the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from taxtune.report import wording
from taxtune.report.figures import history_svg
from taxtune.report.wording import Result
from taxtune.tuning.records import IterationRecord, TuneResult

__all__ = ["section"]


def section(result: Result, drawn: Path | None = None) -> dict[str, Any] | None:
    """Returns the scores by iteration and the templates tried, None where nothing was tuned.

    Args:
        result: A tuning run, or several compared.
        drawn: The SVG file of the scores by iteration, where it is drawn already.
    """
    from markupsafe import Markup

    runs = wording.result_runs(result)
    if not runs:
        return None
    # Our own drawing, in which every text has become a path.
    history = Markup(history_svg(result, drawn))
    return {"title": "Every iteration", "history": history, "runs": [_run(run) for run in runs]}


def _run(run: TuneResult) -> dict[str, Any]:
    return {
        "objective": wording.metric_name(run.objective),
        "bounds": {wording.metric_name(key): bound for key, bound in run.bounds.items()},
        "pareto": frozenset(run.pareto),
        "winner": run.winner,
        "failed": sum(record.state != "complete" for record in run.iterations),
        "metrics": wording.metrics_of(run),
        "records": [_record(record, wording.metrics_of(run)) for record in run.iterations],
    }


def _record(record: IterationRecord, metrics: Mapping[str, str]) -> dict[str, Any]:
    scores = record.scores
    return {
        "iteration": record.iteration,
        "state": record.state,
        "feasible": record.feasible,
        "reason": record.reason,
        "template": record.template,
        "rejected": record.rejected,
        "trace": record.trace,
        "missing": record.missing,
        "seconds": record.usage.seconds,
        "cells": [wording.number(wording.score_of(scores, key), key) for key in metrics],
    }
