"""The report that can be shown: one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune import atomic
from taxtune.report import wording
from taxtune.report.figures import figure6, figure6_svg, history_figure, history_svg
from taxtune.report.gallery import changed_most
from taxtune.report.provenance import Provenance, describe
from taxtune.report.wording import METRICS, Result
from taxtune.tuning.records import HeldoutResult, IterationRecord, TuneResult

if TYPE_CHECKING:
    from jinja2 import Environment

    from taxtune.tuning.session import Session

__all__ = ["render_report", "write_report"]


def write_report(result: Result, folder: str | Path, session: Session | None = None) -> Path:
    """Writes `report.html` and the figures (`figure6` and `history`, as PNG and SVG) into a folder.

    Args:
        result: A tuning run, or several compared.
        folder: Where to write.
        session: What was run; without it the report has no pictures and does not say how to run it again.

    Returns:
        The report's path.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    figure6(result, folder)
    history_figure(result, folder)
    page = render_report(result, Provenance() if session is None else describe(result, session))
    return atomic.write_text(Path(folder) / "report.html", page)


def render_report(result: Result, provenance: Provenance | None = None) -> str:
    """Returns the report as HTML.

    Everything that came from a model or a file is escaped, and the page forbids itself scripts and foreign resources.

    Args:
        result: A tuning run, or several compared.
        provenance: What was run.
    """
    from markupsafe import Markup

    provenance = provenance or Provenance()
    runs = wording.result_runs(result)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=f"{result.name}: tuning for {' and '.join(wording.metric_name(run.objective) for run in runs)}",
            headline=wording.headline(result),
            heldout=_heldout(result),
            differences=_differences(result),
            missing=_missing(result),
            # Our own drawing, in which every text has become a path.
            plane=Markup(figure6_svg(result)),
            history=Markup(history_svg(result)),
            winners=[winner for run in runs if (winner := _winner(run)) is not None],
            baseline=next((held.template for held in result.heldout if held.name == "baseline"), None),
            galleries=_galleries(result, provenance.images),
            runs=[_run(run) for run in runs],
            provenance=provenance,
            metrics=METRICS,
        )
    )


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = wording.number
    environment.filters["signed"] = wording.signed
    environment.filters["visible"] = wording.visible
    environment.filters["steps"] = lambda path: path.replace("/", " › ")
    return environment


def _heldout(result: Result) -> list[dict[str, Any]]:
    rows = []
    for held in result.heldout:
        cells = []
        for key in METRICS:
            found = held.intervals.get(key)
            ends = None if found is None else wording.interval(found, key)
            cells.append({"value": wording.number(getattr(held.scores, key), key), "ends": ends})
        rows.append({"name": wording.template_name(held.name), "cells": cells, "n": held.scores.n})
    return rows


def _differences(result: Result) -> list[dict[str, Any]]:
    rows = []
    for pair, found in wording.result_differences(result).items():
        cells: list[dict[str, Any] | None] = []
        for key in METRICS:
            value = found.get(key)
            if value is None:
                cells.append(None)
                continue
            cells.append(
                {
                    "value": wording.signed(value.difference, key),
                    "ends": f"{wording.signed(value.low, key)} to {wording.signed(value.high, key)}",
                    "p": wording.p_value(value.p_value),
                    "clear": value.low > 0 or value.high < 0,
                }
            )
        rows.append({"name": wording.pair_name(pair), "cells": cells})
    return rows


def _missing(result: Result) -> int:
    """Returns how many held-out images some template has no answer for; no score counts them."""
    return len({row.example for held in result.heldout for row in held.rows if row.failure is not None})


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
        "floor_missed": not record.feasible,
    }


def _galleries(result: Result, images: Mapping[str, Path]) -> list[dict[str, Any]]:
    held = {each.name: each for each in result.heldout}
    galleries = []
    for name, objective in _winners_of(result):
        if "baseline" not in held or name not in held or held[name].template == held["baseline"].template:
            continue
        gained, lost = changed_most(held["baseline"], held[name], objective, images)
        galleries.append(
            {
                "objective": wording.metric_name(objective),
                "gained": gained,
                "lost": lost,
                "better": _count(held["baseline"], held[name], objective, 1),
                "worse": _count(held["baseline"], held[name], objective, -1),
            }
        )
    return galleries


def _winners_of(result: Result) -> list[tuple[str, str]]:
    if isinstance(result, TuneResult):
        return [("winner", result.objective)]
    return [(run.objective, run.objective) for run in result.runs]


def _count(baseline: HeldoutResult, winner: HeldoutResult, objective: str, sign: int) -> int:
    gained, lost = changed_most(baseline, winner, objective, {}, count=len(baseline.rows))
    return len(gained if sign > 0 else lost)


def _run(run: TuneResult) -> dict[str, Any]:
    return {
        "objective": wording.metric_name(run.objective),
        "floor": run.hr_floor,
        "trivial": (run.trivial_hp, run.trivial_hr),
        "pareto": frozenset(run.pareto),
        "winner": run.winner,
        "failed": sum(record.state != "complete" for record in run.iterations),
        "records": [_record(record) for record in run.iterations],
    }


def _record(record: IterationRecord) -> dict[str, Any]:
    scores = record.scores
    return {
        "iteration": record.iteration,
        "state": record.state,
        "feasible": record.feasible,
        "reason": record.reason,
        "template": record.template,
        "rejected": record.rejected,
        "missing": record.missing,
        "abstained": record.abstained,
        "seconds": record.usage.seconds,
        "cells": [wording.number(None if scores is None else getattr(scores, key), key) for key in METRICS],
    }
