"""The table of a result for a paper: n, hP, hR and accuracy of templates, with 95 % intervals.

Held-out scores may be quoted. The candidates' scores on tuning images are rows of their own, the
winner's and the baseline's among them: the search has seen these images, on which the best of many
looks better than it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from taxtune.metrics.names import metric_name
from taxtune.metrics.statistics import Interval
from taxtune.report.formatting import Result, number, result_runs, role_of, template_name
from taxtune.report.output import Table
from taxtune.tuning.records import score_table
from taxtune.untrusted import visible

__all__ = ["score_rows", "write"]


def score_rows(result: Result) -> list[dict[str, Any]]:
    """Returns the templates on the held-out images, then the candidates if there are others.

    Each row has `images` (the split), `template`, `n` (with an answer), `hp`, `hr` and `accuracy`,
    these with their 95 % intervals, or None.
    """
    rows = []
    for held in result.heldout:
        rows.append(_row(held.split, template_name(held.name), held.scores.n, held.intervals))
    for run in result_runs(result):
        candidates = [each.iteration for each in run.shortlist]
        taken = [each.iteration for each in run.shortlist if each.taken]
        if result.heldout and {0, run.winner, *taken}.issuperset(candidates):
            continue
        goal = "" if run is result else f"{metric_name(run.objective)}, "
        for record in run.iterations:
            if record.iteration in candidates:
                name = f"{goal}{record.iteration}: {role_of(run, record.iteration)}"
                counted = [row for row in record.rows if row.counts]
                intervals = score_table(counted).intervals(seed=0)
                rows.append(_row("tuning", name, len(counted), intervals))
    return rows


def _row(images: str, template: str, n: int, scores: Mapping[str, Interval]) -> dict[str, Any]:
    facts = {"images": images, "template": template, "n": n}
    return facts | {key: scores.get(key) for key in ("hp", "hr", "accuracy")}


def write(result: Result, form: Literal["latex", "csv", "markdown"]) -> str:
    """Returns the table as LaTeX with the rules of booktabs, Markdown, or CSV of plain numbers."""
    rows = score_rows(result)
    if form == "csv":
        return Table.from_records("scores", "", [_numbers(row) for row in rows]).csv()
    table = Table.from_records("scores", "", [_texts(row) for row in rows])
    if form == "markdown":
        return table.markdown()
    frame = table.to_frame().map(visible)
    latex = frame.to_latex(index=False, escape=True, column_format="llrrrr")
    # Blocks of rows: scores on different images are not compared.
    return latex.replace("\ntuning &", "\n\\midrule\ntuning &", 1)


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    cells = {}
    for name, cell in row.items():
        cells[name] = cell
        if isinstance(cell, Interval):
            cells |= {name: cell.estimate, f"{name}_low": cell.low, f"{name}_high": cell.high}
    return cells


def _texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns a row's cells as a paper has them: "0.943 [0.921, 0.962]"."""
    cells = {}
    for name, cell in row.items():
        cells[metric_name(name)] = "–" if cell is None else str(cell)
        if isinstance(cell, Interval):
            ends = f"[{number(cell.low)}, {number(cell.high)}]"
            cells[metric_name(name)] = f"{number(cell.estimate)} {ends}"
    return cells
