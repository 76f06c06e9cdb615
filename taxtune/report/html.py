"""The report that can be shown: one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune import atomic
from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.report import wording
from taxtune.report.audited import audit_sentences
from taxtune.report.figures import figure6, figure6_svg, history_figure, history_svg
from taxtune.report.gallery import changed_most
from taxtune.report.outlook import certainty_in_words, optimism_rows, outlook_lines
from taxtune.report.wording import Result
from taxtune.tuning.records import HeldoutResult, IterationRecord, TuneResult

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["page", "render_report", "write_report"]


def write_report(result: Result, folder: str | Path) -> Path:
    """Writes `report.html` and the figures (`figure6` and `history`, as PNG and SVG) into a folder.

    Args:
        result: A tuning run, or several compared.
        folder: Where to write.

    Returns:
        The report's path.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    _, plane = figure6(result, folder)
    _, history = history_figure(result, folder)
    page = render_report(result, plane=plane, history=history)
    return atomic.write_text(Path(folder) / "report.html", page)


def render_report(result: Result, *, plane: Path | None = None, history: Path | None = None) -> str:
    """Returns the report as HTML.

    Everything that came from a model or a file is escaped, and the page forbids itself scripts and foreign resources.

    Args:
        result: A tuning run, or several compared.
        plane: The SVG file of the hP-hR plane, where it is drawn already.
        history: The SVG file of the scores by iteration, where it is drawn already.
    """
    from markupsafe import Markup

    runs = wording.result_runs(result)
    return page(
        "report.html.j2",
        title=f"{result.name}: tuning for {' and '.join(wording.metric_name(run.objective) for run in runs)}",
        headline=wording.headline(result),
        heldout=_heldout(result),
        score_parts=_score_parts(result),
        ranks=_ranks(result),
        target_bits=next((held.scores.target_bits for held in result.heldout), None),
        off_tree_as=next((held.off_tree_as for held in result.heldout), "child"),
        measures=_measures(result),
        restricted=next((held.full for held in result.heldout if held.full is not None), None),
        differences=_differences(result),
        missing=_missing(result),
        # Our own drawing, in which every text has become a path.
        plane=Markup(figure6_svg(result, plane)),
        history=Markup(history_svg(result, history)),
        winners=[winner for run in runs if (winner := _winner(run)) is not None],
        baseline=next((held.template for held in result.heldout if held.name == "baseline"), None),
        galleries=_galleries(result),
        runs=[_run(run) for run in runs],
        audits=audit_sentences(result),
        failed_calls=wording.failed_calls(result),
        provenance=result.provenance,
    )


def page(template: str, **values: Any) -> str:
    """Returns one of the pages in `templates/` as HTML; every value that is not marked as safe is escaped."""
    return _environment().get_template(template).render(**values)


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
    environment.filters["metric"] = wording.metric_name
    environment.filters["signed"] = wording.signed
    environment.filters["visible"] = wording.visible
    environment.filters["steps"] = lambda path: path.replace("/", " › ")
    return environment


def _heldout(result: Result) -> list[dict[str, Any]]:
    return [
        {
            "name": wording.template_name(held.name),
            "cells": [
                {
                    "value": wording.number(row.value, row.key),
                    "ends": None if row.ends is None else wording.interval(row.ends, row.key),
                }
                for row in wording.score_rows(held)
            ],
            "n": held.scores.n,
        }
        for held in result.heldout
    ]


def _score_parts(result: Result) -> list[dict[str, Any]]:
    """Returns the columns of a table of scores, parted where they would not stand side by side on a screen.

    The information-weighted ones have a table of their own, and so have, of a run that is restricted to a part of the
    taxonomy, those on the whole of it.
    """
    rows = wording.score_rows(result.heldout[0]) if result.heldout else []
    kinds = ["whole" if row.whole else "bits" if row.key in wording.INFORMATION else "main" for row in rows]
    parts = [
        {"kind": kind, "columns": [(i, row.name) for i, row in enumerate(rows) if kinds[i] == kind]}
        for kind in ("main", "bits", "whole")
    ]
    return [part for part in parts if part["columns"]]


def _ranks(result: Result) -> list[dict[str, Any]]:
    """Returns what is said at each rank with each template, and how much of it is right."""

    def cell(share: Interval | None, count: int) -> dict[str, Any]:
        ends = None if share is None else wording.interval(share)
        return {"value": wording.number(None if share is None else share.estimate), "ends": ends, "count": count}

    return [
        {
            "name": name,
            "cells": [
                shown
                for row in found
                for shown in (
                    (None, None)
                    if row is None
                    else (cell(row.precision, row.scores.said), cell(row.recall, row.scores.due))
                )
            ],
        }
        for name, found in wording.rank_rows(result.heldout)
    ]


def _measures(result: Result) -> list[dict[str, str]]:
    """Returns the measures of text that a run takes, with what they measure; its own functions explain themselves."""
    from taxtune.metrics.registry import MEASURES

    keys = dict.fromkeys(key for held in result.heldout for key in held.scores.measures)
    return [{"name": MEASURES[key].label, "summary": MEASURES[key].summary} for key in keys if key in MEASURES]


def _differences(result: Result) -> list[dict[str, Any]]:
    rows = wording.difference_rows(result)
    return [
        {"name": wording.pair_name(each.key), "cells": [_change(found[each.key], key) for key, _, found in rows]}
        for each in result.differences
    ]


def _change(value: PairedDifference | None, key: str) -> dict[str, Any] | None:
    if value is None:
        return None
    return {
        "value": wording.signed(value.difference, key),
        "ends": f"{wording.signed(value.low, key)} to {wording.signed(value.high, key)}",
        "p": wording.p_value(value.p_value),
        "significant": value.significant,
    }


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
        "policy": wording.placed_by(run),
        "certainty": certainty_in_words(run),
        "optimism": optimism_rows(run),
        "missed": not record.feasible,
    }


def _galleries(result: Result) -> list[dict[str, Any]]:
    held = {each.name: each for each in result.heldout}
    images = {example: Path(file) for example, file in result.provenance.images.items()}
    galleries = []
    for name, run in result.named_runs:
        objective = run.objective
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


def _count(baseline: HeldoutResult, winner: HeldoutResult, objective: str, sign: int) -> int:
    gained, lost = changed_most(baseline, winner, objective, {}, count=len(baseline.rows))
    return len(gained if sign > 0 else lost)


def _run(run: TuneResult) -> dict[str, Any]:
    return {
        "objective": wording.metric_name(run.objective),
        "bounds": {wording.metric_name(key): bound for key, bound in run.bounds.items()},
        "outlook": [] if run.outlook is None else outlook_lines(run.outlook),
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
