"""A result as a notebook shows it: the verdict, the templates, and the held-out scores as an HTML table."""

from __future__ import annotations

from html import escape

from taxtune.report.scores import Result, result_runs, score_table, template_name
from taxtune.report.summary import verdict
from taxtune.untrusted import visible

__all__ = ["result_html", "show_in_notebooks"]


def show_in_notebooks() -> None:
    """Has IPython show results as `result_html` does."""
    from IPython import get_ipython

    if (shell := get_ipython()) is not None:
        formatter = shell.display_formatter.formatters["text/html"]
        for name in ("TuneResult", "ComparisonResult"):
            formatter.for_type_by_name("taxtune.tuning.records", name, result_html)


def result_html(result: Result) -> str:
    """Returns the held-out scores, or the iterations of a run that is not finished, as HTML; everything is escaped."""
    if not result.heldout:
        frame = result.to_frame()
        wanted = ("iteration", "state", "value", "hp", "hr", "accuracy", "template")
        table = frame[[name for name in wanted if name in frame]].round(3).to_html(index=False, escape=True)
        return f"<p>The run is not finished. The iterations so far, on the tuning images:</p>{table}"
    verdicts = "".join(f"<p>{escape(verdict(run))}</p>" for run in result_runs(result))
    templates = "".join(
        f'<p><b>{escape(template_name(held.name))}</b> <span style="white-space:pre-wrap">'
        f"{escape(visible(held.template))}</span></p>"
        for held in result.heldout
    )
    scores = score_table(result)
    table = scores.to_frame().round(3).to_html(index=False, escape=True, na_rep="–")
    return f"{verdicts}{templates}<p>{escape(scores.title)}</p>{table}"
